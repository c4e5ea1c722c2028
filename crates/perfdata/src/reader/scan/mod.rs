//! Reads a file in two or more passes on several threads: fast, and in no particular order.
//!
//! The first pass scans the headers: it keeps the sideband records (mmap, comm, fork, exit), which
//! are few, and sorts them by time, counts samples, and notes where chunks of some megabytes begin.
//! The second passes the samples, chunk by chunk, to one visitor per thread, and can be repeated. The
//! position of a sample among the sideband records, by record number and time, determines what was
//! mapped then.
//!
//! ```text
//!  file       │ rec rec rec …  │ rec rec …      │ … │          data section
//!  1st pass   │ part ─────────►│ part ─────────►│          threads; a part's start is a guess that the
//!             └───────┬────────┴────┬───────────┘          end of the one before it must confirm
//!  sideband       sorted by time, replayed once
//!  2nd pass   │ chunk │ chunk │ chunk │ …                  threads take the next chunk
//! ```
//!
//! Compressed records that each contain a separate frame (pmuscope's) are unpacked by the thread that
//! reaches them. If one stream spans all of them (perf's), one thread unpacks and the others count.
//!
//! Files that this cannot read (the other byte order, samples without time stamps, streams) are left
//! to the [`Reader`] itself: [`Reader::index`] returns `None` and the reader is unchanged.

mod chunk_counts;
mod index;
mod layout;
mod sync;
mod visit;
mod walk;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pmuscope_abi::record::HEADER_SIZE;

use super::bytes::Endian;
use super::event::Events;
use super::limit;
use super::progress::{Progress, Stage};
use super::rewrite::Rewriting;
use super::stream::{RawRecord, RecordOrigin};
use super::tool::ToolRecord;
use super::{CountKey, Entry, ReadError, Reader, SampledCounts, Tally};

pub use layout::SampleFields;
pub use visit::Visitor;

use chunk_counts::JoinedCounts;
use index::{IndexedPart, Indexing, Rounds, Stamp};
use layout::SampleLayout;
use walk::{Packing, WalkEnd, Walker, header};

/// Bytes of a part of the first pass, at most.
const LARGEST_PART: u64 = 64 << 20;
const NATIVE: Endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };

/// How large the pieces are that threads take, bytes of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// Of the first pass, at least.
    pub part: u64,
    /// Of the second pass, about.
    pub chunk: u64,
    /// Of the second pass where the data are compressed, some twenty times as much when unpacked.
    pub packed_chunk: u64,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { part: 8 << 20, chunk: 2 << 20, packed_chunk: 256 << 10 }
    }
}

/// A position in the order of a recording: by time, and for equal times by position in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RecordOrder {
    /// Nanoseconds of the recording's clock.
    pub time: u64,
    /// Records without a time stamp come after those of their time.
    pub untimed: bool,
    /// Number of the record in the file.
    pub record: u64,
}

/// A seekable file's data section.
#[derive(Debug)]
pub(super) struct Seekable {
    pub(super) file: Arc<File>,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// What the first pass found.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    source: Seekable,
    events: Events,
    layouts: Vec<SampleLayout>,
    packing: Packing,
    chunks: Vec<Chunk>,
    /// What counts in samples were before each chunk, where that was asked for.
    counts: Vec<Vec<(CountKey, u64)>>,
    sideband: Vec<Placed>,
    bytes: Vec<Vec<u8>>,
    samples: Vec<u64>,
    times: Option<(u64, u64)>,
    progress: Arc<Progress>,
    rewriting: Rewriting,
}

/// A part of the data for one thread of the second pass.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    start: u64,
    end: u64,
    first_record: u64,
}

/// A record of the sideband in its place.
#[derive(Debug, Clone, Copy)]
struct Placed {
    moment: RecordOrder,
    /// Number of the bytes that have it, and where in them.
    part: u32,
    at: u32,
}

impl Reader {
    /// Scans the headers of a file on up to `threads` threads. The reader then knows what it would
    /// know at the end of the file ([`Reader::metadata`], [`Reader::tally`]) and returns no more
    /// records. `None` if this file has to be read in order; the reader is then unchanged.
    ///
    /// # Errors
    /// If the operating system fails to read.
    pub fn index(&mut self, threads: usize) -> Result<Option<Index>, ReadError> {
        self.index_in(threads, Pieces::default())
    }

