//! One thread at work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pmuscope_machine::child::{Usage, thread_usage};
use pmuscope_machine::place::{affinity, current_cpu, set_affinity};
use pmuscope_machine::{CpuSet, Machine, MemoryPolicy};
use rustix::process::{Pid, getppid};
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

use super::areas::{Areas, LINES, Segment, ThreadRole};
use super::control::{Board, ThreadState, ThreadTally, Totals};
use super::loops::{self, Width};
use super::options::{Access, BATCH, FirstTouch, LINE, Options, Order};
use super::order::Shuffled;
use crate::error::WorkloadError;

/// Bytes between two readings of the clock: some hundred microseconds.
const PIECE: usize = 1 << 20;
/// The same where there are pauses.
const PAUSED_PIECE: usize = 64 << 10;
/// The same of zeroing, some ten milliseconds: how the C library's memset stores depends on how much it is asked
/// for at once, and from a few times the caches on it is up to twice as fast (AMD Zen 5, `rep stosb`).
const ZEROED_PIECE: usize = 1 << 30;
/// Batches of a chase between two readings of the clock: some hundred microseconds.
const BATCHES: u64 = 256;
/// How often a thread looks whether the others are ready.
const TICK: Duration = Duration::from_micros(200);
/// How often a thread looks whether it still has a parent, nanoseconds.
const ORPHAN_NS: u64 = 100_000_000;

/// CLOCK_MONOTONIC, nanoseconds.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither is negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What the threads of a process have in common.
#[derive(Debug)]
pub(super) struct Team<'a> {
    pub(super) board: &'a Board,
    pub(super) options: &'a Options,
    pub(super) areas: &'a Areas,
    pub(super) process: usize,
    /// Threads that have ended their work.
    pub(super) done: AtomicUsize,
}

/// How to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    /// With other memory.
    NextPhase,
    End,
}

