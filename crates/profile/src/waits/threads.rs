//! Threads on and off the CPU, from what records tell of each: a thread's time without a gap.
//!
//! ```text
//!  records    in        sample, out        waking   in       out (could run on)      in
//!  thread     │ running │ off: blocked     ┊ queue  │ running │ off: preempted        │ running …
//! ```
//! The sample and the record behind it are of one switch. What the order of records excludes, records
//! that were lost explain: then nobody knows what the thread did, and its time since the last record that
//! is sure counts as not known. So does all time in which records were lost somewhere.

use rustc_hash::FxHashMap;

/// How long before the sample of a switch a thread can have been woken for it: on its way out it is woken
/// within microseconds or not at all, but a virtual CPU can stand still. A waking before that was of another
/// wait, which the thread was spared.
const LEAVING_NS: u64 = 1_000_000;

/// Why a thread was off the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OffCpuKind {
    /// It gave up the CPU and could not go on until it was woken.
    Blocked,
    /// It could have gone on.
    Preempted,
    /// It had just been started and could run.
    New,
    /// How it left the CPU was not recorded.
    Unknown,
}

impl OffCpuKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Blocked, Self::Preempted, Self::New, Self::Unknown];
}

/// Which ends of a time off the CPU lie within the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Both,
    /// It had begun before.
    OnlyLast,
    /// It lasts past the end.
    OnlyFirst,
}

/// A waking: when, and a number for by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Woken {
    pub(super) at: u64,
    pub(super) by: u32,
}

/// A time off the CPU, as far as it lies within the recording. Times are of the recording's clock,
/// nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Off {
    pub(super) task: (i32, i32),
    pub(super) kind: OffCpuKind,
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) ends: Ends,
    /// A number for where it waits.
    pub(super) place: Option<u32>,
    pub(super) woken: Option<Woken>,
}

/// What a stretch of a thread's time was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeState {
    Off(Off),
    /// From, until.
    Running(u64, u64),
    /// From, until.
    NotKnown(u64, u64),
}

/// What records tell of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchedEvent {
    /// It began.
    Born,
    /// It came to a CPU.
    In,
    /// It is leaving its CPU, here.
    Leaving(u32),
    /// It left its CPU.
    Out {
        preempted: bool,
    },
    Woken(Woken),
    /// It has left the CPU that it came to at this time, and no record says when.
    LeftUnseen {
        came: u64,
    },
    /// It takes another name: what it did until now was done by the old one.
    Named,
    /// It ended.
    Ended,
}

/// What does not add up, since records were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Broken {
    /// A thread came to a CPU that it had not left: where and when it left is lost.
    pub beginnings: u64,
    /// A thread left a CPU that it had not come to: when it came is lost.
    pub ends: u64,
    /// Times off the CPU during which records were lost: they may have been several.
    pub uncertain: u64,
}

#[derive(Debug, Clone, Copy)]
enum Doing {
    /// No switch was seen; `born` where it began within the recording.
    Unseen {
        born: Option<u64>,
    },
    Running {
        since: u64,
    },
    Off(Leave),
    Gone,
}

/// How it left.
#[derive(Debug, Clone, Copy)]
struct Leave {
    since: u64,
    /// `None` as long as only the sample told it.
    preempted: Option<bool>,
    place: Option<u32>,
    woken: Option<Woken>,
    /// A waking can be told before the thread has left: it is stamped when the thread is not to run any more.
    before: Option<Woken>,
}

#[derive(Debug, Clone, Copy)]
struct WaitingThread {
    pid: i32,
    doing: Doing,
    woken_running: Option<Woken>,
}

/// When records were lost: stretches, in the order of their ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Losses(Vec<(u64, u64)>);

impl Losses {
    pub(super) fn new(mut stretches: Vec<(u64, u64)>) -> Self {
        stretches.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, until) in stretches {
            match joined.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(until),
                _ => joined.push((from, until)),
            }
        }
        Self(joined)
    }

    fn touch(&self, from: u64, until: u64) -> bool {
        let at = self.0.partition_point(|&(_, end)| end < from);
        self.0.get(at).is_some_and(|&(begin, _)| begin <= until)
    }
}

/// All threads of a recording.
#[derive(Debug)]
pub(super) struct Threads {
    start: u64,
    losses: Losses,
    threads: FxHashMap<i32, WaitingThread>,
    pub(super) broken: Broken,
    /// Threads of which a switch was seen.
    pub(super) seen: u64,
}

