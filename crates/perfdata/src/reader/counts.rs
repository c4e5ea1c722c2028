//! The weight of samples that carry counts (`PERF_SAMPLE_READ`), as with leader sampling.
//!
//! Only the leader of a group samples, and each sample reads the counts of all members. So one sample
//! stands for every member: for what it counted since its count was last read, as in perf.
//!
//! ```text
//!  sample of cycles   counts read: cycles  instructions     stands for: cycles  instructions
//!  1                               1000    400                          1000    400
//!  2                               2100    400                          1100    (none: no sample of it)
//!  3                               2900    1900                         800     1500
//! ```
//! Counts are those of a descriptor; its id comes with them. Events that a thread inherits count
//! separately, under the ID of their origin.

use std::collections::HashMap;

use pmuscope_abi::AttrFlags;

use super::event::Event;
use super::sample::ReadValues;
use super::scan::SampleFields;

/// A count that continues from sample to sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CountKey {
    /// ID of its descriptor; without IDs the stream, and the count's position in what was read.
    count: u64,
    /// The thread, where threads inherited the event.
    thread: i32,
}

/// What has the counts that an event's samples carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SampleCounts {
    OfDescriptor,
    /// Each thread has its own, under the same ID.
    OfThread,
}

impl SampleCounts {
    fn of(event: &Event) -> Option<Self> {
        let by_thread = event.attr.flags.contains(AttrFlags::INHERIT);
        let counts = if by_thread { Self::OfThread } else { Self::OfDescriptor };
        event.has_counts().then_some(counts)
    }
}

/// Makes samples of all counts that were read with a sample. It takes the samples of each descriptor in
/// the order of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampledCounts {
    /// By event; `None` where its samples carry none.
    counts: Vec<Option<SampleCounts>>,
    reads_any: bool,
    /// Events of descriptors.
    of_id: HashMap<u64, usize>,
    /// Ids of all events when they were learned, and of each.
    ids: usize,
    known: Vec<usize>,
    /// What each was when it was read last.
    last: HashMap<CountKey, u64>,
}

impl SampledCounts {
    /// Nothing read so far.
    #[must_use]
    pub fn new(events: &[Event]) -> Self {
        let mut new = Self::default();
        new.learn(events, events.iter().map(|event| event.ids.len()).sum());
        new
    }

    /// Adds what a stream has reported about its events since; they have this many IDs
    /// ([`Reader::ids`](super::Reader::ids)), or more where some are given twice.
    pub fn learn(&mut self, events: &[Event], ids: usize) {
        if (self.known.len(), self.ids) == (events.len(), ids) {
            return;
        }
        self.ids = ids;
        self.known.resize(events.len(), 0);
        self.counts.extend(events.iter().skip(self.counts.len()).map(SampleCounts::of));
        self.reads_any = self.counts.iter().any(Option::is_some);
        for (at, (event, known)) in events.iter().zip(&mut self.known).enumerate() {
            self.of_id.extend(event.ids.iter().skip(*known).map(|&id| (id, at)));
            *known = event.ids.len();
        }
    }

    /// Whether samples of any event carry counts.
    #[inline]
    #[must_use]
    pub fn reads_any(&self) -> bool {
        self.reads_any
    }

    /// Returns what a sample stands for: a sample of each event that was read with it and has counted
    /// since. A sample without counts stands for itself.
    pub fn split(&mut self, hit: &SampleFields<'_>, mut take: impl FnMut(&SampleFields<'_>)) {
        let Some((read, counts)) = self.read(hit) else { return take(hit) };
        for (at, one) in read.iter().enumerate() {
            let Some(event) = self.event(hit, at, one.id) else { continue };
            let Some(key) = key(hit, read, counts, at, one.id) else { continue };
            let last = self.last.insert(key, one.value).unwrap_or(0);
            // A count that went back was reset.
            let period = one.value.checked_sub(last).unwrap_or(one.value);
            if period > 0 {
                take(&SampleFields { event, period: Some(period), ..*hit });
            }
        }
    }

    /// Continues from these counts as the last ones read.
    pub fn resume(&mut self, counts: &[(CountKey, u64)]) {
        self.last.clear();
        self.last.extend(counts.iter().copied());
    }

    /// The counts of a sample.
    pub(super) fn each<'h>(
        &self,
        hit: &SampleFields<'h>,
    ) -> Option<impl Iterator<Item = (CountKey, u64)> + use<'h>> {
        let (read, counts) = self.read(hit)?;
        let hit = *hit;
        let one = move |(at, one): (usize, super::ReadValue)| {
            Some((key(&hit, read, counts, at, one.id)?, one.value))
        };
        Some(read.iter().enumerate().filter_map(one))
    }

    /// The event of the count at a place; where no ids are known, events were opened in their order.
    fn event(&self, hit: &SampleFields<'_>, at: usize, id: Option<u64>) -> Option<usize> {
        match id.filter(|_| !self.of_id.is_empty()) {
            Some(id) => self.of_id.get(&id).copied(),
            None => Some(hit.event + at).filter(|&event| event < self.counts.len()),
        }
    }

    #[inline]
    fn read<'h>(&self, hit: &SampleFields<'h>) -> Option<(ReadValues<'h>, SampleCounts)> {
        if !self.reads_any {
            return None;
        }
        hit.read.zip(self.counts.get(hit.event).copied().flatten())
    }
}

