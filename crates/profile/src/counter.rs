//! Counts samples: by who ran, where, and when. One for each thread that reads.
//!
//! Per sample there are two lookups in small tables that stay in the cache, the thread (who, and what it
//! sees) and the page of the address (where that lies), and one in the large table of [`Cells`]. Only
//! what is not in the small ones asks [`Lookup`]. Call chains are nodes of a tree of places, see
//! [`crate::chains`]; the program's part of one may have to be [unwound](crate::unwinding) first.

use pmuscope_perfdata::reader::CpuMode;
use pmuscope_perfdata::reader::scan::Hit;

use crate::blocks::Clock;
use crate::cells::{Cells, Key};
use crate::chains::{Last, Step, steps};
use crate::filter::Filter;
use crate::log::Log;
use crate::lookup::{Holds, Lookup, PAGE};
use crate::modules::{GUEST, HYPERVISOR, ModuleId, UNKNOWN};
use crate::spaces::{NOTHING, ViewId};
use crate::table::{Interned, mix};
use crate::tasks::{CommId, CommOf, Place};
use crate::tree::{Node, Tree};
use crate::unwinding::{End, Walked, Walker};

/// Slots of the caches, as powers of two: together some 600 KiB.
const TASK_BITS: u32 = 10;
const ADDRESS_BITS: u32 = 13;
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

/// What is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellKey {
    /// Its number in [`Counts::log`].
    pub(crate) cell: u32,
    /// Index into [`Counts::groups`].
    pub(crate) group: u32,
    /// Node of [`Counts::chains`], counted from 1, or without chains index into [`Counts::places`].
    pub(crate) what: u32,
}

/// What a reading counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counting {
    /// What is told apart.
    pub apart: Apart,
    /// Which samples count.
    pub filter: Filter,
}

impl From<Apart> for Counting {
    fn from(apart: Apart) -> Self {
        Self { apart, filter: Filter::default() }
    }
}

/// What was counted.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) tasks: Vec<TaskKey>,
    pub(crate) groups: Vec<Group>,
    pub(crate) places: Vec<Place>,
    /// Each distinct chain: its innermost place, and the node of its callers, which comes before.
    pub(crate) chains: Option<Vec<Node>>,
    /// Each cell of the log once; without chains in the order of places.
    pub(crate) cells: Vec<CellKey>,
    /// All counts of the cells.
    pub(crate) log: Log,
    pub(crate) clock: Clock,
    /// Samples without a time: their blocks mean nothing.
    pub(crate) untimed: u64,
    /// Samples that the filter left out.
    pub(crate) left_out: u64,
    /// Samples of each event by the number of their CPU.
    pub(crate) by_cpu: Vec<Vec<u64>>,
    /// What came of the stacks that samples carry, and of `places` on the way.
    pub(crate) walked: Option<Walked>,
}

/// CPU numbers from here on are no numbers of CPUs.
const MOST_CPUS: u32 = 1 << 16;

/// Stands for the group of threads that the filter leaves out.
const LEFT_OUT: u32 = u32::MAX;

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
    place: Place,
    /// Its number, where places are numbered.
    number: u32,
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

/// Counts samples.
#[derive(Debug)]
pub(crate) struct Counter<'a> {
    apart: Apart,
    filter: Filter,
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
    chains: Tree,
    /// By slot of the task.
    last_chains: Vec<Last>,
    steps: Vec<Step>,
    /// Unwinds stacks, where they are asked for.
    pub(crate) walker: Option<Walker<'a>>,
    frames: Vec<u32>,
    /// Without call chains: groups in modules.
    areas: Interned<(u32, ModuleId)>,
    cells: Cells,
    clock: Clock,
    log: Log,
    untimed: u64,
    left_out: u64,
    by_cpu: Vec<Vec<u64>>,
}

