//! Passes on any number of threads, one in order, and tables of every address: all the same.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type};
use pmuscope_perfdata::reader::scan::Pieces;
use pmuscope_perfdata::reader::{CpuMode, Reader, Record, Sample, Stage};
use pmuscope_perfdata::writer::{Features, FileEvent, closing, front};
use pmuscope_profile::aggregate::Aggregate;
use pmuscope_profile::{Collected, Counting, Facts, Filter, GroupBy, Options, Profile, TasksBy};
use pmuscope_symbols::{Frame, KernelIdentity, Request, Resolved, State, Symbol};

/// Mappings begin and end at multiples of this: some pages have several.
const UNIT: u64 = 1024;
const UNITS: u64 = 60;
const KERNEL: u64 = 0xffff_ffff_8000_0000;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn events() -> Vec<FileEvent> {
    let common = SampleType::IDENTIFIER
        | SampleType::IP
        | SampleType::TID
        | SampleType::TIME
        | SampleType::CPU;
    let more = [SampleType::PERIOD | SampleType::CALLCHAIN, SampleType::empty()];
    let event = |(number, more): (usize, SampleType)| FileEvent {
        attr: Attr {
            event_type: event_type::SOFTWARE,
            config: 2 * number as u64,
            sample: 1000,
            sample_type: common | more,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        },
        name: ["cpu-clock", "page-faults"][number].into(),
        ids: vec![number as u64 + 1],
    };
    more.into_iter().enumerate().map(event).collect()
}

/// Records that happen one after another on several CPUs, as a recorder writes them: in rounds, ring
/// by ring. Some share a time stamp, some have none.
fn records(random: &mut Random, number: usize) -> Vec<u8> {
    let mut data = Vec::new();
    let mut rings: [Vec<Vec<u8>>; 3] = Default::default();
    let mut time = 1_000_000_000;
    for _ in 0..number {
        time += random.below(4) * random.below(1 << 20);
        let stamp = if random.below(100) == 0 { 0 } else { time };
        let mut record = Vec::new();
        one(random, &mut record, stamp, time);
        rings[random.below(3) as usize].push(record);
        if random.below(50) == 0 {
            rings.iter_mut().for_each(|ring| data.extend(ring.drain(..).flatten()));
            if random.below(2) == 0 {
                RecordBuilder::new(&mut data, kind::FINISHED_ROUND, 0).finish();
            }
        }
    }
    data.extend(rings.into_iter().flatten().flatten());
    data
}

