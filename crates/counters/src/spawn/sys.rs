//! fork and what happens between it and exec: the unsafe part of starting a command.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::process::Pid;

/// Forks a child that waits for a byte on `go_read`, then execs `arguments`. If the pipe closes
/// without a byte (the parent died or gave up) it exits; if exec fails it writes the errno to
/// `failure_write` and exits. All pipe ends are close-on-exec.
pub(super) fn fork_held(
    arguments: &[CString],
    go_read: BorrowedFd<'_>,
    go_write: BorrowedFd<'_>,
    failure_write: BorrowedFd<'_>,
) -> io::Result<Pid> {
    let mut pointers: Vec<*const libc::c_char> =
        arguments.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let (go, go_write) = (go_read.as_raw_fd(), go_write.as_raw_fd());
    let failure = failure_write.as_raw_fd();
    // SAFETY: other threads may hold locks (of the allocator, say) at this moment, so the child calls
    // only async-signal-safe functions and touches only memory prepared above.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: this is the child, directly after fork; the pointers are valid C strings.
        0 => unsafe { child(&pointers, go, go_write, failure) },
        pid => Pid::from_raw(pid).ok_or_else(|| io::Error::from(io::ErrorKind::Other)),
    }
}

/// # Safety
/// Called in the child of a fork only. `arguments` is a null-terminated list of C strings.
unsafe fn child(arguments: &[*const libc::c_char], go: i32, go_write: i32, failure: i32) -> ! {
    // SAFETY: read, write, close, signal, execvp and _exit are async-signal-safe in the libraries we
    // build with (execvp does not allocate in glibc and musl); the buffers are locals.
    unsafe {
        // Our own copy of the writing end would keep the pipe open after the parent's death.
        libc::close(go_write);
        let mut byte = 0_u8;
        let count = loop {
            let count = libc::read(go, (&raw mut byte).cast(), 1);
            if count >= 0 || *libc::__errno_location() != libc::EINTR {
                break count;
            }
        };
        if count != 1 {
            libc::_exit(127);
        }
        // Rust's runtime ignores SIGPIPE, and an ignored signal stays ignored across exec.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execvp(arguments[0], arguments.as_ptr());
        let errno: i32 = *libc::__errno_location();
        libc::write(failure, (&raw const errno).cast(), 4);
        libc::_exit(127)
    }
}
