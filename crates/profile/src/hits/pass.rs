//! The records of a recording of hits, one after the other.

use std::sync::Arc;

use pmuscope_perfdata::reader::{
    CpuMode, Endian, Event, Metadata, ReadError, Reader, Record, Sample,
};
use pmuscope_perfdata::watch::{Access, Hit, HitFlags, ValueKind, WatchInfo, WriterCount};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Successions;
use super::frequent::KeyCounter;
use super::history::{HitRecord, Keeper, Pairs};
use super::matrix::{Counts, MatrixCells, Thread};
use super::over_time::{HitFacts, OverTime};
use super::sharing::{ByThread, Handovers, line_of};
use super::transfers::{TransferEnd, Transfers};
use super::value::{HitValue, masked};
use super::{Options, ValueRead};
use crate::address_spaces::{AddressSpaces, ModuleOffset};
use crate::table::ValueNumbers;

/// Cells of places and threads, of a target; further ones are counted without being told apart.
const MOST_CELLS: usize = 1 << 18;
/// Distinct values and transitions that are kept while counting, of a target.
const VALUES: usize = 4096;
/// Addresses whose places are remembered.
const MOST_PLACED: usize = 1 << 16;
/// Addresses that pointers held, of which it is known where they lie.
const MOST_POINTERS: usize = 1 << 16;

/// An address in a process: process, address, whether in the kernel, whether it is the instruction itself.
pub(super) type Address = (i32, u64, bool, bool);

/// What was seen of a target.
#[derive(Debug)]
pub(super) struct TargetStats {
    pub(super) records: u64,
    pub(super) written: u64,
    /// By spot and thread.
    pub(super) cells: MatrixCells,
    pub(super) unattributed: u64,
    pub(super) keeper: Keeper,
    pub(super) successions: Successions,
    /// Time and thread of the last record.
    last: Option<(u64, u32)>,
    pub(super) values: KeyCounter<(u32, u64)>,
    pub(super) transitions: KeyCounter<(u32, u64, u64)>,
}

/// Nanoseconds between records that succeed one another: watchpoints were enabled all the time between.
const SUCCEEDS_NS: u64 = 200_000;

impl TargetStats {
    fn succeeds(&mut self, time: u64, thread: u32) {
        let before = self.last.replace((time, thread));
        if let Some((_, other)) = before.filter(|(at, _)| time.saturating_sub(*at) < SUCCEEDS_NS) {
            self.successions.of += 1;
            self.successions.changes += u64::from(other != thread);
        }
    }
}

/// A recording that was gone through.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) present: AddressSpaces,
    pub(super) spots: ValueNumbers<ModuleOffset>,
    pub(super) threads: Vec<Thread>,
    pub(super) targets: Vec<TargetStats>,
    pub(super) over_time: OverTime,
    pub(super) handovers: Handovers,
    pub(super) transfers: Transfers,
    /// Hits that records stand for, by point, process and thread.
    pub(super) by_thread: ByThread,
    /// Spots of the kernel's table of writers.
    pub(super) writers: FxHashMap<Address, u32>,
    /// Points in processes whose very first hit has a value before.
    pub(super) known_before: FxHashSet<(u32, i32)>,
    /// Where addresses lie that pointers held.
    pub(super) pointers: FxHashMap<u64, ModuleOffset>,
    pub(super) read: ValueRead,
    pub(super) records: u64,
    pub(super) has_chains: bool,
    by_task: FxHashMap<(i32, i32), u32>,
    placed: FxHashMap<Address, u32>,
    /// Addresses of writers that have no spot yet, by process.
    unplaced: FxHashMap<i32, Vec<Address>>,
}

/// What an event watches.
#[derive(Debug, Clone, Copy)]
pub(super) struct WatchedEvent {
    number: u32,
    target: usize,
    pub(super) access: Access,
    in_kernel: bool,
    /// It holds addresses.
    is_pointer: bool,
    address: u64,
    pub(super) line: u64,
}

#[cfg(test)]
impl WatchedEvent {
    pub(super) fn of_line(access: Access, line: u64) -> Self {
        let (number, target, address) = (0, 0, line);
        Self { number, target, access, in_kernel: false, is_pointer: false, address, line }
    }
}