impl Team<'_> {
    /// All that a thread does: it takes its place, touches its memory, waits for the others, works.
    ///
    /// # Errors
    /// If it cannot be placed; all threads of all processes end then.
    pub(super) fn run(&self, thread: usize) -> Result<(), WorkloadError> {
        let who = ThreadRole { process: self.process, thread };
        let result =
            self.prepare(who).and_then(|ready| if ready { self.work(who) } else { Ok(()) });
        if result.is_err() {
            self.board.stop();
        }
        result
    }

    /// False if all are to end before they began.
    fn prepare(&self, who: ThreadRole) -> Result<bool, WorkloadError> {
        let (board, options) = (self.board, self.options);
        let task = who.task(options);
        let tid = gettid().as_raw_nonzero().get().unsigned_abs();
        board.begin(task, (std::process::id(), tid), (who.process, who.thread));
        let before = read_affinity()?;
        let place = options.cpus.get(task).unwrap_or(&before);
        if options.first_touch == FirstTouch::Node0 {
            go_to_first_node(&before)?;
        } else {
            go_to(place)?;
            take(&options.policy_of(task))?;
        }
        if !self.areas.touch(options, who, || self.goes_on()) {
            return Ok(false);
        }
        board.touched();
        if !self.wait(|| board.all_touched()) {
            return Ok(false);
        }
        if options.order == Order::Chase {
            self.areas.link(options, who);
        }
        if options.first_touch == FirstTouch::Node0 {
            go_to(place)?;
            take(&MemoryPolicy::Default)?;
        }
        board.ready();
        let told = self.wait(|| board.when_to_go().is_some());
        Ok(told && self.wait_until(board.when_to_go().unwrap_or(0)))
    }

    fn wait_until(&self, go_ns: u64) -> bool {
        loop {
            let now = now_ns();
            if now >= go_ns {
                return !self.board.is_stopped();
            }
            if go_ns - now > TICK.as_nanos() as u64 * 2 {
                std::thread::sleep(TICK);
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn goes_on(&self) -> bool {
        !self.board.is_stopped() && !self.is_orphan()
    }

    /// Whether the process that started all others is gone.
    fn is_orphan(&self) -> bool {
        let (parent, _) = self.board.parent();
        parent != std::process::id()
            && getppid().map(|pid: Pid| pid.as_raw_nonzero().get().unsigned_abs()) != Some(parent)
    }

    /// False if all are to end.
    fn wait(&self, met: impl Fn() -> bool) -> bool {
        while !met() {
            if !self.goes_on() {
                return false;
            }
            std::thread::sleep(TICK);
        }
        true
    }

    fn work(&self, who: ThreadRole) -> Result<(), WorkloadError> {
        let usage =
            || thread_usage().map_err(|e| WorkloadError::system("read the resource usage", e));
        let done = Done(&self.done);
        let before = usage()?;
        let mut worker = Worker::new(self, who)?;
        worker.run();
        let end_ns = worker.tally.now_ns;
        let used = difference(&usage()?, &before);
        let mut totals = Totals { end_ns, used, ..Totals::default() };
        let width = worker.width;
        drop(done);
        if self.options.reduce && who.thread == 0 {
            let all = self.options.threads;
            if self.wait(|| self.done.load(Ordering::Acquire) == all) {
                (totals.reduce_bytes, totals.reduce_ns) = self.reduce(width);
            }
        }
        self.board.end(who.task(self.options), &totals);
        Ok(())
    }

    /// Reads the memory of all threads; bytes and nanoseconds.
    fn reduce(&self, width: Width) -> (u64, u64) {
        let (began, mut bytes) = (now_ns(), 0);
        for area in self.areas.of_threads() {
            for at in (0..area.bytes()).step_by(PIECE) {
                let piece = (at, PIECE.min(area.bytes() - at));
                bytes += loops::sweep(Access::Read, (width, false), area, piece, 0);
            }
        }
        (bytes, now_ns() - began)
    }
}

/// Counts a thread that has ended its work, however it did.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

fn difference(now: &Usage, before: &Usage) -> Usage {
    Usage {
        user_s: now.user_s - before.user_s,
        system_s: now.system_s - before.system_s,
        max_rss_bytes: now.max_rss_bytes,
        minor_faults: now.minor_faults - before.minor_faults,
        major_faults: now.major_faults - before.major_faults,
    }
}

fn read_affinity() -> Result<CpuSet, WorkloadError> {
    affinity().map_err(|error| WorkloadError::system("read the CPU affinity", error))
}

fn go_to(cpus: &CpuSet) -> Result<(), WorkloadError> {
    set_affinity(cpus)
        .map_err(|error| WorkloadError::system(format!("move a thread to CPUs {cpus}"), error))
}

fn take(policy: &MemoryPolicy) -> Result<(), WorkloadError> {
    policy.apply().map_err(|error| {
        let hint = match policy {
            MemoryPolicy::WeightedInterleave(_) => " (needs Linux 6.9 or later)",
            _ => "",
        };
        WorkloadError::system(format!("set the memory policy {policy}{hint}"), error)
    })
}

/// To the node of the first CPU, with new pages from there.
fn go_to_first_node(allowed: &CpuSet) -> Result<(), WorkloadError> {
    let topology = Machine::host().topology().map_err(|error| {
        WorkloadError::system("read the topology", std::io::Error::other(error))
    })?;
    let node = allowed.first().and_then(|cpu| topology.node_of(cpu)).unwrap_or(0);
    let cpus =
        topology.nodes.iter().find(|one| one.id == node).map(|one| one.cpus.intersection(allowed));
    if let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) {
        go_to(&cpus)?;
    }
    // Not bound to it: what the node has no room for goes on to the next.
    take(&MemoryPolicy::Local)
}

/// Which of so many equal parts of all has begun where so much is done.
fn phase_at(done: u64, all: u64, phases: u64) -> u64 {
    let phase = u128::from(done) * u128::from(phases) / u128::from(all.max(1));
    (phase as u64).min(phases - 1)
}

/// A thread while it works.
struct Worker<'a> {
    team: &'a Team<'a>,
    who: ThreadRole,
    task: usize,
    width: Width,
    tally: ThreadTally,
    start_ns: u64,
    /// When the time is over.
    end_ns: Option<u64>,
    /// When to be moved next, for the thread that is.
    perturb_ns: Option<u64>,
    /// Where to go back to.
    home: CpuSet,
    orphan_ns: u64,
    lines: [u64; LINES],
}

