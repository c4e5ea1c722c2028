//! A simulated machine and program, written as a recording: what every function really does is known.
//!
//! It shares nothing with what reads recordings: counts come from rates per function, samples from a
//! clock of cycles, one cycle a nanosecond.

#![allow(clippy::unwrap_used, dead_code)] // tests and an example use different parts

use std::path::Path;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, ReadFormat, SampleType, event_type};
use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::strobe::{Epoch, Reason, StrobeGroup, StrobeInfo};
use pmuscope_perfdata::writer::{Features, FileEvent, closing, front};

/// Where functions lie, and how far apart.
const BASE: u64 = 0x40_0000;
const SPACE: u64 = 0x1_0000;
const PID: u32 = 100;
/// What follows in a call chain is of user mode (`PERF_CONTEXT_USER`).
const CONTEXT_USER: u64 = -512_i64 as u64;
/// The other task's work.
const SWITCHED_FOR: f64 = 20_000.0;

/// A function: how long a visit takes and what it counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    /// Its symbol.
    pub(crate) name: &'static str,
    /// Mean cycles of a visit, its callees' not included.
    pub(crate) length: f64,
    /// How even visits are: the variance is `length² / shape`.
    pub(crate) shape: u32,
    /// Instructions per cycle.
    pub(crate) ipc: f64,
    /// Per instruction.
    pub(crate) branch_misses: f64,
    /// Per instruction.
    pub(crate) cache_references: f64,
    /// Per reference.
    pub(crate) cache_misses: f64,
    /// How often it comes, among those that are called from outside.
    pub(crate) weight: f64,
    /// What it calls in its middle, and how likely.
    pub(crate) calls: Option<(usize, f64)>,
}

impl Function {
    /// One that is visited as often as others and calls nothing.
    pub(crate) const fn plain(name: &'static str, length: f64, ipc: f64) -> Self {
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
        }
    }

    /// True values of CPI, BM/KI, CM/KI and %CM.
    pub(crate) fn truth(&self) -> [f64; 4] {
        let misses = self.cache_references * self.cache_misses;
        [1.0 / self.ipc, 1000.0 * self.branch_misses, 1000.0 * misses, 100.0 * self.cache_misses]
    }
}

/// How samples are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Form {
    /// Two events, the second one a window later.
    Strobe,
    /// One event, each window right behind the last.
    BackToBack,
    /// One event with two periods in turn.
    Alternating,
}

/// A simulated run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) functions: Vec<Function>,
    pub(crate) form: Form,
    pub(crate) cpus: u32,
    /// Cycles.
    pub(crate) window: u64,
    /// Cycles from window to window.
    pub(crate) period: u64,
    /// Cycles of each CPU.
    pub(crate) cycles: f64,
    /// Cycles from a counter's overflow to its sample: evenly from 0 to this.
    pub(crate) skid: f64,
    /// Context switches per cycle.
    pub(crate) switches: f64,
    /// Times that sampling is suspended on each CPU.
    pub(crate) throttles: u32,
    /// Reads of other events go on while the leader is suspended for so many cycles.
    pub(crate) suspended: f64,
    /// User cycles that an interrupt costs, in which no instruction retires.
    pub(crate) interrupt: f64,
    /// Relative spread of the instructions of 300 cycles.
    pub(crate) spread: f64,
    /// Whether samples have call chains.
    pub(crate) chains: bool,
    /// Only the first so many counts are recorded behind cycles; of those in [`COUNTS`].
    pub(crate) counts: usize,
    pub(crate) seed: u64,
}

/// What is counted behind cycles.
pub(crate) const COUNTS: [&str; 4] =
    ["instructions", "branch-misses", "cache-references", "cache-misses"];

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
            chains: false,
            counts: 4,
            seed: 1,
        }
    }
}

/// The name of the function at an address of the simulated program's file.
pub(crate) fn name_at(functions: &[Function], address: u64) -> Option<&'static str> {
    functions.get((address / SPACE) as usize).map(|function| function.name)
}

struct Random(fastrand::Rng);

