//! Recordings of loads and stores as PMUs sample them, of simulated threads whose sharing is known. It shares nothing with
//! what reads them.
//!
//! ```text
//!  threads, one per CPU ── pick accesses at random ─► lines: who has them, modified or not, and which bytes were
//!                                                     written since a CPU had the line last
//!                                                        │ where a load finds its data, how long that takes
//!                                                        ▼
//!                                      the truth, and one access in N as a sample of PEBS, IBS or SPE
//! ```

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type};
use pmuscope_perfdata::MemoryNodes;
use pmuscope_perfdata::writer::{Features, FileEvent, NodeEntry, closing, front};

/// The process where nothing else is asked for.
pub const PID: u32 = 4000;
/// The clock at the start, nanoseconds.
const START: u64 = 7_000_000_000;
/// Where the program and its memory are.
pub const CODE: u64 = 0x40_1000;
/// Address of the first cache line of the heap.
pub const MEMORY: u64 = 0x5555_0000_0000;
/// Cycles that loads take: first-level cache, last-level cache, another core's, one of another node.
const LATENCY: [f64; 4] = [5.0, 50.0, 90.0, 220.0];

/// A mapping of the process: first address, bytes, offset in the file, inode (0: no file), path.
pub type Mapping = (u64, u64, u64, u64, String);

/// Where lines are.
#[derive(Debug, Clone)]
pub struct Memory {
    /// The process that has it; its threads follow.
    pub pid: u32,
    /// Address of the first line.
    pub first: u64,
    /// Mappings of the process.
    pub mappings: Vec<Mapping>,
    /// The instruction of each access, and the mapping of their file; else of a file that is nowhere.
    pub code: Option<(Vec<u64>, Mapping)>,
}

impl Memory {
    fn heap() -> Self {
        let mappings = vec![(MEMORY, 0x10_0000, 0, 0, "[heap]".into())];
        Self { pid: PID, first: MEMORY, mappings, code: None }
    }

    /// The same with real code.
    pub fn heap_with(code: Vec<u64>, mapping: Mapping) -> Self {
        Self { code: Some((code, mapping)), ..Self::heap() }
    }

    /// Addresses of real code.
    pub fn code(&self) -> &[u64] {
        self.code.as_ref().map_or(&[], |(code, _)| code)
    }

    fn instruction(&self, ip: u64) -> u64 {
        let access = ((ip - CODE) / 16) as usize;
        self.code.as_ref().map_or(ip, |(code, _)| code[access])
    }
}

/// Memory that processes with a thread each share, all at other addresses.
#[derive(Debug, Clone, Default)]
pub struct Sharers {
    /// The file, or what the kernel calls memory without one: `/dev/zero (deleted)`, `/SYSV00000000`.
    pub path: &'static str,
    /// `MAP_SHARED` 1, `MAP_PRIVATE` 2.
    pub flags: u32,
    /// Physical address of the first line; `None`: samples do not have it. Every tenth sample has 0.
    pub physical: Option<u64>,
    /// When it is moved, as a share of the recording's time, and the physical address of the first line from then on.
    pub moved: Option<(f64, u64)>,
    /// What the recording says of the nodes of physical memory.
    pub memory_nodes: Option<MemoryNodes>,
}

impl Sharers {
    /// Physical address of the first line at a time.
    fn physical_at(&self, so_far: f64) -> Option<u64> {
        let moved = self.moved.filter(|(when, _)| so_far >= *when);
        moved.map(|(_, to)| to).or(self.physical)
    }

    /// Address of the first line in the process of a thread.
    pub fn first(thread: usize) -> u64 {
        MEMORY + thread as u64 * 0x1000_0000
    }
}

/// What a PMU samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pmu {
    /// Loads that took 30 cycles or longer, and stores by another event, as Intel has it.
    Pebs,
    /// All operations, half of which are no accesses; of stores it is not known where they go.
    Ibs,
    /// All loads and stores; whether another cache had modified a line is not known.
    Spe,
}

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Reads the bytes.
    Load,
    /// Writes the bytes.
    Store,
    /// A locked instruction: loads and stores.
    Add,
}

/// Accesses of a thread to some bytes.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    /// Index of the thread.
    pub thread: usize,
    /// Index of the cache line.
    pub line: usize,
    /// Offset of the first byte in the line.
    pub offset: u64,
    /// Kind of the access.
    pub does: Does,
    /// How often, compared with the thread's others.
    pub weight: f64,
}

