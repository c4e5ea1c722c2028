//! A simulated machine and program, written as a recording: what every function really does is known.
//!
//! It shares nothing with what reads recordings: counts come from rates per function, samples from a
//! clock of cycles, one cycle a nanosecond.

use std::path::Path;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, ReadFormat, SampleType, event_type};
use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::strobe::{Epoch, EpochUpdate, OpenedId, Reason, StrobeGroup, StrobeInfo};
use pmuscope_perfdata::writer::{Features, FileEvent, closing, front};

mod random;

use random::Random;

/// Where functions lie, and how far apart.
const BASE: u64 = 0x40_0000;
const SPACE: u64 = 0x1_0000;
const PID: u32 = 100;
/// Thread without a function.
const IDLE: u32 = PID + 50;
/// What follows in a call chain is of user mode (`PERF_CONTEXT_USER`).
const CONTEXT_USER: u64 = -512_i64 as u64;
/// Ids of events that were opened anew are larger by this.
const REOPENED: u64 = 1 << 20;
/// Where the header of the file has the size of the data.
const SIZE_OF_DATA: usize = 48;
/// The other task's work.
const SWITCHED_FOR: f64 = 20_000.0;

/// A function: how long a visit takes and what it counts.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// Its symbol.
    pub name: &'static str,
    /// Mean cycles of a visit, its callees' not included.
    pub length: f64,
    /// How even visits are: the variance is `length² / shape`.
    pub shape: u32,
    /// Instructions per cycle.
    pub ipc: f64,
    /// Per instruction.
    pub branch_misses: f64,
    /// Per instruction.
    pub cache_references: f64,
    /// Per reference.
    pub cache_misses: f64,
    /// How often it comes, among those that are called from outside.
    pub weight: f64,
    /// What it calls in its middle, and how likely.
    pub calls: Option<(usize, f64)>,
    /// Branch misses at the entry of each visit, on top of those by instruction.
    pub at_entry: f64,
}

impl Function {
    /// One that is visited as often as others and calls nothing.
    pub const fn plain(name: &'static str, length: f64, ipc: f64) -> Self {
        Self {
            name,
            length,
            shape: 4,
            ipc,
            branch_misses: 0.004,
            cache_references: 0.3,
            cache_misses: 0.02,
            weight: 1.0,
            calls: None,
            at_entry: 0.0,
        }
    }

    /// True values of CPI, BM/KI, CM/KI and %CM.
    pub fn truth(&self) -> [f64; 4] {
        let misses = self.cache_references * self.cache_misses;
        let at_entry = self.at_entry / (self.length * self.ipc);
        [
            1.0 / self.ipc,
            1000.0 * (self.branch_misses + at_entry),
            1000.0 * misses,
            100.0 * self.cache_misses,
        ]
    }
}

/// How long a phase of a program lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseLength {
    /// Exponential: a Markov chain of two states.
    Exponential,
    /// Normal, with a tenth of the mean for its standard deviation.
    Jittered,
    /// The same each time.
    Periodic,
    /// Lognormal, with 0.8 for the standard deviation of the logarithm: a few are very long.
    Lognormal,
}

/// Two phases by turns, that run functions in other shares and at other speeds.
#[derive(Debug, Clone, Copy)]
pub struct Phases {
    /// Mean cycles of one.
    pub mean: f64,
    /// Distribution of their length.
    pub length: PhaseLength,
    /// For each function, in the second phase: its weight, and its instructions per cycle over those of
    /// the first.
    pub second: &'static [(f64, f64)],
}

/// How samples are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// Two events, the second one a window later.
    Strobe,
    /// One event, each window right behind the last.
    BackToBack,
    /// One event with two periods in turn.
    Alternating,
}

