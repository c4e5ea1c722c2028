//! What is open and armed, and what was counted: changed by the recorder's main thread at the beginning
//! and the end, by the source's thread in between.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use pmuscope_abi::{Attr, AttrFlags, OpenFlags, event_type, software};
use pmuscope_bpf::Program;
use pmuscope_counters::Kernel;
use pmuscope_machine::Machine;
use pmuscope_perfdata::watch::ArmedBlock;

use super::WatchOptions;
use super::blocks::Blocks;
use crate::pace::{Pace, PaceStep, Seen};
use crate::points::{Opened, Point, PointError, PointScope};
use crate::prepare::Turn;
use crate::program::{FIRST_TIME, Memory};

/// How often one readings while nothing is armed that should be.
const LOOK: Duration = Duration::from_millis(20);
/// How often the target's CPU time is read: it takes a call for each thread.
const CPU_EVERY_NS: u64 = 50_000_000;
/// So many threads have their CPU time read at every reading.
const FEW_CLOCKS: usize = 64;
/// How often the rate of records is looked at.
const RATE_EVERY_NS: u64 = 100_000_000;
/// A turn, where not all points fit, lasts so long, and so many times as long as it takes to begin.
const TURN_NS: u64 = 100_000_000;
const TURN_PER_OPENING: u64 = 10;
/// The same of a brief turn.
const BRIEF_NS: u64 = 20_000_000;
/// A turn is armed for so long, or for so many hits, whatever the pace: else points whose turn comes after that of points
/// with many hits would not be armed at all. Of a brief turn that is all.
const SURE_NS: u64 = BRIEF_NS;
const SURE_HITS: u64 = 100;
/// How often hits are counted meanwhile.
const SURE_LOOK: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running,
    Ended,
}

#[derive(Debug)]
pub(super) struct WatchState {
    phase: Phase,
    clockid: i32,
    opened: Opened,
    places: Vec<PointScope>,
    /// Count the CPU time of the observed threads and what they start.
    clocks: Vec<OwnedFd>,
    turns: Vec<Turn>,
    turn: usize,
    turn_until: u64,
    /// Time armed and hits until its begin.
    before_turn: Seen,
    /// Hits that turns had for sure, whatever the pace.
    sure_hits: u64,
    /// All points of the turn are open.
    is_turn_open: bool,
    /// How often points have been armed.
    time: u64,
    pace: Pace,
    random: fastrand::Rng,
    started: u64,
    /// Since when points are armed.
    armed_since: Option<u64>,
    armed_ns: u64,
    /// When they were disarmed last.
    disarmed: u64,
    /// Hits by point as of the last reading, which was then.
    hits: Vec<u64>,
    looked: u64,
    /// CPU time of the target since the start, as last read.
    cpu: u64,
    /// And before it.
    cpu_before: u64,
    cpu_read: Option<u64>,
    /// Hits of points whose turn is over, as the kernel counted them; `None`: it could not be read.
    counted: Vec<Option<u64>>,
    blocks: Blocks,
    every: u64,
    most_every: u64,
    most_records: u64,
    passed: u64,
    rate_looked: u64,
    /// What went wrong meanwhile.
    trouble: Option<String>,
    online_cpus: u64,
}

impl WatchState {
    pub(super) fn new(options: &WatchOptions, pace: Pace) -> Self {
        let first = options.turns.first().cloned().unwrap_or_default();
        let brief = options.turns.iter().filter(|turn| turn.is_brief).count();
        Self {
            phase: Phase::Waiting,
            clockid: options.clockid,
            opened: Opened::none(&options.points, &first.points),
            places: Vec::new(),
            clocks: Vec::new(),
            turns: options.turns.clone(),
            turn: 0,
            turn_until: 0,
            before_turn: Seen::default(),
            sure_hits: 0,
            is_turn_open: true,
            time: FIRST_TIME,
            pace,
            random: fastrand::Rng::new(),
            started: 0,
            armed_since: None,
            armed_ns: 0,
            disarmed: 0,
            hits: vec![0; options.points.len()],
            looked: 0,
            cpu: 0,
            cpu_before: 0,
            cpu_read: None,
            counted: vec![Some(0); options.points.len()],
            blocks: Blocks::new(options.turns.len(), brief > 0),
            every: 1,
            most_every: 1,
            most_records: options.most_records.max(1),
            passed: 0,
            rate_looked: 0,
            trouble: None,
            online_cpus: options.online_cpus as u64,
        }
    }

