//! What entering and leaving a region costs, beside the system call that it may save.
//!
//! ```text
//!  nothing       a loop around nothing            what is left of each number below
//!  read          two read(2) of the group         the floor of what takes system calls
//!  user          two readings in user space          the floor of what does not
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
use pmuscope_measure::{Labels, Planned};
use pmuscope_region::{CounterSet, Options as SetOptions, RegionError, switch_off};

use crate::error::BenchError;
use crate::runner::{Bench, Benchmark, labels};

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

/// Sets and groups that arms use; each is stopped while another has its turn.
pub struct RegionBench {
    /// What is counted, names with commas.
    events: String,
    /// Entries of each run.
    entries: u64,
    group: OwnGroup,
    by_call: CounterSet,
    in_user_space: CounterSet,
    /// Why nothing is read in user space here.
    why_not: Option<String>,
}

impl RegionBench {
    /// Runs of so many entries into regions that count these events.
    ///
    /// # Errors
    /// If they cannot be counted.
    pub fn new(events: &[Event], entries: u64) -> Result<Self, BenchError> {
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        let by_call = CounterSet::new(&names, SetOptions { user_reads: false })?;
        let in_user_space = CounterSet::new(&names, SetOptions { user_reads: true })?;
        drop(in_user_space.region("once").enter());
        let why_not = in_user_space.report(&[]).how.why;
        switch_off()?;
        let machine = Machine::host();
        let topology = machine.topology()?;
        let group = OwnGroup::open(&Host, &machine, &topology, events, true)?;
        let events = names.join(",");
        Ok(Self { events, entries, group, by_call, in_user_space, why_not })
    }

    /// Seconds of a run.
    fn time(&self, arm: RegionArm) -> Result<f64, RegionError> {
        let (set, nested) = match arm {
            RegionArm::RegionRead => (Some(&self.by_call), false),
            RegionArm::RegionUser => (Some(&self.in_user_space), false),
            RegionArm::Nested => (Some(&self.in_user_space), true),
            RegionArm::Nothing | RegionArm::Read | RegionArm::User => (None, false),
        };
        switch_off()?;
        let Some(set) = set else { return self.time_bare(arm) };
        set.switch_to()?;
        let (outer, inner) = (set.region("outer"), set.region("inner"));
        let started = Instant::now();
        let mut left = self.entries;
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
    fn time_bare(&self, arm: RegionArm) -> Result<f64, RegionError> {
        let group = &self.group;
        group.enable(&Host)?;
        let started = Instant::now();
        for entry in 0..self.entries {
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

impl Benchmark for RegionBench {
    type Arm = RegionArm;

    fn parameters(&self) -> Labels {
        labels([("events", self.events.clone()), ("entries", self.entries.to_string())])
    }

    fn arms(&mut self, bench: &mut Bench<'_>) -> Result<Vec<Self::Arm>, BenchError> {
        let why = self.why_not.as_ref();
        let notice = why.map(|why| {
            format!(
                "user and region-user did not run: counters cannot be read in user space: {why}"
            )
        });
        bench.file.notices.extend(notice);
        let can_run = |arm: &RegionArm| why.is_none() || !arm.in_user_space();
        Ok(RegionArm::ALL.into_iter().filter(can_run).collect())
    }

    fn labels(&self, arm: &Self::Arm) -> Labels {
        labels([(ARM, arm.name().to_owned())])
    }

    fn run(
        &mut self,
        arm: &Self::Arm,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<bool, BenchError> {
        let took = (SystemTime::now(), self.time(*arm)?);
        let done = (ENTRY, self.entries as f64);
        bench.file.add_timed(planned, self.labels(arm), took, done);
        Ok(true)
    }
}
