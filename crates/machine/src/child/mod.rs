//! What a child process used, by its own accounting.

mod sys;

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

/// CPU time, faults and memory of a process, as getrusage(2) has them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Seconds on a CPU in user mode, all threads together.
    pub user_s: f64,
    /// Seconds on a CPU in the kernel, all threads together.
    pub system_s: f64,
    /// Peak resident memory, bytes; of the largest process where there were several.
    pub max_rss_bytes: u64,
    /// Page faults that needed no I/O.
    pub minor_faults: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
}

impl From<libc::rusage> for Usage {
    fn from(raw: libc::rusage) -> Self {
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
        // The kernel counts up from 0.
        let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
        Self {
            user_s: seconds(raw.ru_utime),
            system_s: seconds(raw.ru_stime),
            max_rss_bytes: count(raw.ru_maxrss) * 1024,
            minor_faults: count(raw.ru_minflt),
            major_faults: count(raw.ru_majflt),
        }
    }
}

/// What this process has used so far.
///
/// # Errors
/// What the kernel says.
pub fn own_usage() -> io::Result<Usage> {
    sys::own_usage().map(Usage::from)
}

/// What the calling thread has used so far; the peak is that of its process.
///
/// # Errors
/// What the kernel says.
pub fn thread_usage() -> io::Result<Usage> {
    sys::thread_usage().map(Usage::from)
}

/// Nanoseconds for which the calling thread has had a CPU: what work costs is the difference of two.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The kernel's clocks are not negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What all children that were waited for have used so far; the peak is that of the largest of them all.
///
/// # Errors
/// What the kernel says.
pub fn usage_of_children() -> io::Result<Usage> {
    sys::usage_of_children().map(Usage::from)
}

/// Whether a descriptor can be read from now, such as that of signals or of a process's end.
#[must_use]
pub fn is_ready(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    // An error here can only be EINTR.
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// How long a child may ignore SIGTERM after the caller wanted it ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the caller is asked whether it still wants the child.
const TICK: Duration = Duration::from_millis(200);

/// Waits for a child. `stop` is asked five times a second; once it says true the child gets SIGTERM,
/// and ten seconds later SIGKILL. The usage is that of the child and of the descendants it has
/// waited for.
///
/// # Errors
/// What the kernel says; the child is then no longer waited for.
pub fn wait(mut child: Child, mut stop: impl FnMut() -> bool) -> io::Result<(ExitStatus, Usage)> {
    // As std's wait does: the child may wait for the end of its input.
    drop(child.stdin.take());
    // A process id fits its C type; `Child` has it from there.
    let raw = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let pid = Pid::from_raw(raw).ok_or_else(|| io::Error::other("child without process id"))?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
    let mut asked_to_end = Duration::ZERO;
    loop {
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&tick)) {
            Ok(0) => {}
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if asked_to_end.is_zero() && !stop() {
            continue;
        }
        let signal = if asked_to_end > PATIENCE { Signal::KILL } else { Signal::TERM };
        if asked_to_end.is_zero() || signal == Signal::KILL {
            // Not yet waited for, so the id is still the child's; it may have ended meanwhile.
            let _ = kill_process(pid, signal);
        }
        asked_to_end += TICK;
    }
    let (status, usage) = sys::wait4(raw)?;
    // The id in it names nothing any more.
    drop(child);
    Ok((ExitStatus::from_raw(status), usage.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_childs_time_and_status_are_its_own() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 7";
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let (status, usage) = wait(child, || false).unwrap();
        assert_eq!(status.code(), Some(7));
        assert!(usage.user_s + usage.system_s > 0.0);
        assert!(usage.max_rss_bytes > 100_000 && usage.minor_faults > 10);
    }

    #[test]
    fn an_unwanted_child_ends() {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let (status, _) = wait(child, || true).unwrap();
        assert_eq!(status.signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn a_threads_usage_is_not_that_of_others() {
        let spend = || {
            let mut sum = 0u64;
            while thread_usage().unwrap().user_s < 0.02 {
                sum = std::hint::black_box(sum + 1);
            }
        };
        std::thread::spawn(spend).join().unwrap();
        let fresh = std::thread::spawn(|| thread_usage().unwrap()).join().unwrap();
        assert!(fresh.user_s + fresh.system_s < own_usage().unwrap().user_s);
    }

    #[test]
    fn own_usage_grows() {
        let before = own_usage().unwrap();
        let mut sum = 0u64;
        while own_usage().unwrap().user_s <= before.user_s + 0.001 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(own_usage().unwrap().minor_faults >= before.minor_faults);
    }
}
