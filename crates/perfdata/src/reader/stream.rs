//! Decodes bytes to records, in the order of the file: framing, payloads that follow a record,
//! decompression.
//!
//! A compressed record holds a piece of a zstd stream; records continue from one piece into the next.
//! It is unpacked in steps of a fixed size, so that a small record that unpacks to gigabytes costs
//! time but no memory.
//!
//! ```text
//!  file     │ rec │ rec │ COMPRESSED ───────┐│ COMPRESSED ──┐│ rec │
//!  packed                └─────────────────┘  └────────────┘
//!  plain                  │ rec │ rec │ re│c │ rec │
//! ```

use std::io::{self, Read};
use std::path::PathBuf;

use pmuscope_abi::record::{HEADER_SIZE, kind};
use zstd::stream::raw::{Decoder, InBuffer, Operation as _, OutBuffer};

use super::bytes::{Endian, Fields};

/// Bytes read from the file at once; more than the largest record.
const CHUNK: usize = 1 << 20;
/// The same where many files are read side by side.
const SMALL_CHUNK: usize = 128 << 10;
/// Bytes unpacked at once; more than the largest record.
const PLAIN: usize = 256 << 10;

/// A record as it stands in the file or in a compressed piece of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawRecord<'a> {
    pub(super) kind: u32,
    pub(super) misc: u16,
    pub(super) body: &'a [u8],
    /// Bytes after the record that belong to it, where they are read.
    pub(super) attached: &'a [u8],
    pub(super) place: RecordOrigin,
}

/// Where a record came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordOrigin {
    /// Byte offset in the file of the record, or of the compressed record that holds it.
    pub(super) offset: u64,
    /// It was compressed.
    pub(super) packed: bool,
    /// Bytes after the record that belong to it and are no records.
    pub(super) payload: u64,
}

/// Why reading ended before the end of the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The file, where a recording is a directory of several.
    pub file: Option<PathBuf>,
    /// Byte offset in the file.
    pub offset: u64,
    /// What was found there.
    pub reason: StopReason,
}

/// What ends the reading of records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The last record is not all there.
    CutOff,
    /// The data that belong to a record, of this many bytes, end after the file.
    DataBeyondEnd(u64),
    /// A record's size, in bytes, is smaller than its header.
    RecordSize(u16),
    /// Compressed data are damaged; the library's words.
    Compression(String),
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CutOff => f.write_str("the last record is cut off"),
            Self::DataBeyondEnd(size) => {
                write!(f, "corrupt or cut off: a record's {size} bytes of data end after the file")
            }
            Self::RecordSize(size) => {
                write!(f, "a record of {size} bytes, shorter than its header")
            }
            Self::Compression(why) => write!(f, "damaged compressed data ({why})"),
        }
    }
}

/// What [`Stream::next`] came to.
#[derive(Debug)]
pub(super) enum StreamStep<'a> {
    Record(RawRecord<'a>),
    End,
    Stopped(Stopped),
}

/// A record in one of the buffers.
#[derive(Debug, Clone, Copy)]
struct Last {
    kind: u32,
    misc: u16,
    at: usize,
    size: usize,
    place: RecordOrigin,
}

/// Where the next record is.
enum NextRecord {
    Record(Last),
    End,
    Stopped(Stopped),
}