impl Threads {
    /// Threads that exist are observed from `start` on.
    pub(super) fn new(start: u64, losses: Losses) -> Self {
        let (threads, broken) = (FxHashMap::default(), Broken::default());
        Self { start, losses, threads, broken, seen: 0 }
    }

    /// Whether a thread is one of those.
    pub(super) fn knows(&self, tid: i32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// A record. Records come in the order of time.
    pub(super) fn tell(
        &mut self,
        (pid, tid): (i32, i32),
        at: u64,
        told: SchedEvent,
        take: &mut dyn FnMut(TimeState),
    ) {
        if let SchedEvent::Woken(woken) = told {
            // Threads that are not recorded are woken, too.
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.woken(woken);
            }
            return;
        }
        // CPUs are switched on one after the other: what happens until all are is not all recorded.
        let is_before = at < self.start;
        if is_before
            && matches!(told, SchedEvent::In | SchedEvent::Leaving(_) | SchedEvent::Out { .. })
        {
            return;
        }
        let at = at.max(self.start);
        let doing = Doing::Unseen { born: None };
        let new = WaitingThread { pid, doing, woken_running: None };
        let thread = self.threads.entry(tid).or_insert(new);
        if thread.pid < 0 {
            thread.pid = pid; // a tracepoint did not name the process
        }
        let before = *thread;
        match told {
            SchedEvent::Born => {
                let doing = Doing::Unseen { born: (!is_before).then_some(at) };
                *thread = WaitingThread { pid, doing, woken_running: None };
                return;
            }
            SchedEvent::Out { preempted } => {
                if thread.left(preempted) {
                    return;
                }
            }
            // Threads that are not followed begin and end, too.
            SchedEvent::Ended if matches!(before.doing, Doing::Unseen { .. }) => {
                thread.doing = Doing::Gone;
                return;
            }
            SchedEvent::Named => return self.named((pid, tid), at, take),
            SchedEvent::LeftUnseen { came } => return self.left_unseen(tid, came, at, take),
            SchedEvent::In | SchedEvent::Leaving(_) | SchedEvent::Ended | SchedEvent::Woken(_) => {}
        }
        let leave = |place, preempted| {
            let is_for_this = |woken: &Woken| at.saturating_sub(woken.at) <= LEAVING_NS;
            let before = before.woken_running.filter(is_for_this);
            Doing::Off(Leave { since: at, preempted, place, woken: None, before })
        };
        thread.doing = match told {
            SchedEvent::Leaving(place) => leave(Some(place), None),
            SchedEvent::Out { preempted } => leave(None, Some(preempted)),
            SchedEvent::Ended => Doing::Gone,
            _ => Doing::Running { since: at },
        };
        thread.woken_running = None;
        if matches!(before.doing, Doing::Gone) && told != SchedEvent::In {
            // Its very last switch.
            thread.doing = Doing::Gone;
            return;
        }
        if matches!(before.doing, Doing::Unseen { .. } | Doing::Gone) {
            self.seen += 1;
        }
        self.stretch((before.pid, tid), &before, at, told == SchedEvent::In, take);
    }

