//! A ring buffer that programs on all CPUs write to, in the order in which they reserve space.
//!
//! ```text
//!  page 0          page 1            pages …                      (twice in a row: records never wrap)
//!  consumer pos │  producer pos │  records: u32 length, flags │ u32 offset │ data │ pad to 8
//! ```
//! (`kernel/bpf/ringbuf.c`.) A record with its BUSY bit set is still being written: reading stops there.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use crate::error::BpfError;
use crate::sys::{self, RingPages};

const RINGBUF: u32 = 27;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: u64 = 8;

/// The ring and our view of it.
#[derive(Debug)]
pub struct RingBuffer {
    fd: OwnedFd,
    pages: RingPages,
}

impl AsFd for RingBuffer {
    /// Readable when there are records.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl RingBuffer {
    /// A ring of `bytes`, a power of two and at least a page.
    ///
    /// # Errors
    /// [`BpfError::Call`].
    pub fn new(bytes: u32) -> Result<Self, BpfError> {
        let fd = sys::create_map(RINGBUF, 0, 0, bytes)?;
        let pages = RingPages::map(fd.as_fd(), bytes as usize)?;
        Ok(Self { fd, pages })
    }

    /// Hands all records that are there to `take`, oldest first, and frees their room. How many.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let mut at = self.pages.consumer().load(Ordering::Relaxed);
        let mut records = 0;
        loop {
            let end = self.pages.produced();
            if at == end {
                return records;
            }
            while at < end {
                let word = self.pages.header(at);
                if word & BUSY != 0 {
                    return records;
                }
                let length = word & !(BUSY | DISCARDED);
                if word & DISCARDED == 0 {
                    take(self.pages.record(at + HEADER, length as usize));
                    records += 1;
                }
                at += (u64::from(length) + HEADER).next_multiple_of(8);
                self.pages.consumer().store(at, Ordering::Release);
            }
        }
    }
}