/// A simulated run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Functions of the program.
    pub functions: Vec<Function>,
    /// Sampling method.
    pub form: Form,
    /// Number of CPUs.
    pub cpus: u32,
    /// Cycles.
    pub window: u64,
    /// Cycles from window to window.
    pub period: u64,
    /// Cycles of each CPU.
    pub cycles: f64,
    /// Cycles from a counter's overflow to its sample: evenly from 0 to this.
    pub skid: f64,
    /// Context switches per cycle.
    pub switches: f64,
    /// Times that sampling is suspended on each CPU.
    pub throttles: u32,
    /// Reads of other events go on while the leader is suspended for so many cycles.
    pub suspended: f64,
    /// User cycles that an interrupt costs, in which no instruction retires.
    pub interrupt: f64,
    /// Relative spread of the instructions of 300 cycles.
    pub spread: f64,
    /// The phases it runs in; `None`: one.
    pub phases: Option<Phases>,
    /// Mean number of branch misses that come together; 1: each on its own.
    pub cluster: f64,
    /// Whether samples have call chains.
    pub chains: bool,
    /// Windows in a row, where strobed.
    pub burst: usize,
    /// Counts of groups that take turns, of [`COUNTS`], where strobed; empty: one group of all.
    pub turns: Vec<Vec<usize>>,
    /// A CPU that was away for a moment in the middle: its events were opened anew.
    pub reopened: Option<u32>,
    /// A file that the program mapped to say which code it made.
    pub jit_dump: Option<&'static str>,
    /// Whether the recorder was killed: the file has what was in the stream.
    pub killed: bool,
    /// Only what came from this moment on is in the file, which was begun then.
    pub begun_at: f64,
    /// And what came before this one.
    pub ended_at: f64,
    /// Only the first so many counts are recorded behind cycles; of those in [`COUNTS`].
    pub counts: usize,
    /// Where not empty, the threads that the recording was asked for; thread n of [`PID`] runs on CPU n.
    pub only_threads: Vec<u32>,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// What is counted behind cycles.
pub const COUNTS: [&str; 4] = ["instructions", "branch-misses", "cache-references", "cache-misses"];

impl Default for Run {
    fn default() -> Self {
        Self {
            functions: Vec::new(),
            form: Form::Strobe,
            cpus: 2,
            window: 300,
            period: 200_003,
            cycles: 4e8,
            skid: 40.0,
            switches: 0.0,
            throttles: 0,
            suspended: 4e6,
            interrupt: 0.0,
            spread: 0.1,
            phases: None,
            cluster: 1.0,
            chains: false,
            burst: 1,
            turns: Vec::new(),
            reopened: None,
            jit_dump: None,
            killed: false,
            begun_at: 0.0,
            ended_at: f64::INFINITY,
            counts: 4,
            only_threads: Vec::new(),
            seed: 1,
        }
    }
}

/// The name of the function at an address of the simulated program's file.
pub fn name_at(functions: &[Function], address: u64) -> Option<&'static str> {
    functions.get((address / SPACE) as usize).map(|function| function.name)
}

/// Events of one group: those that bound windows, those that count, context switches.
#[derive(Debug, Clone)]
struct Group {
    /// Number of its first event.
    first: usize,
    edges: usize,
    /// Of [`COUNTS`].
    counts: Vec<usize>,
}

impl Group {
    fn all(run: &Run) -> Vec<Self> {
        let edges = if run.form == Form::Strobe { 1 + run.burst } else { 1 };
        let turns = match &run.turns[..] {
            [] => vec![(0..run.counts).collect()],
            turns => turns.to_vec(),
        };
        let mut first = 0;
        let group = |counts: Vec<usize>| {
            let group = Self { first, edges, counts };
            first += group.len();
            group
        };
        turns.into_iter().map(group).collect()
    }

    fn len(&self) -> usize {
        self.edges + self.counts.len() + 1
    }
}

/// Moments as time stamps.
fn nanoseconds(cycles: f64) -> u64 {
    1_000_000_000_u64.saturating_add(cycles as u64)
}

