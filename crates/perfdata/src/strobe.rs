//! Metadata of a strobed recording: which samples open and close windows, and when their phase was
//! valid.
//!
//! A window is a short part of a CPU's work between two samples. Two events count the same thing
//! with the same period; the second one, B, is enabled a fixed number of counts after the first
//! one, A:
//!
//! ```text
//!   A  ├──────── period ────────┼──────── period ────────┼────
//!   B     ├──────── period ────────┼──────── period ────────┼─
//!      └──┘ offset                └──┘ window               └──┘ window
//! ```
//!
//! **Samples.** On each CPU all events of a [`StrobeGroup`] are one perf group, led by A. A and B
//! sample, all other members only count. Samples of A and B are alike:
//! `IDENTIFIER|IP|TID|TIME|CPU|READ` with `read_format` `GROUP|ID`, so each holds the counts of all
//! members, in the order in which the group was opened, which is that of [`StrobeGroup::events`]. A
//! reader takes the fields from the attributes and identifies members by their IDs; IDs of a CPU
//! that was reopened are in the attributes too. A window is an A sample and the next B sample of the
//! same CPU and group within half a period: each counter's value at B minus its value at A. In both,
//! `A.count − B.count` equals the value of the epoch ([`Epoch::apart`]), within
//! [`StrobeInfo::tolerance`]. Counts continue from epoch to epoch, since stock perf uses the growth
//! of a count as the weight of a sample.
//!
//! **Epochs.** A sample counts only if an [`Epoch`] of its CPU contains its time
//! (`from_ns <= time < until_ns`) and its group is the epoch's. Samples outside of all epochs were
//! taken while the phase was being set: they belong neither to windows nor to a profile. Current
//! recordings do not contain such samples, only their number ([`CpuHealth::left_out`]).
//!
//! **Killed recordings.** The copies of the metadata in the stream have [`StrobeInfo`] without epochs.
//! These come as separate records ([`EpochUpdate`]) when an epoch begins and again when it ends;
//! [`StrobeInfo::take`] combines them. An epoch without an end is valid until the next one of its CPU
//! begins.

mod lengths;

use serde::{Deserialize, Serialize};

pub use self::lengths::Lengths;

/// Payload kind of an [`EpochUpdate`] as JSON, in a record of type 65 ([`crate::info`]).
pub const PAYLOAD_EPOCHS: u32 = 2;

/// The largest number of members of a [`StrobeGroup`]: more than a PMU counts at the same time; no more
/// are read from a sample.
pub const MOST_MEMBERS: usize = 16;

/// How a recording was strobed. Fields are added, never changed in meaning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StrobeInfo {
    /// The event that defines the windows, as requested ("cycles:u").
    pub event: String,
    /// Length of a window as asked for, in units of the event.
    pub window: u64,
    /// Distance between windows as asked for, in units of the event.
    pub period: u64,
    /// Each epoch's window is drawn from `window` to `window + jitter`.
    pub jitter: u64,
    /// Windows in a row per period.
    pub burst: u32,
    /// Counts of the event are multiples of this; 1 on hardware, more where an emulator counts.
    pub granule: u64,
    /// An offset was accepted if it was off by at most so much, in units of the event.
    pub tolerance: u64,
    /// The groups that were opened. Only one at a time counts on a CPU.
    pub groups: Vec<StrobeGroup>,
    /// Where not empty, events were of all tasks of the CPUs: windows of other processes than these
    /// and their descendants are to be dropped.
    pub only_processes: Vec<u32>,
    /// Where not empty, as before, but these threads only.
    pub only_threads: Vec<u32>,
    /// All epochs of a recording that was closed, by CPU and time; empty in the copies in the stream.
    pub epochs: Vec<Epoch>,
    /// One entry per CPU.
    pub cpus: Vec<CpuHealth>,
}

