//! Counts samples: by who ran, where, and when. One for each thread that reads.
//!
//! Per sample there are two or three lookups in small tables that stay in the cache: the thread (who,
//! and what it sees), the address (where that lies), and the cell that counts. Only what is not in
//! these asks [`Lookup`]. Call chains are kept as lists of places, each distinct one once.

use pmuscope_perfdata::reader::CpuMode;
use pmuscope_perfdata::reader::scan::Hit;

use crate::blocks::Clock;
use crate::chains::{Chains, Step, steps};
use crate::log::{Entry, Log};
use crate::lookup::{Holds, Lookup, PAGE};
use crate::modules::{GUEST, HYPERVISOR, ModuleId, UNKNOWN};
use crate::spaces::{NOTHING, ViewId};
use crate::table::{Interned, Table, mix};
use crate::tasks::{CommId, CommOf, Place};

/// Slots of the caches, as powers of two: together some 1 MiB.
const TASK_BITS: u32 = 10;
const ADDRESS_BITS: u32 = 14;
const PAGE_BITS: u32 = 12;
/// Stands for the kernel among the views.
const KERNEL_VIEW: ViewId = ViewId::MAX;

/// What is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Apart {
    /// Call chains, where the recording has them; else only where each sample was taken.
    pub chains: bool,
    /// Tasks.
    pub tasks: TasksBy,
    /// CPUs.
    pub cpus: bool,
}

/// By what tasks are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TasksBy {
    /// The name of the thread.
    #[default]
    Command,
    /// Name and process.
    Process,
    /// Name, process and thread.
    Thread,
}

/// A task as it is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TaskKey {
    pub(crate) comm: CommOf,
    pub(crate) pid: Option<i32>,
    pub(crate) tid: Option<i32>,
}

/// Samples of one event, task and CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    /// Index into [`Counts::tasks`].
    pub(crate) task: u32,
    pub(crate) event: u32,
    pub(crate) cpu: Option<u32>,
}

/// A count under way.
#[derive(Debug, Clone, Copy)]
struct Cell {
    group: u32,
    what: u32,
    block: u32,
    samples: u32,
    weight: u64,
}

/// What is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellKey {
    /// Index into [`Counts::groups`].
    pub(crate) group: u32,
    /// Index into [`Counts::chains`], or without chains into [`Counts::places`].
    pub(crate) what: u32,
}

/// What was counted.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) tasks: Vec<TaskKey>,
    pub(crate) groups: Vec<Group>,
    pub(crate) places: Vec<Place>,
    pub(crate) chains: Option<Chains>,
    pub(crate) cells: Vec<CellKey>,
    /// All counts of the cells.
    pub(crate) log: Log,
    pub(crate) clock: Clock,
    /// Samples without a time: their blocks mean nothing.
    pub(crate) untimed: u64,
}

#[derive(Debug, Clone, Copy)]
struct TaskSlot {
    task: Option<(i32, i32)>,
    event: u32,
    cpu: u32,
    group: u32,
    view: ViewId,
    holds: Holds,
}

#[derive(Debug, Clone, Copy)]
struct AddressSlot {
    address: u64,
    view: ViewId,
    place: u32,
    holds: Holds,
}

#[derive(Debug, Clone, Copy)]
struct PageSlot {
    page: u64,
    bias: u64,
    view: ViewId,
    module: ModuleId,
    holds: Holds,
}

const NEVER: Holds = Holds { first: 1, last: 0 };

/// Counts samples.
#[derive(Debug)]
pub(crate) struct Counter {
    apart: Apart,
    /// Per event: whether its samples carry the period they stand for.
    has_period: Vec<bool>,
    /// Name of samples that do not tell their thread.
    nameless: CommId,
    task_slots: Vec<TaskSlot>,
    address_slots: Vec<AddressSlot>,
    page_slots: Vec<PageSlot>,
    tasks: Interned<TaskKey>,
    groups: Interned<Group>,
    places: Interned<Place>,
    chains: Chains,
    steps: Vec<Step>,
    chain: Vec<u32>,
    cells: Vec<Cell>,
    table: Table,
    clock: Clock,
    log: Log,
    untimed: u64,
}

