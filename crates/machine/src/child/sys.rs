//! `wait4(2)` and `getrusage(2)`, which std and rustix lack.

use std::io;
use std::mem::MaybeUninit;

/// Waits for this child to end. The wait status and what it and its reaped descendants used.
pub(super) fn wait4(pid: libc::pid_t) -> io::Result<(libc::c_int, libc::rusage)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: the kernel writes one int and one struct rusage, each to a place of that type.
        let result = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if result >= 0 {
            // SAFETY: all-zero bytes are a valid rusage, and the kernel only writes whole fields.
            return Ok((status, unsafe { usage.assume_init() }));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// What this process, all its threads together, has used so far.
pub(super) fn own_usage() -> io::Result<libc::rusage> {
    usage_of(libc::RUSAGE_SELF)
}

/// What the calling thread has used so far.
pub(super) fn thread_usage() -> io::Result<libc::rusage> {
    usage_of(libc::RUSAGE_THREAD)
}

/// What the children that were waited for have used, and what these waited for.
pub(super) fn usage_of_children() -> io::Result<libc::rusage> {
    usage_of(libc::RUSAGE_CHILDREN)
}

fn usage_of(who: libc::c_int) -> io::Result<libc::rusage> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one struct rusage to a place of that type.
    if unsafe { libc::getrusage(who, usage.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all-zero bytes are a valid rusage, and the kernel only writes whole fields.
    Ok(unsafe { usage.assume_init() })
}