impl Pass {
    /// `about` is what the file says in all: of one that was not closed it is known only behind its
    /// last record.
    pub(super) fn read(
        reader: &mut Reader,
        about: &Metadata,
        info: &WatchInfo,
        options: &Options,
    ) -> Result<Self, ReadError> {
        let events = reader.events().len();
        let points = points(info, events);
        let traps_behind = traps_behind(about);
        let swapped = is_swapped(reader.endian());
        let mut pass = Self::new(info, options, times(about), traps_behind);
        pass.has_chains = reader.events().iter().any(Event::has_chains);
        let mut pairs = Pairs::default();
        while let Some(entry) = reader.next()? {
            let Record::Sample(sample) = &entry.record else {
                pass.before(&entry.record);
                pass.present.take(&entry.record);
                continue;
            };
            let Some(Some(point)) = points.get(sample.event) else { continue };
            pass.sample(sample, point, (traps_behind, swapped), info, &mut pairs);
        }
        let mut rest = Vec::new();
        pairs.finish(|written| rest.push(written));
        rest.into_iter().for_each(|written| pass.done(&written, info));
        let missing: Vec<i32> = pass.unplaced.keys().copied().collect();
        missing.into_iter().for_each(|pid| pass.place_writers(pid, true));
        Ok(pass)
    }

    fn new(
        info: &WatchInfo,
        options: &Options,
        times: Option<(u64, u64)>,
        traps_behind: bool,
    ) -> Self {
        let target = |_| TargetStats {
            records: 0,
            written: 0,
            cells: MatrixCells::default(),
            unattributed: 0,
            keeper: Keeper::new(options.ends, options.between),
            successions: Successions::default(),
            last: None,
            values: KeyCounter::new(VALUES),
            transitions: KeyCounter::new(VALUES),
        };
        let targets = info.targets.len();
        let mut unplaced = FxHashMap::<i32, Vec<Address>>::default();
        for writer in &info.writers {
            let address = address_of(info, writer, traps_behind);
            unplaced.entry(address.0).or_default().push(address);
        }
        for addresses in unplaced.values_mut() {
            addresses.sort_unstable();
            addresses.dedup();
        }
        Self {
            present: AddressSpaces::default(),
            spots: ValueNumbers::default(),
            threads: Vec::new(),
            targets: (0..targets).map(target).collect(),
            over_time: OverTime::new(targets, times),
            handovers: Handovers::default(),
            transfers: Transfers::new(info),
            by_thread: ByThread::new(),
            writers: FxHashMap::default(),
            known_before: FxHashSet::default(),
            pointers: FxHashMap::default(),
            read: ValueRead::Never,
            records: 0,
            has_chains: false,
            by_task: FxHashMap::default(),
            placed: FxHashMap::default(),
            unplaced,
        }
    }

    /// A change is to come: what was asked of the state so far has to be answered first.
    fn before(&mut self, record: &Record<'_>) {
        match record {
            Record::Exit(task) => self.place_writers(task.pid, false),
            Record::Comm(comm) => {
                if comm.exec {
                    self.place_writers(comm.pid, false);
                    self.placed.retain(|address, _| address.0 != comm.pid);
                }
                if let Some(&thread) = self.by_task.get(&(comm.pid, comm.tid)) {
                    self.threads[thread as usize].command = text(comm.name);
                }
            }
            Record::Mmap(mmap) if !self.placed.is_empty() => {
                let end = mmap.start.saturating_add(mmap.length);
                let is_there = |address: &Address| {
                    (mmap.kernel || address.0 == mmap.pid) && (mmap.start..end).contains(&address.1)
                };
                self.placed.retain(|address, _| !is_there(address));
            }
            _ => {}
        }
    }

    /// Finds places of writers of a process, as far as it has any; `at_last`: for good.
    fn place_writers(&mut self, pid: i32, at_last: bool) {
        let Some(mut addresses) = self.unplaced.remove(&pid) else { return };
        addresses.retain(|&address| {
            let spot = self.find(address);
            let is_found = spot.address != 0 || at_last;
            if is_found {
                let number = self.spots.number(spot);
                self.writers.insert(address, number);
            }
            !is_found
        });
        if !addresses.is_empty() {
            self.unplaced.insert(pid, addresses);
        }
    }

