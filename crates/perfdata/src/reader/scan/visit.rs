//! The second pass: samples to visitors.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::ScopedJoinHandle;

use pmuscope_abi::record::{HEADER_SIZE, kind};

use super::super::CountKey;
use super::super::error::ReadError;
use super::super::event::Events;
use super::super::progress::Stage;
use super::super::rewrite::Rewriting;
use super::layout::{SampleFields, SampleLayout};
use super::walk::{Packing, Sink, Walker, header, put_header};
use super::{Index, NATIVE, Pieces, RecordOrder};

/// Bytes of unpacked records that go from one thread to another at once.
const PIECE: usize = 1 << 20;
/// Such pieces under way per thread.
const PIECES: usize = 2;

/// Takes samples, in no order that means anything.
pub trait Visitor: Send {
    /// A stretch of the file begins, whose first record has this number: until the next one samples
    /// come as they stand there, those of one ring in the order of time. Stretches follow one another
    /// by these numbers, but may go to any visitor.
    fn begin(&mut self, _first_record: u64) {}

    /// Comes after [`Visitor::begin`] where the index was made [with counts](super::super::Reader::index_with_counts):
    /// what those that samples of this stretch carry were before it, for
    /// [`SampledCounts::resume`](super::super::SampledCounts::resume).
    fn resume(&mut self, _counts: &[(CountKey, u64)]) {}

    /// A sample, and where it stands among the records of the sideband.
    fn sample(&mut self, moment: RecordOrder, hit: &SampleFields<'_>);
}

impl Index {
    /// Hands every sample to one of the visitors, each of which gets a thread.
    ///
    /// # Errors
    /// If the operating system fails to read.
    pub fn visit<V: Visitor>(&self, visitors: Vec<V>) -> Result<Vec<V>, ReadError> {
        let all = match self.packing {
            Packing::Frames => self.source.end - self.source.start,
            // One thread unpacks: how far the others are is not known.
            Packing::Stream => 0,
        };
        self.progress.begin(Stage::Samples, all);
        let visited = match self.packing {
            Packing::Frames => self.visit_chunks(visitors),
            Packing::Stream => self.visit_stream(visitors),
        };
        let path = || self.path.clone();
        visited.map_err(|source| ReadError::Io { path: path(), what: "read", source })
    }

    fn sampler<'a, V: Visitor>(&'a self, visitor: &'a mut V) -> Sampler<'a, V> {
        let (events, rewriting) = (self.events.clone(), &self.rewriting);
        let rewritten = Vec::new();
        Sampler { events, layouts: &self.layouts, rewriting, rewritten, visitor, record: 0 }
    }

    fn walker(&self) -> Walker<'_> {
        let source = &self.source;
        Walker::new(&source.file, source.end, NATIVE, self.packing, Pieces::default().chunk)
    }