/// A program and how it is sampled.
#[derive(Debug, Clone)]
pub struct Program {
    /// PMU that samples.
    pub pmu: Pmu,
    /// Number of threads, one per CPU.
    pub threads: usize,
    /// CPUs of a NUMA node.
    pub cpus_per_node: usize,
    /// Accesses that threads draw from.
    pub accesses: Vec<Access>,
    /// Accesses of all threads, and one in how many is a sample.
    pub steps: u64,
    /// Sample period, in accesses.
    pub period: u64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Whether samples have time stamps; without them a recording is read in order.
    pub timed: bool,
}

/// What is true of a line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Truth {
    /// Loads that found the line modified by another CPU, and what they took, cycles.
    pub contended: u64,
    /// Cycles of the contended loads.
    pub cost: f64,
    /// Of them, those of bytes that no other CPU had written since this one had the line.
    pub by_neighbors: u64,
    /// Cycles of the loads in `by_neighbors`.
    pub neighbors_cost: f64,
    /// Contended loads by access that loaded and access that had written the line last: their positions in
    /// [`Program::accesses`].
    pub pairs: BTreeMap<(usize, usize), u64>,
}

/// A sample.
#[derive(Debug, Clone, Copy)]
struct Sample {
    event: u64,
    thread: usize,
    time: u64,
    ip: u64,
    address: u64,
    weight: u64,
    source: u64,
}

/// State of a line.
#[derive(Debug, Clone, Default)]
struct Line {
    /// The CPU that has it modified.
    owner: Option<usize>,
    /// The access that wrote it last.
    writer: usize,
    /// CPUs that have it.
    sharers: Vec<bool>,
    /// By CPU: offsets that others wrote since it had the line.
    written: Vec<Vec<u64>>,
}

/// What a thread does with the heap.
#[derive(Debug, Clone, Copy)]
pub enum HeapStep {
    /// `malloc`, called by the instruction before this return address; its caller has another.
    Allocate {
        /// Address of the block.
        address: u64,
        /// Size of the block, bytes.
        size: u64,
        /// Return addresses, the innermost first.
        callers: [u64; 2],
    },
    /// `free`.
    Free {
        /// Address of the block.
        address: u64,
    },
    /// Records were lost.
    Lose,
}

/// A step, when, and by which thread: share of the recording's time.
pub type HeapMoment = (f64, usize, HeapStep);

/// Ids of the events of allocations.
const CALLS: u64 = 10;
const RETURNS: u64 = 11;

/// Where a load found its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Own,
    LastLevel,
    Core,
    Node,
}

/// Runs a program; samples if asked for.
pub struct Simulation {
    /// Truth by cache line.
    pub truth: Vec<Truth>,
    samples: Vec<Sample>,
}

impl Program {
    /// Number of cache lines that are accessed.
    pub fn lines(&self) -> usize {
        self.accesses.iter().map(|access| access.line + 1).max().unwrap_or(0)
    }

    fn node(&self, cpu: usize) -> usize {
        cpu / self.cpus_per_node
    }

