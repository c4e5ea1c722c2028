//! Whether metrics of functions are true: the mix of functions is recorded in several ways, and each
//! function alone; what each way says of a function in the mix is held against what it is alone.
//!
//! Every run lasts as long by the wall clock. A round has each function alone and the mix in every arm,
//! in random order.

pub mod arms;
mod commands;
mod figures;
mod trial;
mod truth;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pmuscope_measure::child::Outcome;
use pmuscope_measure::{Labels, MeasureError, Origin, Planned, child};
use pmuscope_workloads::MixFacts;
use pmuscope_workloads::function_mix::FUNCTIONS;

use crate::error::BenchError;
use crate::recording::complaint;
use crate::runner::{Bench, Benchmark, add_left_out, labels, usable};
use arms::FunctionsArm;
use commands::Tools;

pub use figures::metric;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which ways to record the mix; see [`arms::choose`].
    pub arms: Vec<FunctionsArm>,
    /// Cycles between samples that are rare, and between windows.
    pub period: u64,
    /// Seconds of each run of the mix.
    pub seconds: f64,
    /// Seconds of each function alone.
    pub alone: f64,
    /// A run that takes longer is stopped.
    pub patience: Duration,
    /// MiB that the pointer chase goes through.
    pub memory_mib: usize,
    /// How many times as long as usual calls are.
    pub length: f64,
    /// Where recordings lie until they are read.
    pub tmp: PathBuf,
    /// This program.
    pub program: PathBuf,
    /// perf, where installed.
    pub perf: Option<PathBuf>,
}

/// Whether metrics of functions are true.
pub struct FunctionsBench {
    options: Options,
    /// What is counted beside cycles.
    counters: Vec<&'static str>,
    /// Arms of a round.
    arms: usize,
    /// What was called in the last run of the mix.
    calls: Option<MixFacts>,
}

impl From<Options> for FunctionsBench {
    fn from(options: Options) -> Self {
        Self { options, counters: Vec::new(), arms: 0, calls: None }
    }
}

impl FunctionsBench {
    fn tools<'t>(&'t self, bench: &'t Bench<'_>) -> Tools<'t> {
        Tools { options: &self.options, folder: bench.folder(), counters: &self.counters }
    }

    /// Records a run and analyses the recording: how it ended, and what was called or why it failed. `None` if the
    /// user broke it off.
    #[allow(clippy::type_complexity)]
    fn record(
        &self,
        arm: &FunctionsArm,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<Option<(Outcome, Result<MixFacts, String>)>, BenchError> {
        let seed = bench.seed.wrapping_add(planned.round as u64);
        let seconds = self.seconds(arm).unwrap_or_default();
        let argv = self.tools(bench).record(arm, seconds, seed);
        let Some((outcome, mut failure)) = self.child(&argv, bench)? else { return Ok(None) };
        let mut analysis = None;
        if failure.is_none() && arm.recorder.records() {
            let argv = self.tools(bench).analyse();
            let Some((read, why)) = self.child(&argv, bench)? else { return Ok(None) };
            failure = why.map(|why| format!("the analysis failed: {why}"));
            analysis = Some(read);
        }
        let counts = match failure {
            Some(why) => Err(why),
            None => add_figures(bench, arm, analysis.as_ref()),
        };
        Ok(Some((outcome, counts)))
    }

    /// Runs a program to its end or that of our patience; what it said, and why it failed.
    fn child(
        &self,
        argv: &[OsString],
        bench: &Bench<'_>,
    ) -> Result<Option<(Outcome, Option<String>)>, MeasureError> {
        let patience = self.options.patience;
        let started = Instant::now();
        let outcome = child::run(argv, bench.folder(), || {
            bench.stop.is_given() || started.elapsed() > patience
        })?;
        if bench.stop.is_given() {
            return Ok(None);
        }
        let failure = if started.elapsed() > patience {
            Some(format!("it did not end within {} s", patience.as_secs()))
        } else {
            (outcome.exit() != 0).then(|| complaint(&outcome.output, outcome.exit()))
        };
        Ok(Some((outcome, failure)))
    }
}

impl Benchmark for FunctionsBench {
    type Arm = FunctionsArm;

    fn parameters(&self) -> Labels {
        labels([
            ("period", self.options.period.to_string()),
            ("seconds", self.options.seconds.to_string()),
            ("alone", self.options.alone.to_string()),
            ("length", self.options.length.to_string()),
            ("memory_mib", self.options.memory_mib.to_string()),
        ])
    }

    fn scratch(&self) -> Option<&Path> {
        Some(&self.options.tmp)
    }

