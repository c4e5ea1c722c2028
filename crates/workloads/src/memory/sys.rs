//! Mapped memory that a workload goes through, seen as bytes that any thread or process may change at any
//! time: nobody has a reference into it.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::options::Thp;

/// Mapped memory.
#[derive(Debug)]
pub(super) struct MappedArea {
    /// What was mapped, which may begin before the area and end behind it.
    mapped: (NonNull<u8>, usize),
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an area is a mapping that lives as long as it; its memory is only touched by copies of whole
// ranges and by loops in assembler, for which it does not matter who else changes it.
unsafe impl Send for MappedArea {}
// SAFETY: as above.
unsafe impl Sync for MappedArea {}

impl MappedArea {
    /// So many bytes of this process alone, beginning at a multiple of `align`, a power of two.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub(super) fn private(bytes: usize, align: usize, thp: Thp) -> io::Result<Self> {
        let length = bytes.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                access,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        Self::of(start.cast(), length, (bytes, align), thp)
    }

    /// The first bytes of a file that is memory, shared with whoever maps it too.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub(super) fn shared(file: BorrowedFd<'_>, bytes: usize, thp: Thp) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start =
            unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0)? };
        Self::of(start.cast(), bytes, (bytes, 1), thp)
    }

    fn of(
        mapped: *mut u8,
        length: usize,
        (bytes, align): (usize, usize),
        thp: Thp,
    ) -> io::Result<Self> {
        let mapped = NonNull::new(mapped).ok_or(io::ErrorKind::OutOfMemory)?;
        let skip = mapped.as_ptr().align_offset(align);
        // SAFETY: the mapping has `align` bytes more than are needed, or `align` is 1 and nothing is skipped.
        let start = unsafe { mapped.add(skip) };
        let area = Self { mapped: (mapped, length), start, bytes };
        let advice = match thp {
            Thp::Always => Advice::LinuxHugepage,
            Thp::Never => Advice::LinuxNoHugepage,
            Thp::System => return Ok(area),
        };
        // SAFETY: the mapping just made; the advice changes where its pages lie, not what they hold. A kernel
        // without huge pages refuses, and then there are none.
        let _ = unsafe { madvise(mapped.as_ptr().cast(), length, advice) };
        Ok(area)
    }

    /// Where it begins.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }

    /// Its length.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Part of it.
    ///
    /// # Panics
    /// If it is not within the area, or not whole cache lines.
    pub(super) fn part(&self, at: usize, bytes: usize) -> Part<'_> {
        let end = at.checked_add(bytes).filter(|&end| end <= self.bytes);
        assert!(
            end.is_some() && at.is_multiple_of(64) && bytes.is_multiple_of(64),
            "part {at}+{bytes} of {}",
            self.bytes
        );
        // SAFETY: at most at the end of the area, as asserted.
        let start = unsafe { self.start.add(at) };
        Part { start, bytes, area: std::marker::PhantomData }
    }

    /// Puts bytes there.
    ///
    /// # Panics
    /// If they are not within the area.
    pub(super) fn put(&self, at: usize, bytes: &[u8]) {
        let end = at.checked_add(bytes.len()).filter(|&end| end <= self.bytes);
        assert!(end.is_some(), "{at}+{} of {}", bytes.len(), self.bytes);
        // SAFETY: within the mapping, as asserted; nobody has a reference into it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len());
        }
    }

    /// Puts a number there, in the machine's byte order.
    ///
    /// # Panics
    /// If it is not within the area.
    pub(super) fn put_word(&self, at: usize, word: u64) {
        self.put(at, &word.to_ne_bytes());
    }

    /// The number there.
    ///
    /// # Panics
    /// If it is not within the area.
    #[cfg(test)]
    pub(super) fn word(&self, at: usize) -> u64 {
        assert!(at + 8 <= self.bytes, "{at} of {}", self.bytes);
        // SAFETY: within the mapping, as asserted; any bytes are a valid number.
        unsafe { self.start.as_ptr().add(at).cast::<u64>().read_unaligned() }
    }
}

impl Drop for MappedArea {
    fn drop(&mut self) {
        // SAFETY: a mapping of our own, into which nobody has a reference: parts do not outlive the area. It
        // fails only for other addresses.
        let _ = unsafe { munmap(self.mapped.0.as_ptr().cast(), self.mapped.1) };
    }
}

/// Whole cache lines of an area, which outlives it: memory that may be read and written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    start: NonNull<u8>,
    bytes: usize,
    area: std::marker::PhantomData<&'a MappedArea>,
}

impl Part<'_> {
    /// Its first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its length, a multiple of 64.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