/// A CPU that runs the program.
struct Cpu<'a> {
    run: &'a Run,
    random: Random,
    number: u32,
    now: f64,
    /// What is left to do: function (the other task's is `None`), cycles, whether it may still call.
    stack: Vec<(Option<usize>, f64, bool)>,
    next_switch: f64,
    /// Whether the second phase runs, and until when.
    in_second: bool,
    phase_ends: f64,
    /// Instructions, branch misses, cache references and misses, context switches.
    counts: [f64; 5],
}

impl<'a> Cpu<'a> {
    fn new(run: &'a Run, number: u32) -> Self {
        let mut random = Random(fastrand::Rng::with_seed(run.seed * 1000 + u64::from(number)));
        let next_switch = match run.switches {
            0.0 => f64::INFINITY,
            rate => random.exponential(1.0 / rate),
        };
        let mut cpu = Self {
            run,
            random,
            number,
            now: 0.0,
            stack: Vec::new(),
            next_switch,
            in_second: false,
            phase_ends: f64::INFINITY,
            counts: [0.0; 5],
        };
        if let Some(phases) = &run.phases {
            cpu.in_second = cpu.random.0.bool();
            cpu.phase_ends = cpu.random.rest_of_phase(phases);
        }
        cpu
    }

    /// The phase's weight of a function, and its instructions per cycle.
    fn now_of(&self, function: usize) -> (f64, f64) {
        let of = &self.run.functions[function];
        match &self.run.phases {
            Some(phases) if self.in_second => {
                let (weight, factor) = phases.second[function];
                (weight, of.ipc * factor)
            }
            _ => (of.weight, of.ipc),
        }
    }

    fn visit(&mut self, function: usize) {
        let of = &self.run.functions[function];
        let length = self.random.length(of.length, of.shape);
        self.counts[1] += of.at_entry;
        let calls = of.calls.filter(|(_, chance)| self.random.0.f64() < *chance);
        match calls.filter(|_| self.stack.len() < 6) {
            None => self.stack.push((Some(function), length, false)),
            Some(_) => {
                self.stack.push((Some(function), length / 2.0, false));
                self.stack.push((Some(function), length / 2.0, true));
            }
        }
    }

    fn choose(&mut self) -> usize {
        let functions = 0..self.run.functions.len();
        let total: f64 = functions.clone().map(|function| self.now_of(function).0).sum();
        let mut at = self.random.0.f64() * total;
        let choice = functions.into_iter().position(|function| {
            at -= self.now_of(function).0;
            at < 0.0
        });
        choice.unwrap_or(0)
    }

    /// Goes on until `until`.
    fn advance(&mut self, until: f64) {
        while self.now < until {
            if self.now >= self.phase_ends {
                // Visits end with the phase, which leaves its shares as they are where visits have one
                // exponential length.
                self.stack.clear();
                self.in_second = !self.in_second;
                let next = self.run.phases.map_or(f64::INFINITY, |of| self.random.phase(&of));
                self.phase_ends = self.now + next;
            }
            if self.stack.is_empty() {
                let next = self.choose();
                self.visit(next);
            }
            if self.now >= self.next_switch {
                self.counts[4] += 1.0;
                self.stack.push((None, SWITCHED_FOR, false));
                self.next_switch =
                    self.now + SWITCHED_FOR + self.random.exponential(1.0 / self.run.switches);
            }
            let Some(top) = self.stack.last_mut() else { continue };
            let most = (until.min(self.next_switch).min(self.phase_ends) - self.now).max(1e-9);
            let cycles = top.1.min(most);
            let (function, is_done) = (top.0, cycles >= top.1);
            top.1 -= cycles;
            let may_call = top.2;
            self.count(function, cycles);
            self.now += cycles;
            if is_done {
                self.stack.pop();
                self.counts[4] += f64::from(u8::from(function.is_none()));
                if let Some(callee) = function.filter(|_| may_call) {
                    let callee = self.run.functions[callee].calls.map(|(callee, _)| callee);
                    callee.into_iter().for_each(|callee| self.visit(callee));
                }
            }
        }
    }

