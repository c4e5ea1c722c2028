//! Counting once, from beginning to end.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime};

use pmuscope_counters::spawn::{HeldChild, Status};
use pmuscope_counters::{Kernel, Scope};
use pmuscope_machine::child::{Usage, is_ready, usage_of_children};
use pmuscope_machine::{Machine, Target, Topology};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal as UnixSignal, pidfd_open};

use super::open::{OpenFailure, Opened, Opening};
use super::{CommandOutput, Counted, CounterSnapshot, Counting, Ended, Options};
use crate::child::{read_end, unnamed_file};
use crate::error::MeasureError;

/// A command that was asked to end is given so long.
const GRACE: Duration = Duration::from_secs(10);
/// Processes that go on starting threads are listed again so often.
const LISTS: usize = 100;
/// Where threads may be missing after all lists.
const MISSED_THREADS: &str = "the observed processes started threads faster than events could be \
    opened for them: threads created meanwhile may be missing";

/// Is told of each interval: the moment before, if there was one, and the one at its end; and of the events that
/// cannot be counted here.
pub type IntervalObserver<'s> =
    &'s mut dyn FnMut((Option<&CounterSnapshot>, &CounterSnapshot), &[OpenFailure]);

/// A descriptor that becomes readable when counting is to end.
#[derive(Debug, Clone, Copy)]
pub struct Signal<'a>(pub BorrowedFd<'a>);

impl Signal<'_> {
    /// Whether it has been given.
    #[must_use]
    pub fn is_given(self) -> bool {
        is_ready(self.0)
    }
}

/// Counts the same over and over.
pub struct RepeatedCount<'a> {
    kernel: &'a dyn Kernel,
    machine: &'a Machine,
    topology: Topology,
    options: &'a Options,
    events: Vec<Counting>,
    emulated: bool,
}

impl<'a> RepeatedCount<'a> {
    /// Prepares to count.
    ///
    /// # Errors
    /// If the CPUs of the machine cannot be read.
    pub fn new(
        kernel: &'a dyn Kernel,
        machine: &'a Machine,
        options: &'a Options,
    ) -> Result<Self, MeasureError> {
        let topology = machine.topology()?;
        let events = options
            .groups
            .iter()
            .enumerate()
            .flat_map(|(group, list)| {
                list.events.iter().map(move |event| Counting { event: event.clone(), group })
            })
            .collect();
        let emulated = machine.emulated_by().is_some();
        Ok(Self { kernel, machine, topology, options, events, emulated })
    }

    /// What is counted.
    #[must_use]
    pub fn events(&self) -> &[Counting] {
        &self.events
    }

