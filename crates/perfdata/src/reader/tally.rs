//! Counts of what was read and of what was skipped.

use std::collections::BTreeMap;

use super::stream::{AUXTRACE, STAT, StopReason, Stopped};

/// Kinds counted by their number; those that are beyond are rare.
const LOW: usize = 96;
/// Kinds told apart beyond that. A file full of garbage has any number.
const MOST_KINDS: usize = 1024;

/// What was read, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records read; compressed ones count by what is in them.
    pub records: u64,
    /// Number of records of each kind in the file, compressed ones and those of tools too.
    pub kinds: KindCounts,
    /// Samples that match no event of the file.
    pub samples_of_no_event: u64,
    /// Records shorter than their kind demands.
    pub malformed: u64,
    /// Records that came too late to be put in order.
    pub late: u64,
    /// Records handed out before all older ones had come, since what waited had reached
    /// [`super::order_limit`].
    pub early: u64,
    /// Number of records of each kind that this version does not know; all beyond the first thousand
    /// kinds under `u32::MAX`.
    pub unknown_kinds: BTreeMap<u32, u64>,
    /// Bytes of hardware trace, and of other data after records, that were skipped.
    pub skipped_bytes: u64,
    /// Where and why reading ended before the end of the data.
    pub stopped: Option<Stopped>,
}

/// What a file holds that is no sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherData {
    /// Counts of `perf stat record`.
    Counts,
    /// A hardware trace (AUX data), of this many bytes, which only a decoder for its kind reads.
    Trace(u64),
}

impl Tally {
    /// What the file holds besides samples, or instead of them.
    #[must_use]
    pub fn other_data(&self) -> Option<OtherData> {
        if self.kinds.get(STAT) > 0 {
            return Some(OtherData::Counts);
        }
        (self.kinds.get(AUXTRACE) > 0 && self.skipped_bytes > 0)
            .then_some(OtherData::Trace(self.skipped_bytes))
    }

    /// Takes back bytes counted as skipped that the file does not have.
    pub(super) fn take_back(&mut self, reason: &StopReason) {
        if let StopReason::DataBeyondEnd(size) = reason {
            self.skipped_bytes = self.skipped_bytes.saturating_sub(*size);
        }
    }

    /// Records of kinds that this version does not know.
    #[must_use]
    pub fn of_unknown_kind(&self) -> u64 {
        self.unknown_kinds.values().sum()
    }

    /// Notes a record of a kind that is not known.
    pub(super) fn unknown(&mut self, kind: u32) {
        count(&mut self.unknown_kinds, kind, 1);
    }

    /// Adds what was found in the next part of the same file.
    pub(super) fn add(&mut self, next: Self) {
        self.records += next.records;
        next.kinds.iter().for_each(|(kind, number)| self.kinds.add_many(kind, number));
        self.samples_of_no_event += next.samples_of_no_event;
        self.malformed += next.malformed;
        self.late += next.late;
        self.early += next.early;
        for (kind, number) in next.unknown_kinds {
            count(&mut self.unknown_kinds, kind, number);
        }
        self.skipped_bytes = self.skipped_bytes.saturating_add(next.skipped_bytes);
        self.stopped = self.stopped.take().or(next.stopped);
    }
}

/// How many records there are of each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KindCounts {
    low: Vec<u64>,
    high: BTreeMap<u32, u64>,
}

impl KindCounts {
    pub(super) fn add(&mut self, kind: u32) {
        self.add_many(kind, 1);
    }

    pub(super) fn add_many(&mut self, kind: u32, number: u64) {
        if number == 0 {
            return;
        }
        if kind as usize >= LOW {
            return count(&mut self.high, kind, number);
        }
        if self.low.is_empty() {
            self.low.resize(LOW, 0);
        }
        self.low[kind as usize] += number;
    }

    /// Records of a kind.
    #[must_use]
    pub fn get(&self, kind: u32) -> u64 {
        let low = self.low.get(kind as usize);
        low.or_else(|| self.high.get(&kind)).copied().unwrap_or(0)
    }

    /// Kinds that occurred, with their numbers of records.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let low = (0..).zip(self.low.iter().copied()).filter(|&(_, number)| number > 0);
        low.chain(self.high.iter().map(|(&kind, &number)| (kind, number)))
    }
}

fn count(kinds: &mut BTreeMap<u32, u64>, kind: u32, number: u64) {
    let kind = if kinds.len() < MOST_KINDS || kinds.contains_key(&kind) { kind } else { u32::MAX };
    *kinds.entry(kind).or_default() += number;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_and_garbage_takes_bounded_memory() {
        let mut kinds = KindCounts::default();
        [9, 9, 95, 96, 32768].iter().for_each(|&kind| kinds.add(kind));
        assert_eq!(kinds.iter().collect::<Vec<_>>(), [(9, 2), (95, 1), (96, 1), (32768, 1)]);
        assert_eq!((kinds.get(9), kinds.get(10), kinds.get(96)), (2, 0, 1));
        (1 << 20..(1 << 20) + 5000).for_each(|kind| kinds.add(kind));
        assert_eq!(kinds.high.len(), MOST_KINDS + 1);
        assert_eq!(kinds.iter().map(|(_, number)| number).sum::<u64>(), 5005);
    }
}