    /// What can be counted, and the arms that work, by trying each once; functions alone first.
    fn arms(&mut self, bench: &mut Bench<'_>) -> Result<Vec<FunctionsArm>, BenchError> {
        let options = &self.options;
        let pure = FUNCTIONS.iter().map(|f| FunctionsArm::pure(f.name, options.period));
        let mut arms: Vec<FunctionsArm> = pure.collect();
        let (counters, without) =
            trial::counters(options, &arms[0], bench).map_err(|why| BenchError::NoTruth { why })?;
        add_left_out(bench, "not counted", &without);
        bench.file.parameters.insert("counters".to_owned(), counters.join(","));
        let usable = usable(&options.arms, bench, |arm, bench| {
            trial::try_arm(options, &counters, arm, bench)
        })?;
        if !usable.iter().any(|arm| arm.recorder.records()) && !bench.stop.is_given() {
            let notice = bench.file.notices.last().cloned().unwrap_or_default();
            return Err(BenchError::NoRecorder { notice });
        }
        arms.extend(usable);
        (self.counters, self.arms) = (counters, arms.len());
        Ok(arms)
    }

    fn labels(&self, arm: &FunctionsArm) -> Labels {
        arm.labels()
    }

    fn seconds(&self, arm: &FunctionsArm) -> Option<f64> {
        Some(if arm.only.is_some() { self.options.alone } else { self.options.seconds })
    }

    fn run(
        &mut self,
        arm: &FunctionsArm,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<bool, BenchError> {
        let Some((outcome, counts)) = self.record(arm, planned, bench)? else { return Ok(false) };
        let took = (outcome.started, outcome.wall_s);
        let run = bench.file.add_run(planned, arm.labels(), took);
        run.exit = Some(if counts.is_ok() { outcome.exit() } else { outcome.exit().max(1) });
        run.why = counts.as_ref().err().cloned();
        self.calls = counts.ok().filter(|_| arm.only.is_none()).or(self.calls.take());
        let of_round = bench.file.runs.iter().filter(|run| run.round == Some(planned.round));
        if let (true, Some(calls)) = (of_round.count() == self.arms, &self.calls) {
            truth::add_shares(bench.file, planned.round, calls);
        }
        Ok(true)
    }
}

/// Adds all figures of a run; hands back what was called in it.
fn add_figures(
    bench: &mut Bench<'_>,
    arm: &FunctionsArm,
    analysis: Option<&Outcome>,
) -> Result<MixFacts, String> {
    let (mix, time_s) = figures::mix(bench.folder())?;
    let (run, labels) = (bench.file.runs.len(), arm.labels());
    let rate = mix.rounds as f64 / time_s;
    bench.file.add(run, &labels, metric::ROUNDS, ("/s", Origin::Program), Ok(rate));
    if let Some(read) = analysis {
        // Notes come before the object, on the same file.
        let json = read.output.find('{').map_or("", |at| &read.output[at..]);
        let all = figures::functions(json)?;
        let folder = bench.folder().to_owned();
        figures::add_recording(bench.file, run, (arm, &labels), &folder, analysis)?;
        figures::add_functions(bench.file, run, arm, &all);
    }
    Ok(mix)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use pmuscope_measure::counting::Signal;
    use pmuscope_measure::{RunDone, RunFile, RunObserver};

    use super::*;
    use crate::runner::{Repetition, run};

    /// Options that name programs which need not be there.
    pub(super) fn options() -> Options {
        Options {
            arms: arms::all(1_000_003, &[300]),
            period: 1_000_003,
            seconds: 2.0,
            alone: 0.5,
            patience: Duration::from_secs(60),
            memory_mib: 64,
            length: 1.0,
            tmp: std::env::temp_dir(),
            program: "/bin/pmuscope".into(),
            perf: Some("/usr/bin/perf".into()),
        }
    }

    #[test]
    fn without_a_recorder_that_works_there_is_no_truth() {
        struct Silent;
        impl RunObserver for Silent {
            fn done(&mut self, _: &RunDone<'_>) {}
            fn failed(&mut self, _: u8, _: &str) {}
            fn keep(&mut self, _: &RunFile) -> Result<(), MeasureError> {
                Ok(())
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let program = "/bin/false".into();
        let options = Options { program, tmp: folder.path().to_owned(), ..options() };
        let tool = pmuscope_measure::Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        let (never, _writer) = rustix::pipe::pipe().unwrap();
        let (mut bench, once) = (FunctionsBench::from(options), Repetition::new(1, Some(1)));
        let ended = run(&mut bench, &once, &mut file, Signal(never.as_fd()), &mut Silent);
        let error = ended.unwrap_err().to_string();
        assert!(error.starts_with("cannot record cycles and instructions: "), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
