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

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pmuscope_measure::child::Outcome;
use pmuscope_measure::{Labels, MeasureError, Plan, Planned, Run, RunFile, child, unix_ns};
use pmuscope_stats::mean;
use pmuscope_workloads::MixFacts;
use pmuscope_workloads::function_mix::FUNCTIONS;

use crate::capture::complaint;
use crate::observer::{BenchObserver, Progress};
use crate::recording::facts_path;
use crate::scratch::Scratch;
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
    /// How often each.
    pub rounds: usize,
    /// Seed of the order of runs, and of calls.
    pub seed: u64,
    /// Where recordings lie until they are read.
    pub tmp: PathBuf,
    /// This program.
    pub program: PathBuf,
    /// perf, where installed.
    pub perf: Option<PathBuf>,
}

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionsError {
    /// The folder for recordings cannot be used.
    #[error("cannot use {path} for recordings: {source}. Try: --tmp DIR", path = path.display())]
    Scratch {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Functions alone cannot be recorded, so there is no truth.
    #[error("cycles and instructions cannot be recorded here: {why}")]
    NoTruth {
        /// What the recorder said.
        why: String,
    },
    /// No other arm works.
    #[error("no recorder works here. {notice}")]
    NoRecorder {
        /// Which were left out first, and why.
        notice: String,
    },
    /// A run could not be made, or the results not kept.
    #[error(transparent)]
    Measure(#[from] MeasureError),
}

/// Runs the benchmark and adds its runs to `file`, up to where the observer stops it.
///
/// # Errors
/// If nothing can be measured, or results cannot be kept. Runs that fail are in the file, with the
/// reason.
pub fn functions(
    options: &Options,
    file: &mut RunFile,
    observer: &mut dyn BenchObserver,
) -> Result<(), FunctionsError> {
    let clock = Instant::now();
    let scratch = Scratch::new(&options.tmp)
        .map_err(|source| FunctionsError::Scratch { path: options.tmp.clone(), source })?;
    observer.keep(file)?;
    let mut bench = Bench { options, scratch: &scratch, observer, counters: Vec::new() };
    let Some(arms) = bench.usable_arms(file)? else { return Ok(()) };
    describe(options, &bench.counters, file);
    let plan = Plan::new(arms.len(), options.rounds, options.seed);
    file.seed = Some(plan.seed.to_string());
    let left = |planned: &[Planned], file: &RunFile| left(planned, &arms, options, file);
    let seconds = left(&plan.runs, file);
    bench.observer.progress(&Progress::Planned { runs: plan.runs.len(), seconds });
    let mut calls = None;
    for (done, planned) in plan.runs.iter().enumerate() {
        let arm = &arms[planned.arm];
        let Some((result, mix)) = bench.run(file, planned, arm)? else { break };
        calls = mix.filter(|_| arm.only.is_none()).or(calls);
        let is_last = plan.runs.get(done + 1).is_none_or(|next| next.round != planned.round);
        if let (true, Some(calls)) = (is_last, &calls) {
            truth::add_shares(file, planned.round, calls);
        }
        file.duration_s = clock.elapsed().as_secs_f64();
        sort_series(file, &arms);
        bench.observer.keep(file)?;
        bench.observer.progress(&Progress::Done {
            runs: done + 1,
            of: plan.runs.len(),
            labels: &arm.labels(),
            result: result.as_ref().map(|s| *s).map_err(String::as_str),
            left_s: left(&plan.runs[done + 1..], file),
        });
    }
    Ok(())
}

/// What all runs have in common.
fn describe(options: &Options, counters: &[&str], file: &mut RunFile) {
    let mut set = |key: &str, value: String| file.parameters.insert(key.to_owned(), value);
    set("counters", counters.join(","));
    set("period", options.period.to_string());
    set("seconds", options.seconds.to_string());
    set("alone", options.alone.to_string());
    set("length", options.length.to_string());
    set("memory_mib", options.memory_mib.to_string());
}

struct Bench<'a> {
    options: &'a Options,
    scratch: &'a Scratch,
    observer: &'a mut dyn BenchObserver,
    counters: Vec<&'static str>,
}

/// What a run is worth: its wall time or why nothing, and what was called.
type Result1 = (Result<f64, String>, Option<MixFacts>);

impl Bench<'_> {
    /// What can be counted, and the arms that work, by trying each once; functions alone first. `None`
    /// if stopped.
    fn usable_arms(
        &mut self,
        file: &mut RunFile,
    ) -> Result<Option<Vec<FunctionsArm>>, FunctionsError> {
        let pure: Vec<FunctionsArm> =
            FUNCTIONS.iter().map(|f| FunctionsArm::pure(f.name, self.options.period)).collect();
        let (counters, without) = match self.try_counters(&pure[0]) {
            Ok(found) => found,
            Err(why) => return Err(FunctionsError::NoTruth { why }),
        };
        self.counters = counters;
        let mut missing = BTreeMap::<String, Vec<&str>>::new();
        for (event, why) in without {
            missing.entry(why).or_default().push(event);
        }
        let mut notices = together("not counted", missing);
        let (mut usable, mut left_out) = (Vec::new(), BTreeMap::<String, Vec<&str>>::new());
        for arm in &self.options.arms {
            let result = self.try_arm(arm);
            self.clear()?;
            if self.observer.stop() {
                return Ok(None);
            }
            match result {
                Ok(()) => usable.push(arm.clone()),
                Err(why) => left_out.entry(why).or_default().push(&arm.name),
            }
        }
        notices.extend(together("left out", left_out));
        for notice in &notices {
            self.observer.progress(&Progress::LeftOut(notice));
        }
        file.notices.append(&mut notices);
        if !usable.iter().any(figures::records) {
            let notice = file.notices.last().cloned().unwrap_or_default();
            return Err(FunctionsError::NoRecorder { notice });
        }
        Ok(Some(pure.into_iter().chain(usable).collect()))
    }

    fn try_counters(&mut self, arm: &FunctionsArm) -> Result<trial::Counters, String> {
        let (options, folder) = (self.options, self.scratch.path());
        trial::counters(options, folder, arm, || self.observer.stop())
    }

    fn try_arm(&mut self, arm: &FunctionsArm) -> Result<(), String> {
        let (options, folder) = (self.options, self.scratch.path());
        let tools = Tools { options, folder, counters: &self.counters };
        trial::try_arm(&tools, arm, || self.observer.stop())
    }

    fn tools(&self) -> Tools<'_> {
        Tools { options: self.options, folder: self.scratch.path(), counters: &self.counters }
    }

    /// One run, and its analysis; `None` if the observer stopped it.
    fn run(
        &mut self,
        file: &mut RunFile,
        planned: &Planned,
        arm: &FunctionsArm,
    ) -> Result<Option<Result1>, FunctionsError> {
        let seconds = if arm.only.is_some() { self.options.alone } else { self.options.seconds };
        let seed = self.options.seed.wrapping_add(planned.round as u64);
        let argv = self.tools().record(arm, seconds, seed);
        let Some((outcome, mut failure)) = self.child(&argv)? else { return Ok(None) };
        let mut analysis = None;
        if failure.is_none() && figures::records(arm) {
            let argv = self.tools().analyse();
            let Some((read, why)) = self.child(&argv)? else { return Ok(None) };
            failure = why.map(|why| format!("the analysis: {why}"));
            analysis = Some(read);
        }
        let index = file.runs.len();
        let labels = arm.labels();
        let folder = self.scratch.path();
        let told = match failure {
            Some(why) => Err(why),
            None => add_figures(file, index, arm, (folder, analysis.as_ref())),
        };
        file.runs.push(Run {
            index,
            order: planned.order,
            round: Some(planned.round),
            labels,
            started: unix_ns(outcome.started),
            duration_s: outcome.wall_s,
            exit: Some(if told.is_ok() { outcome.exit() } else { outcome.exit().max(1) }),
            why: told.as_ref().err().cloned(),
            units: BTreeMap::default(),
        });
        self.clear()?;
        Ok(Some(match told {
            Ok(mix) => (Ok(outcome.wall_s), Some(mix)),
            Err(why) => (Err(why), None),
        }))
    }

    /// Runs a program to its end or that of our patience; what it said, and why it failed.
    #[allow(clippy::type_complexity)]
    fn child(
        &mut self,
        argv: &[std::ffi::OsString],
    ) -> Result<Option<(Outcome, Option<String>)>, MeasureError> {
        let patience = self.options.patience;
        let started = Instant::now();
        let outcome = child::run(argv, self.scratch.path(), || {
            self.observer.stop() || started.elapsed() > patience
        })?;
        if self.observer.stop() {
            return Ok(None);
        }
        let failure = if started.elapsed() > patience {
            Some(format!("it did not end within {} s", patience.as_secs()))
        } else {
            (outcome.exit() != 0).then(|| complaint(&outcome.output, outcome.exit()))
        };
        Ok(Some((outcome, failure)))
    }

    fn clear(&self) -> Result<(), FunctionsError> {
        let path = self.scratch.path();
        self.scratch
            .clear()
            .map_err(|source| FunctionsError::Scratch { path: path.to_owned(), source })
    }
}

