//! The second time over the samples: who accessed which bytes of the contended lines, from where.

use pmuscope_perfdata::reader::AccessClass;
use pmuscope_perfdata::reader::scan::SampleFields;
use rustc_hash::{FxHashMap, FxHashSet};

use super::key::{DataSpot, LineFinder, LineKey, LineSpace, data_spot, is_of_kernel};
use super::ranking::{AccessReader, accessed_data};
use super::sums::{ClassSums, MemoryAccess};
use crate::count::group::TaskKey;
use crate::table::{Interned, mix};
use crate::timeline::blocks::{Clock, MOST};
use crate::timeline::finder::{AddressTable, UNKNOWN_PLACE};
use crate::timeline::lookup::Lookup;
use crate::timeline::tasks::ModuleAddress;
use crate::timeline::visit::SampleVisitor;

/// Lines with their cost by block of time: those that can be large.
const MOST_SERIES: usize = 256;

/// Bytes of the smallest page that any kernel has: a larger one moves as a whole, too.
pub(super) const PAGE: u64 = 4096;

/// What is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct AccessKey {
    pub(super) line: u32,
    pub(super) offset: u16,
    pub(super) class: AccessClass,
    /// See [`MemoryAccess::marks`](super::sums::MemoryAccess::marks) and [`AccessReader::mark_of_code`].
    pub(super) marks: u8,
    /// Number of the place of the instruction.
    pub(super) place: u32,
    /// Number of the thread.
    pub(super) task: u32,
    /// [`NO_CPU`] where samples do not say it.
    pub(super) cpu: u32,
}

/// No CPU has this number.
pub(super) const NO_CPU: u32 = u32::MAX;

/// What is known of a line's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineMemory {
    /// The lowest address that was accessed: of a file that several processes map there may be others.
    pub(super) address: u64,
    /// Where that lies.
    pub(super) spot: DataSpot,
    /// The process.
    pub(super) pid: i32,
}

/// The second pass.
#[derive(Debug)]
pub(super) struct Detailing<'a> {
    reader: AccessReader<'a>,
    finder: LineFinder<'a>,
    numbers: &'a FxHashMap<LineKey, u32>,
    clock: &'a Clock,
    /// Whether contended loads say how long they took; else each costs 1.
    has_cost: bool,
    code: AddressTable<u32>,
    pub(super) found: LineDetails,
}

/// What it found.
#[derive(Debug, Default)]
pub(super) struct LineDetails {
    pub(super) places: Interned<ModuleAddress>,
    pub(super) tasks: Interned<TaskKey>,
    pub(super) cells: FxHashMap<AccessKey, ClassSums>,
    /// How long contended loads took, by line and offset, in no order.
    pub(super) latencies: FxHashMap<(u32, u16), Vec<u32>>,
    /// By line.
    pub(super) memory: Vec<Option<LineMemory>>,
    /// Of lines by physical address: the number of the line, the process (`None`: the kernel) and the virtual address
    /// at which it has the line.
    pub(super) mappings: FxHashSet<(u32, Option<i32>, u64)>,
    /// Accesses by line and page of physical memory.
    pub(super) pages: FxHashMap<(u32, u64), u64>,
    /// Contended loads by block of time: what they cost or, of those without a weight, how many; all of them, then
    /// those of the first lines.
    pub(super) totals: Vec<f64>,
    pub(super) series: Vec<f64>,
}