    fn find(&self, (pid, ip, in_kernel, is_itself): Address) -> ModuleOffset {
        let mode = if in_kernel { CpuMode::Kernel } else { CpuMode::User };
        let ip = if is_itself { ip } else { ip.saturating_sub(1) };
        self.present.find(mode, Some(pid), ip)
    }

    pub(super) fn thread(&mut self, pid: i32, tid: i32) -> u32 {
        if let Some(&thread) = self.by_task.get(&(pid, tid)) {
            return thread;
        }
        let thread = self.threads.len() as u32;
        let command = text(&self.present.comm(tid));
        self.threads.push(Thread { pid, tid, command });
        self.by_task.insert((pid, tid), thread);
        thread
    }

    fn spot_of(&mut self, address: Address) -> u32 {
        if let Some(&spot) = self.placed.get(&address) {
            return spot;
        }
        let spot = self.find(address);
        let number = self.spots.number(spot);
        if self.placed.len() >= MOST_PLACED {
            self.placed.clear();
        }
        self.placed.insert(address, number);
        if let Some(waiting) = self.unplaced.get_mut(&address.0)
            && let Ok(at) = waiting.binary_search(&address)
        {
            waiting.remove(at);
            self.writers.insert(address, number);
        }
        number
    }

    fn sample(
        &mut self,
        sample: &Sample<'_>,
        point: &WatchedEvent,
        (traps_behind, swapped): (bool, bool),
        info: &WatchInfo,
        pairs: &mut Pairs,
    ) {
        let raw = sample.details().and_then(|details| details.raw);
        let hit = raw.and_then(|raw| Hit::read(raw, swapped));
        let (pid, tid) = (sample.pid.unwrap_or(-1), sample.tid.unwrap_or(-1));
        let is_itself = !traps_behind || point.access == Access::Execute;
        let in_kernel = sample.mode == CpuMode::Kernel;
        let site = match sample.ip {
            Some(ip) => self.spot_of((pid, ip, in_kernel, is_itself)),
            None => self.spots.number(ModuleOffset { module: 0, address: 0 }),
        };
        if let Some(hit) = hit {
            self.note(hit, point, pid);
        }
        let target = &mut self.targets[point.target];
        let stands_for = sample.period.unwrap_or(1).max(1);
        let number = target.records;
        target.records += 1;
        target.written = target.written.saturating_add(stands_for);
        self.records += 1;
        let process = (!point.in_kernel).then_some(pid as u32);
        self.handovers.add(point.line, process, tid as u32);
        let thread = self.thread(pid, tid);
        self.targets[point.target].succeeds(sample.time.unwrap_or(0), thread);
        let who = TransferEnd { address: point.address, site, thread };
        self.transfers.add(point, process, who);
        let written = HitRecord {
            number,
            time_ns: sample.time.unwrap_or(0),
            point: point.number,
            pid,
            cpu: sample.cpu,
            thread,
            site,
            old: None,
            new: None,
            sequence: 0,
            stands_for,
        };
        pairs.take(hit, point.access, written, |written| self.done(&written, info));
    }

    fn note(&mut self, hit: Hit, point: &WatchedEvent, pid: i32) {
        if hit.flags.contains(HitFlags::VALUE) && self.read == ValueRead::Never {
            let is_after = hit.flags.contains(HitFlags::AFTER);
            self.read = if is_after { ValueRead::After } else { ValueRead::Before };
        }
        // A process that ended has nothing mapped: this is the moment to ask.
        let is_new = |pointers: &FxHashMap<u64, ModuleOffset>| {
            pointers.len() < MOST_POINTERS && !pointers.contains_key(&hit.value)
        };
        if point.is_pointer && hit.value != 0 && is_new(&self.pointers) {
            let spot = || self.present.find(CpuMode::Unknown, Some(pid), hit.value);
            let spot = self.present.past_end_of_file(pid, hit.value).unwrap_or_else(spot);
            self.pointers.insert(hit.value, spot);
        }
        if hit.sequence == 1 && hit.flags.contains(HitFlags::OLD) {
            self.known_before.insert((point.number, pid));
        }
    }

