//! The first pass: one scan of the headers of a part of the data.
//!
//! Sideband records (mmap, comm, fork, exit) are kept, samples are only counted. A record without a
//! time stamp is placed after what the reader would have returned when it reached it (see `order`):
//! after the newest record of the second to last round.

use std::sync::atomic::{AtomicUsize, Ordering};

use pmuscope_abi::record::{HEADER_SIZE, kind};

use super::super::SampledCounts;
use super::super::bytes::Endian;
use super::super::event::Events;
use super::super::kernel::{Use, identify};
use super::super::tally::Tally;
use super::super::tool;
use super::chunk_counts::{ChunkCounting, ChunkCounts};
use super::layout::SampleLayout;
use super::walk::{Packing, Sink, WalkEnd, Walker, put_header};
use super::{Pieces, Placed};

/// Where the reader's rounds stand. Times are 0 before the first record.
///
/// ```text
///  ──────── youngest ──┤ mark ├── … ──┤ mark ├── … ──► youngest so far
///           `released`                 `previous`
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rounds {
    /// What is not younger has been handed out.
    pub(super) released: u64,
    previous: u64,
    youngest: u64,
}

impl Rounds {
    fn mark(&mut self) {
        self.released = self.released.max(self.previous);
        self.previous = self.youngest;
    }
}

/// What rounds come to behind a part of the data, whatever they were before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RoundsSince {
    /// Marks in the part, up to 2: more make no difference.
    marks: u8,
    /// As if the part were the first.
    own: Rounds,
}

impl RoundsSince {
    fn mark(&mut self) {
        self.marks = (self.marks + 1).min(2);
        self.own.mark();
    }

    /// With what was before.
    pub(super) fn after(self, before: Rounds) -> Rounds {
        let youngest = before.youngest.max(self.own.youngest);
        let (released, previous) = match self.marks {
            0 => (before.released, before.previous),
            1 => (before.released.max(before.previous), before.youngest.max(self.own.previous)),
            _ => (
                before.youngest.max(self.own.released).max(before.previous),
                before.youngest.max(self.own.previous),
            ),
        };
        Rounds { released, previous, youngest }
    }
}

/// When a record of the sideband takes effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stamp {
    Time(u64),
    /// It has no time stamp, as few have: those that do should not be larger for it.
    Untimed(Box<RoundsSince>),
}

/// A record of the sideband. Long recordings of compilers have millions.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) stamp: Stamp,
    /// Number of the record in its part.
    pub(super) number: u64,
    /// Where it is in [`IndexedPart::bytes`].
    pub(super) at: u32,
}

const _: () = assert!(size_of::<Kept>() == 32 && size_of::<Placed>() == 32);

/// What a walk over a part of the data found.
#[derive(Debug)]
pub(super) struct IndexedPart {
    pub(super) start: u64,
    pub(super) ended: WalkEnd,
    pub(super) tally: Tally,
    /// Offset in the file and number of the first record of each chunk; the first is the part's.
    pub(super) chunks: Vec<(u64, u64)>,
    pub(super) sideband: Vec<Kept>,
    /// Records of tools, in their order.
    pub(super) tools: Vec<Kept>,
    /// The kept records, headers and all.
    pub(super) bytes: Vec<u8>,
    pub(super) rounds: RoundsSince,
    /// Samples of each event.
    pub(super) samples: Vec<u64>,
    /// Of them, those without a time.
    pub(super) untimed: u64,
    /// Times of the first and the last one.
    pub(super) times: Option<(u64, u64)>,
    pub(super) has_packed: bool,
    /// Of each chunk, where counts are asked for.
    pub(super) counts: Vec<ChunkCounts>,
}

/// What the walks of a file share.
pub(super) struct Indexing<'a> {
    pub(super) events: &'a Events,
    pub(super) layouts: &'a [SampleLayout],
    pub(super) endian: Endian,
    pub(super) pieces: Pieces,
    /// Bytes that the sideband may still take.
    pub(super) room: &'a AtomicUsize,
    /// Where counts in samples are to be followed.
    pub(super) counts: Option<&'a SampledCounts>,
}

impl Indexing<'_> {
    /// Walks what starts in `start..limit`; `start` is the start of a record.
    pub(super) fn part(
        &self,
        walker: &mut Walker<'_>,
        packing: Packing,
        start: u64,
        limit: u64,
    ) -> std::io::Result<IndexedPart> {
        let mut indexer = Indexer {
            events: self.events.clone(),
            layouts: self.layouts,
            endian: self.endian,
            pieces: self.pieces,
            room: self.room,
            counts: self.counts,
            counting: ChunkCounting::default(),
            records: 0,
            chunk_start: start,
            may_cut: packing == Packing::Frames,
            youngest: 0,
            first: u64::MAX,
            last: 0,
            part: IndexedPart {
                start,
                ended: WalkEnd::At(start),
                tally: Tally::default(),
                chunks: vec![(start, 0)],
                sideband: Vec::new(),
                tools: Vec::new(),
                bytes: Vec::new(),
                rounds: RoundsSince::default(),
                samples: vec![0; self.layouts.len()],
                untimed: 0,
                times: None,
                has_packed: false,
                counts: Vec::new(),
            },
        };
        let ended = walker.walk(start, limit, &mut indexer)?;
        indexer.end_chunk();
        let mut part = indexer.part;
        part.rounds.own.youngest = indexer.youngest;
        part.times = (indexer.first <= indexer.last).then_some((indexer.first, indexer.last));
        part.ended = ended;
        part.tally.records = indexer.records;
        let samples = part.samples.iter().sum::<u64>();
        let strange = part.tally.malformed + part.tally.samples_of_no_event;
        part.tally.kinds.add_many(kind::SAMPLE, samples + strange);
        Ok(part)
    }
}