/// Events that are one perf group on each CPU. Numbers are positions among the file's attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StrobeGroup {
    /// All members in the order of their counts in a sample: A first, then B, then counters.
    pub events: Vec<u32>,
    /// The members that bound windows by their samples, in the order in which they fire: A opens the
    /// first window, the next closes it; with a burst it opens the second one too.
    pub edges: Vec<u32>,
    /// The member that counts context switches, if there is one.
    pub context_switches: Option<u32>,
    /// CPUs that have this group, as a list ("0-3,8"); empty: all.
    pub cpus: String,
}

/// A period of time in which the phase of one CPU was set and not yet found to be lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Epoch {
    /// The CPU.
    pub cpu: u32,
    /// Position among [`StrobeInfo::groups`].
    pub group: u32,
    /// First moment on the clock of the time stamps, nanoseconds.
    pub from_ns: u64,
    /// First moment after it; `None` if it was not closed (a killed recording).
    pub until_ns: Option<u64>,
    /// Period of A and B, in units of the event.
    pub period: u64,
    /// Window aimed at, in units of the event.
    pub window: u64,
    /// Counts of A from the moment A was enabled to the moment B was: the length of windows. With a
    /// burst, one for each edge after the first.
    pub offsets: Vec<u64>,
    /// What `A.count − B.count` was before, for each of `offsets`, in wrapping numbers; empty: 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<u64>,
    /// Tries with an offset that was not accepted, before this one.
    pub rejected_tries: u32,
    /// Why the phase was set.
    pub reason: Reason,
}

/// Why a phase was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The recording began.
    #[default]
    Start,
    /// It was time for another period, and perhaps another group.
    Dither,
    /// The kernel had suspended sampling (throttling).
    Throttled,
    /// `A.count − B.count` was no longer the offset.
    OffsetChanged,
    /// Windows had the wrong length while the offset was right: another program set a period.
    LengthChanged,
    /// The events counted, but there were no samples.
    NoSamples,
    /// The CPU was offline and came back: its events were opened anew.
    Hotplug,
    /// A reason of a newer version.
    #[serde(other)]
    Other,
}

/// What happened on one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuHealth {
    /// The CPU.
    pub cpu: u32,
    /// Tries of setting the phase that were accepted.
    pub accepted_tries: u64,
    /// Tries that were not.
    pub rejected_tries: u64,
    /// Times that no try was accepted: there is no epoch until the next attempt.
    pub failed: u64,
    /// Why no try was accepted the last time; `None` once one was.
    pub why: Option<String>,
    /// THROTTLE records.
    pub throttled: u64,
    /// Phases set, by reason.
    pub rephased: Vec<(Reason, u64)>,
    /// Samples of tries that were not accepted, and of times without a phase: they are not in the file.
    pub left_out: u64,
    /// Times the CPU's events were opened anew.
    pub reopened: u64,
}

/// What became known of epochs since the last such record: a payload of kind [`PAYLOAD_EPOCHS`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EpochUpdate {
    /// Epochs that began or ended. One that ended replaces the one of the same CPU and `from_ns`.
    pub epochs: Vec<Epoch>,
    /// Descriptors that were opened since the file was started.
    pub opened: Vec<OpenedId>,
}

/// A descriptor that was opened after the recording started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenedId {
    /// Position of the event among the file's attributes.
    pub event: u32,
    /// The CPU.
    pub cpu: u32,
    /// The id that its records carry.
    pub id: u64,
}

impl Epoch {
    /// `A.count − B.count`, in wrapping numbers, of each sample of this epoch, where B is edge number
    /// `edge`: 0 is A itself. `None` for an edge that there is not.
    #[must_use]
    pub fn apart(&self, edge: usize) -> Option<u64> {
        let Some(closing) = edge.checked_sub(1) else { return Some(0) };
        let before = self.before.get(closing).copied().unwrap_or(0);
        Some(self.offsets.get(closing)?.wrapping_add(before))
    }
}

