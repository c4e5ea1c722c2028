//! Iterates over the records of a part of a file, compressed or not, and passes each to a [`Sink`].
//!
//! As the reader's own stream does, but from any record on and without copying what it passes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use pmuscope_abi::record::{HEADER_SIZE, kind};

use super::super::bytes::{Endian, Fields};
use super::super::stream::{COMPRESSED2, StopReason, Stopped, Unpacked, Unpacker, following};

/// Bytes read at once: more than the largest record, less than what a core's cache holds.
const BUFFER: std::ops::RangeInclusive<u64> = 66 << 10..=256 << 10;
/// Beyond, simpleperf has records of its own.
const LAST_KIND: u32 = 32768;

/// Takes records as they come.
pub(super) trait Sink {
    /// A record: its kind, its `misc` bits, what is behind its header.
    fn record(&mut self, kind: u32, misc: u16, body: &[u8]);

    /// The next record starts at this offset of the file. Called now and then.
    fn boundary(&mut self, _offset: u64) {}

    /// A compressed record of this kind comes; then what is in it.
    fn packed(&mut self, _kind: u32) {}

    /// So many bytes belong to the last record and are stepped over.
    fn skipped(&mut self, _bytes: u64) {}
}

/// Why a walk ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WalkEnd {
    /// The next record would start here, at or after the limit.
    At(u64),
    /// The data are damaged.
    Stopped(Stopped),
    /// Compressed data that cannot be unpacked without those before them.
    Dependent,
    /// A record of a form that only the reader knows.
    Foreign,
}

/// How compressed records hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// Each holds whole records in one frame of zstd: any can be unpacked first.
    Frames,
    /// One stream spans all of them.
    Stream,
}

/// Walks parts of one file.
pub(super) struct Walker<'a> {
    file: &'a File,
    /// End of the data.
    end: u64,
    endian: Endian,
    packing: Packing,
    buffer: Vec<u8>,
    unpacker: Option<Unpacker>,
}

impl<'a> Walker<'a> {
    /// `piece`: bytes that make a piece of work.
    pub(super) fn new(
        file: &'a File,
        end: u64,
        endian: Endian,
        packing: Packing,
        piece: u64,
    ) -> Self {
        let buffer = vec![0; piece.clamp(*BUFFER.start(), *BUFFER.end()) as usize];
        Self { file, end, endian, packing, buffer, unpacker: None }
    }