    pub(super) fn observe(
        &mut self,
        kernel: &dyn Kernel,
        points: &[Point],
        programs: &[Program],
        place: PointScope,
    ) -> Result<(), PointError> {
        self.opened.add(kernel, points, programs, place)?;
        if let PointScope::Thread(tid) = place {
            // Without it the limit holds the less hits cost of the time of all CPUs.
            self.clocks.extend(open_clock(kernel, tid));
        }
        self.places.push(place);
        Ok(())
    }

    pub(super) fn forget(&mut self, points: &[Point]) {
        let first = self.turns.first().cloned().unwrap_or_default();
        self.opened = Opened::none(points, &first.points);
        self.places.clear();
        self.clocks.clear();
    }

    pub(super) fn begin(&mut self, kernel: &dyn Kernel, clockid: i32) -> Result<(), PointError> {
        (self.started, self.cpu_before) = (clock(clockid), 0);
        self.read_cpu(kernel);
        self.cpu_before = std::mem::take(&mut self.cpu);
        self.opened.arm(kernel)?;
        let now = clock(clockid);
        (self.started, self.looked, self.rate_looked) = (now, now, now);
        self.armed_since = Some(now);
        self.turn_until = now + self.turn_ns();
        self.phase = Phase::Running;
        Ok(())
    }

    pub(super) fn end(&mut self, kernel: &dyn Kernel, memory: &Memory, clockid: i32) {
        if self.phase != Phase::Running {
            return;
        }
        let was_armed = self.armed_since.is_some();
        let disarmed = self.set_armed(kernel, memory, false);
        self.note(disarmed);
        let now = if was_armed { self.disarmed } else { clock(clockid) };
        self.account(kernel, memory, now);
        self.read_cpu(kernel);
        self.read_counts(kernel);
        self.phase = Phase::Ended;
        // Slots are free again from here on.
        self.opened = Opened::none(&[], &[]);
        self.clocks.clear();
    }

    /// Looks at what was counted, and arms or disarms; how long until the next reading.
    pub(super) fn step(
        &mut self,
        kernel: &dyn Kernel,
        machine: &Machine,
        memory: &Memory,
        programs: &[Program],
        options: &WatchOptions,
    ) -> Duration {
        if self.phase != Phase::Running {
            return LOOK;
        }
        let now = clock(self.clockid);
        self.account(kernel, memory, now);
        if self.cpu_read.is_none_or(|read| now - read >= CPU_EVERY_NS) {
            self.cpu_read = Some(now);
            self.read_cpu(kernel);
        }
        self.limit_records(memory, now);
        if self.is_turn_over(now) {
            let turned = self.next_turn(kernel, machine, memory, programs, options);
            self.note(turned);
        }
        let step = self.wanted(now);
        let was_armed = self.armed_since.is_some();
        let set = self.set_armed(kernel, memory, step.armed && self.is_turn_open);
        self.note(set);
        if was_armed && self.armed_since.is_none() {
            // A slice ends here, so that a stretch of time is either armed or a pause.
            self.account(kernel, memory, self.disarmed);
        }
        if self.has_turns() {
            let rest = Duration::from_nanos(self.turn_until.saturating_sub(clock(self.clockid)));
            return step.wait.min(rest.max(Duration::from_micros(100)));
        }
        step.wait
    }

    /// Whether points are not armed all together all the time.
    fn has_turns(&self) -> bool {
        self.turns.len() > 1 || self.turns.iter().any(|turn| turn.is_brief)
    }

    fn turn_ns(&self) -> u64 {
        match self.turns.get(self.turn) {
            Some(turn) if turn.is_brief => BRIEF_NS,
            _ => TURN_NS,
        }
    }

    /// Whether the turn has had the time that it has to have.
    fn had_its_share(&self, now: u64) -> bool {
        let seen = self.seen(now);
        let armed = seen.armed.saturating_sub(self.before_turn.armed);
        let hits = seen.hits.saturating_sub(self.before_turn.hits);
        armed >= SURE_NS || hits >= SURE_HITS || !self.pace.affords(self.sure_hits, seen.now)
    }

    fn is_turn_over(&self, now: u64) -> bool {
        let has_share = !self.is_turn_open || self.had_its_share(now);
        self.has_turns() && has_share && now >= self.turn_until
    }

