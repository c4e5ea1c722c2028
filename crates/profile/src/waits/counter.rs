//! Where threads were off the CPU, for how long, in which block of time.
//!
//! A stack is looked up when its thread leaves the CPU; it counts when the thread comes back. A place is a
//! number until then.

use pmuscope_perfdata::reader::Sample;
use pmuscope_perfdata::reader::scan::SampleFields;
use rustc_hash::FxHashMap;

use super::lengths::Lengths;
use super::threads::{Ends, Off, OffCpuKind, TimeState, Woken};
use crate::count::callers::{Called, Callers};
use crate::count::cells::InGroup;
use crate::count::counter::{CellKey, Counts, Where};
use crate::count::group::{Counting, GroupBy, SampleGroup, TasksBy};
use crate::count::log::{Log, LoggedCount};
use crate::count::stack_room::StackRoom;
use crate::count::task_cache::TaskCache;
use crate::count::unwinding::Walker;
use crate::table::{Interned, mix};
use crate::timeline::blocks::Clock;
use crate::timeline::lookup::Current;
use crate::timeline::visit::FieldsOfSample;

/// Kinds of time off the CPU, which are the first events.
pub(super) const KINDS: usize = OffCpuKind::ALL.len();
/// Number of the event of time between waking and running: after those of [`Kind`].
pub(super) const QUEUED: usize = KINDS;
/// Number of the event of wakings.
pub(super) const WAKINGS: usize = KINDS + 1;
/// Wakers of a place that are told apart.
const MOST_WAKERS: usize = 256;

/// Times off the CPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WaitSums {
    /// How many.
    pub waits: u64,
    /// Nanoseconds within the recording.
    pub ns: u64,
    /// Of them, until the thread was woken; of times off the CPU whose waking is known.
    pub blocked_ns: u64,
    /// Of them, from the waking until the thread ran.
    pub queued_ns: u64,
    /// Times off the CPU whose waking is known.
    pub woken: u64,
    /// Blocked ones that ended though no record tells of a waking: how many, nanoseconds. Which part of them
    /// was on a run queue is not known, nor who woke.
    pub without_waking: (u64, u64),
    /// How long those lasted that lie within the recording.
    pub lengths: Lengths,
    /// Those that had begun before: how many, nanoseconds.
    pub begun_before: (u64, u64),
    /// Those that last past the end.
    pub last_past: (u64, u64),
    /// The longest of those that do not lie within, as far as they do, nanoseconds.
    pub longest_cut_ns: u64,
}

impl WaitSums {
    fn add(&mut self, off: &Off) {
        let ns = off.until - off.from;
        self.waits += 1;
        self.ns = self.ns.saturating_add(ns);
        match off.ends {
            Ends::Both => {
                self.lengths.add(ns, off.woken.map_or(0, |woken| off.until - woken.at));
            }
            Ends::OnlyLast => self.begun_before = sum(self.begun_before, (1, ns)),
            Ends::OnlyFirst => self.last_past = sum(self.last_past, (1, ns)),
        }
        if off.ends != Ends::Both {
            self.longest_cut_ns = self.longest_cut_ns.max(ns);
        }
        if let Some(woken) = off.woken {
            self.woken += 1;
            self.blocked_ns = self.blocked_ns.saturating_add(woken.at - off.from);
            self.queued_ns = self.queued_ns.saturating_add(off.until - woken.at);
        } else if off.kind == OffCpuKind::Blocked && off.ends == Ends::Both {
            self.without_waking = sum(self.without_waking, (1, ns));
        }
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        self.waits += other.waits;
        self.ns = self.ns.saturating_add(other.ns);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
        self.queued_ns = self.queued_ns.saturating_add(other.queued_ns);
        self.woken += other.woken;
        self.without_waking = sum(self.without_waking, other.without_waking);
        self.lengths.add_all(&other.lengths);
        self.begun_before = sum(self.begun_before, other.begun_before);
        self.last_past = sum(self.last_past, other.last_past);
        self.longest_cut_ns = self.longest_cut_ns.max(other.longest_cut_ns);
    }

    /// The longest, as far as it lies within the recording, and whether it lasted longer.
    #[must_use]
    pub fn longest_ns(&self) -> Option<(u64, bool)> {
        let whole = self.lengths.longest_ns().unwrap_or(0);
        let is_cut = self.longest_cut_ns > whole;
        (self.waits > 0).then_some((whole.max(self.longest_cut_ns), is_cut))
    }
}

/// Numbers and times. A damaged recording can have times that have no sum.
pub(super) fn sum(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0 + b.0, a.1.saturating_add(b.1))
}

/// Who woke: a number of a cell, and whether it was in an interrupt, whoever was running then.
pub(super) type Waker = (u32, bool);

