//! Recordings of watchpoints, as `pmuscope watch` writes them, of writes that are all known.
//!
//! It shares nothing with what reads them: a write is put into a memory, and what a trap before or behind
//! it would have found there becomes a sample and a count.

use std::collections::BTreeMap;
use std::path::Path;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type};
use pmuscope_perfdata::info::{MachineInfo, RecordingInfo};
use pmuscope_perfdata::watch::{Hit, HitFlags, WatchInfo, WatchPoint, WatchTarget, WriterCount};
use pmuscope_perfdata::writer::{Features, FileEvent, closing, front};

/// Where the program's code lies, and of which file.
pub const CODE: u64 = 0x40_1000;
/// Path of the simulated program.
pub const PROGRAM: &str = "/opt/simulated";
/// The clock at the start, nanoseconds.
pub const START: u64 = 5_000_000_000;
/// What follows in a call chain is of user mode (`PERF_CONTEXT_USER`).
const CONTEXT_USER: u64 = -512_i64 as u64;
/// Where the header of the file has the size of the data.
const SIZE_OF_DATA: usize = 48;

/// A write, in the order of time.
#[derive(Debug, Clone, Copy)]
pub struct Write {
    /// Nanoseconds from the start.
    pub time: u64,
    /// Process ID of the writer.
    pub pid: u32,
    /// Thread ID of the writer.
    pub tid: u32,
    /// Address where a trap finds the instruction.
    pub ip: u64,
    /// Of the points.
    pub point: u32,
    /// What is written.
    pub value: u64,
    /// Whether it is written down.
    pub is_kept: bool,
}

/// A recording in the making.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Architecture, as `uname -m` prints it.
    pub arch: &'static str,
    /// All but its writers, which follow from the writes.
    pub info: WatchInfo,
    /// Writes, in time order.
    pub writes: Vec<Write>,
    /// Writes from the first to before the second of these happen while no point is armed.
    pub pause: std::ops::Range<u64>,
    /// Names of threads: process, thread, name.
    pub names: Vec<(u32, u32, String)>,
    /// Length of the recording, seconds.
    pub seconds: f64,
    /// The recorder was killed: no table of writers, no end.
    pub killed: bool,
    /// Without BPF: no table of writers.
    pub no_writers: bool,
    /// Not by pmuscope watch: no word of what was watched.
    pub foreign: bool,
    /// Command line in the header.
    pub command: Vec<String>,
    /// Scope that the recording was asked for, as in its metadata.
    pub scope: &'static str,
}

impl Default for Recording {
    fn default() -> Self {
        Self {
            arch: "x86_64",
            info: WatchInfo { every: 1, ..WatchInfo::default() },
            writes: Vec::new(),
            pause: 0..0,
            names: Vec::new(),
            seconds: 1.0,
            killed: false,
            no_writers: false,
            foreign: false,
            scope: "",
            command: ["pmuscope", "watch", "-p", "100", "counter"].map(str::to_owned).to_vec(),
        }
    }
}

impl Recording {
    /// One more target, of points of at most 8 bytes.
    pub fn target(mut self, target: WatchTarget) -> Self {
        let at = self.info.targets.len() as u32;
        let mut from = target.address;
        let end = target.address + target.bytes;
        while from < end {
            let bytes = (end - from).min(8) as u8;
            let event = self.info.points.len() as u32;
            self.info.points.push(WatchPoint { event, target: at, address: from, bytes });
            from += u64::from(bytes);
        }
        self.info.targets.push(target);
        self
    }

    fn traps_behind(&self) -> bool {
        self.arch == "x86_64"
    }

    /// What traps find.
    fn run(&self) -> (Vec<(Write, Hit)>, Vec<WriterCount>) {
        let mut memory: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut last: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
        let mut counts: BTreeMap<(u32, u32, u32, u64), WriterCount> = BTreeMap::new();
        let mut hits = Vec::new();
        for write in &self.writes {
            let cell = (write.point, write.pid);
            let before = memory.insert(cell, write.value).unwrap_or(0);
            let found = if self.traps_behind() { write.value } else { before };
            if self.pause.contains(&write.time) {
                // The first hit after it has no value before.
                last.remove(&cell);
                continue;
            }
            let known = last.get(&cell).copied();
            let sequence = known.map_or(1, |(_, sequence)| sequence + 1);
            last.insert(cell, (found, sequence));
            let mut flags = HitFlags::VALUE;
            flags.set(HitFlags::AFTER, self.traps_behind());
            flags.set(HitFlags::OLD, known.is_some());
            let old = known.map_or(0, |(value, _)| value);
            let count = counts.entry((write.point, write.pid, write.tid, write.ip)).or_default();
            *count = WriterCount {
                point: write.point,
                pid: write.pid,
                tid: write.tid,
                ip: write.ip,
                in_kernel: false,
                hits: count.hits + 1,
                changed: count.changed + u64::from(known.is_some() && old != found),
                plus_one: count.plus_one + u64::from(known.is_some() && old + 1 == found),
                passed: count.passed + u64::from(write.is_kept),
            };
            hits.push((*write, Hit { flags, value: found, old, sequence }));
        }
        let mut counts: Vec<WriterCount> = counts.into_values().collect();
        counts.sort_by_key(|count| std::cmp::Reverse(count.hits));
        (hits, counts)
    }