impl<'a> Counter<'a> {
    pub(crate) fn new(
        counting: &Counting,
        has_period: &[bool],
        nameless: CommId,
        clock: Clock,
        walker: Option<Walker<'a>>,
    ) -> Self {
        let task =
            TaskSlot { task: None, event: 0, cpu: 0, group: 0, view: NOTHING, holds: Holds::NEVER };
        let place = Place { module: UNKNOWN, address: 0 };
        let address =
            AddressSlot { address: 0, view: NOTHING, place, number: 0, holds: Holds::NEVER };
        let page =
            PageSlot { page: 0, bias: 0, view: NOTHING, module: UNKNOWN, holds: Holds::NEVER };
        Self {
            apart: counting.apart,
            filter: counting.filter.clone(),
            has_period: has_period.to_vec(),
            nameless,
            task_slots: vec![task; 1 << TASK_BITS],
            address_slots: vec![address; 1 << ADDRESS_BITS],
            page_slots: vec![page; 1 << PAGE_BITS],
            tasks: Interned::default(),
            groups: Interned::default(),
            places: Interned::default(),
            chains: Tree::default(),
            last_chains: vec![
                Last::default();
                if counting.apart.chains { 1 << TASK_BITS } else { 0 }
            ],
            steps: Vec::new(),
            walker,
            frames: Vec::new(),
            areas: Interned::default(),
            cells: Cells::default(),
            log: Log::new(clock.shift()),
            clock,
            untimed: 0,
            left_out: 0,
            by_cpu: vec![Vec::new(); has_period.len()],
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
        // Time goes on with what is left out: both ways to read divide it alike.
        let block = self.block(time);
        let stamp = lookup.stamp(at);
        let (slot, group, view) = if self.filter.passes_moment(hit.cpu, time) {
            self.group(lookup, at, stamp, hit)
        } else {
            (0, LEFT_OUT, NOTHING)
        };
        if group == LEFT_OUT {
            self.left_out += 1;
            return;
        }
        self.count_cpu(hit);
        let by_period = self.has_period.get(hit.event).copied().unwrap_or(false);
        let weight = if by_period { hit.period.unwrap_or(1) } else { 1 };
        let key = if self.apart.chains {
            let chain = self.chain(lookup, at, stamp, (slot, view), hit);
            Key { of: group, address: chain.into() }
        } else {
            let Place { module, address } = match hit.ip {
                Some(ip) => self.place(lookup, at, stamp, view, effective(hit.mode, ip), ip),
                None => UNKNOWN_PLACE,
            };
            let area = self.areas.intern(mix(group.into(), module.into()), (group, module));
            Key { of: area, address }
        };
        self.cells.count(key, block, weight, &mut self.log);
    }

    #[inline]
    fn count_cpu(&mut self, hit: &Hit<'_>) {
        let Some(cpu) = hit.cpu.filter(|&cpu| cpu < MOST_CPUS) else { return };
        let Some(counts) = self.by_cpu.get_mut(hit.event) else { return };
        if counts.len() <= cpu as usize {
            counts.resize(cpu as usize + 1, 0);
        }
        counts[cpu as usize] += 1;
    }

    /// The number of the group of a sample, or [`LEFT_OUT`]; and what its process sees.
    #[inline]
    fn group<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        hit: &Hit<'_>,
    ) -> (usize, u32, ViewId) {
        let cpu = if self.apart.cpus { hit.cpu.unwrap_or(u32::MAX) } else { 0 };
        let (event, tid) = (hit.event as u32, hit.task.map_or(-1, |(_, tid)| tid));
        let at_slot = (mix(mix(tid as u64, event.into()), cpu.into()) >> (64 - TASK_BITS)) as usize;
        let found = &self.task_slots[at_slot];
        let is_it = found.task == hit.task && found.event == event && found.cpu == cpu;
        if is_it && found.holds.at(stamp) {
            return (at_slot, found.group, found.view);
        }
        let slot = &mut self.task_slots[at_slot];
        let (key, view, holds) = match hit.task {
            None => {
                let comm = CommOf::Told(self.nameless);
                (TaskKey { comm, pid: None, tid: None }, NOTHING, Holds::ALWAYS)
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
        let filter = &self.filter;
        let passes =
            filter.passes_event(hit.event) && filter.passes_task(hit.task, &lookup.name(key.comm));
        let group = if passes {
            let task = self.tasks.intern(key.hash(), key);
            let group = Group { task, event, cpu: hit.cpu.filter(|_| self.apart.cpus) };
            self.groups.intern(mix(mix(task.into(), event.into()), cpu.into()), group)
        } else {
            LEFT_OUT
        };
        *slot = TaskSlot { task: hit.task, event, cpu, group, view, holds };
        (at_slot, group, view)
    }

    /// Where an address lies.
    #[inline]
    fn place<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        view: ViewId,
        mode: CpuMode,
        address: u64,
    ) -> Place {
        let view = match view_of(mode, view) {
            Ok(view) => view,
            Err(module) => return Place { module, address: 0 },
        };
        let page = address & !(PAGE - 1);
        let known = &self.page_slots[page_slot(page, view)];
        if known.page == page && known.view == view && known.holds.at(stamp) {
            return Place { module: known.module, address: address.wrapping_add(known.bias) };
        }
        let known = &self.address_slots[address_slot(address, view)];
        if known.address == address && known.view == view && known.holds.at(stamp) {
            return known.place;
        }
        self.look_up(lookup, at, view, address).0
    }

    /// Asks, and keeps the answer.
    fn look_up<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        view: ViewId,
        address: u64,
    ) -> (Place, Holds) {
        let found = if view == KERNEL_VIEW {
            lookup.kernel(address, at)
        } else {
            lookup.user(view, address, at)
        };
        let Place { module, address: there } = found.place;
        let (page, bias, holds) = (address & !(PAGE - 1), there.wrapping_sub(address), found.holds);
        if found.whole_page {
            self.page_slots[page_slot(page, view)] = PageSlot { page, bias, view, module, holds };
        } else if !self.apart.chains {
            let (place, number) = (found.place, 0);
            self.address_slots[address_slot(address, view)] =
                AddressSlot { address, view, place, number, holds };
        }
        (found.place, holds)
    }