/// `time` is that of a sample, `stamp` that of any other record, which may have none.
fn one(random: &mut Random, out: &mut Vec<u8>, stamp: u64, time: u64) {
    let pid = |random: &mut Random| 1 + random.below(5) as u32;
    let tid = |random: &mut Random, pid: u32| pid + 100 * (random.below(3)) as u32;
    let of = pid(random);
    let thread = tid(random, of);
    let trailer = |pid: u32, tid: u32, cpu: u64| {
        let words = [u64::from(pid) | u64::from(tid) << 32, stamp, cpu, 1];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>()
    };
    match random.below(40) {
        0 => {
            let (parent, begins) =
                (pid(random), misc::USER | u16::from(random.below(4) == 0) << 13);
            RecordBuilder::new(out, kind::FORK, begins)
                .u32(of)
                .u32(parent)
                .u32(of)
                .u32(parent)
                .u64(stamp)
                .bytes(&trailer(parent, parent, 0))
                .finish();
        }
        1 => RecordBuilder::new(out, kind::FORK, 0)
            .u32(of)
            .u32(of)
            .u32(thread)
            .u32(of)
            .u64(stamp)
            .bytes(&trailer(of, of, 0))
            .finish(),
        2 => {
            let exec = if random.below(2) == 0 { misc::COMM_EXEC } else { 0 };
            let name = format!("name{}", random.below(9));
            RecordBuilder::new(out, kind::COMM, exec)
                .u32(of)
                .u32(thread)
                .name(name.as_bytes())
                .bytes(&trailer(of, thread, 0))
                .finish();
        }
        3 => RecordBuilder::new(out, kind::EXIT, 0)
            .u32(of)
            .u32(of)
            .u32(thread)
            .u32(of)
            .u64(stamp)
            .bytes(&trailer(of, thread, 0))
            .finish(),
        4..8 => {
            let (start, length) = (random.below(UNITS) * UNIT, random.below(20) * UNIT);
            let path = ["/bin/a", "/lib/b", "//anon", "anon_inode:x"][random.below(4) as usize];
            let kernel = random.below(8) == 0;
            RecordBuilder::new(out, kind::MMAP, if kernel { misc::KERNEL } else { misc::USER })
                .u32(if kernel { u32::MAX } else { of })
                .u32(thread)
                .u64(if kernel { KERNEL + start } else { start })
                .u64(length)
                .u64(random.below(50) * UNIT)
                .name(if kernel { b"[module]" } else { path.as_bytes() })
                .bytes(&trailer(of, thread, 0))
                .finish();
        }
        8 => {
            let (start, name) = (KERNEL + random.below(UNITS) * UNIT, b"bpf_prog");
            RecordBuilder::new(out, kind::KSYMBOL, 0)
                .u64(start)
                .u32(3 * UNIT as u32)
                .u16(1)
                .u16(random.below(2) as u16)
                .name(name)
                .bytes(&trailer(of, thread, 0))
                .finish();
        }
        _ => sample(random, out, (of, thread), time),
    }
}

fn sample(random: &mut Random, out: &mut Vec<u8>, (pid, tid): (u32, u32), time: u64) {
    let address = |random: &mut Random| random.below(UNITS) * UNIT + 8 * random.below(3);
    let (mut ip, mut mode) = (address(random), misc::USER);
    if random.below(4) == 0 {
        (ip, mode) = (ip + KERNEL, misc::KERNEL);
    }
    let event = u64::from(random.below(4) == 0);
    let record = RecordBuilder::new(out, kind::SAMPLE, mode)
        .u64(event + 1)
        .u64(ip)
        .u32(pid)
        .u32(tid)
        .u64(time)
        .u64(random.below(3));
    if event == 1 {
        record.finish();
        return;
    }
    let mut chain: Vec<u64> = Vec::new();
    if random.below(8) > 0 {
        // Of some precise events the interrupt comes later, in the kernel.
        let skids = mode == misc::USER && random.below(8) == 0;
        if mode == misc::KERNEL || skids {
            chain.extend([-128_i64 as u64, if skids { KERNEL + address(random) } else { ip }]);
            chain.extend((0..random.below(2)).map(|_| KERNEL + address(random)));
        }
        chain.push(-512_i64 as u64);
        chain.extend((mode == misc::USER).then_some(ip));
        chain.extend((0..random.below(3)).map(|_| address(random) + 1));
    }
    let record = record.u64(1 + random.below(1000)).u64(chain.len() as u64);
    let bytes: Vec<u8> = chain.iter().flat_map(|word| word.to_ne_bytes()).collect();
    record.bytes(&bytes).finish();
}

fn write(path: &Path, data: &[u8]) {
    write_of(path, &events(), data, &Features::default());
}

pub(crate) fn write_of(path: &Path, events: &[FileEvent], data: &[u8], features: &Features) {
    let mut file = front(events);
    let start = file.len() as u64;
    file.extend_from_slice(data);
    let end = closing(events, features, start, data.len() as u64);
    file.extend_from_slice(&end.tail);
    file[..end.header.len()].copy_from_slice(&end.header);
    std::fs::write(path, file).unwrap();
}