/// Walks the records of a data section.
pub(super) struct Stream {
    input: Box<dyn Read + Send>,
    endian: Endian,
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    /// Offset in the file of `buffer[at]`.
    offset: u64,
    unpacker: Option<Unpacker>,
    plain_offset: u64,
    /// Bytes that follow the last record, and its offset.
    payload: (u64, u64),
    /// Bytes that follow the last record and were read.
    attached: Vec<u8>,
    last: Option<Last>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl Stream {
    /// Records from `input`, whose first byte is at `offset` of the file and which ends with the data.
    pub(super) fn new(input: Box<dyn Read + Send>, offset: u64, endian: Endian) -> Self {
        Self::with_chunk(input, offset, endian, CHUNK)
    }

    /// The same for one of many files, with less memory.
    pub(super) fn one_of_many(input: Box<dyn Read + Send>, endian: Endian) -> Self {
        Self::with_chunk(input, 0, endian, SMALL_CHUNK)
    }

    fn with_chunk(input: Box<dyn Read + Send>, offset: u64, endian: Endian, chunk: usize) -> Self {
        let (at, filled, plain_offset, payload) = (0, 0, offset, (0, 0));
        let (buffer, unpacker, last) = (vec![0; chunk], None, None);
        let attached = Vec::new();
        Self {
            input,
            endian,
            buffer,
            at,
            filled,
            offset,
            unpacker,
            plain_offset,
            payload,
            attached,
            last,
        }
    }

    /// The next record. A compressed one comes before what is in it.
    pub(super) fn next(&mut self) -> io::Result<StreamStep<'_>> {
        self.last = None;
        match self.find()? {
            NextRecord::Record(last) => self.last = Some(last),
            NextRecord::End => {}
            NextRecord::Stopped(stopped) => return Ok(StreamStep::Stopped(stopped)),
        }
        Ok(self.last().map_or(StreamStep::End, StreamStep::Record))
    }