impl Counter {
    pub(crate) fn new(apart: Apart, has_period: &[bool], nameless: CommId, clock: Clock) -> Self {
        let task = TaskSlot { task: None, event: 0, cpu: 0, group: 0, view: NOTHING, holds: NEVER };
        let address = AddressSlot { address: 0, view: NOTHING, place: 0, holds: NEVER };
        let page = PageSlot { page: 0, bias: 0, view: NOTHING, module: UNKNOWN, holds: NEVER };
        Self {
            apart,
            has_period: has_period.to_vec(),
            nameless,
            task_slots: vec![task; 1 << TASK_BITS],
            address_slots: vec![address; 1 << ADDRESS_BITS],
            page_slots: vec![page; 1 << PAGE_BITS],
            tasks: Interned::default(),
            groups: Interned::default(),
            places: Interned::default(),
            chains: Chains::default(),
            steps: Vec::new(),
            chain: Vec::new(),
            cells: Vec::new(),
            table: Table::default(),
            log: Log::new(clock.shift()),
            clock,
            untimed: 0,
        }
    }

    /// Counts a sample. `time` is `None` where it has none.
    #[inline]
    pub(crate) fn sample<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        hit: &Hit<'_>,
        time: Option<u64>,
    ) {
        let stamp = lookup.stamp(at);
        let (group, view) = self.group(lookup, at, stamp, hit);
        let leaf = match hit.ip {
            Some(ip) => self.place(lookup, at, stamp, view, effective(hit.mode, ip), ip),
            None => self.fixed(UNKNOWN),
        };
        let what =
            if self.apart.chains { self.chain(lookup, at, stamp, view, hit, leaf) } else { leaf };
        let by_period = self.has_period.get(hit.event).copied().unwrap_or(false);
        let weight = if by_period { hit.period.unwrap_or(1) } else { 1 };
        let block = self.block(time);
        self.count(group, what, block, weight);
    }

    #[inline]
    fn group<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        hit: &Hit<'_>,
    ) -> (u32, ViewId) {
        let cpu = if self.apart.cpus { hit.cpu.unwrap_or(u32::MAX) } else { 0 };
        let (event, tid) = (hit.event as u32, hit.task.map_or(-1, |(_, tid)| tid));
        let slot = mix(mix(tid as u64, event.into()), cpu.into()) >> (64 - TASK_BITS);
        let found = &self.task_slots[slot as usize];
        let is_it = found.task == hit.task && found.event == event && found.cpu == cpu;
        if is_it && found.holds.at(stamp) {
            return (found.group, found.view);
        }
        let slot = &mut self.task_slots[slot as usize];
        let (key, view, holds) = match hit.task {
            None => {
                let comm = CommOf::Told(self.nameless);
                let always = Holds { first: 0, last: u64::MAX };
                (TaskKey { comm, pid: None, tid: None }, NOTHING, always)
            }
            Some((pid, tid)) => {
                let found = lookup.task(pid, tid, at);
                let by = self.apart.tasks;
                let key = TaskKey {
                    comm: found.comm,
                    pid: (by != TasksBy::Command).then_some(pid),
                    tid: (by == TasksBy::Thread).then_some(tid),
                };
                (key, found.view, found.holds)
            }
        };
        let task = self.tasks.intern(key.hash(), key);
        let group = Group { task, event, cpu: hit.cpu.filter(|_| self.apart.cpus) };
        let group = self.groups.intern(mix(mix(task.into(), event.into()), cpu.into()), group);
        *slot = TaskSlot { task: hit.task, event, cpu, group, view, holds };
        (group, view)
    }

    /// The number of the place of an address.
    #[inline]
    fn place<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        view: ViewId,
        mode: CpuMode,
        address: u64,
    ) -> u32 {
        let view = match mode {
            CpuMode::User | CpuMode::Unknown => view,
            CpuMode::Kernel => KERNEL_VIEW,
            CpuMode::Hypervisor => return self.fixed(HYPERVISOR),
            CpuMode::GuestKernel | CpuMode::GuestUser => return self.fixed(GUEST),
        };
        let slot = (mix(address, view.into()) >> (64 - ADDRESS_BITS)) as usize;
        let found = &self.address_slots[slot];
        if found.address == address && found.view == view && found.holds.at(stamp) {
            return found.place;
        }
        let (place, holds) = self.look_up(lookup, at, stamp, view, address);
        let place = self.intern(place);
        self.address_slots[slot] = AddressSlot { address, view, place, holds };
        place
    }

    fn look_up<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        view: ViewId,
        address: u64,
    ) -> (Place, Holds) {
        if view == KERNEL_VIEW {
            let found = lookup.kernel(address, at);
            return (found.place, found.holds);
        }
        let page = address & !(PAGE - 1);
        let slot = (mix(page, view.into()) >> (64 - PAGE_BITS)) as usize;
        let known = &self.page_slots[slot];
        if known.page == page && known.view == view && known.holds.at(stamp) {
            let place = Place { module: known.module, address: address.wrapping_add(known.bias) };
            return (place, known.holds);
        }
        let found = lookup.user(view, address, at);
        let Place { module, address: there } = found.place;
        if found.whole_page {
            let bias = there.wrapping_sub(address);
            self.page_slots[slot] = PageSlot { page, bias, view, module, holds: found.holds };
        }
        (found.place, found.holds)
    }

    fn intern(&mut self, place: Place) -> u32 {
        self.places.intern(mix(place.address, place.module.into()), place)
    }

    /// The place of all addresses of a module that are not told apart.
    fn fixed(&mut self, module: ModuleId) -> u32 {
        self.intern(Place { module, address: 0 })
    }

    /// The number of a call chain, whose innermost place is where the sample was taken.
    fn chain<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        view: ViewId,
        hit: &Hit<'_>,
        leaf: u32,
    ) -> u32 {
        let (mut callers, mut chain) =
            (std::mem::take(&mut self.steps), std::mem::take(&mut self.chain));
        steps(hit, &mut callers);
        chain.clear();
        chain.push(leaf);
        for step in &callers {
            let mode = effective(step.mode, step.address);
            chain.push(self.place(lookup, at, stamp, view, mode, step.address));
        }
        let number = self.chains.intern(&chain);
        (self.steps, self.chain) = (callers, chain);
        number
    }

    #[inline]
    fn block(&mut self, time: Option<u64>) -> u32 {
        let Some(time) = time else {
            self.untimed += 1;
            return 0;
        };
        let (block, halvings) = self.clock.block(time);
        if halvings > 0 {
            self.flush();
            self.log.set_shift(self.clock.shift());
            self.cells.iter_mut().for_each(|cell| cell.block = 0);
        }
        block
    }

    #[inline]
    fn count(&mut self, group: u32, what: u32, block: u32, weight: u64) {
        let Self { cells, table, log, .. } = self;
        let new = cells.len() as u32;
        let hash = mix(u64::from(what) << 32 | u64::from(what), group.into());
        let index = table.find_or_insert(hash, new, |index| {
            let cell = &cells[index as usize];
            cell.what == what && cell.group == group
        });
        if index == new {
            cells.push(Cell { group, what, block, samples: 1, weight });
            return;
        }
        let cell = &mut cells[index as usize];
        if cell.block != block || cell.samples == u32::MAX {
            if cell.samples > 0 {
                log.push(cell.entry(index));
            }
            (cell.block, cell.samples, cell.weight) = (block, 0, 0);
        }
        cell.samples += 1;
        cell.weight = cell.weight.saturating_add(weight);
    }

    /// Writes down what cells have not yet.
    fn flush(&mut self) {
        for (index, cell) in self.cells.iter_mut().enumerate() {
            if cell.samples > 0 {
                self.log.push(cell.entry(index as u32));
                (cell.samples, cell.weight) = (0, 0);
            }
        }
    }

    /// The end.
    pub(crate) fn finish(mut self) -> Counts {
        self.flush();
        Counts {
            tasks: self.tasks.list,
            groups: self.groups.list,
            places: self.places.list,
            chains: self.apart.chains.then_some(self.chains),
            cells: self
                .cells
                .iter()
                .map(|cell| CellKey { group: cell.group, what: cell.what })
                .collect(),
            log: self.log,
            clock: self.clock,
            untimed: self.untimed,
        }
    }
}

impl Cell {
    fn entry(&self, cell: u32) -> Entry {
        Entry { cell, block: self.block, samples: self.samples, weight: self.weight }
    }
}

impl TaskKey {
    fn hash(&self) -> u64 {
        let comm = match self.comm {
            CommOf::Told(comm) => u64::from(comm),
            CommOf::Unnamed(tid) => 1 << 40 | u64::from(tid as u32),
        };
        let id = |id: Option<i32>| id.map_or(0, |id| 1 << 40 | u64::from(id as u32));
        mix(mix(mix(1, comm), id(self.pid)), id(self.tid))
    }
}

/// The upper half belongs to the kernel on all 64-bit machines.
pub(crate) fn effective(mode: CpuMode, address: u64) -> CpuMode {
    match mode {
        CpuMode::Unknown if address >> 63 == 1 => CpuMode::Kernel,
        CpuMode::Unknown => CpuMode::User,
        mode => mode,
    }
}
