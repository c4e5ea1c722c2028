//! Counts what is in a piece of a ring, one look at each header, while the bytes pass by.

use pmuscope_abi::record::{HEADER_SIZE, Header, kind, misc};
use pmuscope_counters::Pending;
use rustc_hash::FxHashMap;

/// Which event an id belongs to.
#[derive(Debug, Default)]
pub(crate) struct IdIndex {
    by_id: FxHashMap<u64, usize>,
    /// All ids belong to this event: no look-up is needed.
    only: Option<usize>,
    events: usize,
}

impl IdIndex {
    /// Index over pairs of id and event. `sampling` tells which events write samples.
    pub(crate) fn new(ids: impl IntoIterator<Item = (u64, usize)>, sampling: &[bool]) -> Self {
        let mut writing = sampling.iter().enumerate().filter(|(_, writes)| **writes);
        let only = match (writing.next(), writing.next()) {
            (Some((event, _)), None) => Some(event),
            _ => None,
        };
        Self { by_id: ids.into_iter().collect(), only, events: sampling.len() }
    }
}

/// What passed by.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Samples per event.
    pub(crate) samples: Vec<u64>,
    /// Samples whose id belongs to no event of ours.
    pub(crate) foreign: u64,
    /// Sum of the LOST records.
    pub(crate) lost_in_records: u64,
    /// THROTTLE records per event.
    pub(crate) throttled: Vec<u64>,
    /// Bytes.
    pub(crate) bytes: u64,
    /// Bytes that were no records; never seen, never hidden.
    pub(crate) broken_bytes: u64,
    /// MMAP2 records of files whose build id the kernel did not give, whole.
    pub(crate) without_build_id: Vec<Vec<u8>>,
}

impl Tally {
    pub(crate) fn new(index: &IdIndex) -> Self {
        let zero = vec![0; index.events];
        Self { samples: zero.clone(), throttled: zero, ..Self::default() }
    }

    /// Adds what another reader counted.
    pub(crate) fn add(&mut self, other: Self) {
        let sum = |into: &mut Vec<u64>, from: Vec<u64>| {
            into.resize(into.len().max(from.len()), 0);
            into.iter_mut().zip(from).for_each(|(into, from)| *into += from);
        };
        sum(&mut self.samples, other.samples);
        sum(&mut self.throttled, other.throttled);
        self.foreign += other.foreign;
        self.lost_in_records += other.lost_in_records;
        self.bytes += other.bytes;
        self.broken_bytes += other.broken_bytes;
        self.without_build_id.extend(other.without_build_id);
    }

    /// All samples.
    pub(crate) fn all_samples(&self) -> u64 {
        self.samples.iter().sum::<u64>() + self.foreign
    }

    /// Counts the records of `pending`, which starts and ends at record boundaries as the kernel
    /// publishes them.
    pub(crate) fn count(&mut self, pending: &Pending<'_>, index: &IdIndex) {
        let view = View { first: pending.first, second: pending.second };
        let total = view.len();
        let mut at = 0;
        while let Some(header) = view.header(at) {
            let size = usize::from(header.size);
            if size < HEADER_SIZE || at + size > total {
                break;
            }
            match header.kind {
                kind::SAMPLE => self.count_sample(&view, at, index),
                kind::LOST => self.lost_in_records += view.word(at + 16).unwrap_or(0),
                kind::THROTTLE => self.count_throttle(&view, at, index),
                kind::MMAP2 if header.misc & misc::MMAP_BUILD_ID == 0 => {
                    self.without_build_id.push(view.copy(at, size));
                }
                _ => {}
            }
            at += size;
        }
        self.bytes += at as u64;
        self.broken_bytes += (total - at) as u64;
    }

    fn count_sample(&mut self, view: &View<'_>, at: usize, index: &IdIndex) {
        let event = index.only.or_else(|| index.by_id.get(&view.word(at + 8)?).copied());
        match event.and_then(|event| self.samples.get_mut(event)) {
            Some(count) => *count += 1,
            None => self.foreign += 1,
        }
    }

    /// THROTTLE: header, time, id, stream id.
    fn count_throttle(&mut self, view: &View<'_>, at: usize, index: &IdIndex) {
        let event = view.word(at + 16).and_then(|id| index.by_id.get(&id).copied());
        if let Some(count) = event.and_then(|event| self.throttled.get_mut(event)) {
            *count += 1;
        }
    }
}

/// Two pieces of a ring as one. Headers and aligned words never lie across the seam: records start at
/// multiples of 8 and the pieces are cut at multiples of a page.
struct View<'a> {
    first: &'a [u8],
    second: &'a [u8],
}

impl View<'_> {
    fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    fn word(&self, at: usize) -> Option<u64> {
        let bytes = match at.checked_sub(self.first.len()) {
            None => self.first.get(at..)?,
            Some(at) => self.second.get(at..)?,
        };
        bytes.first_chunk().map(|word| u64::from_ne_bytes(*word))
    }

    fn header(&self, at: usize) -> Option<Header> {
        match at.checked_sub(self.first.len()) {
            None => Header::read(&self.first[at..]),
            Some(at) => Header::read(self.second.get(at..)?),
        }
    }

    fn copy(&self, at: usize, size: usize) -> Vec<u8> {
        self.first.iter().chain(self.second).skip(at).take(size).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_abi::record::RecordBuilder;

    fn records() -> Vec<u8> {
        let mut out = Vec::new();
        let mut sample = |id| RecordBuilder::new(&mut out, kind::SAMPLE, 2).u64(id).u64(0).finish();
        sample(10);
        sample(20);
        sample(20);
        sample(99);
        RecordBuilder::new(&mut out, kind::LOST, 0).u64(10).u64(7).finish();
        RecordBuilder::new(&mut out, kind::THROTTLE, 0).u64(1).u64(20).u64(20).finish();
        RecordBuilder::new(&mut out, kind::MMAP2, 2).u64(5).finish();
        RecordBuilder::new(&mut out, kind::MMAP2, 2 | misc::MMAP_BUILD_ID).u64(6).finish();
        out
    }

    fn count(first: &[u8], second: &[u8], index: &IdIndex) -> Tally {
        let mut tally = Tally::new(index);
        tally.count(&Pending::of_pieces(first, second), index);
        tally
    }

    #[test]
    fn the_seam_may_lie_at_any_word() {
        let index = IdIndex::new([(10, 0), (20, 1)], &[true, true]);
        let bytes = records();
        let whole = count(&bytes, &[], &index);
        assert_eq!((whole.samples.as_slice(), whole.foreign), (&[1, 2][..], 1));
        assert_eq!((whole.lost_in_records, whole.throttled.as_slice()), (7, &[0, 1][..]));
        assert_eq!(whole.without_build_id.len(), 1);
        for seam in (0..bytes.len()).step_by(8) {
            let (first, second) = bytes.split_at(seam);
            assert_eq!(count(first, second, &index), whole, "seam at {seam}");
        }
    }

    #[test]
    fn a_single_sampling_event_needs_no_look_up() {
        let index = IdIndex::new([], &[false, true]);
        assert_eq!(count(&records(), &[], &index).samples, [0, 4]);
    }

    #[test]
    fn bytes_that_are_no_records_are_told() {
        let index = IdIndex::new([], &[true]);
        let tally = count(&[9, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1], &[], &index);
        assert_eq!((tally.bytes, tally.broken_bytes), (0, 16));
    }
}
