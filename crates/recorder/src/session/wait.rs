//! What the main thread waits for while readers work.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use pmuscope_counters::spawn::HeldChild;
use pmuscope_machine::{CpuTimes, Machine};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Signals;
use crate::control::ControlState;
use crate::error::RecorderError;
use crate::wake::Wake;

/// What the main thread waits for.
pub(super) struct WaitSources<'a> {
    pub(super) signals: Signals<'a>,
    pub(super) bell: &'a Wake,
    pub(super) child: Option<&'a HeldChild>,
    pub(super) commands: Option<BorrowedFd<'a>>,
    pub(super) processes: &'a [OwnedFd],
}

/// What happened.
pub(super) enum Wakeup {
    Stop,
    /// The user wants a new file or a snapshot.
    Switch,
    /// Commands have arrived.
    Command,
    Bell,
    Child,
    Process(usize),
    Time,
}

impl WaitSources<'_> {
    pub(super) fn wait(&self, timeout: Duration) -> Result<Wakeup, RecorderError> {
        let watch = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds = vec![watch(self.bell.as_fd()), watch(self.signals.stop)];
        let mut meaning = vec![Wakeup::Bell, Wakeup::Stop];
        if let Some(switch) = self.signals.switch {
            fds.push(watch(switch));
            meaning.push(Wakeup::Switch);
        }
        if let Some(child) = self.child {
            fds.push(watch(child.pidfd()));
            meaning.push(Wakeup::Child);
        }
        if let Some(commands) = self.commands {
            fds.push(watch(commands));
            meaning.push(Wakeup::Command);
        }
        for (index, process) in self.processes.iter().enumerate() {
            fds.push(watch(process.as_fd()));
            meaning.push(Wakeup::Process(index));
        }
        match poll(&mut fds, Some(&timespec(timeout))) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Wakeup::Time),
            Err(errno) => return Err(RecorderError::system("poll")(errno.into())),
        }
        let ready = fds.iter().position(|fd| fd.revents().contains(PollFlags::IN));
        drop(fds);
        let event = ready.map_or(Wakeup::Time, |position| meaning.swap_remove(position));
        if let (Wakeup::Switch, Some(switch)) = (&event, self.signals.switch) {
            // One request each, however many arrived; the descriptor is ready.
            let _ = rustix::io::read(switch, &mut [0_u8; 64]);
        }
        Ok(event)
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

/// A CPU that worked no more than this share of the time has room for a reader.
const IDLE_SHARE: f64 = 0.5;

/// Measures whether nodes have idle CPUs, for readers that choose their place by it.
pub(super) struct Monitor<'a> {
    machine: &'a Machine,
    before: Option<CpuTimes>,
}

impl<'a> Monitor<'a> {
    /// A monitor that looks only if `wanted`: on large machines a reading costs milliseconds.
    pub(super) fn new(machine: &'a Machine, wanted: bool) -> Self {
        let before = if wanted { machine.cpu_times().ok() } else { None };
        Self { machine, before }
    }

    /// Notes for each node whether it had an idle CPU since the last reading.
    pub(super) fn update(&mut self, shared: &ControlState<'_>) {
        let Some(before) = &self.before else { return };
        let Ok(now) = self.machine.cpu_times() else { return };
        for node in &shared.topology.nodes {
            let idle = CpuTimes::idle_cpus(before, &now, &node.cpus, IDLE_SHARE);
            shared.set_busy(node.id, idle.is_empty() && !node.cpus.is_empty());
        }
        self.before = Some(now);
    }
}
