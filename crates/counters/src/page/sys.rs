//! The page of an event that the kernel keeps for programs, and the instructions that read counters and
//! ticks.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The first page of an event's mapping, read-only and without a ring buffer after it.
///
/// The kernel does not pass it on to forked children (`VM_DONTCOPY`): there this value must be neither
/// used nor dropped.
#[derive(Debug)]
pub struct EventPage {
    base: NonNull<u8>,
    length: usize,
}

impl EventPage {
    pub(crate) fn map(event: BorrowedFd<'_>) -> io::Result<Self> {
        Self::mmap(event.as_raw_fd(), libc::MAP_SHARED)
    }

    /// A page of zeros, as the kernel has it for an event that is on no counter.
    #[cfg(test)]
    pub(crate) fn blank() -> io::Result<Self> {
        Self::mmap(-1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
    }

    fn mmap(fd: i32, flags: i32) -> io::Result<Self> {
        let length = rustix::param::page_size();
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(null, length, libc::PROT_READ, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, length })
    }

    /// The word at `offset`, a multiple of 4 below 4096.
    #[inline]
    pub(super) fn word(&self, offset: usize) -> u32 {
        // SAFETY: the page is mapped for as long as `self`, the offsets are those of the ABI, aligned and
        // within its first 4096 bytes; the kernel writes while we read, so words are read atomically.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
            .load(Ordering::Relaxed)
    }

    /// The double word at `offset`, a multiple of 8 below 4096.
    #[inline]
    pub(super) fn double(&self, offset: usize) -> u64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
            .load(Ordering::Relaxed)
    }
}

impl Drop for EventPage {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `mmap` returned, and nobody has a reference into it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// What the instruction that reads counters is called; `None` where we know none.
pub(crate) const INSTRUCTION: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("rdpmc")
} else if cfg!(target_arch = "aarch64") {
    Some("mrs")
} else {
    None
};

/// Reads a hardware counter that the page of an event has just allowed to.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn counter(number: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the instruction changes the two registers only. The kernel allows it as long as an event of
    // this process is mapped, and the number is one that the event's page has given.
    unsafe {
        std::arch::asm!(
            "rdpmc", in("ecx") number, out("eax") low, out("edx") high,
            options(nomem, nostack, preserves_flags)
        );
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Time stamp counter.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has it; Linux does not forbid it to programs unless they ask so.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Reads a hardware counter that the page of an event has just allowed to; 31 is that of cycles.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn counter(number: u32) -> u64 {
    macro_rules! read {
        ($register:literal) => {{
            let value: u64;
            // SAFETY: the instruction changes one register only. The kernel allows it while an event of
            // this thread that asked for it is on a counter, and its page has just said so.
            unsafe {
                std::arch::asm!(
                    concat!("mrs {}, ", $register), out(reg) value,
                    options(nomem, nostack, preserves_flags)
                );
            }
            value
        }};
    }
    match number {
        0 => read!("pmevcntr0_el0"),
        1 => read!("pmevcntr1_el0"),
        2 => read!("pmevcntr2_el0"),
        3 => read!("pmevcntr3_el0"),
        4 => read!("pmevcntr4_el0"),
        5 => read!("pmevcntr5_el0"),
        6 => read!("pmevcntr6_el0"),
        7 => read!("pmevcntr7_el0"),
        8 => read!("pmevcntr8_el0"),
        9 => read!("pmevcntr9_el0"),
        10 => read!("pmevcntr10_el0"),
        11 => read!("pmevcntr11_el0"),
        12 => read!("pmevcntr12_el0"),
        13 => read!("pmevcntr13_el0"),
        14 => read!("pmevcntr14_el0"),
        15 => read!("pmevcntr15_el0"),
        16 => read!("pmevcntr16_el0"),
        17 => read!("pmevcntr17_el0"),
        18 => read!("pmevcntr18_el0"),
        19 => read!("pmevcntr19_el0"),
        20 => read!("pmevcntr20_el0"),
        21 => read!("pmevcntr21_el0"),
        22 => read!("pmevcntr22_el0"),
        23 => read!("pmevcntr23_el0"),
        24 => read!("pmevcntr24_el0"),
        25 => read!("pmevcntr25_el0"),
        26 => read!("pmevcntr26_el0"),
        27 => read!("pmevcntr27_el0"),
        28 => read!("pmevcntr28_el0"),
        29 => read!("pmevcntr29_el0"),
        30 => read!("pmevcntr30_el0"),
        _ => read!("pmccntr_el0"),
    }
}

/// The virtual count of the generic timer.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn ticks() -> u64 {
    let value: u64;
    // SAFETY: the instruction changes one register only; Linux lets programs read the virtual count.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack, preserves_flags));
    }
    value
}

/// Never asked: [`INSTRUCTION`] is `None`.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn counter(_number: u32) -> u64 {
    0
}

/// Never asked: [`INSTRUCTION`] is `None`.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn ticks() -> u64 {
    0
}
