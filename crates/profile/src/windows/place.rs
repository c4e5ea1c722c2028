//! Where samples were taken, as numbers of places: for whoever needs the number of a place again and
//! again.

use pmuscope_perfdata::reader::scan::SampleFields;

use crate::filter::Filter;
use crate::table::mix;
use crate::timeline::finder::{self, AddressSlot, UNKNOWN_PLACE, address_slot, view_of};
use crate::timeline::lookup::{Holds, Lookup};
use crate::timeline::spaces::{NOTHING, ViewId};
use crate::timeline::tasks::ModuleAddress;

/// Slots of the table of tasks, as a power of two.
const TASK_BITS: u32 = 10;

#[derive(Debug, Clone, Copy)]
struct TaskSlot {
    task: (i32, i32),
    view: ViewId,
    passes: bool,
    holds: Holds,
}

/// Numbers of places.
#[derive(Debug)]
pub(crate) struct Finder<'a> {
    filter: &'a Filter,
    tasks: Vec<TaskSlot>,
    addresses: Vec<AddressSlot<u32>>,
    places: finder::Finder,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(filter: &'a Filter) -> Self {
        let task = TaskSlot { task: (0, 0), view: NOTHING, passes: false, holds: Holds::NEVER };
        Self {
            filter,
            tasks: vec![task; 1 << TASK_BITS],
            addresses: AddressSlot::table(0),
            places: finder::Finder::default(),
        }
    }

    /// The number that `number` gives the place of a sample, and whether the filter lets it pass.
    #[inline]
    pub(crate) fn find<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        hit: &SampleFields<'_>,
        number: impl FnMut(ModuleAddress) -> u32,
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
        hit: &SampleFields<'_>,
        mut number: impl FnMut(ModuleAddress) -> u32,
    ) -> u32 {
        let Some(address) = hit.ip else { return number(UNKNOWN_PLACE) };
        let view = match view_of(hit.mode, address, view) {
            Ok(view) => view,
            Err(module) => return number(ModuleAddress { module, address: 0 }),
        };
        let slot = address_slot(address, view);
        if let Some((known, _)) = self.addresses[slot].get(view, address, stamp) {
            return known;
        }
        let (place, holds) = self.places.find_in(lookup, at, view, address);
        let number = number(place);
        self.addresses[slot].set(view, address, number, holds);
        number
    }
}
