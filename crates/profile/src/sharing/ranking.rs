//! The first time over the samples: which lines are contended, and what that costs.

use pmuscope_perfdata::reader::scan::SampleFields;
use rustc_hash::FxHashMap;

use super::EventSampling;
use super::key::{AccessedData, LineFinder, LineKey};
use super::sums::{AccessSums, INEXACT, MemoryAccess};
use crate::count::group::{Counting, GroupBy, TasksBy};
use crate::count::task_cache::TaskCache;
use crate::filter::Filter;
use crate::timeline::lookup::Lookup;
use crate::timeline::visit::SampleVisitor;

/// Contended lines that a thread keeps apart: some 100 MiB.
const MOST_LINES: usize = 1 << 20;

/// Samples of a recording, by what they say of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampledMemory {
    /// Samples that the filter keeps.
    pub samples: u64,
    /// Those that say what the access did.
    pub accesses: u64,
    /// Accesses without an address of data.
    pub without_address: u64,
    /// Accesses that have an address of data but no physical one, where lines are by that: in none of them.
    pub without_physical: u64,
    /// Contended loads of these.
    pub contended_without_physical: u64,
    /// All accesses, added up.
    pub sums: AccessSums,
    /// Contended loads of lines that were not kept, for there were too many lines.
    pub left_out: u64,
}

/// Which sample stands for which access.
#[derive(Debug)]
pub(super) struct AccessReader<'a> {
    pub(super) tasks: TaskCache,
    /// By event.
    sampling: &'a [EventSampling],
}

impl<'a> AccessReader<'a> {
    pub(super) fn new(filter: &Filter, sampling: &'a [EventSampling]) -> Self {
        let apart = GroupBy { chains: false, tasks: TasksBy::Thread, cpus: false };
        let counting = Counting { apart, filter: filter.clone(), ..Counting::default() };
        Self { tasks: TaskCache::new(&counting), sampling }
    }

    /// What a sample says of an access; `None` where it says nothing.
    pub(super) fn read(&self, hit: &SampleFields<'_>) -> Option<MemoryAccess> {
        let details = hit.memory?.decode()?;
        let source = details.data_source?;
        let class = source.class()?;
        let weight = details.weight.map(|weight| weight.cost).filter(|&weight| weight > 0);
        let fixed = self.sampling.get(hit.event).map_or(1, |event| event.period);
        let period = hit.period.unwrap_or(fixed).max(1);
        let physical = details.physical_address.filter(|&address| address != 0);
        Some(MemoryAccess { class, source, weight, period, physical })
    }
}

impl AccessReader<'_> {
    /// What is counted of where the code is.
    pub(super) fn mark_of_code(&self, hit: &SampleFields<'_>) -> u8 {
        let is_precise = self.sampling.get(hit.event).is_some_and(|event| event.is_precise);
        if is_precise && !hit.has_exact_ip { INEXACT } else { 0 }
    }
}

/// Where the data are that were accessed. 0 is what PMUs write that do not know it.
pub(super) fn accessed_data(hit: &SampleFields<'_>, access: &MemoryAccess) -> Option<AccessedData> {
    let address = hit.address.filter(|&address| address != 0)?;
    let pid = hit.task.map_or(-1, |(pid, _)| pid);
    Some(AccessedData { address, physical: access.physical, pid })
}

/// What makes a line's rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineCost {
    /// See [`AccessSums::cost`].
    pub(super) cost: u64,
    /// Contended loads.
    pub(super) contended: u64,
}

/// The first pass.
#[derive(Debug)]
pub(super) struct Ranking<'a> {
    reader: AccessReader<'a>,
    finder: LineFinder<'a>,
    pub(super) lines: FxHashMap<LineKey, LineCost>,
    pub(super) memory: SampledMemory,
    pub(super) times: Option<(u64, u64)>,
}

impl<'a> Ranking<'a> {
    pub(super) fn new(reader: AccessReader<'a>, finder: LineFinder<'a>) -> Self {
        let (lines, memory) = (FxHashMap::default(), SampledMemory::default());
        Self { reader, finder, lines, memory, times: None }
    }

    pub(super) fn merge(&mut self, other: Self) {
        let SampledMemory { samples, accesses, without_address, sums, left_out, .. } = other.memory;
        self.memory.without_physical += other.memory.without_physical;
        self.memory.contended_without_physical += other.memory.contended_without_physical;
        self.memory.samples += samples;
        self.memory.accesses += accesses;
        self.memory.without_address += without_address;
        self.memory.sums.add(&sums);
        self.memory.left_out += left_out;
        for (key, LineCost { cost, contended }) in other.lines {
            let line = self.lines.entry(key).or_default();
            line.cost = line.cost.saturating_add(cost);
            line.contended += contended;
        }
        self.times = match (self.times, other.times) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
}

impl SampleVisitor for Ranking<'_> {
    const SPLITS_COUNTS: bool = false;

    #[inline]
    fn sample<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        hit: &SampleFields<'_>,
        time: Option<u64>,
    ) {
        let Some(ran) = self.reader.tasks.ran(lookup, at, hit, time) else { return };
        self.memory.samples += 1;
        let Some(access) = self.reader.read(hit) else { return };
        self.memory.accesses += 1;
        let sums = AccessSums::of(&access);
        self.memory.sums.add(&sums);
        if let Some(time) = time {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
        let Some(data) = accessed_data(hit, &access) else {
            self.memory.without_address += 1;
            return;
        };
        if self.finder.lacks_address(&data) {
            self.memory.without_physical += 1;
            self.memory.contended_without_physical += u64::from(access.class.is_contended());
            return;
        }
        if !access.class.is_contended() {
            return;
        }
        let found = self.finder.find(lookup, at, (ran.view, data.pid), &data);
        let Some((key, _)) = found else { return };
        if self.lines.len() >= MOST_LINES && !self.lines.contains_key(&key) {
            self.memory.left_out += 1;
            return;
        }
        let line = self.lines.entry(key).or_default();
        line.cost = line.cost.saturating_add(sums.cost);
        line.contended += 1;
    }
}
