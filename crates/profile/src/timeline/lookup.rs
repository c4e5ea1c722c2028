//! The thread that ran and the modules that were mapped: at a past time ([`History`]), or now ([`Current`]).
//!
//! Every answer says how long it holds, so that the next sample of the same thread, or at the same
//! address, need not ask again. Answers end where the order could matter: a sample at the very time of
//! a change always asks.

use std::borrow::Cow;

use pmuscope_perfdata::reader::scan::RecordOrder;

use crate::timeline::modules::{
    KERNEL_IMAGE, KERNEL_LOADED, ModuleId, ModuleKind, Modules, UNKNOWN,
};
use crate::timeline::spaces::{Epoch, LookupResult, NOTHING, NOW, ViewId, half_of};
use crate::timeline::tasks::{Change, CommOf, ModuleAddress, Tasks};

/// First and last stamp at which an answer holds; empty if the first is behind the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holds {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Holds {
    pub(crate) const ALWAYS: Self = Self { first: 0, last: u64::MAX };
    pub(crate) const NEVER: Self = Self { first: 1, last: 0 };

    #[inline]
    pub(crate) fn at(self, stamp: u64) -> bool {
        self.first <= stamp && stamp <= self.last
    }

    #[inline]
    pub(crate) fn and(self, other: Self) -> Self {
        Self { first: self.first.max(other.first), last: self.last.min(other.last) }
    }
}

/// A thread at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskAt {
    pub(crate) comm: CommOf,
    pub(crate) view: ViewId,
    pub(crate) holds: Holds,
}

/// Where an address and those around it lie, at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    pub(crate) module: ModuleId,
    /// What is added to an address to have it as the module counts.
    bias: u64,
    /// 0 where all of them are one place, `bias`; else all bits.
    mask: u64,
    /// First and last address.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) holds: Holds,
}

impl Region {
    /// Nothing, never.
    pub(crate) const NEVER: Self =
        Self { module: UNKNOWN, bias: 0, mask: 0, first: 1, last: 0, holds: Holds::NEVER };

    /// The same with other stamps at which it holds.
    pub(crate) fn holding(self, holds: Holds) -> Self {
        Self { holds, ..self }
    }

    /// The place of one of its addresses.
    #[inline]
    pub(crate) fn place(&self, address: u64) -> ModuleAddress {
        let address = (address & self.mask).wrapping_add(self.bias);
        ModuleAddress { module: self.module, address }
    }
}

/// Answers for moments of one kind.
pub(crate) trait Lookup {
    /// A moment.
    type At: Copy;

    /// What answers are valid by.
    fn stamp(&self, at: Self::At) -> u64;

    /// Who ran.
    fn task(&self, pid: i32, tid: i32, at: Self::At) -> TaskAt;

    /// What a thread is called.
    fn name(&self, comm: CommOf) -> Cow<'_, [u8]>;

    /// Where an address of a process lies.
    fn user(&self, view: ViewId, address: u64, at: Self::At) -> Region;

    /// Where an address of the kernel lies.
    fn kernel(&self, address: u64, at: Self::At) -> Region;

    /// What places lie in.
    fn modules(&self) -> &Modules;
}

/// Adjoining pieces of memory without a file that may lie between an address and a file's mapping.
const MOST_PIECES: usize = 8;

/// Where an address of memory without a file would lie in the file mapped right before that memory: the kernel puts
/// what a program's data take beyond the file's last page (`.bss`) there. Whether they take that much is known to the
/// file. `None` for all other addresses.
pub(crate) fn past_end_of_file<L: Lookup>(
    lookup: &L,
    moment: L::At,
    view: ViewId,
    address: u64,
) -> Option<ModuleAddress> {
    let mut at = address;
    for _ in 0..MOST_PIECES {
        let region = lookup.user(view, at, moment);
        match lookup.modules().list()[region.module as usize].kind {
            ModuleKind::File if at < address => {
                let offset = region.place(at).address.checked_add(address - at)?;
                return Some(ModuleAddress { module: region.module, address: offset });
            }
            ModuleKind::Jit { .. } => at = region.first.checked_sub(1)?,
            _ => return None,
        }
    }
    None
}

/// Everything that happened, to be asked for any moment.
#[derive(Debug)]
pub(crate) struct History<'a> {
    tasks: &'a Tasks,
    modules: &'a Modules,
    /// When each change happened.
    moments: &'a [RecordOrder],
    /// By task, then by epoch.
    comms: Vec<Change>,
    views: Vec<Change>,
}

impl<'a> History<'a> {
    pub(crate) fn new(tasks: &'a Tasks, modules: &'a Modules, moments: &'a [RecordOrder]) -> Self {
        let sorted = |changes: &[Change]| {
            let mut changes = changes.to_vec();
            // Of one epoch, the last one counts.
            changes.sort_by_key(|change| (change.id, change.from));
            changes
        };
        Self { tasks, modules, moments, comms: sorted(&tasks.comms), views: sorted(&tasks.views) }
    }

    fn epoch(&self, at: RecordOrder) -> Epoch {
        self.moments.partition_point(|moment| *moment < at) as Epoch
    }

    /// Times strictly between the changes that begin and end epochs.
    fn holds(&self, from: Epoch, until: Epoch) -> Holds {
        let time = |epoch: Epoch| {
            self.moments.get((epoch as usize).wrapping_sub(1)).map(|moment| moment.time)
        };
        let first = time(from).map_or(0, |time| time.saturating_add(1));
        match time(until).filter(|_| until != NOW) {
            None => Holds { first, last: u64::MAX },
            Some(0) => Holds::NEVER,
            Some(time) => Holds { first, last: time - 1 },
        }
    }
}