    /// The number of the place of an address, and when it holds.
    #[inline]
    fn number<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        view: ViewId,
        step: Step,
    ) -> (u32, Holds) {
        let address = step.address;
        let view = match view_of(effective(step.mode, address), view) {
            Ok(view) => view,
            Err(module) => return (self.intern(Place { module, address: 0 }), Holds::ALWAYS),
        };
        let slot = address_slot(address, view);
        let known = &self.address_slots[slot];
        if known.address == address && known.view == view && known.holds.at(stamp) {
            return (known.number, known.holds);
        }
        let page = address & !(PAGE - 1);
        let known = &self.page_slots[page_slot(page, view)];
        let (place, holds) = if known.page == page && known.view == view && known.holds.at(stamp) {
            let address = address.wrapping_add(known.bias);
            (Place { module: known.module, address }, known.holds)
        } else {
            self.look_up(lookup, at, view, address)
        };
        let number = self.intern(place);
        self.address_slots[slot] = AddressSlot { address, view, place, number, holds };
        (number, holds)
    }

    fn intern(&mut self, place: Place) -> u32 {
        self.places.intern(mix(place.address, place.module.into()), place)
    }

    /// The node of a call chain, whose innermost place is where the sample was taken.
    fn chain<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        (slot, view): (usize, ViewId),
        hit: &Hit<'_>,
    ) -> u32 {
        let node = match self.walk(lookup, at, stamp, view, hit) {
            Some(end) => self.unwound(lookup, at, stamp, view, hit, end),
            None => self.recorded(lookup, at, stamp, (slot, view), hit),
        };
        if hit.ip.is_some() {
            return node;
        }
        let unknown = self.intern(UNKNOWN_PLACE);
        self.chains.child(node, unknown)
    }

    /// The node of a call chain as the recording has it, from its thread's last one on.
    fn recorded<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        (slot, view): (usize, ViewId),
        hit: &Hit<'_>,
    ) -> u32 {
        let mut chain = std::mem::take(&mut self.steps);
        let mut last = std::mem::take(&mut self.last_chains[slot]);
        steps(hit, &mut chain);
        let shared = last.keep_shared(view, stamp, &chain);
        let (mut node, mut holds) = last.end();
        for &step in chain.iter().rev().skip(shared) {
            let (place, held) = self.number(lookup, at, stamp, view, step);
            node = self.chains.child(node, place);
            holds = holds.and(held);
            last.push(step, node, holds);
        }
        self.last_chains[slot] = last;
        self.steps = chain;
        node
    }

    /// The node of a call chain whose part of the program was walked, to `end`.
    fn unwound<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        view: ViewId,
        hit: &Hit<'_>,
        end: End,
    ) -> u32 {
        let mut chain = std::mem::take(&mut self.steps);
        steps(hit, &mut chain);
        let is_of_program = |step: &Step| effective(step.mode, step.address) == CpuMode::User;
        let (leaf, callers) = chain.split_at(usize::from(hit.ip.is_some()));
        let mut node = Tree::ROOT;
        if let End::Cut(cut) = end {
            let place = self.intern(cut.place());
            node = self.chains.child(node, place);
        }
        // The sample's own address is the first of the program's, unless the kernel was sampled.
        let own = usize::from(leaf.iter().any(is_of_program));
        let frames = self.frames.get(own..).unwrap_or_default();
        node = frames.iter().rev().fold(node, |node, &place| self.chains.child(node, place));
        let of_kernel = callers.iter().rev().filter(|step| !is_of_program(step));
        for &step in of_kernel.chain(leaf) {
            let (place, _) = self.number(lookup, at, stamp, view, step);
            node = self.chains.child(node, place);
        }
        self.steps = chain;
        node
    }

    /// Puts what the program's stack comes to into `frames`, the interrupted place first.
    fn walk<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        view: ViewId,
        hit: &Hit<'_>,
    ) -> Option<End> {
        let is_guest = matches!(hit.mode, CpuMode::GuestKernel | CpuMode::GuestUser);
        let details = hit.user.filter(|_| !is_guest && self.walker.is_some())?.decode()?;
        let mut walker = self.walker.take()?;
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let place = |address| {
            let step = Step { mode: CpuMode::User, address };
            let (number, _) = self.number(lookup, at, stamp, view, step);
            (number, self.places.list[number as usize])
        };
        let end = walker.walk(&details, lookup.modules(), place, &mut frames);
        (self.walker, self.frames) = (Some(walker), frames);
        end
    }

    #[inline]
    fn block(&mut self, time: Option<u64>) -> u32 {
        let Some(time) = time else {
            self.untimed += 1;
            return 0;
        };
        let (block, halvings) = self.clock.block(self.filter.nearest(time));
        if halvings > 0 {
            self.cells.flush(&mut self.log);
            self.log.set_shift(self.clock.shift());
        }
        block
    }

    /// The end.
    pub(crate) fn finish(mut self) -> Counts {
        self.cells.flush(&mut self.log);
        let keys = self.cells.into_keys();
        let (cells, places) = if self.apart.chains {
            let cell = |(key, cell): (&Key, u32)| CellKey {
                cell,
                group: key.of,
                what: key.address as u32,
            };
            (keys.iter().zip(0..).map(cell).collect(), self.places.list)
        } else {
            by_place(&keys, &self.areas.list)
        };
        Counts {
            tasks: self.tasks.list,
            groups: self.groups.list,
            places,
            chains: self.apart.chains.then(|| self.chains.into_nodes()),
            cells,
            log: self.log,
            clock: self.clock,
            untimed: self.untimed,
            left_out: self.left_out,
            by_cpu: self.by_cpu,
            walked: self.walker.map(Walker::finish),
        }
    }
}