    /// The record that [`Stream::next`] gave last.
    pub(super) fn last(&self) -> Option<RawRecord<'_>> {
        let Last { kind, misc, at, size, place } = self.last?;
        let buffer = if place.packed { &self.unpacker.as_ref()?.plain } else { &self.buffer };
        let body = &buffer[at + HEADER_SIZE..at + size];
        Some(RawRecord { kind, misc, body, attached: &self.attached, place })
    }

    /// Steps over records that are equal to the last one, which must be a mark without a body, as far as
    /// they are in memory; returns how many those are. A small compressed record unpacks to millions.
    pub(super) fn skip_repeated(&mut self) -> u64 {
        match self.last {
            Some(Last {
                at, size: HEADER_SIZE, place: RecordOrigin { packed: true, .. }, ..
            }) => self.unpacker.as_mut().map_or(0, |unpacker| unpacker.skip_repeated(at)),
            _ => 0,
        }
    }

    fn find(&mut self) -> io::Result<NextRecord> {
        self.attached.clear();
        if let Some(unpacker) = &mut self.unpacker {
            match unpacker.next(self.endian) {
                Ok(Some(Unpacked { kind, misc, at, size })) => {
                    let place =
                        RecordOrigin { offset: self.plain_offset, packed: true, payload: 0 };
                    return Ok(NextRecord::Record(Last { kind, misc, at, size, place }));
                }
                Ok(None) => {}
                Err(reason) => return Ok(stop(self.plain_offset, reason)),
            }
        }
        let (payload, of) = std::mem::take(&mut self.payload);
        if !self.skip(payload)? {
            return Ok(stop(of, StopReason::DataBeyondEnd(payload)));
        }
        let there = self.fill(HEADER_SIZE)?;
        if there == 0 {
            return Ok(NextRecord::End);
        }
        if there < HEADER_SIZE {
            return Ok(stop(self.offset, StopReason::CutOff));
        }
        let RecordFront { kind, misc, size } =
            RecordFront::read(&self.buffer[self.at..], self.endian);
        if size < HEADER_SIZE as u64 {
            return Ok(stop(self.offset, StopReason::RecordSize(size as u16)));
        }
        let (length, beyond) = match usize::try_from(size) {
            Ok(length) if length <= LARGEST_RECORD => (length, 0),
            _ => (HEADER_SIZE, size - HEADER_SIZE as u64),
        };
        if self.fill(length)? < length {
            return Ok(stop(self.offset, StopReason::CutOff));
        }
        let (at, offset) = (self.at, self.offset);
        self.advance(length);
        let body = at + HEADER_SIZE..at + length;
        let payload = match kind {
            kind::COMPRESSED | COMPRESSED2 => {
                self.unpack(kind, body, offset);
                0
            }
            AUXTRACE | TRACING_DATA => following(kind, &self.buffer[body], self.endian),
            _ => beyond,
        };
        let unread = match kind {
            TRACING_DATA | SIMPLEPERF_TRACING_DATA if payload <= LARGEST_TRACING_DATA => {
                self.attach(payload)?
            }
            _ => payload,
        };
        // What is cut off is found when the next record is looked for. Hardware traces are larger than
        // the buffer as a rule, and not wanted here.
        self.payload = (unread, offset);
        let place = RecordOrigin { offset, packed: false, payload };
        Ok(NextRecord::Record(Last { kind, misc, at, size: length, place }))
    }

    fn unpack(&mut self, kind: u32, body: std::ops::Range<usize>, offset: u64) {
        let body = &self.buffer[body];
        let packed = if kind == COMPRESSED2 {
            // u64 bytes of data, data, padding
            let mut fields = Fields::new(body, self.endian);
            let size = fields.u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
            fields.take(size).unwrap_or(fields.rest())
        } else {
            body
        };
        self.plain_offset = offset;
        self.unpacker.get_or_insert_with(Unpacker::new).feed(packed);
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        self.offset += bytes as u64;
    }

    /// Reads `bytes` that follow the record; returns how many of them are missing.
    fn attach(&mut self, bytes: u64) -> io::Result<u64> {
        let mut left = bytes;
        while left > 0 && self.fill(1)? > 0 {
            let step = left.min((self.filled - self.at) as u64);
            self.attached.extend_from_slice(&self.buffer[self.at..self.at + step as usize]);
            self.advance(step as usize);
            left -= step;
        }
        Ok(left)
    }

    /// Skips `bytes`; false if the data end before.
    fn skip(&mut self, bytes: u64) -> io::Result<bool> {
        let mut left = bytes;
        while left > 0 {
            if self.fill(1)? == 0 {
                return Ok(false);
            }
            let step = left.min((self.filled - self.at) as u64);
            self.advance(step as usize);
            left -= step;
        }
        Ok(true)
    }

    /// Makes `wanted` bytes available from `at`, moving it if need be; tells how many there are.
    fn fill(&mut self, wanted: usize) -> io::Result<usize> {
        if self.filled - self.at < wanted && self.at > 0 {
            self.buffer.copy_within(self.at..self.filled, 0);
            self.filled -= self.at;
            self.at = 0;
        }
        while self.filled - self.at < wanted {
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(0) => break,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.filled - self.at)
    }
}

/// Since perf 6.16: compressed data with their size, padded.
pub(super) const COMPRESSED2: u32 = 83;
/// Formats of tracepoints; they follow the record, or are inside it where it is large enough.
pub(super) const TRACING_DATA: u32 = 66;
/// simpleperf's record of the same, with a size of 32 bits.
pub(super) const SIMPLEPERF_TRACING_DATA: u32 = 32777;
/// Formats of tracepoints larger than this are stepped over, bytes.
const LARGEST_TRACING_DATA: u64 = 64 << 20;
/// Hardware trace; its data follow the record.
pub(super) const AUXTRACE: u32 = 71;
/// Counts of `perf stat record`.
pub(super) const STAT: u32 = 76;

/// Kinds of simpleperf's own records, whose sizes take the place of `misc` too.
const SIMPLEPERF: std::ops::RangeInclusive<u32> = 32769..=32800;
/// The largest record of perf's and the kernel's, bytes.
const LARGEST_RECORD: usize = u16::MAX as usize;