/// What was counted of a cell.
#[derive(Debug, Clone, Default)]
pub(super) struct OfCell {
    pub(super) sums: WaitSums,
    /// Waits and nanoseconds that they ended.
    pub(super) wakers: FxHashMap<Waker, (u64, u64)>,
}

/// All time of all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wall {
    /// On a CPU, nanoseconds.
    pub running_ns: u64,
    /// Off the CPU.
    pub off_ns: u64,
    /// Of which records were lost.
    pub unknown_ns: u64,
}

impl Wall {
    /// All.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.running_ns.saturating_add(self.off_ns).saturating_add(self.unknown_ns)
    }
}

/// What came of it.
pub(super) struct CountedWaits {
    pub(super) counts: Counts,
    /// One per cell of `counts`.
    pub(super) cells: Vec<OfCell>,
    pub(super) wall: Wall,
    /// All threads' time in each block, nanoseconds.
    pub(super) wall_by_block: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct WaitCounter<'u> {
    who: TaskCache,
    callers: Callers<'u>,
    /// Places and wakers as they are handed out, then cells.
    places: Interned<InGroup>,
    cells: Interned<InGroup>,
    of_cells: Vec<OfCell>,
    blocks: FxHashMap<(u32, u32), (u32, u64)>,
    wall_by_block: Vec<u64>,
    clock: Clock,
    wall: Wall,
    fields: FieldsOfSample,
}

impl<'u> WaitCounter<'u> {
    pub(super) fn new(start: u64, end: u64) -> Self {
        let apart = GroupBy { chains: true, tasks: TasksBy::Thread, cpus: false };
        let counting = Counting { apart, ..Counting::default() };
        Self {
            who: TaskCache::new(&counting),
            callers: Callers::new(StackRoom::of_memory()),
            places: Interned::default(),
            cells: Interned::default(),
            of_cells: Vec::new(),
            blocks: FxHashMap::default(),
            wall_by_block: Vec::new(),
            clock: Clock::of(Some((start, end))),
            wall: Wall::default(),
            fields: FieldsOfSample::default(),
        }
    }

    pub(super) fn set_walker(&mut self, walker: Walker<'u>) {
        self.callers.walker = Some(walker);
    }

