//! What recording costs the recorded program, by every way to read the rings, and by perf's.
//!
//! The workload runs alone and under each recorder, interleaved in random order. The published
//! table that this reproduces is of `perf record --affinity` on 88 CPUs, where the roaming reader
//! cost 27 % and the one that goes to each ring's CPU nothing.

pub mod arms;
mod commands;
mod figures;
mod workload;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pmuscope_measure::{Extract, Labels, Planned, child};

use crate::error::BenchError;
use crate::recording::{complaint, facts_path};
use crate::runner::{BASE, Bench, Benchmark, labels, usable};
use arms::CaptureArm;
use commands::Tools;
use workload::Condition;

pub use figures::metric;
pub use workload::Workload;

/// Label that tells arms apart.
pub const ARM: &str = pmuscope_measure::arms::ARM;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Around what.
    pub workload: Workload,
    /// What to look for in what the workload prints; the metric [`pmuscope_measure::metric::TIME`]
    /// is its own clock. Our stencil's need not be given.
    pub extracts: Vec<Extract>,
    /// Samples per second and CPU.
    pub rate: u64,
    /// Event, in the words of perf and of this program.
    pub event: String,
    /// Which arms; see [`arms::choose`].
    pub arms: Vec<CaptureArm>,
    /// Where recordings lie until they are counted.
    pub tmp: PathBuf,
    /// This program.
    pub program: PathBuf,
    /// perf, where installed.
    pub perf: Option<PathBuf>,
}

/// What recording costs.
pub struct CaptureBench(pub Options);

impl CaptureBench {
    fn record(&self, arm: &CaptureArm, workload: &[OsString], folder: &Path) -> Vec<OsString> {
        Tools { options: &self.0, folder }.record(arm, workload)
    }

    /// The arms that work here, by trying each once around next to nothing.
    fn usable_arms(&self, bench: &mut Bench<'_>) -> Result<Vec<CaptureArm>, BenchError> {
        let nothing = workload::stencil(&self.0, 1, 2, &["--steps", "1"]);
        let mut alone = None;
        let usable = usable(&self.0.arms, bench, |arm, bench| {
            let argv = self.record(arm, &nothing, bench.folder());
            let result = arm.recorder.attempt(self.0.perf.as_deref(), &argv, bench);
            if arm.name == BASE {
                alone = result.clone().err();
            }
            result
        })?;
        if let Some(why) = alone {
            return Err(BenchError::Alone { why });
        }
        match bench.file.notices.first() {
            Some(notice) if usable.len() < 2 && !bench.stop.is_given() => {
                Err(BenchError::NoRecorder { notice: notice.clone() })
            }
            _ => Ok(usable),
        }
    }
}

impl Benchmark for CaptureBench {
    type Arm = (Condition, CaptureArm);

    fn parameters(&self) -> Labels {
        labels([
            ("event", self.0.event.clone()),
            ("rate", self.0.rate.to_string()),
            ("workload", self.0.workload.to_string()),
        ])
    }

    fn scratch(&self) -> Option<&Path> {
        Some(&self.0.tmp)
    }

    fn arms(&mut self, bench: &mut Bench<'_>) -> Result<Vec<Self::Arm>, BenchError> {
        let arms = self.usable_arms(bench)?;
        if bench.stop.is_given() {
            return Ok(Vec::new());
        }
        let conditions = workload::conditions(&self.0, bench)?;
        let of = |condition: Condition| arms.iter().map(move |arm| (condition.clone(), *arm));
        Ok(conditions.into_iter().flat_map(of).collect())
    }

    fn labels(&self, (condition, arm): &Self::Arm) -> Labels {
        let mut labels = condition.labels.clone();
        labels.insert(ARM.to_owned(), arm.name.to_owned());
        labels
    }

    fn seconds(&self, (condition, _): &Self::Arm) -> Option<f64> {
        condition.expected_s
    }

    fn run(
        &mut self,
        cell: &Self::Arm,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<bool, BenchError> {
        let (condition, arm) = cell;
        let folder = bench.folder();
        let argv = self.record(arm, &condition.argv, folder);
        let outcome = child::run(&argv, folder, || bench.stop.is_given())?;
        // What was interrupted is no measurement.
        if bench.stop.is_given() {
            return Ok(false);
        }
        // The wrapper's own status, not the workload's: that one leaves facts.
        if matches!(outcome.exit(), 126 | 127) && !facts_path(folder).exists() {
            let why = complaint(&outcome.output, outcome.exit());
            return Err(BenchError::Alone { why });
        }
        let seen = figures::RunOutcome::new(arm, &outcome, folder);
        let (labels, index) = (self.labels(cell), bench.file.runs.len());
        seen.figures(&self.0, |metric, kind, value| {
            bench.file.add(index, &labels, metric, kind, value);
        });
        let took = (outcome.started, outcome.wall_s);
        let run = bench.file.add_run(planned, labels.clone(), took);
        run.exit = Some(outcome.exit());
        run.why = seen.failure().map(str::to_owned);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options that name programs which need not be there.
    pub(super) fn options() -> Options {
        Options {
            workload: Workload::Command(vec!["./bt.B.x".into()]),
            extracts: Vec::new(),
            rate: 25_000,
            event: "cycles".to_owned(),
            arms: arms::ARMS.to_vec(),
            tmp: std::env::temp_dir(),
            program: "/bin/pmuscope".into(),
            perf: Some("/usr/bin/perf".into()),
        }
    }
}