impl StrobeInfo {
    /// What the recording lacks: a sentence for each CPU on which the phase was never set, so that it
    /// has no windows.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let never = self.cpus.iter().filter(|health| health.accepted_tries == 0);
        let why =
            |health: &CpuHealth| health.why.clone().unwrap_or_else(|| "it was offline".into());
        never.map(|health| format!("CPU {} has no windows: {}", health.cpu, why(health))).collect()
    }

    /// Takes over what a record in the stream says. Epochs stay in order of CPU and time.
    pub fn take(&mut self, update: &EpochUpdate) {
        for epoch in &update.epochs {
            let key = (epoch.cpu, epoch.from_ns);
            match self.epochs.binary_search_by_key(&key, |known| (known.cpu, known.from_ns)) {
                Ok(at) => self.epochs[at] = epoch.clone(),
                Err(at) => self.epochs.insert(at, epoch.clone()),
            }
        }
    }

    /// The epoch that holds `time_ns` on `cpu`. Needs [`StrobeInfo::epochs`] in order, as they are
    /// written.
    #[must_use]
    pub fn epoch_at(&self, cpu: u32, time_ns: u64) -> Option<&Epoch> {
        let after = self.epochs.partition_point(|e| (e.cpu, e.from_ns) <= (cpu, time_ns));
        let epoch = self.epochs.get(after.checked_sub(1)?)?;
        let holds = epoch.cpu == cpu && epoch.until_ns.is_none_or(|until| time_ns < until);
        holds.then_some(epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(cpu: u32, from_ns: u64, until_ns: Option<u64>) -> Epoch {
        Epoch { cpu, from_ns, until_ns, period: 1009, offsets: vec![300], ..Epoch::default() }
    }

    #[test]
    fn updates_come_in_any_order_and_an_end_replaces_a_beginning() {
        let mut info = StrobeInfo::default();
        let update = |epochs: &[Epoch]| EpochUpdate { epochs: epochs.to_vec(), opened: vec![] };
        info.take(&update(&[epoch(1, 10, None), epoch(0, 12, None)]));
        info.take(&update(&[epoch(1, 10, Some(20)), epoch(1, 21, None)]));
        assert_eq!(info.epochs, [epoch(0, 12, None), epoch(1, 10, Some(20)), epoch(1, 21, None)]);
    }

    #[test]
    fn a_time_is_in_the_epoch_that_holds_it_or_in_none() {
        let epochs = vec![epoch(0, 10, Some(20)), epoch(0, 30, None), epoch(1, 5, Some(15))];
        let info = StrobeInfo { epochs, ..StrobeInfo::default() };
        let from = |cpu, time| info.epoch_at(cpu, time).map(|epoch| epoch.from_ns);
        assert_eq!([from(0, 9), from(0, 10), from(0, 19)], [None, Some(10), Some(10)]);
        assert_eq!([from(0, 20), from(0, 99), from(1, 15)], [None, Some(30), None]);
        assert_eq!([from(1, 4), from(1, 14), from(2, 14)], [None, Some(5), None]);
    }

    #[test]
    fn counts_are_apart_by_the_offset_and_what_was_before() {
        let mut epoch = Epoch { offsets: vec![300, 600], ..Epoch::default() };
        assert_eq!(
            [0, 1, 2, 3].map(|edge| epoch.apart(edge)),
            [Some(0), Some(300), Some(600), None]
        );
        epoch.before = vec![u64::MAX - 99, 50];
        assert_eq!([1, 2].map(|edge| epoch.apart(edge)), [Some(200), Some(650)]);
    }

    #[test]
    fn a_reason_of_a_newer_version_does_not_hide_the_rest() {
        let json = r#"{"epochs":[{"cpu":3,"reason":"moonlight"}],"unknown":1}"#;
        let info: StrobeInfo = serde_json::from_str(json).unwrap();
        assert_eq!((info.epochs[0].cpu, info.epochs[0].reason), (3, Reason::Other));
    }
}
