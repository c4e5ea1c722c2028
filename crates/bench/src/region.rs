//! What entering and leaving a region costs, beside the system call that it may save.
//!
//! ```text
//!  nothing       a loop around nothing            what is left of each number below
//!  read          two read(2) of the group         the floor of what takes system calls
//!  user          two looks in user space          the floor of what does not
//!  region-read   an empty region, by read(2)
//!  region-user   an empty region, in user space
//!  nested        an empty region within another, the better way of the two
//! ```
//!
//! All in this process, in one thread, with counters that count.

use std::hint::black_box;
use std::time::{Instant, SystemTime};

use pmuscope_counters::{Host, OwnGroup};
use pmuscope_events::Event;
use pmuscope_machine::Machine;
use pmuscope_measure::{Labels, MeasureError, Plan, Planned, RunFile, RunObserver};
use pmuscope_region::{CounterSet, Options as SetOptions, RegionError, switch_off};

/// Label that tells arms apart.
pub const ARM: &str = pmuscope_measure::arms::ARM;
/// Unit of work: an entry with its exit.
pub const ENTRY: &str = "entry";

/// One way to spend time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionArm {
    /// A loop.
    Nothing,
    /// Two system calls.
    Read,
    /// Two looks without.
    User,
    /// A region that reads by system call.
    RegionRead,
    /// A region that does not.
    RegionUser,
    /// A region in another.
    Nested,
}

impl RegionArm {
    /// All, as they are shown.
    pub const ALL: [Self; 6] =
        [Self::Nothing, Self::Read, Self::User, Self::RegionRead, Self::RegionUser, Self::Nested];

    /// As in the label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Read => "read",
            Self::User => "user",
            Self::RegionRead => "region-read",
            Self::RegionUser => "region-user",
            Self::Nested => "nested",
        }
    }

    fn in_user_space(self) -> bool {
        matches!(self, Self::User | Self::RegionUser)
    }
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is counted.
    pub events: Vec<Event>,
    /// Entries of each run.
    pub entries: u64,
    /// How often each arm runs.
    pub rounds: usize,
    /// Seed of the order.
    pub seed: u64,
}

/// Why the benchmark cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RegionBenchError {
    /// Counters cannot be had.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Results cannot be kept.
    #[error(transparent)]
    Measure(#[from] MeasureError),
}

/// Sets and groups that arms use; each is stopped while another has its turn.
struct RegionBench {
    group: OwnGroup,
    by_call: CounterSet,
    in_user_space: CounterSet,
    /// Why nothing is read in user space here.
    why_not: Option<String>,
}

impl RegionBench {
    fn new(events: &[Event]) -> Result<Self, RegionError> {
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        let by_call = CounterSet::new(&names, SetOptions { user_reads: false })?;
        let in_user_space = CounterSet::new(&names, SetOptions { user_reads: true })?;
        drop(in_user_space.region("once").enter());
        let why_not = in_user_space.report(&[]).how.why;
        switch_off()?;
        let machine = Machine::host();
        let topology = machine.topology()?;
        let group = OwnGroup::open(&Host, &machine, &topology, events, true)?;
        Ok(Self { group, by_call, in_user_space, why_not })
    }

    /// Seconds of `entries` entries.
    fn run(&self, arm: RegionArm, entries: u64) -> Result<f64, RegionError> {
        let (set, nested) = match arm {
            RegionArm::RegionRead => (Some(&self.by_call), false),
            RegionArm::RegionUser => (Some(&self.in_user_space), false),
            RegionArm::Nested => (Some(&self.in_user_space), true),
            RegionArm::Nothing | RegionArm::Read | RegionArm::User => (None, false),
        };
        switch_off()?;
        let Some(set) = set else { return self.run_bare(arm, entries) };
        set.switch_to()?;
        let (outer, inner) = (set.region("outer"), set.region("inner"));
        let started = Instant::now();
        let mut left = entries;
        while left > 0 {
            if nested {
                let _outer = outer.enter();
                drop(inner.enter());
                left = left.saturating_sub(2);
            } else {
                drop(inner.enter());
                left -= 1;
            }
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// Without regions.
    fn run_bare(&self, arm: RegionArm, entries: u64) -> Result<f64, RegionError> {
        let group = &self.group;
        group.enable(&Host)?;
        let started = Instant::now();
        for entry in 0..entries {
            match arm {
                RegionArm::Read => {
                    black_box(group.read_by_call(&Host)?);
                    black_box(group.read_by_call(&Host)?);
                }
                RegionArm::User => {
                    black_box(group.read(&Host)?);
                    black_box(group.read(&Host)?);
                }
                _ => {
                    black_box(entry);
                }
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        group.disable(&Host)?;
        Ok(seconds)
    }
}

/// Runs all arms in random order and adds them to `file`, until `stop` says so; false then.
///
/// # Errors
/// If nothing can be counted, or results cannot be kept.
pub fn region(
    options: &Options,
    file: &mut RunFile,
    stop: &dyn Fn() -> bool,
    watch: &mut dyn RunObserver,
) -> Result<bool, RegionBenchError> {
    let bench = RegionBench::new(&options.events)?;
    let arms: Vec<RegionArm> = RegionArm::ALL
        .into_iter()
        .filter(|arm| bench.why_not.is_none() || !arm.in_user_space())
        .collect();
    if let Some(why) = &bench.why_not {
        file.notices
            .push(format!("Not read in user space, so user and region-user did not run: {why}"));
    }
    describe(options, file);
    let plan = Plan::new(arms.len(), options.rounds, options.seed);
    let make = |file: &mut RunFile, planned: &Planned, _: &mut dyn RunObserver| {
        if stop() {
            return Ok(false);
        }
        let arm = arms[planned.arm];
        let started = SystemTime::now();
        let seconds = bench.run(arm, options.entries)?;
        let labels = Labels::from([(ARM.to_owned(), arm.name().to_owned())]);
        file.add_timed(planned, labels, (started, seconds), (ENTRY, options.entries as f64));
        Ok(true)
    };
    plan.make_runs(file, watch, |_, _| false, make)
}

/// What all runs have in common.
fn describe(options: &Options, file: &mut RunFile) {
    let names: Vec<&str> = options.events.iter().map(|event| event.name.as_str()).collect();
    file.parameters.insert("events".to_owned(), names.join(","));
    file.parameters.insert("entries".to_owned(), options.entries.to_string());
}