    /// Writes it to `path`.
    pub fn write(&self, path: &Path) {
        let (hits, writers) = self.run();
        let mut watch = self.info.clone();
        if !self.killed && !self.no_writers {
            watch.writers = writers;
        }
        let info = RecordingInfo {
            complete: !self.killed,
            command: self.command.clone(),
            scope: self.scope.into(),
            started_clock_ns: START,
            duration_s: if self.killed { 0.0 } else { self.seconds },
            machine: MachineInfo { arch: self.arch.into(), cpus: 4, ..MachineInfo::default() },
            watch: (!self.foreign).then_some(watch),
            ..RecordingInfo::default()
        };
        let mut data = Vec::new();
        if self.killed {
            info.append_record(&mut data);
        }
        let mut pids: Vec<u32> = self.names.iter().map(|name| name.0).collect();
        pids.dedup();
        pids.into_iter().for_each(|pid| mmap(&mut data, pid));
        self.names.iter().for_each(|(pid, tid, name)| comm(&mut data, *pid, *tid, name));
        let kept = hits.iter().filter(|(write, _)| write.is_kept && !self.info.count_only);
        kept.for_each(|(write, hit)| sample(&mut data, write, hit, &self.info));
        self.names.iter().for_each(|(pid, tid, _)| exit(&mut data, *pid, *tid, self.end()));
        let events = self.events();
        let mut file = front(&events);
        let start = file.len() as u64;
        file.extend_from_slice(&data);
        if self.killed {
            let size = data.len() as u64;
            file[SIZE_OF_DATA..SIZE_OF_DATA + 8].copy_from_slice(&size.to_le_bytes());
        } else {
            let features = Features {
                info: Some(info.to_json()),
                arch: Some(self.arch.into()),
                ..Features::default()
            };
            let end = closing(&events, &features, start, data.len() as u64);
            file.extend_from_slice(&end.tail);
            file[..end.header.len()].copy_from_slice(&end.header);
        }
        std::fs::write(path, file).unwrap();
    }

    fn end(&self) -> u64 {
        START + (self.seconds * 1e9) as u64
    }

    fn events(&self) -> Vec<FileEvent> {
        let event = |(point, at): (&WatchPoint, u64)| FileEvent {
            attr: Attr {
                event_type: event_type::BREAKPOINT,
                sample: 1,
                sample_type: SampleType::IDENTIFIER
                    | SampleType::IP
                    | SampleType::TID
                    | SampleType::TIME
                    | SampleType::ADDR
                    | SampleType::CPU
                    | SampleType::PERIOD
                    | SampleType::CALLCHAIN
                    | SampleType::RAW,
                flags: AttrFlags::SAMPLE_ID_ALL,
                bp_type: 2,
                config1: point.address,
                config2: point.bytes.into(),
                ..Attr::default()
            },
            name: format!("mem:0x{:x}/{}:w", point.address, point.bytes),
            ids: vec![1 + at],
        };
        self.info.points.iter().zip(0..).map(event).collect()
    }
}

fn sample(out: &mut Vec<u8>, write: &Write, hit: &Hit, info: &WatchInfo) {
    let point = &info.points[write.point as usize];
    let raw = hit.to_bytes();
    RecordBuilder::new(out, kind::SAMPLE, misc::USER)
        .u64(1 + u64::from(point.event))
        .u64(write.ip)
        .u32(write.pid)
        .u32(write.tid)
        .u64(START + write.time)
        .u64(point.address)
        .u64(u64::from(write.tid % 4))
        .u64(info.every.max(1))
        .u64(3)
        .u64(CONTEXT_USER)
        .u64(write.ip)
        .u64(CODE + 0xf00)
        .u32(raw.len() as u32)
        .bytes(&raw)
        .finish();
}

/// Who, when and as which event, behind a record that is no sample.
fn id(builder: RecordBuilder<'_>, pid: u32, tid: u32, time: u64) {
    builder.u32(pid).u32(tid).u64(time).u64(0).u64(1).finish();
}

fn mmap(out: &mut Vec<u8>, pid: u32) {
    let builder = RecordBuilder::new(out, kind::MMAP, misc::USER).u32(pid).u32(pid);
    let builder = builder.u64(CODE).u64(0x1000).u64(0x1000);
    id(builder.text(PROGRAM), pid, pid, 0);
}

fn comm(out: &mut Vec<u8>, pid: u32, tid: u32, name: &str) {
    id(RecordBuilder::new(out, kind::COMM, 0).u32(pid).u32(tid).text(name), pid, tid, 0);
}

fn exit(out: &mut Vec<u8>, pid: u32, tid: u32, time: u64) {
    let builder = RecordBuilder::new(out, kind::EXIT, 0).u32(pid).u32(pid).u32(tid).u32(tid);
    id(builder.u64(time), pid, tid, time);
}
