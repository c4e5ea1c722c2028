//! Page-aligned memory and CPU time: the unsafe part of this crate outside `write/sys.rs`.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Anonymous memory in whole pages that is not touched until it is used, so that its pages can be
/// bound to a node first.
#[derive(Debug)]
pub(crate) struct PageMemory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, like the memory of a Box.
unsafe impl Send for PageMemory {}

impl PageMemory {
    /// `len` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(rustix::param::page_size());
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len })
    }
}

impl Deref for PageMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped readable and zero-initialised for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl DerefMut for PageMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and writable; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Drop for PageMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `mmap` returned; slices into it borrow `self` and are gone.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A point in time as `YYYYMMDDHHMMSSmmm` in the local time zone.
pub(crate) fn local_timestamp(unix_ns: u64) -> String {
    let seconds = (unix_ns / 1_000_000_000) as libc::time_t;
    // SAFETY: all-zero bytes are a valid tm.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the duration of the call; on failure `tm` stays zero.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut tm) };
    format!(
        "{:04}{:02}{:02}{:02}{:02}{:02}{:03}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
        unix_ns / 1_000_000 % 1000
    )
}

/// CPU time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CpuTime {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
}

impl CpuTime {
    /// Of this process, io_uring's kernel workers included (they are threads of it).
    pub(crate) fn of_process() -> Self {
        Self::usage(libc::RUSAGE_SELF)
    }

    /// Of the calling thread.
    pub(crate) fn of_thread() -> Self {
        Self::usage(libc::RUSAGE_THREAD)
    }

    /// User and system.
    pub(crate) fn total(self) -> f64 {
        self.user_s + self.system_s
    }

    fn usage(who: libc::c_int) -> Self {
        // SAFETY: all-zero bytes are a valid rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is valid for writes; with these two values of `who` the call cannot fail.
        unsafe { libc::getrusage(who, &raw mut usage) };
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        Self { user_s: seconds(usage.ru_utime), system_s: seconds(usage.ru_stime) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_in_whole_zero_pages() {
        let mut memory = PageMemory::new(5000).unwrap();
        assert_eq!(memory.len() % rustix::param::page_size(), 0);
        assert!(memory.len() >= 5000 && memory.iter().all(|byte| *byte == 0));
        memory[4999] = 7;
        assert_eq!(memory[4999], 7);
    }

    #[test]
    fn a_timestamp_has_seventeen_digits_and_the_year_in_front() {
        let text = local_timestamp(1_790_000_000_123_000_000);
        assert!(text.len() == 17 && text.starts_with("2026") && text.ends_with("123"), "{text}");
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let before = CpuTime::of_thread();
        let end = std::time::Instant::now() + std::time::Duration::from_millis(60);
        while std::time::Instant::now() < end {}
        assert!(CpuTime::of_thread().total() > before.total());
    }
}
