//! The runs of a sweep, in random order, each kept as soon as it is done.

use std::ffi::OsString;

use pmuscope_counters::Kernel;
use pmuscope_counters::spawn::Status;
use pmuscope_machine::Machine;

use super::schedule::Schedule;
use crate::arms;
use crate::counting::{Aggregation, Ended, Options, Recorded, RepeatedCount, Signal};
use crate::error::MeasureError;
use crate::plan::{Plan, Planned};
use crate::rounds::RunObserver;
use crate::run_file::{Labels, RunFile};
use crate::units::Units;

/// Label of a run: which part of the schedule it counted, from 1.
pub const GROUP: &str = "group";

/// What to run.
#[derive(Clone)]
pub struct Sweep<'a> {
    /// The kernel that counts.
    pub kernel: &'a dyn Kernel,
    /// The machine.
    pub machine: &'a Machine,
    /// Over what; its groups are taken from the schedule.
    pub options: Options,
    /// What is counted when.
    pub schedule: &'a Schedule,
    /// Commands that are compared by interleaved runs; empty: the one of the options.
    pub arms: &'a [Vec<OsString>],
    /// How often each.
    pub rounds: usize,
    /// Seed of the order.
    pub seed: u64,
    /// Units of work, and figures that the program prints.
    pub units: &'a Units,
    /// What an earlier sweep has added to the same file.
    pub after: After,
}

/// Runs and groups that are in a file already, and are not of this sweep.
#[derive(Debug, Clone, Copy, Default)]
pub struct After {
    /// Their number.
    pub runs: usize,
    /// Groups of events, which are numbered.
    pub groups: usize,
}

impl Sweep<'_> {
    /// Runs what `file` does not have yet, up to where `stop` is given. Runs that were broken off are not
    /// kept. False if there are some left.
    ///
    /// # Errors
    /// If nothing can be counted, the program cannot be run, or results cannot be kept.
    pub fn run(
        &self,
        file: &mut RunFile,
        stop: Signal<'_>,
        watch: &mut dyn RunObserver,
    ) -> Result<bool, MeasureError> {
        let groups = self.schedule.runs.len();
        let mut plan = Plan::interleaved(groups, self.arms(), self.rounds, self.seed);
        plan.runs.iter_mut().for_each(|planned| planned.order += self.after.runs);
        plan.make_runs(
            file,
            watch,
            |file, planned| self.is_done(file, planned),
            |file, planned, watch| Ok(!stop.is_given() && self.once(file, planned, stop, watch)?),
        )
    }

    /// One run; false if it was broken off.
    fn once(
        &self,
        file: &mut RunFile,
        planned: &Planned,
        stop: Signal<'_>,
        watch: &mut dyn RunObserver,
    ) -> Result<bool, MeasureError> {
        let (group, arm) = (planned.arm / self.arms(), planned.arm % self.arms());
        let groups = self.schedule.runs[group].clone();
        let command = self.arms.get(arm).unwrap_or(&self.options.command).clone();
        let options = Options { groups, pinned: true, command, ..self.options.clone() };
        let counter = RepeatedCount::new(self.kernel, self.machine, &options)?;
        let before = self.units.before(!self.options.command.is_empty());
        let (counted, refused) = counter.count(stop, &mut |_, _| {})?;
        if counted.ended == Ended::Interrupted {
            return Ok(false);
        }
        let recorded = Recorded {
            order: planned.order,
            round: Some(planned.round),
            labels: Labels::from([(GROUP.to_owned(), self.group(planned))]),
            arm: arms::labels(arm, self.arms()),
            aggregation: Aggregation::Global,
        };
        let run = recorded.add(file, &counter, (&counted, &refused));
        let missing = self.units.count(file, run, &counted.output, &before);
        for sentence in missing.into_iter().chain(counted.notices) {
            // A run that did no work, or did not tell, is worth nothing per unit; one such sentence does.
            if !file.notices.contains(&sentence) {
                file.notices.push(sentence);
            }
        }
        match counted.status.map(Status::shell) {
            None | Some(0) => {}
            Some(exit) => watch.failed(exit, &counted.output),
        }
        Ok(true)
    }

    /// How many commands there are.
    fn arms(&self) -> usize {
        self.arms.len().max(1)
    }

    /// Number of the group that a run counts, from 1.
    fn group(&self, planned: &Planned) -> String {
        (self.after.groups + planned.arm / self.arms() + 1).to_string()
    }

    /// Whether an earlier sweep made this run.
    fn is_done(&self, file: &RunFile, planned: &Planned) -> bool {
        let mut labels = arms::labels(planned.arm % self.arms(), self.arms());
        labels.insert(GROUP.to_owned(), self.group(planned));
        let mut runs = file.runs.iter();
        runs.any(|run| run.order == planned.order && run.why.is_none() && run.labels == labels)
    }
}