    /// As [`Reader::index`], in pieces of other sizes.
    ///
    /// # Errors
    /// If the operating system fails to read.
    pub fn index_in(&mut self, threads: usize, pieces: Pieces) -> Result<Option<Index>, ReadError> {
        self.index_as(threads, pieces, None)
    }

    /// As [`Reader::index_in`]; where samples carry counts that are not those of windows, visitors can make
    /// samples of them by [`SampledCounts`], see [`Visitor::resume`].
    ///
    /// # Errors
    /// If the operating system fails to read.
    pub fn index_with_counts(
        &mut self,
        threads: usize,
        pieces: Pieces,
    ) -> Result<Option<Index>, ReadError> {
        let counts = SampledCounts::new(self.events());
        let follows = counts.reads_any() && !self.has_windows();
        self.index_as(threads, pieces, follows.then_some(&counts))
    }

    fn index_as(
        &mut self,
        threads: usize,
        pieces: Pieces,
        counts: Option<&SampledCounts>,
    ) -> Result<Option<Index>, ReadError> {
        let is_fit = self.endian == NATIVE && !self.all && !self.about.rewriting.needs_order();
        let Some(source) = self.seekable.take().filter(|_| is_fit) else {
            return Ok(None);
        };
        let path = self.path.clone();
        let error = |source| ReadError::Io { path, what: "read", source };
        let layouts: Vec<SampleLayout> =
            self.about.events.list.iter().map(|event| SampleLayout::new(&event.attr)).collect();
        let first = FirstPass {
            source: &source,
            events: &self.about.events,
            layouts: &layouts,
            pieces,
            counts,
            progress: &self.progress,
        };
        let found = match first.run(threads, Packing::Frames) {
            Ok(FirstPassEnd::Dependent) => first.run(1, Packing::Stream),
            other => other,
        };
        let size = source.end - source.start;
        let whole = match found.map_err(error)? {
            FirstPassEnd::Whole(whole) if whole.untimed == 0 => Some(whole),
            _ => None,
        };
        let Some(mut whole) = whole else {
            self.progress.begin(Stage::Records, size);
            return Ok(None);
        };
        let ids = self.about.events.ids();
        self.adopt(&whole);
        // Descriptors that were opened late are told of in the stream, where only this pass comes by.
        if whole.tally.samples_of_no_event > 0 && self.about.events.ids() > ids {
            let again = FirstPass {
                source: &source,
                events: &self.about.events,
                layouts: &layouts,
                pieces,
                counts,
                progress: &self.progress,
            };
            let path = self.path.clone();
            let found = again.run(threads, whole.packing);
            if let FirstPassEnd::Whole(better) =
                found.map_err(|source| ReadError::Io { path, what: "read", source })?
            {
                whole = better;
            }
        }
        self.tally.add(std::mem::take(&mut whole.tally));
        let Whole { packing, chunks, counts, sideband, bytes, samples, times, .. } = *whole;
        let events = self.about.events.clone();
        let path = self.path.clone();
        Ok(Some(Index {
            path,
            source,
            events,
            layouts,
            packing,
            chunks,
            counts: counts.before,
            sideband,
            bytes,
            samples,
            times,
            progress: self.progress(),
            rewriting: self.about.rewriting.clone(),
        }))
    }

    /// Takes over what a walk found besides samples and sideband.
    fn adopt(&mut self, whole: &Whole) {
        for tool in &whole.tools {
            let record = ToolRecord::read(&tool.raw(&whole.bytes), self.endian, self.is_stream);
            if !self.about.take(record, self.endian) {
                self.tally.unknown(tool.raw(&whole.bytes).kind);
            }
        }
        self.done = true;
    }

