//! gzip (RFC 1952) on all CPUs: blocks are compressed separately and written in order as one stream.
//!
//! ```text
//!  header │ block │ block │ block │ … │ end │ CRC-32, length        a block ends at a byte (a sync flush)
//! ```
//! Blocks do not refer to one another, so every gzip reader sees one member: viewers in browsers stop at the end of the
//! first member of a file.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use crate::pool::{available_threads, in_parallel};

/// Size of a block in bytes, before compression, where the writer divides the text: several windows (32 KiB), so that
/// little is lost at the start of each.
pub(super) const BLOCK: usize = 512 << 10;
/// Magic number, deflate, a comment follows, no time, no flags, no operating system; and the comment, which names the
/// program: an output replaces only files of its own kind.
const HEADER: &[u8] = b"\x1f\x8b\x08\x10\0\0\0\0\0\xffpmuscope\0";
/// Blocks per CPU that are compressed before they are written.
const BLOCKS_PER_CPU: usize = 8;

/// Compresses what is written to it.
#[derive(Debug)]
pub(super) struct GzipWriter<W> {
    out: W,
    level: u32,
    waiting: Vec<u8>,
    /// Bytes that are compressed at a time.
    batch: usize,
    crc: Crc,
    idle: IdleWorkers,
}

/// A compressed block, with the CRC of its text.
struct GzipBlock {
    bytes: Vec<u8>,
    crc: Crc,
}

impl<W: Write> GzipWriter<W> {
    /// Writes the header; `level` is that of deflate, 1 (fast) to 9 (small).
    ///
    /// # Errors
    /// Those of `out`.
    pub(super) fn new(mut out: W, level: u32) -> io::Result<Self> {
        out.write_all(HEADER)?;
        let batch = BLOCK * available_threads().clamp(1, 16);
        let (waiting, crc) = (Vec::new(), Crc::new());
        Ok(Self { out, level, waiting, batch, crc, idle: IdleWorkers::default() })
    }

    /// Writes a block for each item: `render` appends its text. Blocks are rendered and compressed on all CPUs, and
    /// only a few per CPU are in memory at a time.
    ///
    /// # Errors
    /// Those of `out`.
    pub(super) fn write_blocks<T: Send>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        render: impl Fn(T, &mut Vec<u8>) + Sync,
    ) -> io::Result<()> {
        self.write_waiting()?;
        let mut items = items.into_iter();
        loop {
            let at_once: Vec<T> =
                items.by_ref().take(BLOCKS_PER_CPU * available_threads()).collect();
            if at_once.is_empty() {
                return Ok(());
            }
            let blocks = in_parallel(at_once, |item| {
                self.idle.with(|worker| {
                    worker.text.clear();
                    render(item, &mut worker.text);
                    worker.compressed(self.level)
                })
            });
            self.write_compressed(blocks)?;
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.write_waiting()?;
        let mut end = Vec::new();
        deflate(&mut compressor(self.level), &[], FlushCompress::Finish, &mut end)?;
        end.extend(self.crc.sum().to_le_bytes());
        // Modulo 2^32.
        end.extend(self.crc.amount().to_le_bytes());
        self.out.write_all(&end)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn write_waiting(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let blocks = in_parallel(waiting.chunks(BLOCK), |text| {
            self.idle.with(|worker| worker.compress(text, self.level))
        });
        self.waiting = waiting;
        self.waiting.clear();
        self.write_compressed(blocks)
    }

    fn write_compressed(&mut self, blocks: Vec<io::Result<GzipBlock>>) -> io::Result<()> {
        blocks.into_iter().try_for_each(|block| {
            let GzipBlock { bytes, crc } = block?;
            self.crc.combine(&crc);
            self.out.write_all(&bytes)
        })
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

    /// Does nothing: a flush costs the reader bytes, so text waits until a block is full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Buffers of the threads that compress, which are used again for the next block.
#[derive(Debug, Default)]
struct IdleWorkers(Mutex<Vec<Worker>>);

/// What a thread needs to make a block.
#[derive(Debug, Default)]
struct Worker {
    text: Vec<u8>,
    compress: Option<Compress>,
}

impl IdleWorkers {
    /// Hands out the buffers of a thread that is done, or new ones.
    fn with<R>(&self, work: impl FnOnce(&mut Worker) -> R) -> R {
        let free = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = free().pop();
        let mut worker = idle.unwrap_or_default();
        let result = work(&mut worker);
        free().push(worker);
        result
    }
}

impl Worker {
    /// Compresses its text.
    fn compressed(&mut self, level: u32) -> io::Result<GzipBlock> {
        let text = std::mem::take(&mut self.text);
        let block = self.compress(&text, level);
        self.text = text;
        block
    }

    fn compress(&mut self, text: &[u8], level: u32) -> io::Result<GzipBlock> {
        let compress = self.compress.get_or_insert_with(|| compressor(level));
        compress.reset();
        let mut bytes = Vec::with_capacity(text.len() / 4);
        deflate(compress, text, FlushCompress::Sync, &mut bytes)?;
        // Blocks wait for those before them.
        bytes.shrink_to_fit();
        let mut crc = Crc::new();
        crc.update(text);
        Ok(GzipBlock { bytes, crc })
    }
}

fn compressor(level: u32) -> Compress {
    Compress::new(Compression::new(level), false)
}

/// Appends all of a block to `to`, raw deflate (RFC 1951).
fn deflate(
    compress: &mut Compress,
    block: &[u8],
    flush: FlushCompress,
    to: &mut Vec<u8>,
) -> io::Result<()> {
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
        let mut out = GzipWriter::new(Vec::new(), 6).unwrap();
        pieces.iter().for_each(|piece| out.write_all(piece).unwrap());
        out.finish().unwrap()
    }

    fn check(pieces: &[Vec<u8>]) {
        check_read(&compressed(pieces), &pieces.concat());
        // The same in blocks, between texts.
        let mut out = GzipWriter::new(Vec::new(), 3).unwrap();
        out.write_all(b"first").unwrap();
        out.write_blocks(pieces, |piece, to| to.extend_from_slice(piece)).unwrap();
        out.write_all(b"last").unwrap();
        let all = [&b"first"[..], &pieces.concat(), b"last"].concat();
        check_read(&out.finish().unwrap(), &all);
    }

    fn check_read(made: &[u8], text: &[u8]) {
        let mut reader = flate2::bufread::GzDecoder::new(made);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(reader.header().unwrap().comment(), Some(&b"pmuscope"[..]));
        // One member, and nothing after it.
        assert!(reader.into_inner().is_empty());
        assert!(read == text, "{} bytes came back", read.len());
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