    /// Simulates all accesses.
    pub fn run(&self) -> Simulation {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let of_thread: Vec<Vec<usize>> = (0..self.threads)
            .map(|thread| {
                let all = 0..self.accesses.len();
                all.filter(|&at| self.accesses[at].thread == thread).collect()
            })
            .collect();
        let empty = Line {
            owner: None,
            writer: 0,
            sharers: vec![false; self.threads],
            written: vec![Vec::new(); self.threads],
        };
        let mut lines = vec![empty; self.lines()];
        let mut out =
            Simulation { truth: vec![Truth::default(); lines.len()], samples: Vec::new() };
        let (mut until, mut until_store) = (self.period / 2, self.period / 3);
        for step in 0..self.steps {
            let thread = random.usize(..self.threads);
            let Some(at) = pick(&mut random, &of_thread[thread], &self.accesses) else { continue };
            let access = self.accesses[at];
            let line = &mut lines[access.line];
            let from = self.load(line, thread);
            let is_false = !line.written[thread].contains(&access.offset);
            let spread = 0.7 + 0.3 * -f64::ln(1.0 - random.f64());
            let took = (LATENCY[from as usize] * spread).max(4.0);
            let (is_own, writer) = (line.owner == Some(thread), line.writer);
            line.access(thread, (at, &access));
            let does_load = access.does != Does::Store;
            if does_load && matches!(from, From::Core | From::Node) {
                let truth = &mut out.truth[access.line];
                truth.contended += 1;
                truth.cost += took;
                truth.by_neighbors += u64::from(is_false);
                truth.neighbors_cost += if is_false { took } else { 0.0 };
                *truth.pairs.entry((at, writer)).or_default() += 1;
            }
            let counter = match (self.pmu, does_load) {
                (Pmu::Pebs, true) if took < 30.0 => continue,
                (Pmu::Pebs, false) => &mut until_store,
                _ => &mut until,
            };
            *counter -= 1;
            if *counter > 0 {
                continue;
            }
            *counter = random.u64(self.period / 2 + 1..=self.period * 3 / 2);
            let time = START + step * 1000 + random.u64(..900);
            // IBS picks another operation as often.
            let is_access = self.pmu != Pmu::Ibs || random.bool();
            out.samples.push(Sample {
                event: u64::from(self.pmu == Pmu::Pebs && !does_load),
                thread,
                time,
                ip: CODE + 16 * at as u64,
                address: if is_access {
                    MEMORY + 64 * access.line as u64 + access.offset
                } else {
                    0
                },
                weight: if is_access && does_load { took as u64 } else { 0 },
                source: if is_access { self.source(access.does, from, is_own) } else { 1 },
            });
        }
        out
    }

    fn load(&self, line: &Line, thread: usize) -> From {
        match line.owner {
            _ if line.sharers[thread] => From::Own,
            Some(owner) if self.node(owner) == self.node(thread) => From::Core,
            Some(_) => From::Node,
            None => From::LastLevel,
        }
    }

    /// The word that the kernel makes of it: see `union perf_mem_data_src`.
    fn source(&self, does: Does, from: From, is_own: bool) -> u64 {
        let locked = if does == Does::Add { 2 << 24 } else { 0 };
        if does == Does::Store {
            return 4 | match (self.pmu, is_own) {
                (Pmu::Pebs, true) => (2 | 8) << 5,
                (Pmu::Pebs, false) => (4 | 8) << 5,
                _ => 1 << 5,
            };
        }
        let of = |level: u64, number: u64| (2 | level) << 5 | number << 33;
        let hitm = 16 << 19;
        let load = match (self.pmu, from) {
            (_, From::Own) => of(8, 1),
            (_, From::LastLevel) => of(0x40, 3) | 2 << 19,
            (Pmu::Pebs, From::Core) => of(0x40, 3) | hitm,
            (Pmu::Pebs, From::Node) => of(0x400, 0xb) | hitm | 1 << 37,
            // Another core of the node: its level and the remote bit are set, too.
            (Pmu::Ibs, From::Core) => of(0x400, 0xb) | hitm | 1 << 37 | 1 << 43,
            (Pmu::Ibs, From::Node) => of(0x800, 0xb) | hitm | 1 << 37 | 2 << 43,
            (Pmu::Spe, From::Core) => of(0x40, 3) | 2 << 38,
            (Pmu::Spe, From::Node) => 1 << 5 | 0xb << 33 | 1 << 37 | 2 << 38,
        };
        2 | load | locked
    }
}

fn pick(random: &mut fastrand::Rng, of: &[usize], accesses: &[Access]) -> Option<usize> {
    let all: f64 = of.iter().map(|&at| accesses[at].weight).sum();
    let mut left = random.f64() * all;
    of.iter().copied().find(|&at| {
        left -= accesses[at].weight;
        left < 0.0
    })
}

impl Line {
    fn access(&mut self, thread: usize, (at, access): (usize, &Access)) {
        let stores = access.does != Does::Load;
        if !self.sharers[thread] || stores {
            self.written[thread].clear();
        }
        if stores {
            self.sharers.fill(false);
            (self.owner, self.writer) = (Some(thread), at);
            for (other, written) in self.written.iter_mut().enumerate() {
                if other != thread && !written.contains(&access.offset) {
                    written.push(access.offset);
                }
            }
        } else if self.owner != Some(thread) {
            self.owner = None;
        }
        self.sharers[thread] = true;
    }
}

fn sample_type(program: &Program, sharers: Option<&Sharers>) -> SampleType {
    let time = if program.timed { SampleType::TIME } else { SampleType::empty() };
    let physical = sharers.and_then(|sharers| sharers.physical).map(|_| SampleType::PHYS_ADDR);
    time | physical.unwrap_or_default()
        | SampleType::IDENTIFIER
        | SampleType::IP
        | SampleType::TID
        | SampleType::ADDR
        | SampleType::CPU
        | SampleType::PERIOD
        | SampleType::WEIGHT
        | SampleType::DATA_SRC
}

