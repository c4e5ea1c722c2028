//! Where a reader's bytes go: straight into the file, through zstd, through asynchronous writes, or
//! through both.

use std::collections::HashMap;
use std::sync::Arc;

use pmuscope_counters::Pending;

use crate::buffer::Buffer;
use crate::clock::monotonic_ns;
use crate::compress::{Compressor, LARGEST_PIECE};
use crate::control::ControlState;
use crate::error::RecorderError;
use crate::output::Output;
use crate::tally::RecordTally;
use crate::write::{self, AsyncWrites, Job};

/// Records wait for compression until there are this many bytes of them …
const ENOUGH_TO_COMPRESS: usize = LARGEST_PIECE / 2;
/// … or for so long (nanoseconds): a recording that is killed loses no more than a second.
const LONGEST_WAIT_NS: u64 = 600_000_000;

/// How a reader writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SinkOptions {
    /// Level of zstd.
    pub(crate) compression: Option<i32>,
    /// Writes in flight per node.
    pub(crate) aio: Option<u32>,
    /// Bind buffers to the node of the ring.
    pub(crate) bind: bool,
    /// Bytes of a ring's data area.
    pub(crate) ring_size: usize,
}

/// One reader's way to the file.
pub(crate) struct Sink<'a> {
    shared: &'a ControlState<'a>,
    compression: Option<Compression>,
    asynchronous: Option<Asynchronous>,
}

/// Records that wait to be compressed, and the readings of rings that count once they are written.
struct Compression {
    compressor: Compressor,
    waiting: Vec<u8>,
    since: u64,
    readings: Vec<(usize, u64)>,
    tally: RecordTally,
    out: Vec<u8>,
}

/// Buffers and what writes them.
struct Asynchronous {
    writes: Box<dyn AsyncWrites>,
    free: Vec<Buffer>,
    made: HashMap<Option<u32>, u32>,
    limit: u32,
    bytes: usize,
    bind: bool,
}

impl<'a> Sink<'a> {
    /// A sink and the name of its way of writing asynchronously, if it has one.
    ///
    /// # Errors
    /// zstd refuses the level, or nothing can write asynchronously.
    pub(crate) fn new(
        shared: &'a ControlState<'a>,
        options: SinkOptions,
    ) -> Result<(Self, Option<&'static str>), RecorderError> {
        let compression = options
            .compression
            .map(Compression::new)
            .transpose()
            .map_err(RecorderError::system("zstd"))?;
        let mut name = None;
        let asynchronous = match options.aio {
            None => None,
            Some(limit) => {
                let (writes, how) =
                    write::best(limit).map_err(RecorderError::system("a writer thread"))?;
                name = Some(how);
                Some(Asynchronous::new(writes, limit, options))
            }
        };
        Ok((Self { shared, compression, asynchronous }, name))
    }