    /// Who takes a name is on a CPU.
    fn named(&mut self, (_, tid): (i32, i32), at: u64, take: &mut dyn FnMut(TimeState)) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let since = match thread.doing {
            Doing::Running { since } => since,
            Doing::Unseen { born: None } => {
                self.seen += 1;
                self.start
            }
            _ => return,
        };
        thread.doing = Doing::Running { since: at };
        self.running(since, at, take);
    }

    /// Another thread leaves the CPU that it came to: since then nobody knows what it did, and now it is off, unless it
    /// has come to another CPU.
    fn left_unseen(&mut self, tid: i32, came: u64, at: u64, take: &mut dyn FnMut(TimeState)) {
        let came = came.max(self.start);
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        if !matches!(thread.doing, Doing::Running { since } if since == came) {
            return;
        }
        let unknown = Leave { since: at, preempted: None, place: None, woken: None, before: None };
        thread.doing = Doing::Off(unknown);
        self.broken.beginnings += 1;
        not_known(came, at, take);
    }

    /// What a thread did until now. `comes`: it comes to a CPU, else it leaves one.
    fn stretch(
        &mut self,
        task: (i32, i32),
        thread: &WaitingThread,
        at: u64,
        comes: bool,
        take: &mut dyn FnMut(TimeState),
    ) {
        let start = self.start;
        match (thread.doing, comes) {
            (Doing::Unseen { born: None }, true) if at > start => {
                let kind = OffCpuKind::Unknown;
                let (from, ends) = (start, Ends::OnlyLast);
                let off = Off { task, kind, from, until: at, ends, place: None, woken: None };
                self.off(off, take);
            }
            (Doing::Unseen { born: Some(born) }, true) => {
                let (from, ends, woken) = (born, Ends::Both, None);
                let until = at.max(from);
                let off =
                    Off { task, kind: OffCpuKind::New, from, until, ends, place: None, woken };
                self.off(off, take);
            }
            (Doing::Unseen { born: None }, false) => self.running(start, at, take),
            (Doing::Unseen { born: Some(born) }, false) => {
                self.broken.ends += 1;
                not_known(born, at, take);
            }
            (Doing::Running { since }, false) => self.running(since, at, take),
            (Doing::Running { since }, true) => {
                self.broken.beginnings += 1;
                not_known(since, at, take);
            }
            (Doing::Off(leave), true) => self.off(leave.off(task, at, Ends::Both), take),
            (Doing::Off(leave), false) => {
                self.broken.ends += 1;
                not_known(leave.since, at, take);
            }
            (Doing::Unseen { .. } | Doing::Gone, _) => {}
        }
    }

    fn off(&mut self, off: Off, take: &mut dyn FnMut(TimeState)) {
        if off.until <= off.from && off.ends != Ends::Both {
            return;
        }
        if self.losses.touch(off.from, off.until) {
            self.broken.uncertain += 1;
            not_known(off.from, off.until, take);
        } else {
            take(TimeState::Off(off));
        }
    }

    fn running(&self, from: u64, until: u64, take: &mut dyn FnMut(TimeState)) {
        if self.losses.touch(from, until) {
            not_known(from, until, take);
        } else if until > from {
            take(TimeState::Running(from, until));
        }
    }

    /// The end of the recording. Tells of how many threads no switch was seen.
    pub(super) fn finish(
        mut self,
        end: u64,
        take: &mut dyn FnMut((i32, i32), TimeState),
    ) -> (Broken, u64) {
        let mut threads: Vec<(i32, WaitingThread)> = self.threads.drain().collect();
        threads.sort_unstable_by_key(|(tid, _)| *tid);
        for (tid, thread) in threads {
            let task = (thread.pid, tid);
            let take = &mut |stretch| take(task, stretch);
            match thread.doing {
                Doing::Running { since } => self.running(since, end, take),
                Doing::Off(leave) => {
                    let end = end.max(leave.since);
                    self.off(leave.off(task, end, Ends::OnlyFirst), take);
                }
                Doing::Unseen { .. } | Doing::Gone => {}
            }
        }
        (self.broken, self.seen)
    }
}

fn not_known(from: u64, until: u64, take: &mut dyn FnMut(TimeState)) {
    if until > from {
        take(TimeState::NotKnown(from, until));
    }
}

impl WaitingThread {
    /// The first waking counts: there is one for each wait.
    fn woken(&mut self, woken: Woken) {
        let Doing::Off(leave) = &mut self.doing else {
            // Only the last can be the one that a thread took while it was leaving.
            self.woken_running = Some(woken);
            return;
        };
        leave.woken.get_or_insert(woken);
    }

    /// Whether it was leaving already, by the sample.
    fn left(&mut self, preempted: bool) -> bool {
        match &mut self.doing {
            Doing::Off(leave) if leave.preempted.is_none() => {
                leave.preempted = Some(preempted);
                true
            }
            _ => false,
        }
    }
}

impl Leave {
    fn off(self, task: (i32, i32), until: u64, ends: Ends) -> Off {
        let kind = match self.preempted {
            Some(true) => OffCpuKind::Preempted,
            Some(false) => OffCpuKind::Blocked,
            None => OffCpuKind::Unknown,
        };
        // A record that came too late to be put in order.
        let until = until.max(self.since);
        let woken = self.woken.or(self.before.filter(|_| ends == Ends::Both));
        let woken = woken.filter(|_| kind == OffCpuKind::Blocked);
        let woken = woken.map(|woken| Woken { at: woken.at.clamp(self.since, until), ..woken });
        Off { task, kind, from: self.since, until, ends, place: self.place, woken }
    }
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
