//! Everything that one run tells.

use std::path::Path;

use pmuscope_measure::child::Outcome;
use pmuscope_measure::{Origin, metric as common};
use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_workloads::WorkloadFacts;

use super::Options;
use super::arms::CaptureArm;
use crate::recording::{
    Recording, Samples, complaint, facts_path, read_facts, read_recording, recording_path,
};

/// Names of metrics that only this benchmark writes.
pub mod metric {
    /// CPU seconds of the recorder and all its threads, start and end included.
    pub const TOOL_CPU: &str = "tool_cpu";
    /// Of these, those before sampling begins and after it ends.
    pub const TOOL_EDGES: &str = "tool_edges";
    /// CPU microseconds of the recorder per sample, start and end included.
    pub const US_PER_SAMPLE: &str = "us_per_sample";
    /// The same while sampling only, as the recording has it.
    pub const US_PER_SAMPLE_STEADY: &str = "us_per_sample_steady";
    /// Samples in the recording.
    pub const SAMPLES: &str = "samples";
    /// Samples lost.
    pub const LOST: &str = "lost";
    /// Times that the kernel suspended sampling.
    pub const THROTTLED: &str = "throttled";
    /// Bytes of the recording.
    pub const FILE_SIZE: &str = "file_size";
    /// Bytes of the recording per sample.
    pub const BYTES_PER_SAMPLE: &str = "bytes_per_sample";
}

/// What is left of a run.
pub(super) struct RunOutcome<'a> {
    arm: &'a CaptureArm,
    outcome: &'a Outcome,
    failure: Option<String>,
    facts: Result<WorkloadFacts, String>,
    recording: Result<Recording, String>,
}

impl<'a> RunOutcome<'a> {
    /// Looks at what the run left in `folder`.
    pub(super) fn new(arm: &'a CaptureArm, outcome: &'a Outcome, folder: &Path) -> Self {
        let exit = outcome.exit();
        let failure = (exit != 0).then(|| complaint(&outcome.output, exit));
        let facts = match &failure {
            Some(why) => Err(why.clone()),
            None => read_facts(&facts_path(folder)),
        };
        let recording = match &failure {
            Some(why) => Err(why.clone()),
            None => read_recording(arm.recorder, &recording_path(folder)),
        };
        let unread = |error: &String| format!("cannot read the results of the run: {error}");
        let recorded = arm.recorder.records();
        let failure = failure
            .or_else(|| facts.as_ref().err().map(unread))
            .or_else(|| recording.as_ref().err().filter(|_| recorded).map(unread));
        Self { arm, outcome, failure, facts, recording }
    }

    /// Why the run is worth nothing.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Passes on all metrics; one that was not measured is passed on as the reason.
    pub(super) fn figures(
        &self,
        options: &Options,
        mut put: impl FnMut(&str, (&str, Origin), Result<f64, String>),
    ) {
        self.of_workload(options, &mut put);
        if self.arm.recorder.records() {
            self.of_recorder(&mut put);
        }
    }

    fn of_workload(
        &self,
        options: &Options,
        put: &mut impl FnMut(&str, (&str, Origin), Result<f64, String>),
    ) {
        let extracts = [options.workload.own_extracts(), options.extracts.clone()].concat();
        if !extracts.iter().any(|extract| extract.metric == common::TIME) {
            // The next best to a clock of its own: without start and end of the recorder.
            put(common::TIME, ("s", Origin::Clock), self.fact(|facts| facts.time_s));
        }
        for extract in &extracts {
            let value = match &self.failure {
                Some(why) => Err(why.clone()),
                None => extract.find(&self.outcome.output),
            };
            put(&extract.metric, (&extract.unit, Origin::Program), value);
        }
        let wall = self.failure.clone().map_or(Ok(self.outcome.wall_s), Err);
        put(common::WALL, ("s", Origin::Clock), wall);
        let mut kernel = |metric, unit, of: fn(&WorkloadFacts) -> f64| {
            put(metric, (unit, Origin::Kernel), self.fact(of));
        };
        kernel(common::USER, "s", |facts| facts.user_s);
        kernel(common::SYSTEM, "s", |facts| facts.system_s);
        kernel(common::MAX_RSS, "B", |facts| facts.max_rss_bytes as f64);
        kernel(common::MINOR_FAULTS, "", |facts| facts.minor_faults as f64);
        kernel(common::MAJOR_FAULTS, "", |facts| facts.major_faults as f64);
    }

    fn of_recorder(&self, put: &mut impl FnMut(&str, (&str, Origin), Result<f64, String>)) {
        let per_sample = |total: Result<f64, String>, factor: f64| {
            let samples = self.samples()?.samples;
            let total = total?;
            if samples == 0 {
                Err("no samples".to_owned())
            } else {
                Ok(total * factor / samples as f64)
            }
        };
        let recording = |of: fn(&RecordingInfo) -> Option<f64>| {
            let own = self.recording()?.own.as_ref().ok_or("perf does not report it")?;
            of(own).ok_or_else(|| "the recording does not report it".to_owned())
        };
        let count = |of: fn(&Samples) -> Option<u64>| {
            of(self.samples()?)
                .map(|n| n as f64)
                .ok_or_else(|| "the recording does not report it".into())
        };
        let size = || Ok(self.recording()?.file_size as f64);
        let edges = recording(|own| Some(own.cost.startup_s + own.cost.close_s));
        let steady = recording(|own| own.cost.us_per_sample);
        let (rec, derived) = (Origin::Recording, Origin::Derived);
        put(metric::TOOL_CPU, ("s", derived), self.tool_cpu());
        put(metric::TOOL_EDGES, ("s", rec), edges);
        put(metric::US_PER_SAMPLE, ("µs", derived), per_sample(self.tool_cpu(), 1e6));
        put(metric::US_PER_SAMPLE_STEADY, ("µs", rec), steady);
        put(metric::SAMPLES, ("", rec), count(|samples| Some(samples.samples)));
        put(metric::LOST, ("", rec), count(|samples| samples.lost));
        put(metric::THROTTLED, ("", rec), count(|samples| Some(samples.throttled)));
        put(metric::FILE_SIZE, ("B", Origin::Kernel), size());
        put(metric::BYTES_PER_SAMPLE, ("B/sample", derived), per_sample(size(), 1.0));
    }

    /// The whole less the workload and the process that waited for it.
    fn tool_cpu(&self) -> Result<f64, String> {
        let facts = self.facts.as_ref().map_err(Clone::clone)?;
        let whole = self.outcome.usage.user_s + self.outcome.usage.system_s;
        Ok(whole - facts.user_s - facts.system_s - facts.wrapper_cpu_s.unwrap_or(0.0))
    }

    fn fact(&self, of: fn(&WorkloadFacts) -> f64) -> Result<f64, String> {
        self.facts.as_ref().map(of).map_err(Clone::clone)
    }

    fn recording(&self) -> Result<&Recording, String> {
        self.recording.as_ref().map_err(Clone::clone)
    }

    fn samples(&self) -> Result<&Samples, String> {
        self.recording()?.counts.as_ref().map_err(Clone::clone)
    }
}