/// `A, B were left out: …`, for each reason.
fn together(what: &str, by_reason: BTreeMap<String, Vec<&str>>) -> Vec<String> {
    let sentence = |(why, names): (String, Vec<&str>)| {
        let verb = if names.len() == 1 { "was" } else { "were" };
        format!("{} {verb} {what}: {why}", names.join(", "))
    };
    by_reason.into_iter().map(sentence).collect()
}

/// Adds all figures of a run; hands back what was called in it.
fn add_figures(
    file: &mut RunFile,
    run: usize,
    arm: &FunctionsArm,
    (folder, analysis): (&Path, Option<&Outcome>),
) -> Result<MixFacts, String> {
    let (mix, time_s) = figures::mix(folder)?;
    let labels = arm.labels();
    let rate = mix.rounds as f64 / time_s;
    file.add(run, &labels, metric::ROUNDS, ("/s", pmuscope_measure::Origin::Program), Ok(rate));
    if let Some(read) = analysis {
        // Notes come before the object, on the same file.
        let json = read.output.find('{').map_or("", |at| &read.output[at..]);
        let all = figures::functions(json)?;
        figures::add_recording(file, run, (arm, &labels), folder, analysis)?;
        figures::add_functions(file, run, arm, &all);
    }
    Ok(mix)
}