    /// Whether points are to be armed, and when to look again.
    fn wanted(&mut self, now: u64) -> PaceStep {
        let seen = self.seen(now);
        let step = self.pace.step(seen, self.armed_since.is_some(), self.random.f64());
        let is_brief = self.turns.get(self.turn).is_some_and(|turn| turn.is_brief);
        match self.has_turns() {
            true if !self.had_its_share(now) => PaceStep { armed: true, wait: SURE_LOOK },
            true if is_brief => PaceStep { armed: false, ..step },
            _ => step,
        }
    }

    fn seen(&self, now: u64) -> Seen {
        let armed = self.armed_ns + self.armed_since.map_or(0, |since| now.saturating_sub(since));
        Seen { now: now - self.started, armed, hits: self.hits.iter().sum(), cpu: self.cpu }
    }

    fn set_armed(
        &mut self,
        kernel: &dyn Kernel,
        memory: &Memory,
        armed: bool,
    ) -> Result<(), PointError> {
        match (self.armed_since, armed) {
            (Some(since), false) => {
                self.opened.disarm(kernel)?;
                self.disarmed = clock(self.clockid);
                self.armed_ns += self.disarmed.saturating_sub(since);
                self.armed_since = None;
            }
            (None, true) => {
                self.time += 1;
                if let Err(error) = memory.control(self.every, self.time) {
                    self.note_text(&error.to_string());
                }
                self.opened.arm(kernel)?;
                self.armed_since = Some(clock(self.clockid));
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds what came since the last reading to the blocks.
    fn account(&mut self, kernel: &dyn Kernel, memory: &Memory, now: u64) {
        let totals = match memory.totals() {
            Ok(totals) => totals,
            Err(error) => return self.note_text(&error.to_string()),
        };
        let hits: Vec<u64> = totals.iter().map(|total| total.hits).collect();
        let more = hits.iter().zip(&self.hits).map(|(now, before)| now - before).collect();
        // What is armed now counts until now.
        if let Some(since) = &mut self.armed_since {
            self.armed_ns += now.saturating_sub(*since);
            *since = now.max(*since);
        }
        let points = match self.turns.len() {
            0 | 1 => Vec::new(),
            _ => self.turns[self.turn].points.iter().map(|&point| point as u32).collect(),
        };
        let armed_ns = self.armed_ns.saturating_sub(self.blocks.armed());
        let cpu_ns = self.cpu_since_last_look(kernel);
        self.blocks.add(&ArmedBlock {
            from_ns: self.looked,
            until_ns: now.max(self.looked),
            armed_ns,
            hits: more,
            cpu_ns,
            armed_cpu_ns: cpu_ns.map(|cpu| if armed_ns > 0 { cpu } else { 0 }),
            points,
        });
        self.hits = hits;
        self.looked = now;
    }

    /// CPU time of the target since the last reading, where it takes few calls to know.
    fn cpu_since_last_look(&mut self, kernel: &dyn Kernel) -> Option<u64> {
        if self.clocks.is_empty() || self.clocks.len() > FEW_CLOCKS {
            return None;
        }
        let before = self.cpu;
        self.read_cpu(kernel);
        Some(self.cpu.saturating_sub(before))
    }

    fn read_cpu(&mut self, kernel: &dyn Kernel) {
        let mut sum = 0;
        for clock in &self.clocks {
            let mut words = [0; 3];
            if kernel.read(clock.as_fd(), &mut words).is_ok() {
                sum += words[0];
            }
        }
        let of_cpus = (clock(self.clockid) - self.started) * self.online_cpus;
        let of_threads = sum.saturating_sub(self.cpu_before);
        self.cpu = if self.clocks.is_empty() { of_cpus } else { of_threads };
    }

    fn read_counts(&mut self, kernel: &dyn Kernel) {
        match self.opened.counted(kernel) {
            Ok(counts) => {
                for (point, count) in counts {
                    if let Some(Some(sum)) = self.counted.get_mut(point) {
                        *sum += count;
                    }
                }
            }
            Err(error) => {
                self.counted.iter_mut().for_each(|count| *count = None);
                self.note(Err(error));
            }
        }
    }

    /// Every Nth hit is written down, so that there are not more in a second than there should be.
    fn limit_records(&mut self, memory: &Memory, now: u64) {
        let elapsed = now.saturating_sub(self.rate_looked);
        if elapsed < RATE_EVERY_NS {
            return;
        }
        let Ok(totals) = memory.totals() else { return };
        let passed = totals.iter().map(|total| total.passed).sum::<u64>();
        let per_second = (passed - self.passed) as f64 * 1e9 / elapsed as f64;
        let every = (per_second / self.most_records as f64).ceil().max(1.0) as u64;
        // Fewer again only where that is sure: a rate that swings would be written down in bursts.
        if (every > self.every || 2 * every < self.every)
            && memory.control(every, self.time).is_ok()
        {
            self.every = every;
            self.most_every = self.most_every.max(every);
        }
        (self.passed, self.rate_looked) = (passed, now);
    }

    /// Closes the points of this turn and opens those of the next, for the threads that there are now.
    fn next_turn(
        &mut self,
        kernel: &dyn Kernel,
        machine: &Machine,
        memory: &Memory,
        programs: &[Program],
        options: &WatchOptions,
    ) -> Result<(), PointError> {
        let began = clock(self.clockid);
        // Whatever happens, the next turn comes in its time.
        self.turn_until = began + self.turn_ns();
        let was_armed = self.armed_since.is_some();
        self.set_armed(kernel, memory, false)?;
        if was_armed {
            // What was hit until here belongs to the turn that ends.
            self.account(kernel, memory, self.disarmed);
        }
        self.read_counts(kernel);
        let hits: u64 = self.hits.iter().sum();
        self.sure_hits += hits.saturating_sub(self.before_turn.hits).min(SURE_HITS);
        self.is_turn_open = false;
        self.turn = (self.turn + 1) % self.turns.len();
        self.opened = Opened::none(&options.points, &self.turns[self.turn].points);
        let threads = options.pids.iter().filter_map(|&pid| machine.threads(pid).ok()).flatten();
        let threads: Vec<PointScope> = threads.map(PointScope::Thread).collect();
        let places = if options.pids.is_empty() { &self.places } else { &threads };
        for &place in places {
            self.opened.add(kernel, &options.points, programs, place)?;
        }
        self.is_turn_open = true;
        let now = clock(self.clockid);
        self.turn_until = now + self.turn_ns().max((now - began) * TURN_PER_OPENING);
        self.before_turn = self.seen(now);
        Ok(())
    }

    /// Keeps the first thing that went wrong; what was counted until then is good.
    fn note(&mut self, result: Result<(), PointError>) {
        if let Err(error) = result {
            self.note_text(&error.to_string());
        }
    }

    pub(super) fn note_text(&mut self, trouble: &str) {
        self.trouble.get_or_insert_with(|| trouble.to_owned());
    }

    /// Of so many wanted hits one was written down, when they were most.
    pub(super) fn most_every(&self) -> u64 {
        self.most_every
    }

    pub(super) fn slowdown(&self) -> Option<f64> {
        // Of CPUs, whoever runs there, one does not know how much of their time was anybody's.
        let is_of_threads = !matches!(self.places.first(), Some(PointScope::Cpu(_)));
        self.pace.slowdown(&self.seen(self.looked)).filter(|_| is_of_threads)
    }

    pub(super) fn target_cpu_ns(&self) -> Option<u64> {
        let is_of_threads = !matches!(self.places.first(), Some(PointScope::Cpu(_)));
        (self.cpu > 0 && is_of_threads).then_some(self.cpu)
    }

    pub(super) fn blocks(&self) -> Vec<ArmedBlock> {
        self.blocks.all()
    }

    pub(super) fn counted(&self, point: usize) -> Option<u64> {
        if self.phase == Phase::Ended { *self.counted.get(point)? } else { None }
    }

    pub(super) fn notices(&self) -> Option<String> {
        self.trouble.as_ref().map(|trouble| format!("the record of hits is incomplete: {trouble}"))
    }
}

/// Nanoseconds of a clock.
fn clock(clockid: i32) -> u64 {
    let id = rustix::time::ClockId::try_from(clockid).unwrap_or(rustix::time::ClockId::Monotonic);
    let time = rustix::time::clock_gettime(id);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Counts the CPU time of a thread and what it starts.
fn open_clock(kernel: &dyn Kernel, tid: u32) -> Option<OwnedFd> {
    let attr = Attr {
        event_type: event_type::SOFTWARE,
        config: software::TASK_CLOCK,
        flags: AttrFlags::INHERIT | AttrFlags::EXCLUDE_HV,
        ..Attr::default()
    };
    kernel.open(&attr, tid as i32, -1, None, OpenFlags::FD_CLOEXEC).ok()
}