/// Whole records, a frame for each few of them.
pub(crate) fn frames(data: &[u8]) -> Vec<u8> {
    let (mut out, mut piece) = (Vec::new(), Vec::new());
    for (_, record) in pmuscope_abi::record::Records::new(data) {
        piece.extend_from_slice(record);
        if piece.len() > 9000 {
            let packed = zstd::bulk::compress(&std::mem::take(&mut piece), 1).unwrap();
            RecordBuilder::new(&mut out, kind::COMPRESSED, 0).bytes(&packed).finish();
        }
    }
    out.extend_from_slice(&piece);
    out
}

/// One stream through all records, cut anywhere.
pub(crate) fn stream(data: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    let mut out = Vec::new();
    for piece in data.chunks(7001) {
        std::io::Write::write_all(&mut encoder, piece).unwrap();
        std::io::Write::flush(&mut encoder).unwrap();
        let packed = std::mem::take(encoder.get_mut());
        RecordBuilder::new(&mut out, kind::COMPRESSED, 0).bytes(&packed).finish();
    }
    out
}

const APART: GroupBy = GroupBy { chains: true, tasks: TasksBy::Thread, cpus: true };
const FLAT: GroupBy = GroupBy { chains: false, ..APART };

/// What addresses are called.
type Name = fn(u64) -> Option<Symbol>;

/// Every address stays apart.
pub(crate) fn no_name(_: u64) -> Option<Symbol> {
    None
}

/// Functions of several addresses, in more than one piece, some inlined into others; some without.
fn functions(address: u64) -> Option<Symbol> {
    let function = |number: u64| format!("f{}", number % 5).into();
    let frame = |number| Frame::named(function(number), None);
    let inlined = (address % 64 > 40).then(|| frame(address / 16)).into_iter().collect();
    (address % 1000 > 100).then(|| Symbol { inlined, ..Symbol::named(function(address / 64)) })
}

pub(crate) fn finished(reader: &Reader, collected: Collected) -> Profile {
    finished_by(reader, collected, no_name)
}

fn finished_by(reader: &Reader, collected: Collected, name: Name) -> Profile {
    let running = KernelIdentity::default();
    let profile = collected.profile(reader, &running, Options::default(), &mut |requests| {
        let names = |one: &Request<'_>| Resolved {
            symbols: one.addresses.iter().map(|&address| name(address).map(Into::into)).collect(),
            state: State::NoSymbols,
        };
        requests.iter().map(names).collect()
    });
    profile.unwrap()
}

fn in_order(path: &Path, apart: GroupBy, name: Name) -> Profile {
    let mut reader = Reader::open(path).unwrap();
    let collected = Collected::in_order(&mut reader, apart, None).unwrap();
    assert_eq!(reader.tally().late, 0);
    finished_by(&reader, collected, name)
}

fn in_passes(path: &Path, apart: GroupBy, name: Name, threads: usize) -> Profile {
    let mut reader = Reader::open(path).unwrap();
    let pieces = Pieces { part: 70_000, chunk: 66 << 10, packed_chunk: 9000 };
    let collected = Collected::read_in(&mut reader, apart, threads, None, pieces).unwrap();
    assert!(reader.next().unwrap().is_none(), "it was read in order");
    let progress = reader.progress();
    assert_eq!(progress.stage(), Stage::Samples);
    assert!(progress.share().is_none_or(|share| share == 1.0), "{progress:?}");
    finished_by(&reader, collected, name)
}

/// A row as it is counted: who, where from, on which CPU; modules by name.
pub(crate) type Key = (u32, String, i32, i32, u32, Vec<(String, Option<u64>)>);

