//! `perf_event_open` with attributes laid out here, so that no test asks the code under test whether it
//! should be tested.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// `PERF_ATTR_SIZE_VER0` of linux/perf_event.h: accepted by every kernel.
const ATTR_BYTES: u32 = 64;
/// `PERF_TYPE_HARDWARE` and `PERF_TYPE_SOFTWARE`.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
/// Bits of the flag word of `perf_event_attr`.
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
/// `PERF_FLAG_FD_CLOEXEC`.
const FD_CLOEXEC: libc::c_ulong = 8;

/// The first 64 bytes of `struct perf_event_attr`.
#[repr(C)]
#[derive(Default)]
struct Attr {
    event_type: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

/// Opens and closes the software event cpu-clock, one sample in a million nanoseconds.
pub(crate) fn open_cpu_clock(pid: i32, cpu: i32, user_only: bool) -> io::Result<()> {
    let flags = DISABLED | if user_only { EXCLUDE_KERNEL | EXCLUDE_HV } else { 0 };
    open(
        &Attr { event_type: SOFTWARE, sample_period: 1_000_000, flags, ..Attr::default() },
        pid,
        cpu,
    )
}

/// Opens and closes the hardware event cycles, counted in user mode.
pub(crate) fn open_cycles() -> io::Result<()> {
    let flags = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV;
    open(&Attr { event_type: HARDWARE, flags, ..Attr::default() }, 0, -1)
}

fn open(attr: &Attr, pid: i32, cpu: i32) -> io::Result<()> {
    let attr = Attr { size: ATTR_BYTES, ..*attr };
    const { assert!(size_of::<Attr>() == ATTR_BYTES as usize) };
    // SAFETY: `attr` lives until the call returns, and its size is what it says; the kernel only reads it.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, pid, cpu, -1_i32, FD_CLOEXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    drop(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).map_err(io::Error::other)?) });
    Ok(())
}