    fn count(&mut self, function: Option<usize>, cycles: f64) {
        let other = Function::plain("other task", 0.0, 3.0);
        let of = function.map_or(&other, |function| &self.run.functions[function]);
        let ipc = function.map_or(other.ipc, |function| self.now_of(function).1);
        let spread = self.run.spread * ipc * (300.0 * cycles).sqrt();
        let instructions = (ipc * cycles + spread * self.random.normal()).max(0.0);
        let references = self.random.poisson(instructions * of.cache_references);
        self.counts[0] += instructions;
        let misses = instructions * of.branch_misses;
        self.counts[1] += self.random.clustered(misses, self.run.cluster);
        self.counts[2] += references;
        self.counts[3] += self.random.poisson(references * of.cache_misses);
    }

    /// Where it is.
    fn function(&self) -> Option<usize> {
        self.stack.last().and_then(|top| top.0)
    }

    /// Where it is and who called that, the latter as the places that calls return to.
    fn chain(&self, ip: u64) -> Vec<u64> {
        let mut functions: Vec<usize> = self.stack.iter().rev().filter_map(|top| top.0).collect();
        // A visit that will call is there in two halves.
        functions.dedup();
        let callers = functions.iter().skip(1);
        let place = |&function: &usize| BASE + function as u64 * SPACE + SPACE / 2;
        std::iter::once(ip).chain(callers.map(place)).collect()
    }

    fn skid(&mut self) -> f64 {
        self.run.skid * self.random.0.f64()
    }
}

/// Samples of one CPU, as bytes of records with their times.
struct Tape<'a> {
    cpu: Cpu<'a>,
    groups: Vec<Group>,
    /// The group that counts.
    at: usize,
    /// How often events were opened.
    opened: u64,
    bytes: Vec<(u64, Vec<u8>)>,
    /// What A has counted more than each other edge, by group.
    offsets: Vec<Vec<f64>>,
}