pub(crate) fn table(profile: &Profile) -> BTreeMap<Key, (u64, u64)> {
    let Aggregate { cells, stacks, frames, tasks, .. } = &profile.aggregate;
    let mut by_time = vec![(0, 0); cells.len()];
    profile.aggregate.series.for_each(|cell, count| {
        let (samples, weight) = &mut by_time[cell as usize];
        (*samples, *weight) = (*samples + u64::from(count.samples), *weight + count.weight);
    });
    let sums: Vec<(u64, u64)> = cells.iter().map(|cell| (cell.samples, cell.weight)).collect();
    assert_eq!(by_time, sums);
    let rows = cells.iter().map(|cell| {
        let task = &tasks[cell.task as usize];
        let stack = stacks.frames(cell.stack).map(|frame| {
            let frame = &frames[frame as usize];
            let path = profile.modules[frame.module as usize].path.clone();
            (path, frame.address)
        });
        let key = (
            cell.event,
            task.command.to_string(),
            task.pid.unwrap(),
            task.tid.unwrap(),
            cell.cpu.unwrap(),
            stack.collect(),
        );
        (key, (cell.samples, cell.weight))
    });
    let mut table: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
    for (key, (samples, weight)) in rows {
        // Generated code of two programs that a process executed has one name.
        let sum = table.entry(key).or_default();
        (sum.0, sum.1) = (sum.0 + samples, sum.1 + weight);
    }
    table
}

/// What is at each unit of an address space: module and address there.
type Space = Vec<Option<(String, Option<u64>)>>;

/// Everything as it is now, with nothing shared.
#[derive(Default)]
struct Oracle {
    /// Process, name, whether it lives.
    threads: HashMap<i32, (i32, String, bool)>,
    spaces: HashMap<i32, (Space, usize)>,
    /// The first file that a process mapped since it executed it.
    programs: HashMap<i32, String>,
    kernel: HashMap<u64, Option<String>>,
    loaded: HashMap<u64, bool>,
    counts: BTreeMap<Key, (u64, u64)>,
}

fn empty() -> Space {
    vec![None; UNITS as usize + 20]
}

impl Oracle {
    fn enter(&mut self, pid: i32, tid: i32) {
        if self.threads.get(&tid).is_some_and(|(of, _, alive)| *of == pid && *alive) {
            self.spaces.entry(pid).or_insert_with(|| (empty(), 1));
            return;
        }
        self.threads.insert(tid, (pid, format!(":{tid}"), true));
        self.spaces.entry(pid).or_insert_with(|| (empty(), 0)).1 += 1;
    }

    fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Comm(comm) => {
                self.enter(comm.pid, comm.tid);
                self.threads.get_mut(&comm.tid).unwrap().1 =
                    String::from_utf8(comm.name.to_vec()).unwrap();
                if comm.exec {
                    self.spaces.get_mut(&comm.pid).unwrap().0 = empty();
                    self.programs.remove(&comm.pid);
                }
            }
            Record::Fork(task) => {
                let parent = self
                    .threads
                    .get(&task.parent_tid)
                    .or_else(|| self.threads.get(&task.parent_pid))
                    .filter(|_| !task.synthesised)
                    .map(|thread| thread.1.clone());
                if task.pid != task.parent_pid {
                    let space = self.spaces.get(&task.parent_pid).map(|space| space.0.clone());
                    let space = space.filter(|_| !task.synthesised).unwrap_or_else(empty);
                    self.spaces.insert(task.pid, (space, 0));
                    let program = self.programs.get(&task.parent_pid).cloned();
                    self.programs.remove(&task.pid);
                    if let Some(program) = program.filter(|_| !task.synthesised) {
                        self.programs.insert(task.pid, program);
                    }
                }
                self.threads.remove(&task.tid);
                self.enter(task.pid, task.tid);
                if let Some(name) = parent {
                    self.threads.get_mut(&task.tid).unwrap().1 = name;
                }
            }
            Record::Exit(task) => {
                let Some(thread) = self.threads.get_mut(&task.tid).filter(|thread| thread.2) else {
                    return;
                };
                thread.2 = false;
                let pid = thread.0;
                if let Some(space) = self.spaces.get_mut(&pid) {
                    space.1 = space.1.saturating_sub(1);
                    if space.1 == 0 {
                        self.spaces.remove(&pid);
                        self.programs.remove(&pid);
                    }
                }
            }
            Record::Mmap(mmap) if mmap.kernel => {
                for unit in mmap.start / UNIT..(mmap.start + mmap.length) / UNIT {
                    self.kernel.insert(unit, Some("[module]".into()));
                }
            }
            Record::Mmap(mmap) => {
                self.enter(mmap.pid, mmap.tid);
                let path = String::from_utf8(mmap.path.to_vec()).unwrap();
                let space = &mut self.spaces.get_mut(&mmap.pid).unwrap().0;
                if path.starts_with("/bin/") || path.starts_with("/lib/") {
                    self.programs.entry(mmap.pid).or_insert_with(|| path.clone());
                }
                let units = mmap.start / UNIT..(mmap.start + mmap.length) / UNIT;
                // Where the program's own text is, memory without a file takes its place.
                let of_program = |unit: u64| {
                    let (path, at) = space[unit as usize].as_ref()?;
                    let is_it = self.programs.get(&mmap.pid) == Some(path);
                    at.filter(|_| is_it).map(|at| (path.clone(), at.wrapping_sub(unit * UNIT)))
                };
                let moved = (path == "//anon" && !units.is_empty())
                    .then(|| of_program(units.start))
                    .flatten()
                    .filter(|found| of_program(units.end - 1).as_ref() == Some(found));
                for unit in units {
                    let at = unit * UNIT;
                    if let Some((path, bias)) = &moved {
                        space[unit as usize] = Some((path.clone(), Some(at.wrapping_add(*bias))));
                        continue;
                    }
                    space[unit as usize] = Some(match &path[..] {
                        "//anon" => (format!("perf-{}.map", mmap.pid), Some(at)),
                        "anon_inode:x" => (path.clone(), None),
                        _ => (path.clone(), Some(at - mmap.start + mmap.offset)),
                    });
                }
            }
            Record::Ksymbol(function) => {
                let end = function.start + u64::from(function.length);
                for unit in function.start / UNIT..end / UNIT {
                    self.loaded.insert(unit, !function.unregistered);
                }
            }
            Record::Sample(sample) => self.sample(sample),
            _ => {}
        }
    }

    fn place(&self, pid: i32, mode: CpuMode, address: u64) -> (String, Option<u64>) {
        let unit = address / UNIT;
        if mode == CpuMode::Kernel {
            if self.loaded.get(&unit) == Some(&true) {
                return ("[bpf]".into(), None);
            }
            let module = self.kernel.get(&unit).cloned().flatten();
            return (module.unwrap_or_else(|| "[kernel.kallsyms]".into()), Some(address));
        }
        let space = self.spaces.get(&pid).map(|space| &space.0);
        match space.and_then(|space| space.get(unit as usize).cloned().flatten()) {
            Some((path, at)) => (path, at.map(|at| at + address % UNIT)),
            None => ("[unknown]".into(), None),
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let (pid, tid) = (sample.pid.unwrap(), sample.tid.unwrap());
        let name =
            self.threads.get(&tid).map_or_else(|| format!(":{tid}"), |thread| thread.1.clone());
        let mut stack = vec![self.place(pid, sample.mode, sample.ip.unwrap())];
        let mut mode = sample.mode;
        let mut is_first = true;
        for (number, entry) in sample.callchain.iter().enumerate() {
            match entry as i64 {
                -128 => (mode, is_first) = (CpuMode::Kernel, true),
                -512 => (mode, is_first) = (CpuMode::User, true),
                _ => {
                    if number != 1 || entry != sample.ip.unwrap() || mode != sample.mode {
                        let back = u64::from(!is_first);
                        stack.push(self.place(pid, mode, entry - back));
                    }
                    is_first = false;
                }
            }
        }
        let key = (sample.event as u32, name, pid, tid, sample.cpu.unwrap(), stack);
        let (samples, weight) = self.counts.entry(key).or_default();
        *samples += 1;
        *weight += sample.period.unwrap_or(1);
    }
}