struct Indexer<'a> {
    events: Events,
    layouts: &'a [SampleLayout],
    endian: Endian,
    pieces: Pieces,
    room: &'a AtomicUsize,
    counts: Option<&'a SampledCounts>,
    /// Of the chunk at hand.
    counting: ChunkCounting,
    records: u64,
    chunk_start: u64,
    may_cut: bool,
    youngest: u64,
    first: u64,
    last: u64,
    part: IndexedPart,
}

impl Sink for Indexer<'_> {
    #[inline]
    fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        if kind == kind::SAMPLE {
            self.sample(misc, body);
        } else {
            self.other(kind, misc, body);
        }
        self.records += 1;
    }

    fn boundary(&mut self, offset: u64) {
        let Pieces { chunk, packed_chunk, .. } = self.pieces;
        let wanted = if self.part.has_packed { packed_chunk } else { chunk };
        if self.may_cut && offset - self.chunk_start >= wanted {
            self.chunk_start = offset;
            self.end_chunk();
            self.part.chunks.push((offset, self.records));
        }
    }

    fn packed(&mut self, kind: u32) {
        self.part.has_packed = true;
        self.part.tally.kinds.add(kind);
    }

    fn skipped(&mut self, bytes: u64) {
        let skipped = &mut self.part.tally.skipped_bytes;
        *skipped = skipped.saturating_add(bytes);
    }
}

impl Indexer<'_> {
    #[inline]
    fn sample(&mut self, misc: u16, body: &[u8]) {
        let Some(event) = self.events.of_sample(body, self.endian) else {
            self.part.tally.samples_of_no_event += 1;
            return;
        };
        let layout = &self.layouts[event];
        let time = layout.time(body);
        self.youngest = self.youngest.max(time.unwrap_or(0));
        if !layout.fits(body) {
            self.part.tally.malformed += 1;
            return;
        }
        self.part.samples[event] += 1;
        if let Some(counts) = self.counts {
            layout.hand_on(event, misc, body, |hit| self.counting.take(counts, hit));
        }
        match time {
            Some(time) => {
                self.first = self.first.min(time);
                self.last = self.last.max(time);
            }
            None => self.part.untimed += 1,
        }
    }

    fn other(&mut self, kind: u32, misc: u16, body: &[u8]) {
        self.part.rounds.own.youngest = self.youngest;
        self.part.tally.kinds.add(kind);
        match (kind, Use::of(kind)) {
            (kind::FINISHED_ROUND, _) => self.part.rounds.mark(),
            (tool::FIRST.., _) => {
                let kept = self.keep(kind, misc, body, Stamp::Time(0));
                self.part.tools.extend(kept);
            }
            (_, Use::Profile) => {
                // Only a sample can be of no event.
                let found = identify(kind, misc, body, &mut self.events, self.endian);
                let time = found.and_then(|found| found.time).filter(|&time| time != 0);
                self.youngest = self.youngest.max(time.unwrap_or(0));
                let stamp =
                    time.map_or_else(|| Stamp::Untimed(Box::new(self.part.rounds)), Stamp::Time);
                let kept = self.keep(kind, misc, body, stamp);
                self.part.sideband.extend(kept);
            }
            (_, Use::Listing) => {}
            (_, Use::Unknown) => self.part.tally.unknown(kind),
        }
    }

    /// Puts down what the chunk at hand counted.
    fn end_chunk(&mut self) {
        if self.counts.is_none() {
            return;
        }
        let chunk = self.counting.end_chunk();
        // What was before it is kept as long.
        let cost = 2 * size_of_val(&*chunk.last) + size_of_val(&*chunk.times);
        self.part.counts.push(if self.takes_room(cost) { chunk } else { ChunkCounts::default() });
    }

    /// Whether there is room for that many bytes; without any the file is read in order.
    fn takes_room(&self, cost: usize) -> bool {
        let taken = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| {
            Some(room.saturating_sub(cost))
        });
        taken.is_ok_and(|room| room >= cost)
    }

    fn keep(&mut self, kind: u32, misc: u16, body: &[u8], stamp: Stamp) -> Option<Kept> {
        let untimed = if matches!(stamp, Stamp::Untimed(_)) { size_of::<RoundsSince>() } else { 0 };
        // It gets a place among all of them, too.
        let cost = HEADER_SIZE + body.len() + untimed + size_of::<Kept>() + size_of::<Placed>();
        if !self.takes_room(cost) {
            return None;
        }
        let size = u16::try_from(HEADER_SIZE + body.len()).ok()?;
        let at = u32::try_from(self.part.bytes.len()).ok()?;
        let bytes = &mut self.part.bytes;
        put_header(bytes, kind, misc, size);
        bytes.extend_from_slice(body);
        Some(Kept { stamp, number: self.records, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A mark, or a record with a time.
    fn steps() -> impl Strategy<Value = Vec<Option<u64>>> {
        proptest::collection::vec(proptest::option::weighted(0.7, 1_u64..100), 0..12)
    }

    fn run(steps: &[Option<u64>]) -> RoundsSince {
        let mut rounds = RoundsSince::default();
        for step in steps {
            match step {
                Some(time) => rounds.own.youngest = rounds.own.youngest.max(*time),
                None => rounds.mark(),
            }
        }
        rounds
    }

    proptest! {
        /// Two parts put together are what one walk over both is.
        #[test]
        fn parts_add_up(a in steps(), b in steps(), c in steps()) {
            let whole: Vec<_> = [&a[..], &b[..], &c[..]].concat();
            let by_parts = run(&c).after(run(&b).after(run(&a).after(Rounds::default())));
            prop_assert_eq!(by_parts, run(&whole).after(Rounds::default()));
            prop_assert_eq!(by_parts, run(&whole).own);
        }
    }
}
