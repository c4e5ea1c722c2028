//! Where samples were taken, as numbers of places: through small tables, as the counter of profiles
//! does it, but for whoever needs the number of a place again and again.

use pmuscope_perfdata::reader::CpuMode;
use pmuscope_perfdata::reader::scan::Hit;

use crate::filter::Filter;
use crate::finder::effective;
use crate::lookup::{Holds, Lookup};
use crate::modules::{GUEST, HYPERVISOR, UNKNOWN};
use crate::spaces::{NOTHING, ViewId};
use crate::table::mix;
use crate::tasks::Place;

/// Slots of the tables, as powers of two.
const TASK_BITS: u32 = 10;
const ADDRESS_BITS: u32 = 13;
/// Stands for the kernel among the views.
const KERNEL_VIEW: ViewId = ViewId::MAX;

#[derive(Debug, Clone, Copy)]
struct TaskSlot {
    task: (i32, i32),
    view: ViewId,
    passes: bool,
    holds: Holds,
}

#[derive(Debug, Clone, Copy)]
struct AddressSlot {
    address: u64,
    view: ViewId,
    number: u32,
    holds: Holds,
}

/// Numbers of places.
#[derive(Debug)]
pub(crate) struct Finder<'a> {
    filter: &'a Filter,
    tasks: Vec<TaskSlot>,
    addresses: Vec<AddressSlot>,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(filter: &'a Filter) -> Self {
        let task = TaskSlot { task: (0, 0), view: NOTHING, passes: false, holds: Holds::NEVER };
        let address = AddressSlot { address: 0, view: NOTHING, number: 0, holds: Holds::NEVER };
        Self {
            filter,
            tasks: vec![task; 1 << TASK_BITS],
            addresses: vec![address; 1 << ADDRESS_BITS],
        }
    }

    /// The number that `number` gives the place of a sample, and whether the filter lets it pass.
    #[inline]
    pub(crate) fn find<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        hit: &Hit<'_>,
        number: impl FnMut(Place) -> u32,
    ) -> (u32, bool) {
        let stamp = lookup.stamp(at);
        let (view, task_passes) = match hit.task {
            Some(task) => self.task(lookup, at, stamp, task),
            None => (NOTHING, self.filter.passes_task(None, b"-")),
        };
        let passes = task_passes
            && self.filter.passes_event(hit.event)
            && self.filter.passes_moment(hit.cpu, Some(hit.time));
        (self.place(lookup, at, stamp, view, hit, number), passes)
    }

    #[inline]
    fn task<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        task: (i32, i32),
    ) -> (ViewId, bool) {
        let slot = (mix(task.1 as u64, 0) >> (64 - TASK_BITS)) as usize;
        let known = &self.tasks[slot];
        if known.task == task && known.holds.at(stamp) {
            return (known.view, known.passes);
        }
        let found = lookup.task(task.0, task.1, at);
        let passes = self.filter.passes_task(Some(task), &lookup.name(found.comm));
        self.tasks[slot] = TaskSlot { task, view: found.view, passes, holds: found.holds };
        (found.view, passes)
    }

    #[inline]
    fn place<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        stamp: u64,
        view: ViewId,
        hit: &Hit<'_>,
        mut number: impl FnMut(Place) -> u32,
    ) -> u32 {
        let nowhere = |module| Place { module, address: 0 };
        let Some(address) = hit.ip else { return number(nowhere(UNKNOWN)) };
        let view = match effective(hit.mode, address) {
            CpuMode::User | CpuMode::Unknown => view,
            CpuMode::Kernel => KERNEL_VIEW,
            CpuMode::Hypervisor => return number(nowhere(HYPERVISOR)),
            CpuMode::GuestKernel | CpuMode::GuestUser => return number(nowhere(GUEST)),
        };
        let slot = (mix(address, view.into()) >> (64 - ADDRESS_BITS)) as usize;
        let known = &self.addresses[slot];
        if known.address == address && known.view == view && known.holds.at(stamp) {
            return known.number;
        }
        let found = if view == KERNEL_VIEW {
            lookup.kernel(address, at)
        } else {
            lookup.user(view, address, at)
        };
        let number = number(found.place(address));
        self.addresses[slot] = AddressSlot { address, view, number, holds: found.holds };
        number
    }
}