fn by_tables(path: &Path) -> BTreeMap<Key, (u64, u64)> {
    by_filtered_tables(path, &Filter::default())
}

fn by_filtered_tables(path: &Path, filter: &Filter) -> BTreeMap<Key, (u64, u64)> {
    let mut reader = Reader::open(path).unwrap();
    let mut oracle = Oracle::default();
    while let Some(entry) = reader.next().unwrap() {
        if let Record::Sample(sample) = &entry.record {
            let thread = sample.tid.and_then(|tid| oracle.threads.get(&tid));
            let comm = thread
                .map_or_else(|| format!(":{}", sample.tid.unwrap()), |thread| thread.1.clone());
            let (task, comm) = (sample.pid.zip(sample.tid), comm.as_bytes());
            let (cpu, time, event) = (sample.cpu, sample.time, Some(sample.event));
            if !filter.passes(&Facts { task, comm, cpu, time, event }) {
                continue;
            }
        }
        oracle.take(&entry.record);
    }
    oracle.counts
}

type Pack = fn(&[u8]) -> Vec<u8>;

/// Cells hold addresses; functions that the kernel told have one name, so they are one place here.
#[test]
fn all_ways_count_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made.data");
    for seed in 0..12 {
        let number = [200, 200, 5000][seed as usize % 3];
        let data = records(&mut Random(seed), number);
        write(&path, &data);
        let expected = by_tables(&path);
        let ways: [(GroupBy, Name); 4] =
            [(APART, no_name), (FLAT, no_name), (APART, functions), (FLAT, functions)];
        let firsts = ways.map(|(apart, name)| in_order(&path, apart, name));
        assert_eq!(table(&firsts[0]), expected, "seed {seed}");
        assert_eq!(table(&firsts[1]), without_callers(expected), "seed {seed}");
        let packed: [(&str, Pack); 3] =
            [("plain", <[u8]>::to_vec), ("frames", frames), ("stream", stream)];
        for (form, pack) in packed {
            write(&path, &pack(&data));
            for threads in [1, 2, 7] {
                let is_one = form == "plain" && threads == 2;
                for (number, ((apart, name), first)) in ways.into_iter().zip(&firsts).enumerate() {
                    // Names have nothing to do with how the data are packed.
                    if number >= 2 && !is_one {
                        continue;
                    }
                    let profile = in_passes(&path, apart, name, threads);
                    let what = format!("seed {seed}, {form}, {threads} threads, way {number}");
                    assert_eq!(profile.aggregate, first.aggregate, "{what}");
                    assert_eq!(profile.tally.malformed, first.tally.malformed, "{what}");
                    let cpus = |profile: &Profile| -> Vec<Vec<u64>> {
                        profile.events.iter().map(|event| event.by_cpu.clone()).collect()
                    };
                    assert_eq!(cpus(&profile), cpus(first), "{what}");
                    let by_cpu: u64 = cpus(&profile).iter().flatten().sum();
                    assert_eq!(by_cpu, profile.samples(), "{what}");
                }
            }
        }
    }
}

/// Only where samples were taken.
fn without_callers(table: BTreeMap<Key, (u64, u64)>) -> BTreeMap<Key, (u64, u64)> {
    let mut flat: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
    for ((event, comm, pid, tid, cpu, mut stack), (samples, weight)) in table {
        stack.truncate(1);
        let sums = flat.entry((event, comm, pid, tid, cpu, stack)).or_default();
        (sums.0, sums.1) = (sums.0 + samples, sums.1 + weight);
    }
    flat
}