/// Bytes that follow a record of this kind and body without being a record.
pub(super) fn following(kind: u32, body: &[u8], endian: Endian) -> u64 {
    let mut fields = Fields::new(body, endian);
    match kind {
        TRACING_DATA => match fields.u32() {
            // simpleperf has the data inside the record, perf after it.
            Some(size) if fields.rest().len() < size as usize => {
                u64::from(size).next_multiple_of(8)
            }
            _ => 0,
        },
        AUXTRACE => fields.u64().unwrap_or(0),
        _ => 0,
    }
}

fn stop(offset: u64, reason: StopReason) -> NextRecord {
    NextRecord::Stopped(Stopped { file: None, offset, reason })
}

/// The front of a record.
#[derive(Debug, Clone, Copy)]
struct RecordFront {
    kind: u32,
    misc: u16,
    /// Bytes of the whole record.
    size: u64,
}

impl RecordFront {
    /// The header at the start of `bytes`, which has at least that.
    fn read(bytes: &[u8], endian: Endian) -> Self {
        let mut fields = Fields::new(bytes, endian);
        let kind = fields.u32().unwrap_or_default();
        let misc = fields.u16().unwrap_or_default();
        let size = u64::from(fields.u16().unwrap_or_default());
        if SIMPLEPERF.contains(&kind) {
            return Self { kind, misc: 0, size: u64::from(misc) << 16 | size };
        }
        Self { kind, misc, size }
    }
}

/// A record that was unpacked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unpacked {
    pub(super) kind: u32,
    pub(super) misc: u16,
    /// Where it starts in [`Unpacker::plain`], and how many bytes it has.
    pub(super) at: usize,
    pub(super) size: usize,
}

/// The zstd stream inside the records.
pub(super) struct Unpacker {
    decoder: Result<Decoder<'static>, String>,
    packed: Vec<u8>,
    packed_at: usize,
    plain: Vec<u8>,
    at: usize,
    filled: usize,
    /// The last step filled all of its space: more may come without further input.
    more: bool,
}

impl Unpacker {
    pub(super) fn new() -> Self {
        Self {
            decoder: Decoder::new().map_err(|error| error.to_string()),
            packed: Vec::new(),
            packed_at: 0,
            plain: vec![0; PLAIN],
            at: 0,
            filled: 0,
            more: false,
        }
    }

    pub(super) fn feed(&mut self, packed: &[u8]) {
        self.packed.clear();
        self.packed.extend_from_slice(packed);
        self.packed_at = 0;
    }

    /// The next whole record; `None` if that needs more input.
    pub(super) fn next(&mut self, endian: Endian) -> Result<Option<Unpacked>, StopReason> {
        loop {
            let there = self.filled - self.at;
            if there >= HEADER_SIZE {
                let header = RecordFront::read(&self.plain[self.at..self.filled], endian);
                // Compressed records are perf's, all of them with sizes that fit into a u16.
                let length = usize::try_from(header.size).unwrap_or(usize::MAX);
                if !(HEADER_SIZE..=LARGEST_RECORD).contains(&length) {
                    return Err(StopReason::RecordSize(header.size as u16));
                }
                if length <= there {
                    let RecordFront { kind, misc, .. } = header;
                    let at = self.at;
                    self.at += length;
                    return Ok(Some(Unpacked { kind, misc, at, size: length }));
                }
            }
            if self.packed_at == self.packed.len() && !self.more {
                return Ok(None);
            }
            self.step()?;
        }
    }

    /// Steps over copies of the header at `mark`, as far as they are unpacked; returns their number.
    fn skip_repeated(&mut self, mark: usize) -> u64 {
        let mark = &self.plain[mark..mark + HEADER_SIZE];
        let headers = self.plain[self.at..self.filled].chunks_exact(HEADER_SIZE);
        let same = headers.take_while(|header| *header == mark).count();
        self.at += same * HEADER_SIZE;
        same as u64
    }

    /// What is unpacked; [`Unpacker::next`] tells where in it.
    pub(super) fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// Whether nothing is left of what was unpacked.
    pub(super) fn is_empty(&self) -> bool {
        self.at == self.filled
    }