    /// The machine's CPUs.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Whether hardware events are an emulator's.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        self.emulated
    }

    /// Counts once, and tells `seen` of each interval as it ends. The second part are events that cannot
    /// be counted here.
    ///
    /// # Errors
    /// If nothing can be counted, or the command cannot be run. What was counted before a failure of
    /// the kernel in the middle is lost.
    pub fn count(
        &self,
        stop: Signal<'_>,
        seen: IntervalObserver<'_>,
    ) -> Result<(Counted, Vec<OpenFailure>), MeasureError> {
        let output = match self.options.output {
            CommandOutput::Inherited => Ok(None),
            CommandOutput::Kept => unnamed_file(&std::env::temp_dir()).map(Some),
            CommandOutput::Discarded => File::options().write(true).open("/dev/null").map(Some),
        };
        let output = output.map_err(|source| MeasureError::Child {
            program: self.program(),
            what: "save the output",
            source,
        })?;
        let child = match (self.options.command.as_slice(), &output) {
            ([], _) => None,
            (command, None) => Some(HeldChild::new(command)?),
            (command, Some(file)) => Some(HeldChild::with_output(command, file.as_fd())?),
        };
        let opened = self.open(child.as_ref())?;
        if opened.is_empty() {
            let first = opened.refused.first().map_or(String::new(), |first| first.why.clone());
            return Err(MeasureError::NothingCounted { first });
        }
        let mut counted = self.watch(&opened, child, stop, seen)?;
        if let Some(rest) = counted.rest().filter(|_| self.options.interval.is_some()) {
            seen((counted.moments.last(), &rest), &opened.refused);
        }
        counted.notices = opened.notices.into_iter().collect();
        if let Some(file) = output.filter(|_| self.options.output == CommandOutput::Kept) {
            counted.output = self.kept(file)?;
        }
        Ok((counted, opened.refused))
    }

    fn program(&self) -> String {
        let program = self.options.command.first();
        program.map_or_else(String::new, |word| word.to_string_lossy().into_owned())
    }

    fn kept(&self, file: File) -> Result<String, MeasureError> {
        read_end(file).map_err(|source| MeasureError::Child {
            program: self.program(),
            what: "read the output",
            source,
        })
    }

    fn open(&self, child: Option<&HeldChild>) -> Result<Opened, MeasureError> {
        let once = || {
            let (machine, topology, options) = (self.machine, &self.topology, self.options);
            let command = child.map(HeldChild::pid);
            let scope = Scope::of(&options.target, (machine, topology), options.inherit, command)?;
            let opening =
                Opening { kernel: self.kernel, machine, topology, options, scope: &scope };
            opening.open(&self.events)
        };
        let Target::Processes(pids) = &self.options.target else {
            return once();
        };
        // A thread that is born while its parent's events are being opened may have none of them.
        let mut before = self.machine.threads_of(pids)?;
        for _ in 0..LISTS {
            let opened = once()?;
            let after = self.machine.threads_of(pids)?;
            if before == after {
                return Ok(opened);
            }
            before = after;
        }
        let mut opened = once()?;
        opened.notices.insert(MISSED_THREADS.to_owned());
        Ok(opened)
    }

    /// From the start of counting to its end.
    fn watch(
        &self,
        opened: &Opened,
        mut child: Option<HeldChild>,
        stop: Signal<'_>,
        seen: IntervalObserver<'_>,
    ) -> Result<Counted, MeasureError> {
        let used_before = usage_of_children().ok();
        let mut clock = Clock { started: SystemTime::now(), at: Instant::now() };
        let late = self.options.delay.filter(|_| child.is_some() || !self.is_of_command());
        if late.is_none() && !self.is_of_command() {
            opened.enable(self.kernel)?;
        }
        if let Some(child) = &mut child {
            child.release()?;
        }
        let observed = if child.is_some() { Vec::new() } else { self.observed()? };
        if let Some(delay) = late {
            if let Some(what) = wait_until(delay, child.as_ref(), &observed, stop)? {
                child.map(|child| self.end(child, true)).transpose()?;
                return Err(MeasureError::NotBegun { what, delay_ms: delay.as_millis() });
            }
            opened.enable(self.kernel)?;
            clock = Clock { started: SystemTime::now(), at: Instant::now() };
        }
        let (ended, moments) =
            self.wait(opened, (child.as_ref(), &observed), &clock, (stop, seen))?;
        let interrupted = ended != Ended::Target;
        // A command that is asked to end may take its time, which was not asked for.
        if !self.is_of_command() || interrupted {
            opened.disable(self.kernel)?;
        }
        let counted_until = clock.at.elapsed();
        // Of a command all counts are in only when it is gone; of CPUs they are in now.
        let early = match self.is_of_command() {
            true => None,
            false => Some(opened.read(self.kernel)?),
        };
        let status = child.map(|child| self.end(child, interrupted)).transpose()?;
        let last = early.map_or_else(|| opened.read(self.kernel), Ok)?;
        // Next to processes that were running before, a command such as `sleep` only sets how long.
        let is_beside = matches!(self.options.target, Target::Processes(_));
        let usage = status.filter(|_| !is_beside).and(used_before).zip(usage_of_children().ok());
        Ok(Counted {
            duration_s: counted_until.as_secs_f64(),
            status,
            usage: usage.map(|(before, after)| used(before, after)),
            ended,
            moments,
            last,
            ..Counted::begun(clock.started)
        })
    }

    fn is_of_command(&self) -> bool {
        self.options.target == Target::Command
    }

    fn wait(
        &self,
        opened: &Opened,
        (child, observed): (Option<&HeldChild>, &[OwnedFd]),
        clock: &Clock,
        (stop, seen): (Signal<'_>, IntervalObserver<'_>),
    ) -> Result<(Ended, Vec<CounterSnapshot>), MeasureError> {
        if self.options.target.is_by_number() && child.is_none() && observed.is_empty() {
            return Ok((Ended::Target, Vec::new()));
        }
        let mut watched: Vec<BorrowedFd<'_>> = observed.iter().map(OwnedFd::as_fd).collect();
        watched.extend(child.map(HeldChild::pidfd));
        let mut moments: Vec<CounterSnapshot> = Vec::new();
        loop {
            let due = self.options.interval.map(|every| every * (moments.len() as u32 + 1));
            let next = [due, self.options.timeout].into_iter().flatten().min();
            match wait_for(
                &mut watched,
                stop,
                next.map(|at| at.saturating_sub(clock.at.elapsed())),
            )? {
                RunWakeup::Stop => return Ok((Ended::Interrupted, moments)),
                RunWakeup::AllGone => return Ok((Ended::Target, moments)),
                RunWakeup::Time => {}
            }
            let elapsed = clock.at.elapsed();
            if due.is_some_and(|due| elapsed >= due) {
                let readings = opened.read(self.kernel)?;
                let moment = CounterSnapshot { at_s: clock.at.elapsed().as_secs_f64(), readings };
                seen((moments.last(), &moment), &opened.refused);
                moments.push(moment);
                if self.options.intervals.is_some_and(|most| moments.len() >= most) {
                    return Ok((Ended::Time, moments));
                }
            }
            if self.options.timeout.is_some_and(|timeout| elapsed >= timeout) {
                return Ok((Ended::Time, moments));
            }
        }
    }

    /// Descriptors that tell the end of the processes or threads that are observed by number, as far as they live.
    fn observed(&self) -> Result<Vec<OwnedFd>, MeasureError> {
        let (numbers, flags) = match &self.options.target {
            Target::Processes(pids) => (pids, PidfdFlags::empty()),
            Target::Threads(tids) => (tids, PIDFD_THREAD),
            _ => return Ok(Vec::new()),
        };
        let mut open = Vec::new();
        for &number in numbers {
            let opened = match pidfd(number, flags) {
                // Before Linux 6.9 only the process of a thread can be waited for.
                Err(Errno::INVAL) => match self.machine.task(number, number) {
                    Ok(task) => pidfd(task.tgid, PidfdFlags::empty()),
                    Err(_) => Err(Errno::SRCH),
                },
                opened => opened,
            };
            match opened {
                Ok(fd) => open.push(fd),
                Err(Errno::SRCH) => {}
                Err(errno) => {
                    let (program, what) = (number.to_string(), "watch for the end");
                    return Err(MeasureError::Child { program, what, source: errno.into() });
                }
            }
        }
        Ok(open)
    }

    /// Waits for the command; one that is not wanted any more is asked to end.
    fn end(&self, mut child: HeldChild, unwanted: bool) -> Result<Status, MeasureError> {
        if unwanted {
            child.kill(UnixSignal::TERM);
            if !child.ends_within(GRACE).unwrap_or(true) {
                child.kill(UnixSignal::KILL);
            }
        }
        child.wait().map_err(|source| MeasureError::Child {
            program: self.program(),
            what: "wait for the end",
            source,
        })
    }
}