fn events(program: &Program, sharers: Option<&Sharers>) -> Vec<FileEvent> {
    let event = |name: &str, config: u64, id: u64| FileEvent {
        attr: Attr {
            event_type: event_type::RAW,
            config,
            sample: program.period,
            sample_type: sample_type(program, sharers),
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        },
        name: name.into(),
        ids: vec![id],
    };
    match program.pmu {
        Pmu::Pebs => {
            vec![event("mem-loads", 0x1cd, 1), event("mem-stores", 0x82d0, 2)]
        }
        Pmu::Ibs => vec![event("ibs_op", 0, 1)],
        Pmu::Spe => vec![event("arm_spe", 0, 1)],
    }
}

impl Simulation {
    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.samples.len()
    }

    /// Writes what was sampled.
    pub fn write(&self, program: &Program, path: &Path) {
        self.write_in(program, path, &Memory::heap());
    }

    /// The same with lines elsewhere.
    pub fn write_in(&self, program: &Program, path: &Path, memory: &Memory) {
        self.write_as(program, path, (memory, None));
    }

    /// The same with a process for each thread.
    pub fn write_shared(&self, program: &Program, path: &Path, sharers: &Sharers) {
        self.write_as(program, path, (&Memory::heap(), Some(sharers)));
    }

    /// The same with allocations, in order.
    pub fn write_heap(&self, program: &Program, path: &Path, heap: &[HeapMoment]) {
        self.write_heap_in(program, path, &Memory::heap(), heap);
    }

    /// The same of a program with code.
    pub fn write_heap_in(
        &self,
        program: &Program,
        path: &Path,
        memory: &Memory,
        heap: &[HeapMoment],
    ) {
        self.write_events(program, path, (memory, None), heap);
    }

    fn write_as(&self, program: &Program, path: &Path, memory: (&Memory, Option<&Sharers>)) {
        self.write_events(program, path, memory, &[]);
    }

    fn write_events(
        &self,
        program: &Program,
        path: &Path,
        (memory, sharers): (&Memory, Option<&Sharers>),
        heap: &[HeapMoment],
    ) {
        let mut events = events(program, sharers);
        if !heap.is_empty() {
            events.extend(heap_events());
        }
        // Steps of one thread are not at the same time.
        let mut heap = (0..).zip(heap.iter().copied()).peekable();
        let mut data = Vec::new();
        match sharers {
            Some(sharers) => begin_shared(program, &mut data, sharers),
            None => begin(program, &mut data, memory),
        }
        let mut samples = self.samples.clone();
        samples.sort_by_key(|sample| sample.time);
        for (at, sample) in samples.into_iter().enumerate() {
            let Sample { event, thread, time, ip, address, weight, source } = sample;
            let so_far = (time - START) as f64 / (program.steps * 1000) as f64;
            while let Some((number, (when, by, step))) = heap.next_if(|one| one.1.0 <= so_far) {
                let at = START + (when * (program.steps * 1000) as f64) as u64 + 2 * number;
                write_heap_step(&mut data, (memory.pid, memory.pid + by as u32), at, step);
            }
            let (tid, cpu) = (memory.pid + thread as u32, thread as u32);
            let pid = if sharers.is_some() { tid } else { memory.pid };
            let first = sharers.map_or(memory.first, |_| Sharers::first(thread));
            let builder = RecordBuilder::new(&mut data, kind::SAMPLE, misc::USER).u64(event + 1);
            let within = address.checked_sub(MEMORY);
            let address = within.map_or(0, |within| first + within);
            let builder = builder.u64(memory.instruction(ip)).u32(pid).u32(tid);
            let builder = if program.timed { builder.u64(time) } else { builder };
            let builder = builder.u64(address).u32(cpu).u32(0).u64(program.period);
            let builder = builder.u64(weight).u64(source);
            match sharers.and_then(|sharers| sharers.physical_at(so_far)).zip(within) {
                Some((first, within)) if at % 10 > 0 => builder.u64(first + within).finish(),
                _ if sharers.is_some_and(|sharers| sharers.physical.is_some()) => {
                    builder.u64(0).finish();
                }
                _ => builder.finish(),
            }
        }
        let nodes = program.threads.div_ceil(program.cpus_per_node);
        let node = |id: usize| {
            let first = id * program.cpus_per_node;
            let last = (first + program.cpus_per_node).min(program.threads) - 1;
            let cpus = format!("{first}-{last}");
            NodeEntry { id: id as u32, total_kib: 1 << 20, free_kib: 1 << 19, cpus }
        };
        let features = Features {
            arch: Some("x86_64".into()),
            cpus: Some((program.threads as u32, program.threads as u32)),
            nodes: (0..nodes).map(node).collect(),
            memory_nodes: sharers.and_then(|sharers| sharers.memory_nodes.clone()),
            ..Features::default()
        };
        let mut file = front(&events);
        let start = file.len() as u64;
        file.extend_from_slice(&data);
        let end = closing(&events, &features, start, data.len() as u64);
        file.extend_from_slice(&end.tail);
        file[..end.header.len()].copy_from_slice(&end.header);
        std::fs::write(path, file).unwrap();
    }

    /// Costs of lines, the largest first.
    pub fn ranking(&self) -> Vec<usize> {
        let mut lines: Vec<usize> = (0..self.truth.len()).collect();
        lines.retain(|&line| self.truth[line].contended > 0);
        lines.sort_by(|&a, &b| self.truth[b].cost.total_cmp(&self.truth[a].cost));
        lines
    }
}