/// The last change of a task up to an epoch, and when the next one is.
fn change(changes: &[Change], id: i32, epoch: Epoch) -> (Option<Change>, Epoch) {
    let behind = changes.partition_point(|change| (change.id, change.from) <= (id, epoch));
    let last = behind.checked_sub(1).map(|at| changes[at]).filter(|change| change.id == id);
    let next = changes.get(behind).filter(|change| change.id == id);
    (last, next.map_or(NOW, |change| change.from))
}

impl Lookup for History<'_> {
    type At = RecordOrder;

    #[inline]
    fn stamp(&self, at: RecordOrder) -> u64 {
        at.time
    }

    fn task(&self, pid: i32, tid: i32, at: RecordOrder) -> TaskAt {
        let epoch = self.epoch(at);
        let (told, until) = change(&self.comms, tid, epoch);
        let (view, end) = change(&self.views, pid, epoch);
        let from = told.map_or(0, |change| change.from).max(view.map_or(0, |change| change.from));
        TaskAt {
            comm: told.map_or(CommOf::Unnamed(tid), |change| CommOf::Recorded(change.value)),
            view: view.map_or(NOTHING, |change| change.value),
            holds: self.holds(from, until.min(end)),
        }
    }

    fn name(&self, comm: CommOf) -> Cow<'_, [u8]> {
        self.tasks.shown(comm)
    }

    fn user(&self, view: ViewId, address: u64, at: RecordOrder) -> Region {
        let found = self.tasks.spaces.find(view, address, self.epoch(at));
        let region = user_region(self.modules, &found, self.holds(found.from, found.until));
        generated(self.modules, region, address, at.time)
    }

    fn kernel(&self, address: u64, at: RecordOrder) -> Region {
        let epoch = self.epoch(at);
        let find = |view| self.tasks.spaces.find(view, address, epoch);
        let (loaded, kernel) = (find(self.tasks.loaded), find(self.tasks.kernel));
        let holds = |found: &LookupResult| self.holds(found.from, found.until);
        kernel_region(address, &loaded, &kernel, holds(&loaded).and(holds(&kernel)))
    }

    fn modules(&self) -> &Modules {
        self.modules
    }
}

/// The present moment; stamps count changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Current<'a> {
    pub(crate) tasks: &'a Tasks,
    pub(crate) modules: &'a Modules,
}

impl Current<'_> {
    fn holds(&self) -> Holds {
        let now = self.tasks.epoch().into();
        Holds { first: now, last: now }
    }
}

impl Lookup for Current<'_> {
    type At = ();

    fn stamp(&self, (): ()) -> u64 {
        self.tasks.epoch().into()
    }

    fn task(&self, pid: i32, tid: i32, (): ()) -> TaskAt {
        let (comm, view) = (self.tasks.comm(tid), self.tasks.view(pid));
        TaskAt { comm, view, holds: self.holds() }
    }

    fn name(&self, comm: CommOf) -> Cow<'_, [u8]> {
        self.tasks.shown(comm)
    }

    fn user(&self, view: ViewId, address: u64, (): ()) -> Region {
        let found = self.tasks.spaces.find(view, address, self.tasks.epoch());
        let region = user_region(self.modules, &found, self.holds());
        let found = generated(self.modules, region, address, self.modules.now);
        // Stamps count changes, not time.
        if self.modules.code(found.module).is_some() { found.holding(Holds::NEVER) } else { found }
    }

    fn kernel(&self, address: u64, (): ()) -> Region {
        let find = |view| self.tasks.spaces.find(view, address, self.tasks.epoch());
        kernel_region(address, &find(self.tasks.loaded), &find(self.tasks.kernel), self.holds())
    }

    fn modules(&self) -> &Modules {
        self.modules
    }
}

fn user_region(modules: &Modules, found: &LookupResult, holds: Holds) -> Region {
    let LookupResult { mapping, first, last, .. } = *found;
    let mapping = mapping.and_then(|one| Some((one.module?, one.bias)));
    let (module, bias, mask) = match mapping {
        None => (UNKNOWN, 0, 0),
        Some((module, _)) if !modules.has_addresses(module) => (module, 0, 0),
        Some((module, bias)) => (module, bias, u64::MAX),
    };
    Region { module, bias, mask, first, last, holds }
}

/// The region of an address where code that a process generated is known by time: that address alone, as long as it has the
/// same function.
fn generated(modules: &Modules, region: Region, address: u64, time: u64) -> Region {
    if !modules.has_code() {
        return region;
    }
    let Some(code) = modules.code(region.module) else { return region };
    let (place, holds) = match code.at(address, time) {
        Some(found) => (found.place, Holds { first: found.from, last: found.until - 1 }),
        None => (address, Holds { first: time, last: time }),
    };
    let bias = place.wrapping_sub(address);
    let holds = region.holds.and(holds);
    Region { bias, mask: u64::MAX, first: address, last: address, holds, ..region }
}

fn kernel_region(
    address: u64,
    loaded: &LookupResult,
    kernel: &LookupResult,
    holds: Holds,
) -> Region {
    let half = half_of(address);
    let (module, bias, mask) = match (loaded.mapping, kernel.mapping.and_then(|one| one.module)) {
        (Some(function), _) => (KERNEL_LOADED, function.bias, 0),
        (None, Some(module)) => (module, 0, u64::MAX),
        (None, None) if half.kernel => (KERNEL_IMAGE, 0, u64::MAX),
        (None, None) => (UNKNOWN, 0, 0),
    };
    let first = loaded.first.max(kernel.first).max(half.first);
    let last = loaded.last.min(kernel.last).min(half.last);
    Region { module, bias, mask, first, last, holds }
}