impl<'a> Worker<'a> {
    fn new(team: &'a Team<'a>, who: ThreadRole) -> Result<Self, WorkloadError> {
        let options = team.options;
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let start_ns = now_ns();
        let is_first = who.process == 0 && who.thread == 0;
        let task = who.task(options);
        team.board.start(task, start_ns);
        Ok(Self {
            team,
            who,
            task,
            width: Width::of_this_cpu(),
            tally: ThreadTally { now_ns: start_ns, cpu: current_cpu(), ..ThreadTally::default() },
            start_ns,
            end_ns: options.seconds.map(|seconds| start_ns + ns(seconds)),
            perturb_ns: options.perturb.filter(|_| is_first).map(|every| start_ns + ns(every)),
            home: read_affinity()?,
            orphan_ns: start_ns + ORPHAN_NS,
            lines: [0; LINES],
        })
    }

    fn run(&mut self) {
        loop {
            self.tally.phase = self.phase();
            let areas = self.team.areas;
            let segments = areas.segments(self.team.options, self.who, self.tally.phase);
            if self.round(&segments) == Flow::End {
                return;
            }
        }
    }

    /// The phase at this moment: by rounds where their number is known, or else by time.
    fn phase(&self) -> u64 {
        let options = self.team.options;
        let phases = options.phases;
        let (done, all) = match (options.rounds, self.end_ns) {
            (Some(rounds), _) => (self.tally.rounds, rounds),
            (None, Some(end)) => (self.tally.now_ns - self.start_ns, end - self.start_ns),
            (None, None) => (0, 1),
        };
        phase_at(done, all, phases)
    }