/// The events of `record --alloc`.
fn heap_events() -> Vec<FileEvent> {
    let event = |name: &str, config: u64, id: u64, more: SampleType| FileEvent {
        attr: Attr {
            event_type: event_type::TRACEPOINT,
            config,
            sample: 1,
            sample_type: more
                | SampleType::IDENTIFIER
                | SampleType::IP
                | SampleType::TID
                | SampleType::TIME
                | SampleType::CPU
                | SampleType::RAW,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        },
        name: name.into(),
        ids: vec![id],
    };
    vec![
        event("alloc:call", 2001, CALLS, SampleType::empty()),
        event("alloc:return", 2002, RETURNS, SampleType::CALLCHAIN),
    ]
}

/// The records of a step.
fn write_heap_step(data: &mut Vec<u8>, (pid, tid): (u32, u32), time: u64, step: HeapStep) {
    const SP: u64 = 0x7fff_0000_1000;
    const FUNCTION: u64 = CODE + 0x8000;
    let call = |data: &mut Vec<u8>, function: u64, argument: u64| {
        let call = RecordBuilder::new(data, kind::SAMPLE, misc::USER).u64(CALLS).u64(FUNCTION);
        let call = call.u32(pid).u32(tid).u64(time).u32(0).u32(0);
        // Bytes of the raw data, with those that make the record whole.
        let call = call.u32(60).u32(0).u32(tid).u64(FUNCTION).u64(function).u64(argument);
        call.u64(0).u64(0).u64(SP).u32(0).finish();
    };
    match step {
        HeapStep::Free { address } => call(data, 0, address),
        HeapStep::Lose => {
            let lost = RecordBuilder::new(data, kind::LOST, 0).u64(CALLS).u64(5);
            let own = u64::from(pid) | u64::from(tid) << 32;
            lost.u64(own).u64(time).u64(0).u64(CALLS).finish();
        }
        HeapStep::Allocate { address, size, callers } => {
            call(data, 1, size);
            let [caller, outer] = callers;
            let back = RecordBuilder::new(data, kind::SAMPLE, misc::USER).u64(RETURNS).u64(caller);
            let back = back.u32(pid).u32(tid).u64(time + 1).u32(0).u32(0);
            let back = back.u64(3).u64(-512_i64 as u64).u64(caller).u64(outer);
            let back = back.u32(44).u32(0).u32(tid).u64(FUNCTION).u64(caller);
            back.u64(address).u64(SP + 8).u32(0).finish();
        }
    }
}