    pub(super) fn walker(&mut self) -> Option<&mut Walker<'u>> {
        self.callers.walker.as_mut()
    }

    /// The number of where a sample was taken.
    pub(super) fn place(&mut self, now: &Current<'_>, sample: &Sample<'_>, event: usize) -> u32 {
        let mut fields = std::mem::take(&mut self.fields);
        let key = self.key(now, &SampleFields { event, ..fields.of(sample) });
        self.fields = fields;
        self.places.intern(mix(key.group.into(), key.what.into()), key)
    }

    /// Of a thread that tells nothing else.
    fn nowhere(&mut self, now: &Current<'_>, task: (i32, i32)) -> InGroup {
        let hit = SampleFields { task: Some(task), ..SampleFields::of(&Sample::default()) };
        self.key(now, &hit)
    }

    fn key(&mut self, now: &Current<'_>, hit: &SampleFields<'_>) -> InGroup {
        // Nothing is left out here: threads that are not asked for do not come that far.
        let ran = self.who.ran(now, (), hit, Some(hit.time));
        ran.map_or(InGroup { group: 0, what: 0 }, |ran| {
            let what = self.callers.node(now, (), ran, hit);
            InGroup { group: ran.group, what }
        })
    }

    /// A stretch of a thread's time.
    pub(super) fn take(&mut self, now: &Current<'_>, stretch: &TimeState) {
        match *stretch {
            TimeState::Running(from, until) => {
                self.wall.running_ns = self.wall.running_ns.saturating_add(until - from);
                self.spread(None, from, until);
            }
            TimeState::NotKnown(from, until) => {
                self.wall.unknown_ns = self.wall.unknown_ns.saturating_add(until - from);
                self.spread(None, from, until);
            }
            TimeState::Off(off) => self.off(now, &off),
        }
    }

    fn off(&mut self, now: &Current<'_>, off: &Off) {
        let place = match off.place {
            Some(place) => self.places.list[place as usize],
            None => self.nowhere(now, off.task),
        };
        let group = self.group_of(place.group, off.kind as u32);
        let cell = self.cell(InGroup { group, ..place });
        let waker = off.woken.map(|woken| self.waker(woken));
        let of_cell = &mut self.of_cells[cell as usize];
        of_cell.sums.add(off);
        self.wall.off_ns = self.wall.off_ns.saturating_add(off.until - off.from);
        if let Some(waker) = waker {
            let is_full = of_cell.wakers.len() >= MOST_WAKERS;
            if !is_full || of_cell.wakers.contains_key(&waker) {
                let sums = of_cell.wakers.entry(waker).or_default();
                *sums = sum(*sums, (1, off.until - off.from));
            }
            self.count(waker.0, off.until, off.until - off.from);
        }
        let Some(woken) = off.woken.filter(|_| off.kind == OffCpuKind::Blocked) else {
            return self.spread(Some(cell), off.from, off.until);
        };
        // Since it was woken it only waited for a CPU.
        let group = self.group_of(place.group, QUEUED as u32);
        let queued = self.cell(InGroup { group, ..place });
        self.spread(Some(cell), off.from, woken.at);
        self.spread(Some(queued), woken.at, off.until);
    }

    fn waker(&mut self, woken: Woken) -> Waker {
        let key = self.places.list[(woken.by >> 1) as usize];
        (self.cell(key), woken.by & 1 == 1)
    }

    /// The same task, as one of another event.
    fn group_of(&mut self, group: u32, event: u32) -> u32 {
        let group = SampleGroup { event, ..self.who.groups.list[group as usize] };
        self.who.groups.intern(mix(mix(group.task.into(), event.into()), 0), group)
    }

    fn cell(&mut self, key: InGroup) -> u32 {
        let cell = self.cells.intern(mix(key.group.into(), key.what.into()), key);
        if self.of_cells.len() <= cell as usize {
            self.of_cells.resize_with(cell as usize + 1, OfCell::default);
        }
        cell
    }

    /// Counts one, and its weight, at a moment.
    fn count(&mut self, cell: u32, at: u64, weight: u64) {
        let block = self.block(at);
        let count = self.blocks.entry((cell, block)).or_default();
        *count = (count.0.saturating_add(1), count.1.saturating_add(weight));
    }

    /// Gives each block its part; the last one has the count.
    fn spread(&mut self, cell: Option<u32>, from: u64, until: u64) {
        let last = self.block(until);
        let first = self.block(from).min(last);
        let (origin, shift) = (self.clock.origin().unwrap_or(from), self.clock.shift());
        if self.wall_by_block.len() <= last as usize {
            self.wall_by_block.resize(last as usize + 1, 0);
        }
        for block in first..=last {
            let begins = origin.saturating_add(u64::from(block) << shift);
            let ends = begins.saturating_add(1 << shift);
            let ends = if block == last { until } else { ends.min(until) };
            let begins = if block == first { from } else { begins };
            let part = ends.saturating_sub(begins);
            let wall = &mut self.wall_by_block[block as usize];
            *wall = wall.saturating_add(part);
            if let Some(cell) = cell {
                let count = self.blocks.entry((cell, block)).or_default();
                let is_last = u32::from(block == last);
                *count = (count.0.saturating_add(is_last), count.1.saturating_add(part));
            }
        }
    }

    fn block(&mut self, time: u64) -> u32 {
        let (block, halvings) = self.clock.block(time);
        if halvings > 0 {
            self.halve(halvings);
        }
        block
    }

    /// Blocks are so many times twice as long.
    fn halve(&mut self, times: u32) {
        let halved = |block: u32| block.checked_shr(times).unwrap_or(0);
        let mut blocks: FxHashMap<(u32, u32), (u32, u64)> = FxHashMap::default();
        for ((cell, block), (samples, weight)) in self.blocks.drain() {
            let count = blocks.entry((cell, halved(block))).or_default();
            *count = (count.0.saturating_add(samples), count.1.saturating_add(weight));
        }
        self.blocks = blocks;
        let mut wall: Vec<u64> = Vec::new();
        for (&time, block) in self.wall_by_block.iter().zip(0..) {
            let block = halved(block) as usize;
            wall.resize(wall.len().max(block + 1), 0);
            wall[block] = wall[block].saturating_add(time);
        }
        self.wall_by_block = wall;
    }

    /// The end.
    pub(super) fn finish(self) -> CountedWaits {
        let shift = self.clock.shift();
        let mut log = Log::new(shift);
        let mut counted: Vec<_> = self.blocks.into_iter().collect();
        counted.sort_unstable_by_key(|&((cell, block), _)| (block, cell));
        for ((cell, block), (samples, weight)) in counted {
            log.push(LoggedCount { cell, block, samples, weight });
        }
        let Called { places, nodes, walked, without_callers } = self.callers.finish();
        let keys = self.cells.list.iter().zip(0..);
        let cells = keys.map(|(&InGroup { group, what }, cell)| CellKey { cell, group, what });
        let counts = Counts {
            cells: cells.collect(),
            tasks: self.who.tasks.list,
            groups: self.who.groups.list,
            by: Where::Nodes { places, nodes },
            log,
            clock: self.clock,
            untimed: 0,
            left_out: 0,
            by_cpu: Vec::new(),
            sampled: Vec::new(),
            kept_by_cpu: None,
            without_callers,
            walked,
            samples: None,
        };
        let Self { of_cells, wall, wall_by_block, .. } = self;
        CountedWaits { counts, cells: of_cells, wall, wall_by_block }
    }
}