/// `None` where nothing separates the count from others.
#[inline]
fn key(
    hit: &SampleFields<'_>,
    read: ReadValues<'_>,
    counts: SampleCounts,
    at: usize,
    id: Option<u64>,
) -> Option<CountKey> {
    let tid = hit.task.map_or(-1, |(_, tid)| tid);
    let thread = if counts == SampleCounts::OfThread { tid } else { -1 };
    let count = match id {
        Some(id) => id,
        None => read.stream(hit.cpu, hit.task)? | (at as u64 & 0xffff) << 32,
    };
    Some(CountKey { count, thread })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::bytes::Endian;
    use crate::reader::sample::ReadLayout;
    use pmuscope_abi::{Attr, ReadFormat, SampleType};

    fn group(inherit: bool, format: ReadFormat) -> Vec<Event> {
        let mut flags = AttrFlags::empty();
        flags.set(AttrFlags::INHERIT, inherit);
        let event = |(name, ids): (&str, [u64; 2])| Event {
            name: name.into(),
            attr: Attr {
                sample_type: SampleType::TID | SampleType::CPU | SampleType::READ,
                read_format: format,
                flags,
                ..Attr::default()
            },
            ids: ids.into(),
        };
        [("cycles", [1, 2]), ("instructions", [11, 12])].into_iter().map(event).collect()
    }

    /// Events and periods that samples of a CPU and a thread with these words stand for.
    fn split(events: &[Event], samples: &[(u32, i32, &[u64])]) -> Vec<Vec<(usize, u64)>> {
        let mut counts = SampledCounts::new(events);
        let layout = ReadLayout::new(events[0].attr.read_format);
        let one = |&(cpu, tid, words): &(u32, i32, &[u64])| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let (read, _) = layout.split(&bytes, Endian::Little).unwrap();
            let task = Some((tid, tid));
            let hit = SampleFields {
                task,
                cpu: Some(cpu),
                read: Some(read),
                ..SampleFields::of(&Default::default())
            };
            let mut found = Vec::new();
            counts.split(&hit, |hit| found.push((hit.event, hit.period.unwrap())));
            found
        };
        samples.iter().map(one).collect()
    }

    #[test]
    fn each_member_stands_for_what_it_counted_since_it_was_read() {
        let format = ReadFormat::GROUP | ReadFormat::ID | ReadFormat::LOST;
        let events = group(false, format);
        let found = split(
            &events,
            &[
                (0, 7, &[2, 1000, 1, 0, 400, 11, 0]),
                (1, 7, &[2, 50, 2, 0, 60, 12, 0]),
                // Nothing counted is no sample; an id that belongs to no event is passed over.
                (0, 8, &[3, 2100, 1, 9, 400, 11, 9, 5, 99, 9]),
                (0, 7, &[2, 2900, 1, 9, 1900, 11, 9]),
                // After a reset.
                (0, 7, &[2, 100, 1, 9, 1900, 11, 9]),
            ],
        );
        let expected: [&[(usize, u64)]; 5] = [
            &[(0, 1000), (1, 400)],
            &[(0, 50), (1, 60)],
            &[(0, 1100)],
            &[(0, 800), (1, 1500)],
            &[(0, 100)],
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn threads_that_inherit_count_by_themselves() {
        let format = ReadFormat::GROUP | ReadFormat::ID;
        let samples: [(u32, i32, &[u64]); 3] =
            [(0, 7, &[1, 1000, 1]), (0, 8, &[1, 300, 1]), (0, 7, &[1, 1500, 1])];
        let inherited = split(&group(true, format), &samples);
        assert_eq!(inherited, [[(0, 1000)], [(0, 300)], [(0, 500)]]);
    }

    #[test]
    fn without_ids_counts_are_those_of_the_events_in_their_order_on_each_cpu() {
        let events = group(false, ReadFormat::GROUP);
        let samples: [(u32, i32, &[u64]); 3] =
            [(0, 7, &[2, 1000, 400]), (1, 7, &[2, 30, 40]), (0, 7, &[2, 1010, 420])];
        let found = split(&events, &samples);
        assert_eq!(found, [[(0, 1000), (1, 400)], [(0, 30), (1, 40)], [(0, 10), (1, 20)]]);
    }

    #[test]
    fn a_single_count_is_that_of_its_event() {
        let events = group(false, ReadFormat::ID | ReadFormat::TOTAL_TIME_RUNNING);
        let samples: [(u32, i32, &[u64]); 2] = [(0, 7, &[1000, 9, 1]), (0, 7, &[1001, 9, 1])];
        assert_eq!(split(&events, &samples), [[(0, 1000)], [(0, 1)]]);
        // As in recordings of one event that give no ids.
        let unknown = [Event { ids: Vec::new(), ..events[0].clone() }];
        assert_eq!(split(&unknown, &samples), [[(0, 1000)], [(0, 1)]]);
    }

    #[test]
    fn events_that_come_late_in_a_stream_have_samples_too() {
        let format = ReadFormat::GROUP | ReadFormat::ID;
        let events = group(false, format);
        let mut counts = SampledCounts::new(&events[..1]);
        counts.learn(&events, 4);
        assert_eq!(counts, SampledCounts::new(&events));
        let mut more = events.clone();
        more[0].ids.push(3);
        counts.learn(&more, 5);
        assert_eq!(counts, SampledCounts::new(&more));
    }
}
