//! What recording costs the recorded program, by every way to read the rings, and by perf's.
//!
//! The workload runs alone and under each recorder, interleaved in random order. The published
//! table that this reproduces is of `perf record --affinity` on 88 CPUs, where the roaming reader
//! cost 27 % and the one that goes to each ring's CPU nothing.

pub mod arms;
mod commands;
mod figures;
mod trial;
mod workload;

use std::path::PathBuf;
use std::time::Instant;

use pmuscope_measure::{
    Extract, Labels, MeasureError, Plan, Planned, Run, RunFile, child, unix_ns,
};
use pmuscope_stats::mean;

use crate::recording::facts_path;
use crate::scratch::Scratch;
use arms::CaptureArm;
use commands::Tools;
use workload::Condition;

pub use crate::observer::{BenchObserver, Progress};
pub use figures::metric;
pub(crate) use trial::complaint;
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
    /// How often each.
    pub rounds: usize,
    /// Seed of the order.
    pub seed: u64,
    /// Where recordings lie until they are counted.
    pub tmp: PathBuf,
    /// This program.
    pub program: PathBuf,
    /// perf, where installed.
    pub perf: Option<PathBuf>,
}

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The folder for recordings cannot be used.
    #[error("cannot use {path} for recordings: {source}. Try: --tmp DIR", path = path.display())]
    Scratch {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The workload does not run even without a recorder.
    #[error("the workload does not run by itself: {why}")]
    Workload {
        /// What it said.
        why: String,
    },
    /// No recorder works here.
    #[error("no recorder works here. {notice}. See: pmuscope doctor")]
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
/// If nothing can be measured, or results cannot be kept. Runs that fail are in the file, with
/// the reason.
pub fn capture(
    options: &Options,
    file: &mut RunFile,
    observer: &mut dyn BenchObserver,
) -> Result<(), CaptureError> {
    let clock = Instant::now();
    let scratch = Scratch::new(&options.tmp)
        .map_err(|source| CaptureError::Scratch { path: options.tmp.clone(), source })?;
    describe(options, file);
    // A file that cannot be written should end it now, not after the first run.
    observer.keep(file)?;
    let mut bench = Bench { options, scratch: &scratch, observer };
    let Some(arms) = bench.usable_arms(file)? else { return Ok(()) };
    let Some(conditions) = bench.conditions()? else { return Ok(()) };
    let cells: Vec<(&Condition, &CaptureArm)> =
        conditions.iter().flat_map(|c| arms.iter().map(move |arm| (c, arm))).collect();
    let plan = Plan::new(cells.len(), options.rounds, options.seed);
    file.seed = Some(plan.seed.to_string());
    bench.observer.progress(&Progress::Planned {
        runs: plan.runs.len(),
        seconds: left(&plan.runs, &cells, file),
    });
    for (done, planned) in plan.runs.iter().enumerate() {
        let (condition, arm) = cells[planned.arm];
        let Some(result) = bench.run(file, planned, condition, arm)? else { break };
        file.duration_s = clock.elapsed().as_secs_f64();
        sort_series(file, &cells);
        bench.observer.keep(file)?;
        bench.observer.progress(&Progress::Done {
            runs: done + 1,
            of: plan.runs.len(),
            labels: &condition.labelled(arm),
            result: result.as_ref().map(|s| *s).map_err(String::as_str),
            left_s: left(&plan.runs[done + 1..], &cells, file),
        });
    }
    Ok(())
}

/// What all runs have in common.
fn describe(options: &Options, file: &mut RunFile) {
    let mut set = |key: &str, value: String| file.parameters.insert(key.to_owned(), value);
    set("event", options.event.clone());
    set("rate", options.rate.to_string());
    set("workload", options.workload.to_string());
}

struct Bench<'a> {
    options: &'a Options,
    scratch: &'a Scratch,
    observer: &'a mut dyn BenchObserver,
}