impl Random {
    fn normal(&mut self) -> f64 {
        let (a, b) = (self.0.f64().max(1e-300), self.0.f64());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.0.f64()).ln()
    }

    /// A gamma variate of an integer shape.
    fn length(&mut self, mean: f64, shape: u32) -> f64 {
        (0..shape).map(|_| self.exponential(mean / f64::from(shape))).sum::<f64>().max(1.0)
    }

    fn poisson(&mut self, mean: f64) -> f64 {
        if mean > 50.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        let (limit, mut product, mut n) = ((-mean).exp(), self.0.f64(), 0.0);
        while product > limit {
            product *= self.0.f64();
            n += 1.0;
        }
        n
    }
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
        let counts = [0.0; 5];
        Self { run, random, number, now: 0.0, stack: Vec::new(), next_switch, counts }
    }

    fn visit(&mut self, function: usize) {
        let of = &self.run.functions[function];
        let length = self.random.length(of.length, of.shape);
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
        let total: f64 = self.run.functions.iter().map(|function| function.weight).sum();
        let mut at = self.random.0.f64() * total;
        let choice = self.run.functions.iter().position(|function| {
            at -= function.weight;
            at < 0.0
        });
        choice.unwrap_or(0)
    }

    /// Goes on until `until`.
    fn advance(&mut self, until: f64) {
        while self.now < until {
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
            let cycles = top.1.min(until - self.now).min(self.next_switch - self.now).max(1e-9);
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
        let spread = self.run.spread * of.ipc * (300.0 * cycles).sqrt();
        let instructions = (of.ipc * cycles + spread * self.random.normal()).max(0.0);
        let references = self.random.poisson(instructions * of.cache_references);
        self.counts[0] += instructions;
        self.counts[1] += self.random.poisson(instructions * of.branch_misses);
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
    events: usize,
    bytes: Vec<(u64, Vec<u8>)>,
    /// What A has counted more than B.
    offset: f64,
}

impl Tape<'_> {
    fn id(&self, event: usize) -> u64 {
        1 + event as u64 * u64::from(self.cpu.run.cpus) + u64::from(self.cpu.number)
    }

    /// A sample of an event, now; the leader has counted `cycles`.
    fn sample(&mut self, event: usize) {
        let random = &mut self.cpu.random.0;
        let inside = random.u64(..SPACE / 16) * 16;
        let (tid, ip) = match self.cpu.function() {
            Some(function) => (PID + self.cpu.number, BASE + function as u64 * SPACE + inside),
            None => (PID + 50, BASE + self.cpu.run.functions.len() as u64 * SPACE + inside),
        };
        let time = 1_000_000_000 + self.cpu.now as u64;
        let mut record = Vec::new();
        let mut builder = RecordBuilder::new(&mut record, kind::SAMPLE, misc::USER)
            .u64(self.id(event))
            .u64(ip)
            .u32(PID)
            .u32(tid)
            .u64(time)
            .u64(u64::from(self.cpu.number))
            .u64(self.events as u64);
        let strobed = usize::from(self.cpu.run.form == Form::Strobe);
        for at in 0..self.events {
            let count = match at {
                0 => self.cpu.now,
                1 if strobed == 1 => self.cpu.now - self.offset,
                at if at + 1 == self.events => self.cpu.counts[4],
                at => self.cpu.counts[at - 1 - strobed],
            };
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

    fn throttle(&mut self, goes_on: bool) {
        let time = 1_000_000_000 + self.cpu.now as u64;
        let mut record = Vec::new();
        let id = self.id(0);
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
pub(crate) fn write(run: &Run, path: &Path) {
    let strobed = run.form == Form::Strobe;
    let number = 1 + usize::from(strobed) + run.counts + 1;
    let mut epochs = Vec::new();
    let mut tapes = Vec::new();
    for cpu in 0..run.cpus {
        let offset = 0.0;
        let mut tape = Tape { cpu: Cpu::new(run, cpu), events: number, bytes: Vec::new(), offset };
        match run.form {
            Form::Strobe => strobe(run, &mut tape, &mut epochs),
            Form::BackToBack | Form::Alternating => one_event(run, &mut tape),
        }
        tapes.push(tape.bytes);
    }
    let events = events(run, number);
    let info = RecordingInfo {
        complete: true,
        strobe: strobed.then(|| strobe_info(run, number, epochs)),
        ..RecordingInfo::default()
    };
    let data = interleaved(run, tapes);
    let mut file = front(&events);
    let start = file.len() as u64;
    file.extend_from_slice(&data);
    let features = Features { info: Some(info.to_json()), ..Features::default() };
    let end = closing(&events, &features, start, data.len() as u64);
    file.extend_from_slice(&end.tail);
    file[..end.header.len()].copy_from_slice(&end.header);
    std::fs::write(path, file).unwrap();
}

/// Epochs of 100 periods; after each the period is another one.
fn strobe(run: &Run, tape: &mut Tape<'_>, epochs: &mut Vec<Epoch>) {
    let window = run.window as f64;
    let mut suspensions = run.throttles;
    while tape.cpu.now < run.cycles {
        let period = run.period + tape.cpu.random.0.u64(..run.period / 50);
        // The phase is set somewhere.
        let wait = tape.cpu.random.0.f64() * period as f64;
        let now = tape.cpu.now;
        tape.cpu.advance(now + wait);
        let from = tape.cpu.now;
        // Counts go on: each phase that is set adds its window to what was there before.
        let before = tape.offset;
        tape.offset += window;
        let mut is_broken = false;
        for at in 1..=100 {
            if is_broken {
                // Both were started again at the same moment.
                let next = tape.cpu.now + period as f64;
                tape.overflow(0, next);
                tape.sample(1);
                continue;
            }
            let fires = from + f64::from(at) * period as f64;
            tape.overflow(0, fires);
            if suspensions > 0 && at == 50 {
                suspensions -= 1;
                tape.suspend();
                tape.offset -= window;
                is_broken = true;
                continue;
            }
            tape.overflow(1, fires + window);
        }
        epochs.push(Epoch {
            cpu: tape.cpu.number,
            group: 0,
            from_ns: 1_000_000_000 + from as u64,
            until_ns: Some(1_000_000_001 + tape.cpu.now as u64),
            period,
            window: run.window,
            offsets: vec![run.window],
            rejected_tries: 0,
            reason: Reason::Dither,
            before: vec![before as u64],
        });
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

fn strobe_info(run: &Run, number: usize, epochs: Vec<Epoch>) -> StrobeInfo {
    StrobeInfo {
        event: "cycles:u".into(),
        window: run.window,
        period: run.period,
        burst: 1,
        granule: 1,
        tolerance: 2,
        groups: vec![StrobeGroup {
            events: (0..number as u32).collect(),
            edges: vec![0, 1],
            context_switches: Some(number as u32 - 1),
            cpus: String::new(),
        }],
        epochs,
        ..StrobeInfo::default()
    }
}

fn events(run: &Run, number: usize) -> Vec<FileEvent> {
    let strobed = usize::from(run.form == Form::Strobe);
    let event = |at: usize| {
        let samples = at <= strobed;
        let name = match at {
            0 => "cycles:u",
            1 if strobed == 1 => "cycles:u",
            at if at + 1 == number => "context-switches",
            at => COUNTS[at - 1 - strobed],
        };
        FileEvent {
            attr: Attr {
                event_type: event_type::HARDWARE,
                sample: match (samples, run.form) {
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
            ids: (0..u64::from(run.cpus))
                .map(|cpu| 1 + at as u64 * u64::from(run.cpus) + cpu)
                .collect(),
        }
    };
    (0..number).map(event).collect()
}

/// The process, then rings one after another, round by round.
fn interleaved(run: &Run, tapes: Vec<Vec<(u64, Vec<u8>)>>) -> Vec<u8> {
    let mut data = Vec::new();
    let trailer =
        |builder: RecordBuilder<'_>| builder.u32(PID).u32(PID).u64(0).u64(0).u64(1).finish();
    let start = RecordBuilder::new(&mut data, kind::COMM, misc::COMM_EXEC);
    trailer(start.u32(PID).u32(PID).name(b"simulated"));
    let size = SPACE * (run.functions.len() as u64 + 1);
    let start = RecordBuilder::new(&mut data, kind::MMAP, misc::USER).u32(PID).u32(PID);
    trailer(start.u64(BASE).u64(size).u64(0).name(b"/bin/simulated"));
    let mut tapes: Vec<_> = tapes.into_iter().map(|tape| tape.into_iter().peekable()).collect();
    let mut until = 1_000_000_000_u64;
    while tapes.iter_mut().any(|tape| tape.peek().is_some()) {
        until += 100_000_000;
        for tape in &mut tapes {
            while let Some((_, record)) = tape.next_if(|(time, _)| *time < until) {
                data.extend(record);
            }
        }
        RecordBuilder::new(&mut data, kind::FINISHED_ROUND, 0).finish();
    }
    data
}