    /// Passes on the sideband records of `index` in order, and drops them.
    ///
    /// # Errors
    /// None in practice: nothing is read any more.
    pub fn replay(
        &mut self,
        index: &mut Index,
        mut take: impl FnMut(RecordOrder, &Entry<'_>),
    ) -> Result<(), ReadError> {
        let bytes = std::mem::take(&mut index.bytes);
        for placed in std::mem::take(&mut index.sideband) {
            if let Some(entry) = self.alone(&placed.raw(&bytes))? {
                take(placed.moment, &entry);
            }
        }
        Ok(())
    }
}

impl Placed {
    fn raw<'a>(&self, bytes: &'a [Vec<u8>]) -> RawRecord<'a> {
        let record = &bytes[self.part as usize][self.at as usize..];
        let (kind, misc, size) = header(record);
        // Where it stood was of use to the first pass only.
        let place = RecordOrigin { offset: 0, packed: false, payload: 0 };
        let body = &record[HEADER_SIZE..usize::from(size)];
        RawRecord { kind, misc, body, attached: &[], place }
    }
}

impl Index {
    /// Pieces that threads can take: more threads have nothing to do.
    #[must_use]
    pub fn chunks(&self) -> usize {
        match self.packing {
            Packing::Frames => self.chunks.len(),
            Packing::Stream => usize::MAX,
        }
    }

    /// Samples of each event.
    #[must_use]
    pub fn samples(&self) -> &[u64] {
        &self.samples
    }

    /// Time stamps of the first and the last sample, nanoseconds; `None` if there is no sample.
    #[must_use]
    pub fn times(&self) -> Option<(u64, u64)> {
        self.times
    }
}

/// How the first pass went.
enum FirstPassEnd {
    Whole(Box<Whole>),
    /// The compressed records make one stream.
    Dependent,
    /// Only the reader can read this.
    Unfit,
}

/// All parts put together.
struct Whole {
    packing: Packing,
    chunks: Vec<Chunk>,
    counts: JoinedCounts,
    sideband: Vec<Placed>,
    tools: Vec<Placed>,
    bytes: Vec<Vec<u8>>,
    samples: Vec<u64>,
    untimed: u64,
    times: Option<(u64, u64)>,
    tally: Tally,
}

struct FirstPass<'a> {
    source: &'a Seekable,
    events: &'a Events,
    layouts: &'a [SampleLayout],
    pieces: Pieces,
    /// Where counts in samples are to be followed.
    counts: Option<&'a SampledCounts>,
    progress: &'a Progress,
}