impl<'a> Detailing<'a> {
    pub(super) fn new(
        reader: AccessReader<'a>,
        finder: LineFinder<'a>,
        numbers: &'a FxHashMap<LineKey, u32>,
        (clock, has_cost): (&'a Clock, bool),
    ) -> Self {
        let found = LineDetails {
            memory: vec![None; numbers.len()],
            totals: vec![0.0; MOST as usize],
            series: vec![0.0; MOST as usize * numbers.len().min(MOST_SERIES)],
            ..LineDetails::default()
        };
        Self { reader, finder, numbers, clock, has_cost, code: AddressTable::default(), found }
    }

    /// The end. Threads get their numbers here: cells have those of groups.
    pub(super) fn finish(self) -> LineDetails {
        let Self { reader, mut found, .. } = self;
        // Cells have numbers of groups: one for each event.
        let groups = &reader.tasks.groups.list;
        let mut numbers = Vec::with_capacity(groups.len());
        for group in groups {
            let task = reader.tasks.tasks.list[group.task as usize];
            numbers.push(found.tasks.intern(task.hash(), task));
        }
        let cells = std::mem::take(&mut found.cells);
        for (key, sums) in cells {
            let key = AccessKey { task: numbers[key.task as usize], ..key };
            found.cells.entry(key).or_default().add(&sums);
        }
        found
    }

    /// A contended load at its time, of a line where it is one of those.
    fn count_at(&mut self, line: Option<u32>, access: &MemoryAccess, time: Option<u64>) {
        let block = time.and_then(|time| self.clock.block_of(time)).unwrap_or(0) as usize;
        let cost = if self.has_cost { access.cost() as f64 } else { 1.0 };
        self.found.totals[block] += cost;
        let of_line = line.map(|line| line as usize * MOST as usize + block);
        if let Some(sum) = of_line.and_then(|at| self.found.series.get_mut(at)) {
            *sum += cost;
        }
    }
}

impl SampleVisitor for Detailing<'_> {
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
        let Some(access) = self.reader.read(hit) else { return };
        let place = accessed_data(hit, &access).and_then(|data| {
            let (key, offset) = self.finder.find(lookup, at, (ran.view, data.pid), &data)?;
            Some((data, key, offset, self.numbers.get(&key).copied()))
        });
        let line = place.and_then(|(.., line)| line);
        if access.class.is_contended() {
            self.count_at(line, &access, time);
        }
        let Some((data, key, offset, Some(line))) = place else { return };
        let (address, pid) = (data.address, data.pid);
        if key.space == LineSpace::Physical {
            let owner = Some(pid).filter(|_| !is_of_kernel(address));
            self.found.mappings.insert((line, owner, address - u64::from(offset)));
        }
        if let Some(physical) = data.physical {
            *self.found.pages.entry((line, physical / PAGE)).or_default() += 1;
        }
        let memory = &mut self.found.memory[line as usize];
        if memory.is_none_or(|known| (address, pid) < (known.address, known.pid)) {
            let spot = data_spot(lookup, at, ran.view, address);
            *memory = Some(LineMemory { address, spot, pid });
        }
        let places = &mut self.found.places;
        let mut number =
            |place: ModuleAddress| places.intern(mix(place.address, place.module.into()), place);
        let place = match hit.ip {
            None => number(UNKNOWN_PLACE),
            Some(ip) => self.code.find((lookup, at), ran.view, (hit.mode, ip), number).0,
        };
        let marks = access.marks() | self.reader.mark_of_code(hit);
        let (class, task) = (access.class, ran.group);
        let (offset, cpu) = (offset as u16, hit.cpu.unwrap_or(NO_CPU));
        let key = AccessKey { line, offset, class, marks, place, task, cpu };
        self.found.cells.entry(key).or_default().add(&access.sums());
        if let Some(weight) = access.weight.filter(|_| class.is_contended()) {
            let latency = u32::try_from(weight).unwrap_or(u32::MAX);
            self.found.latencies.entry((line, offset)).or_default().push(latency);
        }
    }
}

impl LineDetails {
    pub(super) fn merge(&mut self, other: Self) {
        let place = |place: &ModuleAddress| {
            self.places.intern(mix(place.address, place.module.into()), *place)
        };
        let places: Vec<u32> = other.places.list.iter().map(place).collect();
        let task = |task: &TaskKey| self.tasks.intern(task.hash(), *task);
        let tasks: Vec<u32> = other.tasks.list.iter().map(task).collect();
        for (key, sums) in other.cells {
            let (place, task) = (places[key.place as usize], tasks[key.task as usize]);
            self.cells.entry(AccessKey { place, task, ..key }).or_default().add(&sums);
        }
        self.mappings.extend(other.mappings);
        for (key, accesses) in other.pages {
            *self.pages.entry(key).or_default() += accesses;
        }
        for (key, latencies) in other.latencies {
            self.latencies.entry(key).or_default().extend(latencies);
        }
        for (known, new) in self.memory.iter_mut().zip(other.memory) {
            let is_lower = |known: &LineMemory, new: &LineMemory| {
                (new.address, new.pid) < (known.address, known.pid)
            };
            if let Some(new) = new
                && known.as_ref().is_none_or(|known| is_lower(known, &new))
            {
                *known = Some(new);
            }
        }
        let sum = |into: &mut Vec<f64>, from: Vec<f64>| {
            into.iter_mut().zip(from).for_each(|(into, from)| *into += from);
        };
        sum(&mut self.totals, other.totals);
        sum(&mut self.series, other.series);
    }
}