impl Tape<'_> {
    fn id(&self, event: usize) -> u64 {
        let cpus = u64::from(self.cpu.run.cpus);
        let of = event as u64 * cpus + u64::from(self.cpu.number);
        1 + of + self.opened * REOPENED
    }

    /// A sample of an edge of the group, now; the leader has counted `cycles`.
    fn sample(&mut self, edge: usize) {
        let random = &mut self.cpu.random.0;
        let inside = random.u64(..SPACE / 16) * 16;
        let (tid, ip) = match self.cpu.function() {
            Some(function) => (PID + self.cpu.number, BASE + function as u64 * SPACE + inside),
            None => (IDLE, BASE + self.cpu.run.functions.len() as u64 * SPACE + inside),
        };
        let time = nanoseconds(self.cpu.now);
        let group = &self.groups[self.at];
        let mut record = Vec::new();
        let mut builder = RecordBuilder::new(&mut record, kind::SAMPLE, misc::USER)
            .u64(self.id(group.first + edge))
            .u64(ip)
            .u32(PID)
            .u32(tid)
            .u64(time)
            .u64(u64::from(self.cpu.number))
            .u64(group.len() as u64);
        let edges = (0..group.edges).map(|edge| match edge {
            0 => self.cpu.now,
            edge => self.cpu.now - self.offsets[self.at][edge - 1],
        });
        let counts = group.counts.iter().map(|&at| self.cpu.counts[at]);
        for (count, at) in edges.chain(counts).chain([self.cpu.counts[4]]).zip(group.first..) {
            builder = builder.u64(count as u64).u64(self.id(at));
        }
        if self.cpu.run.chains {
            let chain = self.cpu.chain(ip);
            builder = builder.u64(chain.len() as u64 + 1).u64(CONTEXT_USER);
            for place in chain {
                builder = builder.u64(place);
            }
        }
        builder.finish();
        self.bytes.push((time, record));
    }

    /// Leaves in the stream what became known.
    fn tell(&mut self, update: &EpochUpdate) {
        let mut record = Vec::new();
        update.append_record(&mut record);
        self.bytes.push((nanoseconds(self.cpu.now), record));
    }

    /// The CPU comes back: its events have other ids from now on.
    fn reopen(&mut self) {
        self.opened += 1;
        let events: usize = self.groups.iter().map(Group::len).sum();
        let cpu = self.cpu.number;
        let id = |event: usize| OpenedId { event: event as u32, cpu, id: self.id(event) };
        let update = EpochUpdate { epochs: Vec::new(), opened: (0..events).map(id).collect() };
        self.tell(&update);
    }

    fn throttle(&mut self, goes_on: bool) {
        let time = nanoseconds(self.cpu.now);
        let mut record = Vec::new();
        let id = self.id(self.groups[self.at].first);
        RecordBuilder::new(&mut record, if goes_on { kind::UNTHROTTLE } else { kind::THROTTLE }, 0)
            .u64(time)
            .u64(id)
            .u64(id)
            .u32(PID)
            .u32(PID)
            .u64(time)
            .u64(u64::from(self.cpu.number))
            .u64(id)
            .finish();
        self.bytes.push((time, record));
    }

    /// The counter overflows at `at`; its sample comes a little later.
    fn overflow(&mut self, event: usize, at: f64) {
        let skid = self.cpu.skid();
        self.cpu.advance(at + skid);
        self.sample(event);
        self.cpu.now += self.cpu.run.interrupt;
    }

    fn suspend(&mut self) {
        self.throttle(false);
        let until = self.cpu.now + self.cpu.run.suspended;
        self.cpu.advance(until);
        self.throttle(true);
    }
}

/// Runs the program on all CPUs and writes what was recorded to `path`.
pub fn write(run: &Run, path: &Path) {
    let groups = Group::all(run);
    let mut epochs = Vec::new();
    let mut tapes = Vec::new();
    for cpu in 0..run.cpus {
        let mut tape = Tape {
            cpu: Cpu::new(run, cpu),
            groups: groups.clone(),
            at: 0,
            opened: 0,
            bytes: Vec::new(),
            offsets: groups.iter().map(|group| vec![0.0; group.edges - 1]).collect(),
        };
        match run.form {
            Form::Strobe => strobe(run, &mut tape, &mut epochs),
            Form::BackToBack | Form::Alternating => one_event(run, &mut tape),
        }
        let (from, to) = (nanoseconds(run.begun_at), nanoseconds(run.ended_at));
        tape.bytes.retain(|(time, _)| (from..to).contains(time));
        tapes.push(tape.bytes);
    }
    let known = if run.killed { Vec::new() } else { epochs };
    let info = RecordingInfo {
        complete: !run.killed,
        strobe: (run.form == Form::Strobe).then(|| strobe_info(run, &groups, known)),
        ..RecordingInfo::default()
    };
    let mut data = Vec::new();
    if run.killed {
        info.append_record(&mut data);
    }
    interleaved(run, tapes, &mut data);
    // What is opened later is in the table of events only at the end.
    let mut file = front(&events(run, &groups, run.reopened.filter(|_| !run.killed)));
    let start = file.len() as u64;
    file.extend_from_slice(&data);
    if run.killed {
        // The last thing that a recorder does each second.
        let size = data.len() as u64;
        file[SIZE_OF_DATA..SIZE_OF_DATA + 8].copy_from_slice(&size.to_le_bytes());
    } else {
        let features = Features { info: Some(info.to_json()), ..Features::default() };
        let events = events(run, &groups, run.reopened);
        let end = closing(&events, &features, start, data.len() as u64);
        file.extend_from_slice(&end.tail);
        file[..end.header.len()].copy_from_slice(&end.header);
    }
    std::fs::write(path, file).unwrap();
}