    /// Hands on all records that start at or behind `start`, which must be the start of one, and
    /// before `limit`.
    pub(super) fn walk(
        &mut self,
        start: u64,
        limit: u64,
        sink: &mut impl Sink,
    ) -> io::Result<WalkEnd> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let ended = self.walk_with(&mut buffer, start, limit.min(self.end), sink);
        self.buffer = buffer;
        ended
    }

    fn walk_with(
        &mut self,
        buffer: &mut [u8],
        start: u64,
        limit: u64,
        sink: &mut impl Sink,
    ) -> io::Result<WalkEnd> {
        let stop = |offset, reason| Ok(WalkEnd::Stopped(stopped(offset, reason)));
        // `buffer[at..filled]` is what the file has from `offset` on.
        let (mut offset, mut at, mut filled) = (start, 0, 0);
        while offset < limit {
            let mut wanted = HEADER_SIZE;
            if filled - at >= HEADER_SIZE {
                let (kind, misc, size) = header(&buffer[at..filled]);
                let length = usize::from(size);
                if kind > LAST_KIND {
                    return Ok(WalkEnd::Foreign);
                }
                if length < HEADER_SIZE {
                    return stop(offset, StopReason::RecordSize(size));
                }
                if let Some(body) = buffer[..filled].get(at + HEADER_SIZE..at + length) {
                    let mut next = offset + u64::from(size);
                    let payload = match kind {
                        0..64 => 0,
                        kind::COMPRESSED | COMPRESSED2 => {
                            if let Some(ended) = self.unpack(kind, body, offset, sink) {
                                return Ok(ended);
                            }
                            at += length;
                            offset = next;
                            continue;
                        }
                        _ => following(kind, body, self.endian),
                    };
                    sink.record(kind, misc, body);
                    if payload == 0 {
                        at += length;
                        offset = next;
                        continue;
                    }
                    // Traces; nobody here wants them.
                    next = next.saturating_add(payload);
                    if next > self.end {
                        return stop(offset, StopReason::DataBeyondEnd(payload));
                    }
                    sink.skipped(payload);
                    (offset, at, filled) = (next, 0, 0);
                    continue;
                }
                wanted = length;
            }
            sink.boundary(offset);
            buffer.copy_within(at..filled, 0);
            filled -= at;
            at = 0;
            // The last record may end behind the limit; nothing else there is wanted.
            let readable = limit.max(offset + wanted as u64).min(self.end);
            filled += self.fill(
                &mut buffer[filled..],
                offset + filled as u64,
                readable,
                wanted - filled,
            )?;
            if filled < wanted {
                return stop(offset, StopReason::CutOff);
            }
        }
        Ok(WalkEnd::At(offset))
    }

    /// Reads from `offset` up to `readable`, at least `wanted` bytes if they are there.
    fn fill(&self, to: &mut [u8], offset: u64, readable: u64, wanted: usize) -> io::Result<usize> {
        let most = usize::try_from(readable.saturating_sub(offset)).unwrap_or(usize::MAX);
        let most = most.min(to.len());
        let mut filled = 0;
        while filled < wanted && filled < most {
            match self.file.read_at(&mut to[filled..most], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn unpack(
        &mut self,
        record_kind: u32,
        body: &[u8],
        offset: u64,
        sink: &mut impl Sink,
    ) -> Option<WalkEnd> {
        let packed = packed(record_kind, body, self.endian);
        let by_frames = self.packing == Packing::Frames;
        if by_frames && !is_one_frame(packed) {
            return Some(WalkEnd::Dependent);
        }
        sink.packed(record_kind);
        let unpacker = self.unpacker.get_or_insert_with(Unpacker::new);
        unpacker.feed(packed);
        loop {
            match unpacker.next(self.endian) {
                Ok(Some(Unpacked { kind, misc, at, size })) => {
                    sink.record(kind, misc, &unpacker.plain()[at + HEADER_SIZE..at + size]);
                }
                Ok(None) => break,
                Err(reason) => return Some(WalkEnd::Stopped(stopped(offset, reason))),
            }
        }
        (by_frames && !unpacker.is_empty()).then_some(WalkEnd::Dependent)
    }
}

fn stopped(offset: u64, reason: StopReason) -> Stopped {
    Stopped { file: None, offset, reason }
}

/// Kind, misc and size of the record at the start of `bytes`, in the byte order of this machine.
#[inline]
pub(super) fn header(bytes: &[u8]) -> (u32, u16, u16) {
    match bytes.first_chunk::<HEADER_SIZE>() {
        Some(&[a, b, c, d, e, f, g, h]) => (
            u32::from_ne_bytes([a, b, c, d]),
            u16::from_ne_bytes([e, f]),
            u16::from_ne_bytes([g, h]),
        ),
        None => (0, 0, 0),
    }
}

/// What [`header`] reads.
pub(super) fn put_header(bytes: &mut Vec<u8>, kind: u32, misc: u16, size: u16) {
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&misc.to_ne_bytes());
    bytes.extend_from_slice(&size.to_ne_bytes());
}

fn packed(record_kind: u32, body: &[u8], endian: Endian) -> &[u8] {
    if record_kind != COMPRESSED2 {
        return body;
    }
    // u64 bytes of data, data, padding
    let mut fields = Fields::new(body, endian);
    let size = fields.u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    fields.take(size).unwrap_or(fields.rest())
}

fn is_one_frame(packed: &[u8]) -> bool {
    packed.is_empty()
        || zstd::zstd_safe::find_frame_compressed_size(packed)
            .is_ok_and(|size| size == packed.len())
}