    /// All is known of a hit that will be.
    fn done(&mut self, written: &HitRecord, info: &WatchInfo) {
        let Some(point) = info.points.get(written.point as usize) else { return };
        let target = point.target as usize;
        let Some(of) = info.targets.get(target) else { return };
        let stats = &mut self.targets[target];
        let pair = written.old.zip(written.new);
        let weight = written.stands_for;
        let is_before = self.read == ValueRead::Before && of.access != Access::Read;
        let found = if is_before { written.old } else { written.new };
        let next = |old: u64| masked(old.wrapping_add(1), point.bytes);
        let seen = HitFacts {
            number: written.number,
            stands_for: weight,
            is_pair: pair.is_some(),
            changed: pair.is_some_and(|(old, new)| old != new),
            plus_one: pair.is_some_and(|(old, new)| next(old) == new),
            value: found.and_then(|found| HitValue::of(of, point.bytes, found).number()),
        };
        if let Some(found) = found {
            stats.values.add((written.point, found), weight);
        }
        if let Some((old, new)) = pair {
            stats.transitions.add((written.point, old, new), weight);
        }
        let counts = Counts {
            hits: weight,
            changed: weight * u64::from(seen.changed),
            plus_one: weight * u64::from(seen.plus_one),
            passed: weight,
        };
        let cell = (written.site, written.thread);
        if stats.cells.len() < MOST_CELLS || stats.cells.contains_key(&cell) {
            stats.cells.entry(cell).or_default().add(&counts);
            let thread = &self.threads[written.thread as usize];
            let key = (written.point, thread.pid as u32, thread.tid as u32);
            let sum = self.by_thread.entry(key).or_default();
            *sum = sum.saturating_add(weight);
        } else {
            stats.unattributed = stats.unattributed.saturating_add(weight);
        }
        stats.keeper.take(*written);
        self.over_time.add(target, written.time_ns, &seen);
    }
}

fn text(name: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(name).as_ref().into()
}

/// Points by event; `None` for what watches nothing.
fn points(info: &WatchInfo, events: usize) -> Vec<Option<WatchedEvent>> {
    let mut points = vec![None; events];
    for (point, number) in info.points.iter().zip(0..) {
        let target = point.target as usize;
        let of = info.targets.get(target);
        if let (Some(place), Some(of)) = (points.get_mut(point.event as usize), of) {
            *place = Some(WatchedEvent {
                number,
                target,
                access: of.access,
                in_kernel: of.in_kernel,
                is_pointer: of.value == ValueKind::Pointer,
                address: point.address,
                line: line_of(info, point.address),
            });
        }
    }
    points
}

/// Whether data breakpoints trap behind the access.
pub(super) fn traps_behind(metadata: &Metadata) -> bool {
    let told = metadata.info.as_ref().map(|info| &info.machine.arch);
    let arch = metadata.arch.as_ref().or(told).map_or("", String::as_str);
    matches!(arch, "x86_64" | "i386" | "i486" | "i586" | "i686")
}

fn is_swapped(endian: Endian) -> bool {
    (endian == Endian::Big) != cfg!(target_endian = "big")
}

/// The first and the last moment of a closed recording.
fn times(about: &Metadata) -> Option<(u64, u64)> {
    let info = about.info.as_ref()?;
    let start = Some(info.started_clock_ns).filter(|&start| start > 0)?;
    let length = Some(info.duration_s * 1e9).filter(|length| *length >= 1.0)?;
    Some((start, start.saturating_add(length as u64)))
}

/// Where a writer was, as samples of it would say.
pub(super) fn address_of(info: &WatchInfo, writer: &WriterCount, traps_behind: bool) -> Address {
    let point = info.points.get(writer.point as usize);
    let target = point.and_then(|point| info.targets.get(point.target as usize));
    let is_itself = !traps_behind || target.is_some_and(|target| target.access == Access::Execute);
    (writer.pid as i32, writer.ip, writer.in_kernel, is_itself)
}
