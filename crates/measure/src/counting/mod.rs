//! Counting events over a target: a command, processes, CPUs, a cgroup.
//!
//! ```text
//!  Options ─► Counter::new ─► groups that open here, and why others do not
//!                │
//!                ├─ count: fork (held) ─ open ─ exec … wait, read every interval … end ─ read ─► Counted
//!                │
//!                └─ into_run: Counted ─► a run and its series in a run file (`totals.rs`)
//! ```
//!
//! Nothing is multiplexed unless more is asked for than fits; then every figure says what share of the
//! time it was measured, and is scaled up by descriptor, as perf does it. With [`Options::pinned`] an
//! event that finds no counter is not measured.

mod open;
mod run;
#[cfg(test)]
mod tests;
mod totals;

use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use pmuscope_counters::Reading;
use pmuscope_counters::spawn::Status;
use pmuscope_events::{Event, Group, Origin as EventOrigin};
use pmuscope_machine::child::Usage;

use pmuscope_machine::Target;

use crate::run_file::Origin;

pub(crate) use open::not_for_tasks;

pub use open::OpenFailure;
pub use run::{IntervalObserver, RepeatedCount, Signal};
pub use totals::{Aggregation, INTERVAL, Recorded};

/// What to count, and over what.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose events.
    pub target: Target,
    /// Children and new threads too.
    pub inherit: bool,
    /// What to count; each group at the same time or not at all.
    pub groups: Vec<Group>,
    /// Groups stay on the counters or are not measured: nothing is multiplexed.
    pub pinned: bool,
    /// The program to run; empty for none.
    pub command: Vec<OsString>,
    /// Where the command prints.
    pub output: CommandOutput,
    /// Counting starts so long after the command; from there on if `None`.
    pub delay: Option<Duration>,
    /// Counting ends after so long at the latest.
    pub timeout: Option<Duration>,
    /// Counts are read so often, beside at the end.
    pub interval: Option<Duration>,
    /// So many intervals at most.
    pub intervals: Option<usize>,
}

/// Where a command prints, and whether it has something to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommandOutput {
    /// Where this program does; it reads what this program would.
    #[default]
    Inherited,
    /// Kept (the last MiB), not shown; it has nothing to read.
    Kept,
    /// To /dev/null; it has nothing to read.
    Discarded,
}

/// One event of the groups, in their order.
#[derive(Debug, Clone)]
pub struct Counting {
    /// As asked for.
    pub event: Event,
    /// Index of its group.
    pub group: usize,
}

impl Counting {
    /// Name of the series.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.event.name
    }

    /// What the count is multiplied with, and the unit then; clocks count nanoseconds and are shown in
    /// milliseconds, as perf has it.
    #[must_use]
    pub fn scale(&self) -> (f64, &str) {
        if self.event.origin == EventOrigin::SoftwareClock {
            return (1e-6, "ms");
        }
        (self.event.scale.unwrap_or(1.0), self.event.unit.as_deref().unwrap_or_default())
    }

    /// Where its numbers come from, on an emulated machine or not.
    #[must_use]
    pub fn origin(&self, emulated: bool) -> Origin {
        match self.event.origin {
            EventOrigin::Hardware | EventOrigin::Pmu if emulated => Origin::Emulated,
            EventOrigin::Hardware | EventOrigin::Pmu => Origin::Hardware,
            _ => Origin::Software,
        }
    }
}

/// Why counting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The command did, or all observed processes did.
    Target,
    /// The time was over, or so were the intervals.
    Time,
    /// The user said so.
    Interrupted,
}

/// Counts as of one moment; they only grow.
#[derive(Debug, Clone)]
pub struct CounterSnapshot {
    /// Seconds since counting began.
    pub at_s: f64,
    /// Every descriptor.
    pub readings: Vec<Reading>,
}

/// What was counted once.
#[derive(Debug, Clone)]
pub struct Counted {
    /// When counting began.
    pub started: SystemTime,
    /// Seconds from there to its end (CLOCK_MONOTONIC).
    pub duration_s: f64,
    /// How the command ended.
    pub status: Option<Status>,
    /// What the command and its waited-for descendants used; not of a command next to processes that were
    /// running before, which only sets how long they are counted.
    pub usage: Option<Usage>,
    /// What the command printed, if that was to be kept.
    pub output: String,
    /// Why it ended.
    pub ended: Ended,
    /// Counts at each interval.
    pub moments: Vec<CounterSnapshot>,
    /// Counts at the end; [`Reading::event`] is an index into [`RepeatedCount::events`].
    pub last: Vec<Reading>,
    /// Sentences, without full stop, on threads and CPUs that may be missing.
    pub notices: Vec<String>,
}

impl Counted {
    /// Nothing yet.
    #[must_use]
    pub fn begun(started: SystemTime) -> Self {
        Self {
            started,
            duration_s: 0.0,
            status: None,
            usage: None,
            output: String::new(),
            ended: Ended::Target,
            moments: Vec::new(),
            last: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// What is left after the last full interval, if anything can have happened in it; all where there was none.
    pub(crate) fn rest(&self) -> Option<CounterSnapshot> {
        let is_one =
            self.moments.last().is_none_or(|last| self.duration_s - last.at_s > LEAST_REST);
        is_one.then(|| CounterSnapshot { at_s: self.duration_s, readings: self.last.clone() })
    }
}

/// Seconds after the last full interval that are one of their own.
const LEAST_REST: f64 = 1e-3;