    fn step(&mut self) -> Result<(), StopReason> {
        self.plain.copy_within(self.at..self.filled, 0);
        self.filled -= self.at;
        self.at = 0;
        let decoder = self.decoder.as_mut().map_err(|why| StopReason::Compression(why.clone()))?;
        let mut input = InBuffer::around(&self.packed[self.packed_at..]);
        let mut output = OutBuffer::around(&mut self.plain[self.filled..]);
        decoder
            .run(&mut input, &mut output)
            .map_err(|error| StopReason::Compression(error.to_string()))?;
        let (read, written) = (input.pos(), output.pos());
        self.packed_at += read;
        self.filled += written;
        self.more = self.filled == self.plain.len();
        if read == 0 && written == 0 && self.packed_at < self.packed.len() {
            return Err(StopReason::Compression("no progress".into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_abi::record::RecordBuilder;
    use proptest::prelude::*;

    /// Kinds and bodies of all records, and how it ended.
    fn walk(bytes: &[u8]) -> (Vec<(u32, Vec<u8>)>, Option<Stopped>) {
        let input = Box::new(io::Cursor::new(bytes.to_vec()));
        let mut stream = Stream::new(input, 0, native());
        let mut seen = Vec::new();
        loop {
            match stream.next().unwrap() {
                StreamStep::Record(record) if record.kind == kind::COMPRESSED => {}
                StreamStep::Record(record) => seen.push((record.kind, record.body.to_vec())),
                StreamStep::End => return (seen, None),
                StreamStep::Stopped(stopped) => return (seen, Some(stopped)),
            }
        }
    }

    fn native() -> Endian {
        if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little }
    }

    fn records(bodies: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (kind, body) in bodies {
            RecordBuilder::new(&mut out, *kind, 0).bytes(body).finish();
        }
        out
    }

    /// One stream, flushed after each piece, as perf writes it.
    fn pack(plain: &[u8], piece: usize) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        let mut out = Vec::new();
        for piece in plain.chunks(piece.max(1)) {
            io::Write::write_all(&mut encoder, piece).unwrap();
            io::Write::flush(&mut encoder).unwrap();
            let packed = std::mem::take(encoder.get_mut());
            RecordBuilder::new(&mut out, kind::COMPRESSED, 0).bytes(&packed).finish();
        }
        out
    }

    #[test]
    fn payloads_behind_a_record_are_skipped_and_a_missing_one_stops() {
        let mut bytes = records(&[(9, vec![1; 8])]);
        RecordBuilder::new(&mut bytes, AUXTRACE, 0).u64(24).bytes(&[0; 32]).finish();
        let end_of_head = bytes.len();
        bytes.extend_from_slice(&[0xff; 24]);
        bytes.extend(records(&[(3, vec![])]));
        let (seen, stopped) = walk(&bytes);
        let kinds: Vec<u32> = seen.iter().map(|(kind, _)| *kind).collect();
        assert_eq!((kinds, stopped), (vec![9, AUXTRACE, 3], None));
        let (seen, stopped) = walk(&bytes[..end_of_head + 3]);
        assert_eq!(seen.len(), 2);
        let stopped = stopped.unwrap();
        assert_eq!((stopped.offset, stopped.reason), (16, StopReason::DataBeyondEnd(24)));
    }

    /// 70,000 bytes: more than a u16 holds, so the upper half stands where others have `misc`.
    #[test]
    fn simpleperfs_large_records_are_stepped_over() {
        let size = 70_000_u32;
        let mut bytes = records(&[(9, vec![1; 8])]);
        bytes.extend_from_slice(&SIMPLEPERF.start().to_ne_bytes());
        bytes.extend_from_slice(&((size >> 16) as u16).to_ne_bytes());
        bytes.extend_from_slice(&(size as u16).to_ne_bytes());
        bytes.resize(16 + size as usize, 0xff);
        bytes.extend(records(&[(3, vec![])]));
        let (seen, stopped) = walk(&bytes);
        assert_eq!(seen, [(9, vec![1; 8]), (*SIMPLEPERF.start(), vec![]), (3, vec![])]);
        assert_eq!(stopped, None);
        let reason = walk(&bytes[..60_000]).1.unwrap().reason;
        assert_eq!(reason, StopReason::DataBeyondEnd(u64::from(size) - HEADER_SIZE as u64));
    }

    #[test]
    fn a_bomb_costs_no_memory() {
        // 64 MiB of one-kilobyte records of zeros, in records of 16 MiB each.
        let plain = records(&vec![(9, vec![0; 1016]); 64 << 10]);
        let packed = pack(&plain, 16 << 20);
        assert!(packed.len() < plain.len() / 256, "{}", packed.len());
        let mut stream = Stream::new(Box::new(io::Cursor::new(packed)), 0, native());
        let mut count = 0;
        while let StreamStep::Record(record) = stream.next().unwrap() {
            count += u32::from(record.kind == 9);
        }
        assert_eq!(count, 64 << 10);
        assert_eq!(stream.unpacker.unwrap().plain.len(), PLAIN);
    }

    #[test]
    fn copies_of_a_mark_are_stepped_over_and_counted() {
        const MARK: u32 = 68;
        let marks = |number| vec![(MARK, vec![]); number];
        let parts = [marks(1), vec![(9, vec![1; 8])], marks(100_000), vec![(9, vec![])], marks(3)];
        let plain = records(&parts.concat());
        let mut stream = Stream::new(Box::new(io::Cursor::new(pack(&plain, 70_000))), 0, native());
        let (mut met, mut repeated, mut samples) = (0, 0, 0);
        while let StreamStep::Record(RawRecord { kind, .. }) = stream.next().unwrap() {
            samples += u64::from(kind == 9);
            if kind == MARK {
                met += 1;
                repeated += stream.skip_repeated();
            }
        }
        assert_eq!((met + repeated, samples), (100_004, 2));
        assert!(met < 20, "{met}");
    }

    #[test]
    fn damaged_compressed_data_stop_with_what_came_before() {
        let mut bytes = records(&[(9, vec![])]);
        RecordBuilder::new(&mut bytes, kind::COMPRESSED, 0).bytes(&[0x55; 40]).finish();
        let (seen, stopped) = walk(&bytes);
        assert_eq!(seen.len(), 1);
        assert!(matches!(stopped.unwrap().reason, StopReason::Compression(_)));
    }

    fn bodies() -> impl Strategy<Value = Vec<(u32, Vec<u8>)>> {
        let kind = (1_u32..64).prop_filter("no payload", |kind| *kind != 0);
        proptest::collection::vec((kind, proptest::collection::vec(any::<u8>(), 0..300)), 0..60)
    }

    proptest! {
        #[test]
        fn packed_or_not_the_records_are_the_same(bodies in bodies(), piece in 1_usize..2000) {
            let plain = records(&bodies);
            prop_assert_eq!(walk(&plain), (bodies.clone(), None));
            prop_assert_eq!(walk(&pack(&plain, piece)), (bodies, None));
        }

        #[test]
        fn cut_anywhere_the_records_before_are_there(bodies in bodies(), cut in 0.0_f64..1.0) {
            let plain = records(&bodies);
            let cut = (plain.len() as f64 * cut) as usize;
            let (seen, _) = walk(&plain[..cut]);
            prop_assert_eq!(&seen[..], &bodies[..seen.len()]);
            let whole: usize = seen.iter().map(|(_, body)| body.len() + HEADER_SIZE).sum();
            prop_assert!(whole <= cut && cut - whole < 308);
        }

        #[test]
        fn garbage_ends(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            walk(&bytes);
        }
    }
}