    /// Takes runs of what was pending in ring number `ring` when it was looked at `looked` (nanoseconds),
    /// and what was counted in them. When this returns, the bytes of the ring are no longer needed.
    ///
    /// # Errors
    /// A buffer could not be bound to `node`.
    pub(crate) fn take(
        &mut self,
        ring: usize,
        node: Option<u32>,
        runs: &[Pending<'_>],
        looked: u64,
        tally: RecordTally,
    ) -> Result<(), RecorderError> {
        let pieces: Vec<&[u8]> = runs.iter().flat_map(|run| [run.first, run.second]).collect();
        if let Some(compression) = &mut self.compression {
            compression.add(ring, &pieces, looked, tally);
            return if compression.is_due() { self.flush(node) } else { Ok(()) };
        }
        let output = self.shared.output();
        put(&output, self.asynchronous.as_mut(), node, &pieces, tally)?;
        output.looked_at(ring, looked);
        Ok(())
    }

    /// Does what is due by time: writes what has waited long enough, sees writes that have ended.
    ///
    /// # Errors
    /// As [`Sink::take`].
    pub(crate) fn tend(&mut self, node: Option<u32>) -> Result<(), RecorderError> {
        if let Some(asynchronous) = &mut self.asynchronous {
            asynchronous.collect();
        }
        match &self.compression {
            Some(compression) if compression.is_due() => self.flush(node),
            _ => Ok(()),
        }
    }

    /// Writes everything and waits until it is written.
    ///
    /// # Errors
    /// As [`Sink::take`].
    pub(crate) fn finish(&mut self, node: Option<u32>) -> Result<(), RecorderError> {
        self.flush(node)?;
        if let Some(asynchronous) = &mut self.asynchronous {
            while asynchronous.writes.reap(true).is_some() {}
        }
        Ok(())
    }

    fn flush(&mut self, node: Option<u32>) -> Result<(), RecorderError> {
        let Some(compression) = &mut self.compression else { return Ok(()) };
        let output = self.shared.output();
        compression.compress();
        let tally = std::mem::take(&mut compression.tally);
        put(&output, self.asynchronous.as_mut(), node, &[&compression.out], tally)?;
        for (ring, looked) in compression.readings.drain(..) {
            output.looked_at(ring, looked);
        }
        Ok(())
    }
}

/// Writes `pieces`, in which `tally` is, as one append, unless writing has stopped.
fn put(
    output: &Arc<Output>,
    asynchronous: Option<&mut Asynchronous>,
    node: Option<u32>,
    pieces: &[&[u8]],
    tally: RecordTally,
) -> Result<(), RecorderError> {
    let bytes = pieces.iter().map(|piece| piece.len()).sum();
    if bytes == 0 {
        return Ok(());
    }
    let Some(extent) = output.reserve(bytes, tally) else { return Ok(()) };
    match asynchronous {
        Some(asynchronous) if bytes <= asynchronous.bytes => {
            let Some(mut buffer) = asynchronous.buffer(node)? else {
                output.write(extent, pieces);
                return Ok(());
            };
            buffer.fill(pieces);
            asynchronous.writes.submit(Job { output: output.clone(), extent, buffer });
        }
        _ => output.write(extent, pieces),
    }
    Ok(())
}

impl Compression {
    fn new(level: i32) -> std::io::Result<Self> {
        Ok(Self {
            compressor: Compressor::new(level)?,
            waiting: Vec::new(),
            since: 0,
            readings: Vec::new(),
            tally: RecordTally::default(),
            out: Vec::new(),
        })
    }

    fn add(&mut self, ring: usize, pieces: &[&[u8]], looked: u64, tally: RecordTally) {
        if self.waiting.is_empty() && self.readings.is_empty() {
            self.since = looked;
        }
        pieces.iter().for_each(|piece| self.waiting.extend_from_slice(piece));
        self.readings.push((ring, looked));
        self.tally.add(tally);
    }

    fn is_due(&self) -> bool {
        self.waiting.len() >= ENOUGH_TO_COMPRESS
            || !self.readings.is_empty()
                && monotonic_ns().saturating_sub(self.since) > LONGEST_WAIT_NS
    }

    /// Moves what waits to `out`.
    fn compress(&mut self) {
        self.out.clear();
        self.compressor.compress(&self.waiting, &mut self.out);
        self.waiting.clear();
    }
}

impl Asynchronous {
    fn new(writes: Box<dyn AsyncWrites>, limit: u32, options: SinkOptions) -> Self {
        // A whole ring, so that a reader that comes late takes everything in one go.
        let bytes = options.ring_size;
        let (limit, bind) = (limit.max(1), options.bind);
        Self { writes, free: Vec::new(), made: HashMap::new(), limit, bytes, bind }
    }

    /// Takes back buffers whose writes have ended.
    fn collect(&mut self) {
        while let Some(buffer) = self.writes.reap(false) {
            self.free.push(buffer);
        }
    }

    /// A buffer on the node: a free one, a new one within the limit, or the next that comes back.
    fn buffer(&mut self, node: Option<u32>) -> Result<Option<Buffer>, RecorderError> {
        let node = node.filter(|_| self.bind);
        self.collect();
        loop {
            if let Some(at) = self.free.iter().position(|buffer| buffer.node() == node) {
                return Ok(Some(self.free.swap_remove(at)));
            }
            let made = self.made.entry(node).or_default();
            if *made < self.limit {
                *made += 1;
                return Buffer::on_node(self.bytes, node).map(Some);
            }
            match self.writes.reap(true) {
                Some(buffer) => self.free.push(buffer),
                None => return Ok(None),
            }
        }
    }
}