    fn round(&mut self, segments: &[Segment<'_>]) -> Flow {
        for segment in segments {
            let areas = self.team.areas;
            let lock = areas.lock_for(segment);
            let flow = match self.team.options.order {
                Order::Chase => self.chase(segment),
                Order::Random => self.random(segment),
                Order::Forward | Order::Backward | Order::Alternate => self.sweep(segment),
            };
            drop(lock);
            if flow != Flow::On {
                return flow;
            }
        }
        self.tally.rounds += 1;
        let is_last = self.team.options.rounds.is_some_and(|rounds| self.tally.rounds >= rounds);
        self.team.board.progress(self.task, ThreadState::Running, &self.tally);
        if is_last { Flow::End } else { Flow::On }
    }

    fn sweep(&mut self, segment: &Segment<'_>) -> Flow {
        let options = self.team.options;
        let is_copy = matches!(options.access, Access::Copy | Access::CopyStream);
        let bytes = if is_copy { segment.bytes / 2 } else { segment.bytes };
        let backward = match options.order {
            Order::Alternate => self.tally.rounds % 2 == 1,
            order => order == Order::Backward,
        };
        let piece = match options.access {
            _ if options.pause_ns > 0 => PAUSED_PIECE,
            Access::Zero if !backward => ZEROED_PIECE,
            _ => PIECE,
        };
        let offset = segment.offset(bytes);
        // From the offset on, and around the end.
        let ranges =
            if backward { [(0, offset), (offset, bytes)] } else { [(offset, bytes), (0, offset)] };
        for (from, to) in ranges {
            let pieces = (to - from).div_ceil(piece);
            for number in 0..pieces {
                let number = if backward { pieces - 1 - number } else { number };
                let at = from + number * piece;
                let part = (segment.from + at, piece.min(to - at));
                let how = (self.width, backward);
                let moved =
                    loops::sweep(options.access, how, segment.area, part, segment.bytes / 2);
                let flow = self.flow(moved, 0);
                if flow != Flow::On {
                    return flow;
                }
            }
        }
        Flow::On
    }

    fn random(&mut self, segment: &Segment<'_>) -> Flow {
        let options = self.team.options;
        let seed = options.seed ^ (self.task as u64) << 48 ^ self.tally.rounds;
        let mut shuffled = Shuffled::new(segment.lines(), seed);
        let first = segment.from as u64 / LINE;
        loop {
            let found = shuffled.fill(&mut self.lines);
            if found == 0 {
                return Flow::On;
            }
            let lines = &mut self.lines[..found];
            lines.iter_mut().for_each(|line| *line += first);
            let moved = loops::lines(options.access, segment.area, lines);
            let flow = self.flow(moved, 0);
            if flow != Flow::On {
                return flow;
            }
        }
    }

    fn chase(&mut self, segment: &Segment<'_>) -> Flow {
        let mut at = (segment.from + segment.offset(segment.bytes)) as u64;
        let mut left = segment.lines() / BATCH;
        while left > 0 {
            let batches = left.min(BATCHES);
            if self.team.options.latency {
                let mut before = now_ns();
                for _ in 0..batches {
                    at = loops::chase(segment.area, at, 1);
                    let now = now_ns();
                    self.team.board.count_time(self.task, now - before);
                    before = now;
                }
            } else {
                at = loops::chase(segment.area, at, batches);
            }
            left -= batches;
            let loads = batches * BATCH;
            let flow = self.flow(loads * LINE, loads);
            if flow != Flow::On {
                return flow;
            }
        }
        Flow::On
    }

    /// After a piece: counts it, tells of it, and sees whether to go on.
    fn flow(&mut self, bytes: u64, loads: u64) -> Flow {
        let Team { board, options, .. } = self.team;
        self.tally.bytes += bytes;
        self.tally.loads += loads;
        self.tally.now_ns = now_ns();
        self.tally.cpu = current_cpu();
        board.progress(self.task, ThreadState::Running, &self.tally);
        let now = self.tally.now_ns;
        if self.end_ns.is_some_and(|end| now >= end) || board.is_stopped() {
            return Flow::End;
        }
        if now >= self.orphan_ns {
            self.orphan_ns = now + ORPHAN_NS;
            if self.team.is_orphan() {
                return Flow::End;
            }
        }
        if self.perturb_ns.is_some_and(|at| now >= at) {
            self.perturb();
        }
        if options.pause_ns > 0 {
            while now_ns() < now + options.pause_ns {
                std::hint::spin_loop();
            }
        }
        let changes = options.phases > 1 && options.rounds.is_none();
        if changes && self.phase() != self.tally.phase { Flow::NextPhase } else { Flow::On }
    }

    /// Goes to the last CPU that it may use, or if it is there to the first, and lets go.
    fn perturb(&mut self) {
        let every = self.team.options.perturb.unwrap_or(0.0);
        self.perturb_ns = Some(self.tally.now_ns + (every * 1e9) as u64);
        let far = match (self.home.first(), self.home.last()) {
            (Some(first), Some(last)) => {
                if current_cpu() == last {
                    first
                } else {
                    last
                }
            }
            _ => return,
        };
        // Both were allowed a moment ago; a CPU that went offline since is no reason to end.
        if set_affinity(&CpuSet::from_iter([far])).is_ok() {
            self.team.board.perturbed();
            self.tally.cpu = current_cpu();
            self.team.board.progress(self.task, ThreadState::Running, &self.tally);
        }
        let _ = set_affinity(&self.home);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_equal_parts() {
        let phases: Vec<u64> = (0..=7).map(|done| phase_at(done, 6, 3)).collect();
        assert_eq!(phases, [0, 0, 1, 1, 2, 2, 2, 2]);
        assert_eq!(phase_at(u64::MAX, u64::MAX, 4), 3);
        assert_eq!(phase_at(5, 0, 1), 0);
    }
}
