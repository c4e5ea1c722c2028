//! System calls that have no safe wrapper for machines of any size.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output was closed when the program was started.
pub(crate) static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before `main`: by then the standard library has put /dev/null where a standard stream is closed, and what
/// is written there is lost without an error.
extern "C" fn look_at_stdout() {
    // SAFETY: F_GETFD only reads the flags of a descriptor, and fails with EBADF where there is none.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_WAS_CLOSED.store(flags < 0, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions, which the C library calls in turn before `main`; arguments that
// it may pass are ignored. The function needs nothing that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = look_at_stdout;

/// include/uapi/linux/mempolicy.h.
const MPOL_BIND: libc::c_int = 2;
const MPOL_MF_STRICT: libc::c_uint = 1;
const MPOL_MF_MOVE: libc::c_uint = 2;

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// `sched_getaffinity(2)` of a thread, 0 for the calling one; `EINVAL` if `words` is too short for this
/// kernel.
pub(crate) fn sched_getaffinity(tid: u32, words: &mut [u64]) -> io::Result<()> {
    // SAFETY: the kernel writes at most the given number of bytes, all inside the exclusive slice.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            tid,
            size_of_val::<[u64]>(words),
            words.as_mut_ptr(),
        )
    };
    check(result).map(drop)
}

/// `sched_setaffinity(2)` of a thread, 0 for the calling one.
pub(crate) fn sched_setaffinity(tid: u32, words: &[u64]) -> io::Result<()> {
    // SAFETY: the kernel only reads, and only the given number of bytes of the slice.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, tid, size_of_val::<[u64]>(words), words.as_ptr())
    };
    check(result).map(drop)
}

/// The CPU of the calling thread.
pub(crate) fn sched_getcpu() -> u32 {
    // SAFETY: takes no argument and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    // It fails only on kernels without getcpu(2), older than 2.6.19.
    u32::try_from(cpu).unwrap_or(0)
}

/// `mbind(2)` of whole pages with `MPOL_BIND`, moving what is present; bits of `nodes` are node numbers.
pub(crate) fn mbind(memory: &mut [u8], nodes: &[u64]) -> io::Result<()> {
    // The kernel looks at one bit less than it is told.
    let bits = nodes.len() * u64::BITS as usize + 1;
    // SAFETY: mbind changes where pages lie, never what they hold; the mask is only read, as far as the
    // given number of bits less one, which is inside the slice.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            memory.as_mut_ptr(),
            memory.len(),
            MPOL_BIND,
            nodes.as_ptr(),
            bits,
            MPOL_MF_STRICT | MPOL_MF_MOVE,
        )
    };
    check(result).map(drop)
}

/// `move_pages(2)` of a process, 0 for this one: moves each page to the node at its place in `nodes`, or
/// with none only asks. The node of each page, or a negative errno.
///
/// # Panics
/// If there are nodes, but not one for each page.
pub(crate) fn move_pages(
    pid: u32,
    pages: &[u64],
    nodes: Option<&[libc::c_int]>,
) -> io::Result<Vec<libc::c_int>> {
    // What the kernel has not come to when it breaks off.
    let mut status = vec![-libc::EAGAIN; pages.len()];
    assert!(nodes.is_none_or(|nodes| nodes.len() == pages.len()), "a node for each page");
    // SAFETY: the call reads `pages`, and `nodes` where there are any, and writes `status`, which all have
    // as many elements as it is told. It changes where pages lie, never what they hold.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            pages.len(),
            pages.as_ptr(),
            nodes.map_or(std::ptr::null(), <[libc::c_int]>::as_ptr),
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    // More than 0: so many pages did not move; which ones their states tell.
    check(result)?;
    Ok(status)
}

/// `set_mempolicy(2)` of the calling thread; bits of `nodes` are node numbers.
pub(crate) fn set_mempolicy(mode: libc::c_int, nodes: &[u64]) -> io::Result<()> {
    // The kernel looks at one bit less than it is told, and without nodes wants no mask at all.
    let bits = nodes.len() * u64::BITS as usize + 1;
    let mask = if nodes.is_empty() { std::ptr::null() } else { nodes.as_ptr() };
    // SAFETY: the kernel only reads the mask, as far as the given number of bits less one, which is inside
    // the slice.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask, bits) };
    check(result).map(drop)
}

/// `io_uring_setup(2)` for one entry, closed at once.
pub(crate) fn io_uring_setup() -> io::Result<()> {
    /// Bytes of `struct io_uring_params` (include/uapi/linux/io_uring.h).
    const PARAMETERS: usize = 120;
    let mut parameters = [0u64; PARAMETERS / 8];
    // SAFETY: the kernel reads and writes one `struct io_uring_params`, which the array has room for and
    // is aligned for; all zero asks for nothing special.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    let descriptor = check(result)?;
    // SAFETY: the call just made this descriptor for us, and nobody else knows it. It fits: descriptors
    // are ints.
    drop(unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) });
    Ok(())
}

/// CPUID of this CPU, sub-leaf 0, as EAX, EBX, ECX, EDX; `None` where there is no such instruction.
#[cfg(target_arch = "x86_64")]
// Toolchains disagree on whether the intrinsic needs it.
#[allow(unused_unsafe)]
pub(crate) fn cpuid(leaf: u32) -> Option<[u32; 4]> {
    // SAFETY: every x86-64 CPU has the instruction.
    let result = unsafe { std::arch::x86_64::__cpuid_count(leaf, 0) };
    Some([result.eax, result.ebx, result.ecx, result.edx])
}

/// CPUID of this CPU, sub-leaf 0, as EAX, EBX, ECX, EDX; `None` where there is no such instruction.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn cpuid(_leaf: u32) -> Option<[u32; 4]> {
    None
}