impl FirstPass<'_> {
    fn run(&self, threads: usize, packing: Packing) -> io::Result<FirstPassEnd> {
        if packing == Packing::Stream && self.counts.is_some() {
            // Where threads begin in a stream is not known before it is unpacked.
            return Ok(FirstPassEnd::Unfit);
        }
        let (start, end) = (self.source.start, self.source.end);
        self.progress.begin(Stage::Headers, end - start);
        let room = AtomicUsize::new(limit::sideband_limit());
        let indexing = Indexing {
            events: self.events,
            layouts: self.layouts,
            endian: NATIVE,
            pieces: self.pieces,
            room: &room,
            counts: self.counts,
        };
        let size = match (packing, threads) {
            (Packing::Stream, _) | (_, ..=1) => end - start,
            _ => {
                ((end - start) / (4 * threads as u64)).clamp(1, LARGEST_PART).max(self.pieces.part)
            }
        };
        let limits: Vec<u64> = (1..)
            .map(|part| start.saturating_add(size.saturating_mul(part)).min(end))
            .scan(false, |done, limit| (!std::mem::replace(done, limit >= end)).then_some(limit))
            .collect();
        let guesses = self.guessed_parts(&indexing, packing, &limits, threads)?;
        let mut walker = Walker::new(&self.source.file, end, NATIVE, packing, self.pieces.chunk);
        let mut joined = Joined::new(packing, self.layouts.len());
        let mut at = start;
        for (&limit, guess) in limits.iter().zip(guesses) {
            if at >= limit && limit < end {
                continue; // what follows a record reaches beyond this part
            }
            let part = match guess {
                Some(part) if part.start == at => part,
                _ => indexing.part(&mut walker, packing, at, limit)?,
            };
            let ended = part.ended.clone();
            joined.add(part);
            match ended {
                WalkEnd::At(next) => at = next,
                WalkEnd::Stopped(stopped) => {
                    joined.whole.tally.stopped = Some(stopped);
                    at = end;
                    break;
                }
                WalkEnd::Dependent => return Ok(FirstPassEnd::Dependent),
                WalkEnd::Foreign => return Ok(FirstPassEnd::Unfit),
            }
        }
        if room.load(Ordering::Relaxed) == 0 || joined.whole.counts.went_back {
            return Ok(FirstPassEnd::Unfit);
        }
        Ok(FirstPassEnd::Whole(Box::new(joined.finish(at))))
    }

    /// Walks all parts at once, from where they seem to start.
    fn guessed_parts(
        &self,
        indexing: &Indexing<'_>,
        packing: Packing,
        limits: &[u64],
        threads: usize,
    ) -> io::Result<Vec<Option<IndexedPart>>> {
        if limits.len() < 2 {
            return Ok(limits.iter().map(|_| None).collect());
        }
        let next = AtomicUsize::new(0);
        let parts: Mutex<Vec<Option<IndexedPart>>> =
            Mutex::new(limits.iter().map(|_| None).collect());
        let work = || -> io::Result<()> {
            let mut walker =
                Walker::new(&self.source.file, self.source.end, NATIVE, packing, self.pieces.chunk);
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(&limit) = limits.get(number) else { return Ok(()) };
                let start = match number.checked_sub(1) {
                    None => Some(self.source.start),
                    Some(before) => {
                        sync::likely_record(&self.source.file, limits[before], self.source.end)
                    }
                };
                let Some(start) = start else { continue };
                let part = indexing.part(&mut walker, packing, start, limit)?;
                self.progress.add(limit.saturating_sub(start));
                // A thread that panics ends the program; nothing is left locked by it.
                let mut parts = parts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                parts[number] = Some(part);
            }
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut result = work();
            for other in others {
                result = result.and(visit::joined(other));
            }
            result
        })?;
        Ok(parts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Parts, one after another.
struct Joined {
    rounds: Rounds,
    whole: Whole,
}

impl Joined {
    fn new(packing: Packing, events: usize) -> Self {
        let whole = Whole {
            packing,
            chunks: Vec::new(),
            counts: JoinedCounts::default(),
            sideband: Vec::new(),
            tools: Vec::new(),
            bytes: Vec::new(),
            samples: vec![0; events],
            untimed: 0,
            times: None,
            tally: Tally::default(),
        };
        Self { rounds: Rounds::default(), whole }
    }

    fn add(&mut self, part: IndexedPart) {
        let Self { rounds, whole } = self;
        let (number, before) = (whole.bytes.len() as u32, whole.tally.records);
        let placed = |kept: &index::Kept| {
            let record = before + kept.number;
            let moment = match &kept.stamp {
                &Stamp::Time(time) => RecordOrder { time, untimed: false, record },
                Stamp::Untimed(since) => {
                    RecordOrder { time: since.after(*rounds).released, untimed: true, record }
                }
            };
            Placed { moment, part: number, at: kept.at }
        };
        whole.sideband.extend(part.sideband.iter().map(placed));
        whole.tools.extend(part.tools.iter().map(placed));
        whole.chunks.extend(part.chunks.iter().map(|&(start, record)| Chunk {
            start,
            end: start,
            first_record: before + record,
        }));
        part.counts.iter().for_each(|chunk| whole.counts.add(chunk));
        whole.bytes.push(part.bytes);
        *rounds = part.rounds.after(*rounds);
        for (sum, samples) in whole.samples.iter_mut().zip(part.samples) {
            *sum += samples;
        }
        whole.untimed += part.untimed;
        whole.times = match (whole.times, part.times) {
            (Some((first, last)), Some((start, end))) => Some((first.min(start), last.max(end))),
            (one, other) => one.or(other),
        };
        whole.tally.add(part.tally);
    }

    fn finish(mut self, end: u64) -> Whole {
        let chunks = &mut self.whole.chunks;
        for at in 0..chunks.len() {
            chunks[at].end = chunks.get(at + 1).map_or(end, |next| next.start);
        }
        self.whole.sideband.sort_unstable_by_key(|placed| placed.moment);
        self.whole
    }
}
