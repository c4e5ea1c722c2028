//! Records straight from ring buffers, without a file.

use pmuscope_abi::record::{HEADER_SIZE, Records};

use super::about::FileFacts;
use super::bytes::Endian;
use super::event::Event;
use super::metadata::{EventNames, Metadata};
use super::order::Order;
use super::stream::{RawRecord, RecordOrigin};
use super::tally::Tally;
use super::{Entry, entry, note, queue};

/// Bytes that wait at most: what rings hold, some times over. Beyond that half of it goes out early, and
/// [`Tally::late`] tells what came too late for that.
const LARGEST: usize = 256 << 20;

/// Puts records of this machine in the order of time while they come.
#[derive(Debug)]
pub struct Live {
    about: FileFacts,
    order: Order,
    tally: Tally,
}

impl Live {
    /// Records of `events`, none so far.
    #[must_use]
    pub fn new(events: Vec<Event>) -> Self {
        Self {
            about: FileFacts::of_file(Metadata::default(), EventNames::default(), events),
            order: Order::with_largest(LARGEST),
            tally: Tally::default(),
        }
    }

    /// Takes whole records.
    pub fn push(&mut self, records: &[u8]) {
        for (header, record) in Records::new(records) {
            let raw = RawRecord {
                kind: header.kind,
                misc: header.misc,
                body: &record[HEADER_SIZE..],
                attached: &[],
                place: RecordOrigin { offset: 0, packed: false, payload: 0 },
            };
            note(&raw, &mut self.tally);
            let Self { about, order, tally } = self;
            queue(&raw, about, order, tally, Endian::NATIVE, false);
        }
        (self.tally.late, self.tally.early) = (self.order.late(), self.order.early());
    }

    /// All records older than `time`, nanoseconds of their clock, have come.
    pub fn complete_up_to(&mut self, time: u64) {
        self.order.release(time);
    }

    /// The next record, if it is older than `end` and all before it have come.
    pub fn next_before(&mut self, end: u64) -> Option<Entry<'_>> {
        let Self { about, order, tally } = self;
        // What has no time describes what was there before.
        if order.next_time()? >= end {
            return None;
        }
        order.pop().map(|found| entry(&found, &mut about.events, tally, Endian::NATIVE, false))
    }

    /// What came so far, and what could not be used.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Record;
    use pmuscope_abi::record::{RecordBuilder, kind};
    use pmuscope_abi::{Attr, AttrFlags, SampleType};
    use proptest::prelude::*;

    fn live() -> Live {
        let attr = Attr {
            sample: 1,
            sample_type: SampleType::IDENTIFIER
                | SampleType::IP
                | SampleType::TID
                | SampleType::TIME,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        Live::new(vec![Event { name: "clock".into(), attr, ids: vec![7] }])
    }

    fn sample(time: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let record = RecordBuilder::new(&mut out, kind::SAMPLE, 2).u64(7).u64(0x1000);
        record.u32(1).u32(1).u64(time).finish();
        out
    }

    fn times(live: &mut Live, end: u64) -> Vec<u64> {
        let mut found = Vec::new();
        while let Some(entry) = live.next_before(end) {
            assert!(matches!(entry.record, Record::Sample(_)));
            found.extend(entry.time);
        }
        found
    }

    #[test]
    fn nothing_goes_out_before_all_before_it_has_come() {
        let mut live = live();
        live.push(&[sample(30), sample(10)].concat());
        assert_eq!(times(&mut live, u64::MAX), [0; 0]);
        live.push(&sample(20));
        live.complete_up_to(25);
        assert_eq!(times(&mut live, 15), [10]);
        assert_eq!(times(&mut live, u64::MAX), [20]);
        live.complete_up_to(30);
        assert_eq!(times(&mut live, u64::MAX), [30]);
        assert_eq!((live.tally().records, live.tally().late), (3, 0));
    }

    proptest! {
        /// However rings are drained, what goes out is what came, in order.
        #[test]
        fn what_comes_goes_out_once_and_in_order(
            rounds in proptest::collection::vec(proptest::collection::vec(0_u64..100, 0..8), 1..12),
        ) {
            let (mut live, mut found, mut put) = (live(), Vec::new(), Vec::<u64>::new());
            for (round, offsets) in (1..).zip(&rounds) {
                // A record is at most a round late.
                let own: Vec<u64> = offsets.iter().map(|offset| round * 100_u64 + offset).collect();
                own.iter().for_each(|&time| live.push(&sample(time)));
                put.extend(own);
                live.complete_up_to(round * 100 - 1);
                found.extend(times(&mut live, round * 100 - 50));
            }
            live.complete_up_to(u64::MAX);
            found.extend(times(&mut live, u64::MAX));
            put.sort_unstable();
            prop_assert_eq!(found, put);
        }
    }
}