/// Cells of areas in the order of their places, and the places.
fn by_place(keys: &[Key], areas: &[(u32, ModuleId)]) -> (Vec<CellKey>, Vec<Place>) {
    // Module, address and cell in one number each: those sort several times faster than structures.
    let packed = |(key, cell): (&Key, u32)| {
        let (_, module) = areas[key.of as usize];
        u128::from(module) << 96 | u128::from(key.address) << 32 | u128::from(cell)
    };
    let mut sorted: Vec<u128> = keys.iter().zip(0..).map(packed).collect();
    sorted.sort_unstable();
    let mut places: Vec<Place> = Vec::new();
    let cell = |packed: u128| {
        let place = Place { module: (packed >> 96) as u32, address: (packed >> 32) as u64 };
        if places.last() != Some(&place) {
            places.push(place);
        }
        let cell = packed as u32;
        let (group, _) = areas[keys[cell as usize].of as usize];
        CellKey { cell, group, what: places.len() as u32 - 1 }
    };
    (sorted.into_iter().map(cell).collect(), places)
}

/// What is mapped nowhere, or has no address.
const UNKNOWN_PLACE: Place = Place { module: UNKNOWN, address: 0 };

/// The view that addresses of a mode belong to, or the module of all of them.
#[inline]
fn view_of(mode: CpuMode, view: ViewId) -> Result<ViewId, ModuleId> {
    match mode {
        CpuMode::User | CpuMode::Unknown => Ok(view),
        CpuMode::Kernel => Ok(KERNEL_VIEW),
        CpuMode::Hypervisor => Err(HYPERVISOR),
        CpuMode::GuestKernel | CpuMode::GuestUser => Err(GUEST),
    }
}

#[inline]
fn page_slot(page: u64, view: ViewId) -> usize {
    (mix(page, view.into()) >> (64 - PAGE_BITS)) as usize
}

#[inline]
fn address_slot(address: u64, view: ViewId) -> usize {
    (mix(address, view.into()) >> (64 - ADDRESS_BITS)) as usize
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
