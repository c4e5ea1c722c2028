//! fork, ptrace, and what happens between fork and exec, or until the child's end: the unsafe part of
//! starting a command or a server.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::process::Pid;

use super::server::WORDS;

/// What a child reads from and prints to in place of what its parent does.
#[derive(Clone, Copy)]
pub(super) struct Streams<'a> {
    /// Standard input.
    pub(super) input: BorrowedFd<'a>,
    /// Standard output and error.
    pub(super) output: BorrowedFd<'a>,
}

/// Forks a child that waits for a byte on `go_read`, then execs `arguments`. If the pipe closes
/// without a byte (the parent died or gave up) it exits; if exec fails it writes the errno to
/// `failure_write` and exits. All pipe ends are close-on-exec.
pub(super) fn fork_held(
    arguments: &[CString],
    streams: Option<Streams<'_>>,
    go_read: BorrowedFd<'_>,
    go_write: BorrowedFd<'_>,
    failure_write: BorrowedFd<'_>,
) -> io::Result<Pid> {
    let streams = streams.map(|it| (it.input.as_raw_fd(), it.output.as_raw_fd()));
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
        0 => unsafe { child(&pointers, streams, go, go_write, failure) },
        pid => Pid::from_raw(pid).ok_or_else(|| io::Error::from(io::ErrorKind::Other)),
    }
}

/// Becomes the tracer of a child of ours: it stops at its exec, and ends if we end before it is let go.
pub(super) fn seize(pid: Pid) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
    ptrace(i64::from(libc::PTRACE_SEIZE), pid, options as usize)
}

/// Goes on, with a signal or 0, still traced.
pub(super) fn resume(pid: Pid, signal: i32) -> io::Result<()> {
    ptrace(i64::from(libc::PTRACE_CONT), pid, signal as usize)
}

/// Executes one instruction, still traced. A step that the kernel takes for its own does not stop it.
pub(super) fn step(pid: Pid) -> io::Result<()> {
    ptrace(i64::from(libc::PTRACE_SINGLESTEP), pid, 0)
}

/// Stops, wherever it is.
pub(super) fn interrupt(pid: Pid) -> io::Result<()> {
    ptrace(i64::from(libc::PTRACE_INTERRUPT), pid, 0)
}

/// Goes on with a signal or 0, no longer traced.
pub(super) fn detach(pid: Pid, signal: i32) -> io::Result<()> {
    ptrace(i64::from(libc::PTRACE_DETACH), pid, signal as usize)
}

/// The register that thread-local variables are reached from, of a thread that stands.
pub(super) fn thread_pointer(pid: Pid) -> io::Result<u64> {
    // All general registers of x86-64 (`user_regs_struct`), of which the base of `fs` is the 22nd; one register of arm64.
    #[cfg(target_arch = "x86_64")]
    const SET: (usize, usize) = (1, 21); // NT_PRSTATUS
    #[cfg(target_arch = "aarch64")]
    const SET: (usize, usize) = (0x401, 0); // NT_ARM_TLS
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        const PTRACE_GETREGSET: usize = 0x4204;
        let (set, at) = SET;
        let mut words = [0_u64; 64];
        let bytes = std::mem::size_of_val(&words);
        let mut vector = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: bytes };
        let pid = pid.as_raw_nonzero().get();
        // SAFETY: the kernel writes at most `iov_len` bytes to `words`, which outlives the call, and the length to `vector`;
        // any bytes are valid words.
        let result =
            unsafe { libc::syscall(libc::SYS_ptrace, PTRACE_GETREGSET, pid, set, &raw mut vector) };
        match result {
            0 if vector.iov_len > at * 8 => Ok(words[at]),
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            _ => Err(io::Error::last_os_error()),
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Becomes the tracer of a thread that goes on.
pub(super) fn attach(pid: Pid) -> io::Result<()> {
    ptrace(i64::from(libc::PTRACE_SEIZE), pid, 0)
}

fn ptrace(request: i64, pid: Pid, data: usize) -> io::Result<()> {
    let pid = pid.as_raw_nonzero().get();
    // SAFETY: the requests above take numbers only; no memory of ours is read or written. By the system
    // call, since libraries differ in the types of the arguments.
    let result = unsafe { libc::syscall(libc::SYS_ptrace, request, pid, 0_usize, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Forks a child that runs `errand` for each request from `requests` and writes what it returns to
/// `answers`, until the pipe closes. `parents` are the parent's ends of the pipes.
pub(super) fn fork_serving(
    errand: fn(&[u64; WORDS]) -> [u64; WORDS],
    requests: BorrowedFd<'_>,
    answers: BorrowedFd<'_>,
    parents: [BorrowedFd<'_>; 2],
) -> io::Result<Pid> {
    let (requests, answers) = (requests.as_raw_fd(), answers.as_raw_fd());
    // SAFETY: as in `fork_held`; `errand` is bound by its contract to neither allocate nor lock.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: this is the child; nothing here refers to its copies of the parent's ends. An
            // interrupt from the terminal is the parent's to obey: it ends us by closing the pipe.
            unsafe {
                let _ = parents.map(|fd| libc::close(fd.as_raw_fd()));
                libc::signal(libc::SIGINT, libc::SIG_IGN);
            }
            serve(errand, requests, answers)
        }
        pid => Pid::from_raw(pid).ok_or_else(|| io::Error::from(io::ErrorKind::Other)),
    }
}

/// Called in the child of a fork only.
fn serve(errand: fn(&[u64; WORDS]) -> [u64; WORDS], requests: i32, answers: i32) -> ! {
    const BYTES: usize = WORDS * 8;
    let mut request = [0_u64; WORDS];
    loop {
        // SAFETY: the buffer is a local of so many bytes, and any bytes are valid words. Requests are
        // shorter than PIPE_BUF, so they come whole.
        let count = unsafe { libc::read(requests, request.as_mut_ptr().cast(), BYTES) };
        // SAFETY: the place of this thread's errno.
        if count < 0 && unsafe { *libc::__errno_location() } == libc::EINTR {
            continue;
        }
        if count != BYTES as isize {
            // SAFETY: ends this process without running anything of the parent's.
            unsafe { libc::_exit(0) };
        }
        // Unwinding would go on in a copy of the parent.
        let abort = Abort;
        let answer = errand(&request);
        std::mem::forget(abort);
        // SAFETY: as above; who is not there to read needs no answer.
        unsafe { libc::write(answers, answer.as_ptr().cast(), BYTES) };
    }
}

/// Ends this process where a panic passes by.
struct Abort;

impl Drop for Abort {
    fn drop(&mut self) {
        // SAFETY: as in `serve`.
        unsafe { libc::_exit(101) };
    }
}

/// # Safety
/// Called in the child of a fork only. `arguments` is a null-terminated list of C strings, `streams` are
/// open descriptors above the standard ones.
unsafe fn child(
    arguments: &[*const libc::c_char],
    streams: Option<(i32, i32)>,
    go: i32,
    go_write: i32,
    failure: i32,
) -> ! {
    // SAFETY: read, write, close, dup2, signal, execvp and _exit are async-signal-safe in the libraries we
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
        if let Some((input, output)) = streams {
            // Copies by dup2 stay open across exec.
            libc::dup2(input, 0);
            libc::dup2(output, 1);
            libc::dup2(output, 2);
        }
        // Rust's runtime ignores SIGPIPE, and an ignored signal stays ignored across exec.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execvp(arguments[0], arguments.as_ptr());
        let errno: i32 = *libc::__errno_location();
        libc::write(failure, (&raw const errno).cast(), 4);
        libc::_exit(127)
    }
}