/// A filter leaves the same whichever way, and what a reading of every sample leaves.
#[test]
fn filters_leave_the_same_in_all_ways() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made.data");
    let mut left = 0;
    for seed in 0..4 {
        let data = records(&mut Random(seed), 3000);
        write(&path, &data);
        let mut reader = Reader::open(&path).unwrap();
        let (first, last) = reader.index(1).unwrap().unwrap().times().unwrap();
        let part = |percent: u64| first + (last - first) / 100 * percent;
        let all = by_tables(&path);
        let (_, comm, pid, tid, cpu, _) = all.keys().nth(all.len() / 2).unwrap().clone();
        let (times, none) = (vec![part(20)..=part(40), part(70)..=part(80)], Filter::default());
        let cpus = (0..=cpu).map(|other| other == cpu).collect();
        for filter in [
            Filter { pids: vec![pid], ..none.clone() },
            Filter { tids: vec![tid, pid], comms: vec![comm.into_bytes()], ..none.clone() },
            Filter { cpus: Some(cpus), events: Some(vec![false, true]), ..none.clone() },
            Filter { times, pids: vec![pid], ..none.clone() },
            Filter { times: vec![0..=first - 1], ..none.clone() },
        ] {
            let expected = by_filtered_tables(&path, &filter);
            for apart in [APART, FLAT] {
                let counting = Counting { apart, filter: filter.clone(), ..Counting::default() };
                let mut reader = Reader::open(&path).unwrap();
                let collected = Collected::in_order(&mut reader, counting.clone(), None).unwrap();
                let one = finished(&reader, collected);
                let expected = match apart.chains {
                    true => expected.clone(),
                    false => without_callers(expected.clone()),
                };
                assert_eq!(table(&one), expected, "seed {seed}: {filter:?}");
                assert_eq!(one.samples_read(), all.values().map(|sums| sums.0).sum::<u64>());
                left += one.samples();
                for threads in [1, 3] {
                    let mut reader = Reader::open(&path).unwrap();
                    let pieces = Pieces { part: 70_000, chunk: 66 << 10, packed_chunk: 9000 };
                    let collected =
                        Collected::read_in(&mut reader, counting.clone(), threads, None, pieces)
                            .unwrap();
                    let other = finished(&reader, collected);
                    assert_eq!(other.aggregate, one.aggregate, "seed {seed}: {filter:?}");
                    assert_eq!(other.duration_s, one.duration_s, "seed {seed}: {filter:?}");
                    assert_eq!(other.filtered, one.filtered, "seed {seed}: {filter:?}");
                }
            }
        }
    }
    assert!(left > 1000, "{left}");
}

/// What is cut off or damaged ends both ways at the same place.
#[test]
fn damage_ends_all_ways_alike() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made.data");
    let mut random = Random(99);
    let data = records(&mut random, 5000);
    for (form, data) in
        [("plain", data.clone()), ("frames", frames(&data)), ("stream", stream(&data))]
    {
        for _ in 0..30 {
            let mut damaged = data.clone();
            let at = random.below(data.len() as u64) as usize;
            match random.below(3) {
                0 => damaged.truncate(at),
                1 => damaged[at] ^= 1 << random.below(8),
                _ => damaged[at..].iter_mut().take(40).for_each(|byte| *byte = 0),
            }
            write(&path, &damaged);
            let mut reader = Reader::open(&path).unwrap();
            let collected = Collected::in_order(&mut reader, APART, None).unwrap();
            let is_in_time = reader.tally().late == 0;
            let one = finished(&reader, collected);
            let other = in_passes_if_possible(&path);
            assert_eq!(one.tally.stopped, other.tally.stopped, "{form} damaged at {at}");
            assert_eq!(one.tally.records, other.tally.records, "{form} damaged at {at}");
            if is_in_time {
                assert_eq!(one.tally, other.tally, "{form} damaged at {at}");
                assert_eq!(one.aggregate, other.aggregate, "{form} damaged at {at}");
            }
        }
    }
}

fn in_passes_if_possible(path: &Path) -> Profile {
    let mut reader = Reader::open(path).unwrap();
    let pieces = Pieces { part: 70_000, chunk: 66 << 10, packed_chunk: 9000 };
    let collected = Collected::read_in(&mut reader, APART, 3, None, pieces).unwrap();
    finished(&reader, collected)
}
