//! A descriptor that becomes readable when another does or when a time is over.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use pmuscope_machine::child::is_ready;
use rustix::event::epoll;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

/// The end of a recording: [`Signals::stop`](crate::Signals::stop) takes its descriptor.
#[derive(Debug)]
pub struct Deadline {
    epoll: OwnedFd,
    _timer: Option<OwnedFd>,
}

impl Deadline {
    /// When `stop` becomes readable or `after` is over, whichever comes first; without both, never.
    ///
    /// # Errors
    /// No further descriptor can be opened.
    pub fn new(stop: Option<BorrowedFd<'_>>, after: Option<Duration>) -> io::Result<Self> {
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = after.map(timer).transpose()?;
        let timer_fd = timer.as_ref().map(OwnedFd::as_fd);
        for fd in [stop, timer_fd].into_iter().flatten() {
            epoll::add(&both, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(Self { epoll: both, _timer: timer })
    }

    /// Whether it has come.
    #[must_use]
    pub fn is_over(&self) -> bool {
        is_ready(self.epoll.as_fd())
    }
}

impl AsFd for Deadline {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn timer(after: Duration) -> rustix::io::Result<OwnedFd> {
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Zero would mean never.
    let after = after.max(Duration::from_nanos(1));
    let at = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) };
    let setting = Itimerspec { it_interval: zero, it_value: at };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
    Ok(timer)
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn comes_with_the_descriptor_or_with_the_time_or_never() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let by_hand = Deadline::new(Some(read.as_fd()), None).unwrap();
        assert!(!by_hand.is_over());
        rustix::io::write(&write, b"x").unwrap();
        assert!(by_hand.is_over());
        let by_time = Deadline::new(None, Some(Duration::from_millis(1))).unwrap();
        let mut fds = [PollFd::new(&by_time, PollFlags::IN)];
        assert_eq!(poll(&mut fds, None).unwrap(), 1);
        assert!(by_time.is_over());
        assert!(!Deadline::new(None, None).unwrap().is_over());
    }
}
