//! Page-aligned memory, local time, and what setting a phase takes (pinning, priority, steps): the unsafe part of this crate outside `write/sys.rs`.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
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
        // SAFETY: `len` bytes are mapped readable and zero-initialized for as long as `self` lives.
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

/// A point in time in the local time zone, to the second.
fn local_seconds(unix_ns: u64) -> libc::tm {
    // Without the name of its type, time_t, whose width musl is about to change.
    let seconds = (unix_ns / 1_000_000_000) as _;
    // SAFETY: all-zero bytes are a valid tm.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the duration of the call; on failure `tm` stays zero.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut tm) };
    tm
}

/// Wall-clock time as `YYYY-MM-DD HH:MM:SS` in the local time zone; `unix_ns` are nanoseconds since 1970.
#[must_use]
pub fn local_time(unix_ns: u64) -> String {
    let tm = local_seconds(unix_ns);
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec
    )
}

/// A point in time as `YYYYMMDDHHMMSSmmm` in the local time zone.
pub(crate) fn local_timestamp(unix_ns: u64) -> String {
    let tm = local_seconds(unix_ns);
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

/// Runs about so many instructions more than for none, each of which waits for the one before, in user
/// mode alone.
pub(crate) fn spin(instructions: u64) {
    if instructions & 1 == 1 {
        // SAFETY: does nothing at all; both kinds of processor have it.
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        unsafe {
            std::arch::asm!("nop", options(nomem, nostack));
        }
    }
    let steps = instructions / 2;
    if steps == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: counts a register of its own down to 0; neither memory nor stack is touched.
    unsafe {
        std::arch::asm!("2:", "sub {n}, 1", "jnz 2b", n = inout(reg) steps => _, options(nomem, nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("2:", "subs {n}, {n}, #1", "b.ne 2b", n = inout(reg) steps => _, options(nomem, nostack));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    for step in 0..steps {
        std::hint::black_box(step);
    }
}

/// A descriptor by its number, in a child that was forked to use it and closes none.
pub(crate) fn inherited<'a>(fd: i32) -> BorrowedFd<'a> {
    // SAFETY: only -1 is forbidden. The child closes no descriptor that it inherited, and what the
    // kernel refuses is an error, not harm.
    unsafe { BorrowedFd::borrow_raw(fd.max(0)) }
}

/// Lets the calling thread run on one CPU only, without allocating.
///
/// # Errors
/// `EINVAL` for a CPU that is not online or not allowed.
pub(crate) fn pin(cpu: u32) -> io::Result<()> {
    /// As many CPUs as any kernel can have.
    const WORDS: usize = 8192 / 64;
    let mut mask = [0_u64; WORDS];
    let Some(word) = mask.get_mut(cpu as usize / 64) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    *word = 1 << (cpu % 64);
    // SAFETY: the mask is a local of the size that is told.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts the calling thread before all others that are not real-time threads themselves, or back.
///
/// # Errors
/// `EPERM` without the right to.
pub(crate) fn realtime(on: bool) -> io::Result<()> {
    let policy = if on { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    // SAFETY: all-zero bytes are a valid sched_param.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = i32::from(on);
    // The raw call: musl's function refuses. SAFETY: the parameter outlives the call.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
    fn a_thread_is_pinned_to_the_cpu_it_is_on_and_to_none_that_is_not_there() {
        std::thread::spawn(|| {
            let cpu = pmuscope_machine::place::current_cpu();
            pin(cpu).unwrap();
            assert_eq!(pmuscope_machine::place::affinity().unwrap().to_string(), cpu.to_string());
            assert!(pin(8191).is_err() && pin(1 << 20).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn more_steps_take_longer() {
        let time = |steps| {
            let start = std::time::Instant::now();
            spin(steps);
            start.elapsed()
        };
        let fastest = |steps| (0..5).map(|_| time(steps)).min().unwrap();
        assert!(fastest(1_000_000) > fastest(10_000));
        spin(0);
    }
}
