//! Compressed records that stock perf reads, also where several readers share a file.
//!
//! perf feeds all COMPRESSED records of a file through one zstd stream and keeps what is left of a
//! record between two of them. That only works for one writer. So here each COMPRESSED record holds
//! whole records in whole frames: nothing is carried from one to the next, and their order is free.
//!
//! ```text
//!  │ header │ one zstd frame: records … │     at most 65,535 bytes, of any length
//! ```
//!
//! One frame exactly: perf's loop over the frames of a record (measured with 6.1) miscounts its output
//! buffer from the second frame on. That also rules out padding by a skippable frame, so what follows
//! a compressed record is not aligned, as in perf's own files.

use std::io;

use pmuscope_abi::record::{HEADER_SIZE, RecordBuilder, Records, kind};

/// Uncompressed bytes in one COMPRESSED record at most; files declare it, readers size buffers by it.
pub(crate) const LARGEST_PIECE: usize = 512 << 10;
/// Room for a frame.
const FRAME_ROOM: usize = u16::MAX as usize - HEADER_SIZE;

/// Makes COMPRESSED records.
pub(crate) struct Compressor {
    zstd: zstd::bulk::Compressor<'static>,
    frame: Vec<u8>,
    piece: usize,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").field("piece", &self.piece).finish_non_exhaustive()
    }
}

impl Compressor {
    /// # Errors
    /// zstd refuses the level.
    pub(crate) fn new(level: i32) -> io::Result<Self> {
        let zstd = zstd::bulk::Compressor::new(level)?;
        Ok(Self { zstd, frame: Vec::with_capacity(FRAME_ROOM), piece: LARGEST_PIECE })
    }

    /// Appends `records` (whole ones) to `out` as COMPRESSED records.
    pub(crate) fn compress(&mut self, records: &[u8], out: &mut Vec<u8>) {
        let mut rest = records;
        while !rest.is_empty() {
            let piece = whole_records(rest, self.piece.min(LARGEST_PIECE));
            if self.try_piece(piece) {
                push_record(out, &self.frame);
                rest = &rest[piece.len()..];
                // Half full is safe to double; the next piece looks much like this one.
                if self.frame.len() < FRAME_ROOM / 2 {
                    self.piece = (self.piece * 2).min(LARGEST_PIECE);
                }
            } else if Records::new(piece).nth(1).is_some() {
                self.piece = piece.len() / 2;
            } else {
                // One record that zstd cannot make small enough stands as it is.
                out.extend_from_slice(piece);
                rest = &rest[piece.len()..];
            }
        }
    }

    /// Compresses into `self.frame`; false if it does not fit (or zstd fails for another reason, which
    /// ends in a single record that is written as it is).
    fn try_piece(&mut self, piece: &[u8]) -> bool {
        self.frame.clear();
        self.zstd.compress_to_buffer(piece, &mut self.frame).is_ok()
    }
}

/// The longest run of whole records at the start of `bytes` of at most `limit` bytes; at least one.
fn whole_records(bytes: &[u8], limit: usize) -> &[u8] {
    if bytes.len() <= limit {
        return bytes;
    }
    let mut end = 0;
    for (_, record) in Records::new(bytes) {
        if end > 0 && end + record.len() > limit {
            break;
        }
        end += record.len();
    }
    &bytes[..if end == 0 { bytes.len() } else { end }]
}

fn push_record(out: &mut Vec<u8>, frame: &[u8]) {
    RecordBuilder::new(out, kind::COMPRESSED, 0).bytes(frame).finish();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples(count: u64, random: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for n in 0..count {
            let ip = if random { fastrand::u64(..) } else { 0x40_0000 + n % 7 * 16 };
            RecordBuilder::new(&mut out, kind::SAMPLE, 2).u64(1).u64(ip).u64(n).finish();
        }
        out
    }

    /// As perf does it: one stream over all records.
    fn decompress(compressed: &[u8]) -> Vec<u8> {
        let mut stream = Vec::new();
        for (header, record) in Records::new(compressed) {
            assert_eq!(header.kind, kind::COMPRESSED);
            stream.extend_from_slice(&record[HEADER_SIZE..]);
        }
        zstd::stream::decode_all(stream.as_slice()).unwrap()
    }

    #[test]
    fn what_hardly_compresses_is_cut_smaller() {
        let mut random = Vec::new();
        for _ in 0..3000 {
            let noise: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(240).collect();
            RecordBuilder::new(&mut random, kind::SAMPLE, 2).bytes(&noise).finish();
        }
        let mut out = Vec::new();
        Compressor::new(1).unwrap().compress(&random, &mut out);
        assert_eq!(decompress(&out), random);
    }

    #[test]
    fn each_record_stands_alone() {
        let records = samples(40_000, false);
        let mut out = Vec::new();
        let mut compressor = Compressor::new(1).unwrap();
        compressor.compress(&records, &mut out);
        let parts: Vec<&[u8]> = Records::new(&out).map(|(_, record)| record).collect();
        assert!(parts.len() > 1);
        let last = zstd::stream::decode_all(&parts[parts.len() - 1][HEADER_SIZE..]).unwrap();
        assert!(records.ends_with(&last));
        assert!(Records::new(&last).all(|(header, _)| header.kind == kind::SAMPLE));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn records_come_back_in_order(counts in proptest::collection::vec(0_u64..6000, 1..5), random: bool) {
            let mut compressor = Compressor::new(1).unwrap();
            let (mut all, mut out) = (Vec::new(), Vec::new());
            for count in counts {
                let records = samples(count, random);
                compressor.compress(&records, &mut out);
                all.extend(records);
            }
            prop_assert_eq!(decompress(&out), all);
        }
    }
}