/// Epochs of 100 periods; after each the period is another one, and the next group counts.
fn strobe(run: &Run, tape: &mut Tape<'_>, epochs: &mut Vec<Epoch>) {
    let window = run.window as f64;
    let mut suspensions = run.throttles;
    let mut is_away = run.reopened == Some(tape.cpu.number);
    while tape.cpu.now < run.cycles {
        if is_away && tape.cpu.now > run.cycles / 2.0 {
            is_away = false;
            tape.reopen();
        }
        tape.at = epochs.len() % tape.groups.len();
        let edges = tape.groups[tape.at].edges;
        let period = run.period + tape.cpu.random.0.u64(..run.period / 50);
        // The phase is set somewhere.
        let wait = tape.cpu.random.0.f64() * period as f64;
        let now = tape.cpu.now;
        tape.cpu.advance(now + wait);
        let from = tape.cpu.now;
        // Counts go on: each phase that is set adds its window to what was there before.
        let before = tape.offsets[tape.at].iter().map(|offset| *offset as u64).collect();
        let offsets: Vec<u64> = (1..edges as u64).map(|edge| edge * run.window).collect();
        for (sum, offset) in tape.offsets[tape.at].iter_mut().zip(&offsets) {
            *sum += *offset as f64;
        }
        let mut epoch = Epoch {
            cpu: tape.cpu.number,
            group: tape.at as u32,
            from_ns: nanoseconds(from),
            until_ns: None,
            period,
            window: run.window,
            offsets,
            rejected_tries: 0,
            reason: Reason::Dither,
            before,
        };
        tape.tell(&EpochUpdate { epochs: vec![epoch.clone()], opened: Vec::new() });
        let mut is_broken = false;
        for at in 1..=100 {
            if is_broken {
                // All were started again at the same moment.
                let next = tape.cpu.now + period as f64;
                tape.overflow(0, next);
                (1..edges).for_each(|edge| tape.sample(edge));
                continue;
            }
            let fires = from + f64::from(at) * period as f64;
            tape.overflow(0, fires);
            if suspensions > 0 && at == 50 {
                suspensions -= 1;
                tape.suspend();
                for (sum, offset) in tape.offsets[tape.at].iter_mut().zip(&epoch.offsets) {
                    *sum -= *offset as f64;
                }
                is_broken = true;
                continue;
            }
            for edge in 1..edges {
                tape.overflow(edge, fires + edge as f64 * window);
            }
        }
        epoch.until_ns = Some(nanoseconds(tape.cpu.now) + 1);
        tape.tell(&EpochUpdate { epochs: vec![epoch.clone()], opened: Vec::new() });
        epochs.push(epoch);
    }
}

fn one_event(run: &Run, tape: &mut Tape<'_>) {
    let mut suspensions = run.throttles;
    let mut fires = 0.0;
    let mut is_long = true;
    while fires < run.cycles {
        fires += match run.form {
            Form::Alternating if is_long => (run.period - run.window) as f64,
            _ => run.window as f64,
        };
        is_long = !is_long;
        if fires < tape.cpu.now {
            fires = tape.cpu.now; // late by more than a window
        }
        tape.overflow(0, fires);
        if suspensions > 0 && fires > run.cycles * 0.5 {
            suspensions -= 1;
            tape.suspend();
            // The leader stood still; here time and its count are one, so it goes on from now.
            fires = tape.cpu.now;
        }
    }
}

