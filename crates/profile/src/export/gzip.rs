//! gzip (RFC 1952) on all CPUs: blocks are compressed apart and written in order as one stream.
//!
//! ```text
//!  header │ block │ block │ block │ … │ end │ CRC-32, length        a block ends at a byte (a sync flush)
//! ```
//! Blocks do not refer to one another, so any reader of gzip takes them for one: viewers in browsers read no further than the
//! first member of a file.

use std::io::{self, Write};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use crate::pool::{available_threads, in_parallel};

/// Bytes that are compressed apart: several windows (32 KiB), so that little is lost where each begins anew.
const BLOCK: usize = 512 << 10;
/// Magic number, deflate, a comment follows, no time, no flags, no operating system; and the comment. It says whose file it is:
/// an output replaces only files of its own kind.
const HEADER: &[u8] = b"\x1f\x8b\x08\x10\0\0\0\0\0\xffpmuscope\0";

/// What is written to it goes on compressed.
#[derive(Debug)]
pub(super) struct GzipWriter<W> {
    out: W,
    waiting: Vec<u8>,
    /// Bytes that are compressed at a time.
    batch: usize,
    crc: Crc,
    has_begun: bool,
}

impl<W: Write> GzipWriter<W> {
    pub(super) fn new(out: W) -> Self {
        let batch = BLOCK * available_threads().clamp(1, 16);
        let waiting = Vec::with_capacity(batch);
        Self { out, waiting, batch, crc: Crc::new(), has_begun: false }
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.write_waiting()?;
        let mut end = Vec::new();
        compress(&[], FlushCompress::Finish, &mut end)?;
        end.extend(self.crc.sum().to_le_bytes());
        // Modulo 2^32.
        end.extend(self.crc.amount().to_le_bytes());
        self.out.write_all(&end)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn write_waiting(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.out.write_all(HEADER)?;
        }
        self.crc.update(&self.waiting);
        let blocks = in_parallel(self.waiting.chunks(BLOCK), |block| {
            let mut made = Vec::with_capacity(block.len() / 3);
            compress(block, FlushCompress::Sync, &mut made).map(|()| made)
        });
        self.waiting.clear();
        blocks.into_iter().try_for_each(|block| self.out.write_all(&block?))
    }
}

impl<W: Write> Write for GzipWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.batch - self.waiting.len());
        self.waiting.extend_from_slice(&bytes[..taken]);
        if self.waiting.len() == self.batch {
            self.write_waiting()?;
        }
        Ok(taken)
    }

    /// What waits is not written before it is worth it: every flush costs the reader bytes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends all of a block to `to`, raw deflate (RFC 1951).
fn compress(block: &[u8], flush: FlushCompress, to: &mut Vec<u8>) -> io::Result<()> {
    let mut compress = Compress::new(Compression::default(), false);
    loop {
        // Room for what a block may grow by, and for the flush.
        to.reserve(block.len() / 8 + 64);
        let read = compress.total_in() as usize;
        let status = compress.compress_vec(&block[read..], to, flush)?;
        let is_read = compress.total_in() as usize == block.len();
        // With room left, nothing is held back.
        let is_done = if flush == FlushCompress::Finish {
            status == Status::StreamEnd
        } else {
            to.len() < to.capacity()
        };
        if is_read && is_done {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use proptest::prelude::*;

    fn compressed(pieces: &[Vec<u8>]) -> Vec<u8> {
        let mut out = GzipWriter::new(Vec::new());
        pieces.iter().for_each(|piece| out.write_all(piece).unwrap());
        out.finish().unwrap()
    }

    fn check(pieces: &[Vec<u8>]) {
        let made = compressed(pieces);
        let mut reader = flate2::bufread::GzDecoder::new(&made[..]);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(reader.header().unwrap().comment(), Some(&b"pmuscope"[..]));
        // One member, and nothing behind it.
        assert!(reader.into_inner().is_empty());
        assert!(read == pieces.concat(), "{} bytes came back", read.len());
    }

    proptest! {
        #[test]
        fn what_was_written_comes_back(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20),
        ) {
            check(&pieces);
        }
    }

    #[test]
    fn many_blocks_are_one_member() {
        let mut random = fastrand::Rng::with_seed(7);
        // What cannot be compressed, and what can.
        let noise: Vec<u8> = (0..3 * BLOCK + 17).map(|_| random.u8(..)).collect();
        let text = b"a line like the one before\n".repeat(5 * BLOCK / 20);
        check(&[noise.clone(), text.clone()]);
        assert!(compressed(std::slice::from_ref(&text)).len() < text.len() / 50);
        check(&[vec![0; BLOCK]]);
        check(&[]);
    }
}