/// pidfd_open(2) of a thread, Linux 6.9 (`include/uapi/linux/pidfd.h`).
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(0o200);

fn pidfd(number: u32, flags: PidfdFlags) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    pidfd_open(pid, flags)
}

/// Waits for the delay; what came before it was over.
fn wait_until(
    delay: Duration,
    child: Option<&HeldChild>,
    observed: &[OwnedFd],
    stop: Signal<'_>,
) -> Result<Option<&'static str>, MeasureError> {
    let since = Instant::now();
    let mut watched: Vec<BorrowedFd<'_>> = observed.iter().map(OwnedFd::as_fd).collect();
    watched.extend(child.map(HeldChild::pidfd));
    while let Some(left) = delay.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
        match wait_for(&mut watched, stop, Some(left))? {
            RunWakeup::Stop => return Ok(Some("it was interrupted")),
            RunWakeup::AllGone => return Ok(Some("it ended")),
            RunWakeup::Time => {}
        }
    }
    Ok(None)
}

/// When counting began.
struct Clock {
    started: SystemTime,
    at: Instant,
}

enum RunWakeup {
    Stop,
    AllGone,
    Time,
}

/// Waits for the first of these; processes that have ended leave `watched`.
fn wait_for(
    watched: &mut Vec<BorrowedFd<'_>>,
    stop: Signal<'_>,
    most: Option<Duration>,
) -> Result<RunWakeup, MeasureError> {
    let had_some = !watched.is_empty();
    let mut fds = vec![PollFd::from_borrowed_fd(stop.0, PollFlags::IN)];
    fds.extend(watched.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
    let most = most.map(|most| Timespec {
        tv_sec: most.as_secs() as i64,
        tv_nsec: i64::from(most.subsec_nanos()),
    });
    match poll(&mut fds, most.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => {
            let (program, what) = ("the target".to_owned(), "wait for the end");
            return Err(MeasureError::Child { program, what, source: errno.into() });
        }
    }
    let ready: Vec<bool> = fds.iter().map(|fd| fd.revents().contains(PollFlags::IN)).collect();
    drop(fds);
    if ready[0] {
        return Ok(RunWakeup::Stop);
    }
    let mut ended = ready[1..].iter();
    // `ready` has one entry for each.
    watched.retain(|_| !ended.next().copied().unwrap_or(false));
    Ok(if had_some && watched.is_empty() { RunWakeup::AllGone } else { RunWakeup::Time })
}

/// What children used between two readings; peaks are of all children, so there is none.
fn used(before: Usage, after: Usage) -> Usage {
    Usage {
        user_s: after.user_s - before.user_s,
        system_s: after.system_s - before.system_s,
        max_rss_bytes: after.max_rss_bytes,
        minor_faults: after.minor_faults - before.minor_faults,
        major_faults: after.major_faults - before.major_faults,
    }
}