fn strobe_info(run: &Run, groups: &[Group], mut epochs: Vec<Epoch>) -> StrobeInfo {
    let group = |group: &Group| {
        let events: Vec<u32> = (0..group.len()).map(|at| (group.first + at) as u32).collect();
        StrobeGroup {
            edges: events[..group.edges].to_vec(),
            context_switches: events.last().copied(),
            events,
            cpus: String::new(),
        }
    };
    epochs.sort_by_key(|epoch| (epoch.cpu, epoch.from_ns));
    StrobeInfo {
        event: "cycles:u".into(),
        window: run.window,
        period: run.period,
        burst: run.burst as u32,
        granule: 1,
        tolerance: 2,
        groups: groups.iter().map(group).collect(),
        epochs,
        only_threads: run.only_threads.clone(),
        ..StrobeInfo::default()
    }
}

/// Events with their ids; of a CPU whose events were opened anew, both.
fn events(run: &Run, groups: &[Group], reopened: Option<u32>) -> Vec<FileEvent> {
    let event = |(group, at): (&Group, usize)| {
        let name = match at.checked_sub(group.edges) {
            None => "cycles:u",
            Some(count) => group.counts.get(count).map_or("context-switches", |&at| COUNTS[at]),
        };
        let id = |cpu: u32| 1 + ((group.first + at) as u64) * u64::from(run.cpus) + u64::from(cpu);
        FileEvent {
            attr: Attr {
                event_type: event_type::HARDWARE,
                sample: match (at < group.edges, run.form) {
                    (false, _) => 0,
                    (true, Form::BackToBack) => run.window,
                    (true, _) => run.period,
                },
                sample_type: SampleType::IDENTIFIER
                    | SampleType::IP
                    | SampleType::TID
                    | SampleType::TIME
                    | SampleType::CPU
                    | SampleType::READ
                    | if run.chains { SampleType::CALLCHAIN } else { SampleType::empty() },
                read_format: ReadFormat::GROUP | ReadFormat::ID,
                flags: AttrFlags::SAMPLE_ID_ALL,
                ..Attr::default()
            },
            name: name.into(),
            ids: (0..run.cpus).map(id).chain(reopened.map(|cpu| id(cpu) + REOPENED)).collect(),
        }
    };
    let all = groups.iter().flat_map(|group| (0..group.len()).map(move |at| (group, at)));
    all.map(event).collect()
}

/// The process, then rings one after another, round by round.
fn interleaved(run: &Run, tapes: Vec<Vec<(u64, Vec<u8>)>>, data: &mut Vec<u8>) {
    let trailer =
        |builder: RecordBuilder<'_>| builder.u32(PID).u32(PID).u64(0).u64(0).u64(1).finish();
    let start = RecordBuilder::new(data, kind::COMM, misc::COMM_EXEC);
    trailer(start.u32(PID).u32(PID).name(b"simulated"));
    // As recorders do, for each thread.
    for tid in (PID + 1..PID + run.cpus).chain([IDLE]) {
        let comm = RecordBuilder::new(data, kind::COMM, 0).u32(PID).u32(tid);
        trailer(comm.name(b"simulated"));
    }
    let size = SPACE * (run.functions.len() as u64 + 1);
    let start = RecordBuilder::new(data, kind::MMAP, misc::USER).u32(PID).u32(PID);
    trailer(start.u64(BASE).u64(size).u64(0).name(b"/bin/simulated"));
    if let Some(path) = run.jit_dump {
        let mapped = RecordBuilder::new(data, kind::MMAP, misc::USER).u32(PID).u32(PID);
        trailer(mapped.u64(0x7000_0000).u64(0x1000).u64(0).name(path.as_bytes()));
    }
    let mut tapes: Vec<_> = tapes.into_iter().map(|tape| tape.into_iter().peekable()).collect();
    let mut until = 1_000_000_000_u64;
    while tapes.iter_mut().any(|tape| tape.peek().is_some()) {
        until += 100_000_000;
        for tape in &mut tapes {
            while let Some((_, record)) = tape.next_if(|(time, _)| *time < until) {
                data.extend(record);
            }
        }
        RecordBuilder::new(data, kind::FINISHED_ROUND, 0).finish();
    }
}