/// Who ran, and what was mapped.
fn begin(program: &Program, data: &mut Vec<u8>, memory: &Memory) {
    let pid = memory.pid;
    let trailer = |tid: u32| {
        let own = u64::from(pid) | u64::from(tid) << 32;
        let time = program.timed.then_some(START - 1);
        let words: Vec<u64> = [own].into_iter().chain(time).chain([0, 1]).collect();
        words.into_iter().flat_map(u64::to_ne_bytes).collect::<Vec<u8>>()
    };
    for thread in 0..program.threads as u32 {
        let tid = pid + thread;
        if thread > 0 {
            let fork = RecordBuilder::new(data, kind::FORK, 0).u32(pid).u32(pid);
            fork.u32(tid).u32(pid).u64(START - 1).bytes(&trailer(tid)).finish();
        }
        let name = if thread == 0 { "main".to_owned() } else { format!("worker-{thread}") };
        let comm = RecordBuilder::new(data, kind::COMM, 0).u32(pid).u32(tid);
        comm.name(name.as_bytes()).bytes(&trailer(tid)).finish();
    }
    let mut map = |(start, length, offset, inode, path): &Mapping, bits: u16, protection: u32| {
        let map = RecordBuilder::new(data, kind::MMAP2, misc::USER | bits).u32(pid).u32(pid);
        // Readers hold it against the file.
        let own = std::fs::metadata(path).map(|file| file.ino()).ok().filter(|_| *inode != 0);
        let inode = own.unwrap_or(*inode);
        let map = map.u64(*start).u64(*length).u64(*offset).u32(8).u32(1).u64(inode).u64(0);
        // MAP_PRIVATE.
        map.u32(protection).u32(2).name(path.as_bytes()).bytes(&trailer(pid)).finish();
    };
    let nowhere = (CODE & !0xfff, 0x10_0000, 0, 77, "/nowhere/program".into());
    map(memory.code.as_ref().map_or(&nowhere, |(_, mapping)| mapping), 0, 5);
    memory.mappings.iter().for_each(|mapping| map(mapping, misc::MMAP_DATA, 3));
}

/// Processes that map the same memory.
fn begin_shared(program: &Program, data: &mut Vec<u8>, sharers: &Sharers) {
    for thread in 0..program.threads {
        let pid = PID + thread as u32;
        let own = u64::from(pid) | u64::from(pid) << 32;
        let trailer: Vec<u8> =
            [own, START - 1, 0, 1].into_iter().flat_map(u64::to_ne_bytes).collect();
        let comm = RecordBuilder::new(data, kind::COMM, 0).u32(pid).u32(pid);
        comm.name(format!("process-{thread}").as_bytes()).bytes(&trailer).finish();
        let mut map = |start: u64, bits: u16, (protection, flags): (u32, u32), path: &str| {
            let map = RecordBuilder::new(data, kind::MMAP2, misc::USER | bits).u32(pid).u32(pid);
            let map = map.u64(start).u64(0x10_0000).u64(0).u32(8).u32(1).u64(77).u64(0);
            map.u32(protection).u32(flags).name(path.as_bytes()).bytes(&trailer).finish();
        };
        map(CODE & !0xfff, 0, (5, 2), "/nowhere/program");
        map(Sharers::first(thread), misc::MMAP_DATA, (3, sharers.flags), sharers.path);
    }
}

/// Truth by the verdict that follows from it: share of loads due to neighbors.
pub fn false_shares(simulation: &Simulation) -> BTreeMap<usize, f64> {
    let lines = simulation.truth.iter().enumerate().filter(|(_, truth)| truth.contended > 0);
    lines.map(|(line, truth)| (line, truth.by_neighbors as f64 / truth.contended as f64)).collect()
}

/// Three threads on two nodes: a counter that all add to, counters of each thread in one line, a word that nobody writes
/// beside one that thread 0 writes, and words of one thread.
pub fn example(pmu: Pmu) -> Program {
    let access = |thread, line, offset, does, weight| Access { thread, line, offset, does, weight };
    let mut accesses = Vec::new();
    for thread in 0..3 {
        accesses.extend([
            access(thread, 0, 8, Does::Add, 0.5),
            access(thread, 1, 8 * thread as u64, Does::Load, 0.3),
            access(thread, 1, 8 * thread as u64, Does::Store, 0.3),
            access(thread, 3, 0, Does::Load, if thread == 2 { 1.0 } else { 0.0 }),
            access(thread, 3, 8, Does::Store, if thread == 2 { 1.0 } else { 0.0 }),
        ]);
        let does = if thread == 0 { Does::Store } else { Does::Load };
        accesses.push(access(thread, 2, if thread == 0 { 0 } else { 40 }, does, 0.1));
    }
    Program {
        pmu,
        threads: 3,
        cpus_per_node: 2,
        accesses,
        steps: 400_000,
        period: 50,
        seed: 1,
        timed: true,
    }
}