/// Puts series in the order of arms and functions, whatever the order of runs was.
fn sort_series(file: &mut RunFile, arms: &[FunctionsArm]) {
    let place = |labels: &Labels| {
        let arm = arms.iter().position(|arm| Some(&arm.name) == labels.get(arms::ARM));
        let function = FUNCTIONS
            .iter()
            .position(|function| labels.get(arms::FUNCTION).is_some_and(|of| of == function.name));
        (arm, function)
    };
    file.series.sort_by_key(|series| place(&series.labels));
}

/// Seconds that planned runs will take: each as long as those of its arm so far, or as the workload
/// takes.
fn left(
    planned: &[Planned],
    arms: &[FunctionsArm],
    options: &Options,
    file: &RunFile,
) -> Option<f64> {
    let expected = |arm: &FunctionsArm| {
        let same = |run: &&Run| run.labels == arm.labels();
        let durations: Vec<f64> = file.runs.iter().filter(same).map(|run| run.duration_s).collect();
        let asked = if arm.only.is_some() { options.alone } else { options.seconds };
        mean(&durations).unwrap_or(asked)
    };
    Some(planned.iter().map(|planned| expected(&arms[planned.arm])).sum())
}

/// Whether the workload has left what it knows of itself.
fn has_facts(folder: &Path) -> bool {
    facts_path(folder).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            rounds: 1,
            seed: 1,
            tmp: std::env::temp_dir(),
            program: "/bin/pmuscope".into(),
            perf: Some("/usr/bin/perf".into()),
        }
    }

    #[test]
    fn without_a_recorder_that_works_there_is_no_truth() {
        struct Silent;
        impl BenchObserver for Silent {
            fn stop(&mut self) -> bool {
                false
            }
            fn progress(&mut self, _: &Progress<'_>) {}
            fn keep(&mut self, _: &RunFile) -> Result<(), MeasureError> {
                Ok(())
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let program = "/bin/false".into();
        let options = Options { program, tmp: folder.path().to_owned(), ..options() };
        let tool = pmuscope_measure::Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        let error = functions(&options, &mut file, &mut Silent).unwrap_err().to_string();
        assert!(error.starts_with("cycles and instructions cannot be recorded here: "), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