    fn visit_chunks<V: Visitor>(&self, mut visitors: Vec<V>) -> io::Result<Vec<V>> {
        let next = AtomicUsize::new(0);
        let work = |visitor: &mut V| -> io::Result<()> {
            let mut walker = self.walker();
            let mut sampler = self.sampler(visitor);
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(chunk) = self.chunks.get(number) else { break };
                sampler.begin(chunk.first_record);
                if let Some(counts) = self.counts.get(number) {
                    sampler.visitor.resume(counts);
                }
                // How the data end was told by the first pass.
                walker.walk(chunk.start, chunk.end, &mut sampler)?;
                self.progress.add(chunk.end - chunk.start);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let Some((own, others)) = visitors.split_first_mut() else { return Ok(()) };
            let others: Vec<_> =
                others.iter_mut().map(|visitor| scope.spawn(|| work(visitor))).collect();
            others.into_iter().fold(work(own), |result, other| result.and(joined(other)))
        })?;
        Ok(visitors)
    }

    fn visit_stream<V: Visitor>(&self, mut visitors: Vec<V>) -> io::Result<Vec<V>> {
        let (full, pieces) = sync_channel(PIECES * visitors.len());
        // Only the workers hold it: should all of them panic, nobody waits for them.
        let pieces = Arc::new(Mutex::new(pieces));
        let (used, free) = std::sync::mpsc::channel();
        let work =
            |visitor: &mut V, pieces: &Mutex<Receiver<WholeRecords>>, used: Sender<Vec<u8>>| {
                let mut sampler = self.sampler(visitor);
                while let Some(piece) = next_piece(pieces) {
                    sampler.begin(piece.first_record);
                    let mut at = 0;
                    while at + HEADER_SIZE <= piece.bytes.len() {
                        let (kind, misc, size) = header(&piece.bytes[at..]);
                        let end = at + usize::from(size);
                        sampler.record(kind, misc, &piece.bytes[at + HEADER_SIZE..end]);
                        at = end;
                    }
                    // Nobody takes them back any more once all is unpacked.
                    let _ = used.send(piece.bytes);
                }
            };
        std::thread::scope(|scope| {
            let workers: Vec<_> = visitors
                .iter_mut()
                .map(|visitor| {
                    let (work, pieces, used) = (&work, Arc::clone(&pieces), used.clone());
                    scope.spawn(move || work(visitor, &pieces, used))
                })
                .collect();
            drop(pieces);
            let source = &self.source;
            let mut walker = self.walker();
            let mut batcher = Batcher { full, free, piece: WholeRecords::default(), record: 0 };
            let result = walker.walk(source.start, source.end, &mut batcher).map(|_| ());
            batcher.hand_on();
            drop(batcher);
            workers.into_iter().for_each(joined);
            result
        })?;
        Ok(visitors)
    }
}

/// What a thread came to; its panic goes on in this one.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Picks the samples out of records.
struct Sampler<'a, V> {
    events: Events,
    layouts: &'a [SampleLayout],
    rewriting: &'a Rewriting,
    /// The last sample, where it was rewritten.
    rewritten: Vec<u8>,
    visitor: &'a mut V,
    /// Number of the next record.
    record: u64,
}

impl<V: Visitor> Sampler<'_, V> {
    fn begin(&mut self, first_record: u64) {
        self.record = first_record;
        self.visitor.begin(first_record);
    }
}

impl<V: Visitor> Sink for Sampler<'_, V> {
    #[inline]
    fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        let record = self.record;
        self.record += 1;
        if kind != kind::SAMPLE {
            return;
        }
        let Some(event) = self.events.of_sample(body, NATIVE) else { return };
        let Some(layout) = self.layouts.get(event) else { return };
        let Self { events, rewriting, rewritten, visitor, .. } = self;
        let mut body = body;
        if rewriting.is_needed() {
            let attr = &events.list[event].attr;
            let found = rewriting.sample((event, attr), (misc, None), body, NATIVE, rewritten);
            body = found.map_or(body, |found| found.body);
        }
        layout.hand_on(event, misc, body, |hit| {
            visitor.sample(RecordOrder { time: hit.time, untimed: false, record }, hit);
        });
    }
}

/// Whole records, one after another.
#[derive(Debug, Default)]
struct WholeRecords {
    bytes: Vec<u8>,
    first_record: u64,
}

fn next_piece(pieces: &Mutex<Receiver<WholeRecords>>) -> Option<WholeRecords> {
    pieces.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv().ok()
}

/// Gathers records to pieces.
struct Batcher {
    full: SyncSender<WholeRecords>,
    free: Receiver<Vec<u8>>,
    piece: WholeRecords,
    record: u64,
}

impl Batcher {
    fn hand_on(&mut self) {
        let mut bytes = self.free.try_recv().unwrap_or_default();
        bytes.clear();
        let next = WholeRecords { bytes, first_record: self.record };
        // Fails only if all other threads panicked, which their end tells.
        let _ = self.full.send(std::mem::replace(&mut self.piece, next));
    }
}

impl Sink for Batcher {
    fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        let size = (HEADER_SIZE + body.len()) as u16;
        let bytes = &mut self.piece.bytes;
        put_header(bytes, kind, misc, size);
        bytes.extend_from_slice(body);
        self.record += 1;
        if self.piece.bytes.len() >= PIECE {
            self.hand_on();
        }
    }
}