impl Bench<'_> {
    /// The arms that work here, by trying each once around next to nothing; `None` if stopped.
    fn usable_arms(&mut self, file: &mut RunFile) -> Result<Option<Vec<CaptureArm>>, CaptureError> {
        let mut usable = Vec::new();
        let mut left_out: Vec<(String, Vec<&str>)> = Vec::new();
        for arm in &self.options.arms {
            let tools = Tools { options: self.options, folder: self.scratch.path() };
            let result = trial::try_arm(&tools, arm, || self.observer.stop());
            self.clear()?;
            if self.observer.stop() {
                return Ok(None);
            }
            match result {
                Ok(()) => usable.push(*arm),
                Err(why) if arm.name == arms::BASE => return Err(CaptureError::Workload { why }),
                Err(why) => match left_out.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, arms)) => arms.push(arm.name),
                    None => left_out.push((why, vec![arm.name])),
                },
            }
        }
        for (why, arms) in left_out {
            let verb = if arms.len() == 1 { "was" } else { "were" };
            let notice = format!("{} {verb} left out: {why}", arms.join(", "));
            self.observer.progress(&Progress::LeftOut(&notice));
            file.notices.push(notice);
        }
        match file.notices.first() {
            Some(notice) if usable.len() < 2 => {
                Err(CaptureError::NoRecorder { notice: notice.clone() })
            }
            _ => Ok(Some(usable)),
        }
    }

    /// The workload under all conditions; `None` if stopped.
    fn conditions(&mut self) -> Result<Option<Vec<Condition>>, CaptureError> {
        let conditions = workload::conditions(self.options, self.scratch.path(), self.observer);
        if self.observer.stop() {
            return Ok(None);
        }
        conditions.map(Some)
    }

    /// One run; `None` if the observer stopped it. What it says inside is the wall time, or why
    /// the run failed.
    fn run(
        &mut self,
        file: &mut RunFile,
        planned: &Planned,
        condition: &Condition,
        arm: &CaptureArm,
    ) -> Result<Option<Result<f64, String>>, CaptureError> {
        let folder = self.scratch.path();
        let argv = Tools { options: self.options, folder }.record(arm, &condition.argv);
        if self.observer.stop() {
            return Ok(None);
        }
        let outcome = child::run(&argv, folder, || self.observer.stop())?;
        // What was interrupted is no measurement.
        if self.observer.stop() {
            return Ok(None);
        }
        // The wrapper's own status, not the workload's: that one leaves facts.
        if matches!(outcome.exit(), 126 | 127) && !facts_path(folder).exists() {
            let why = trial::complaint(&outcome.output, outcome.exit());
            return Err(CaptureError::Workload { why });
        }
        let labels = condition.labelled(arm);
        let index = file.runs.len();
        let seen = figures::RunOutcome::new(arm, &outcome, folder);
        file.runs.push(Run {
            index,
            order: planned.order,
            round: Some(planned.round),
            labels: labels.clone(),
            started: unix_ns(outcome.started),
            duration_s: outcome.wall_s,
            exit: Some(outcome.exit()),
            why: seen.failure().map(str::to_owned),
            units: Default::default(),
        });
        for figure in seen.figures(self.options) {
            let kind = (figure.unit.as_str(), figure.origin);
            file.add(index, &labels, &figure.metric, kind, figure.value);
        }
        self.clear()?;
        Ok(Some(match seen.failure() {
            None => Ok(outcome.wall_s),
            Some(why) => Err(why.to_owned()),
        }))
    }

    fn clear(&self) -> Result<(), CaptureError> {
        let path = self.scratch.path();
        self.scratch
            .clear()
            .map_err(|source| CaptureError::Scratch { path: path.to_owned(), source })
    }
}

/// Puts series in the order of the table, whatever the order of runs was.
fn sort_series(file: &mut RunFile, cells: &[(&Condition, &CaptureArm)]) {
    let order: Vec<Labels> = cells.iter().map(|(condition, arm)| condition.labelled(arm)).collect();
    file.series.sort_by_key(|series| order.iter().position(|labels| *labels == series.labels));
}

/// Seconds that planned runs will take: each as long as those of its condition so far, or as the
/// workload should take, and a moment to count what was recorded.
fn left(planned: &[Planned], cells: &[(&Condition, &CaptureArm)], file: &RunFile) -> Option<f64> {
    const MOMENT_S: f64 = 0.3;
    let expected = |condition: &Condition| {
        let same = |run: &&Run| condition.labels.iter().all(|(k, v)| run.labels.get(k) == Some(v));
        let durations: Vec<f64> = file.runs.iter().filter(same).map(|run| run.duration_s).collect();
        mean(&durations).or(condition.expected_s)
    };
    planned.iter().map(|p| Some(expected(cells[p.arm].0)? + MOMENT_S)).sum()
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
            rounds: 1,
            seed: 1,
            tmp: std::env::temp_dir(),
            program: "/bin/pmuscope".into(),
            perf: Some("/usr/bin/perf".into()),
        }
    }
}
