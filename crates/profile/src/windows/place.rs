//! Where samples were taken, as numbers of places: for whoever needs the number of a place again and
//! again.

use pmuscope_perfdata::reader::scan::SampleFields;

use crate::count::group::Counting;
use crate::count::task_cache::TaskCache;
use crate::filter::Filter;
use crate::timeline::finder::{AddressTable, UNKNOWN_PLACE};
use crate::timeline::lookup::Lookup;
use crate::timeline::tasks::ModuleAddress;

/// Numbers of places.
#[derive(Debug)]
pub(crate) struct Finder {
    tasks: TaskCache,
    places: AddressTable<u32>,
}

impl Finder {
    pub(crate) fn new(filter: &Filter) -> Self {
        let counting = Counting { filter: filter.clone(), ..Counting::default() };
        Self { tasks: TaskCache::new(&counting), places: AddressTable::default() }
    }

    /// The number that `number` gives the place of a sample, and whether the filter lets it pass.
    #[inline]
    pub(crate) fn find<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        hit: &SampleFields<'_>,
        mut number: impl FnMut(ModuleAddress) -> u32,
    ) -> (u32, bool) {
        let (task, passes) = self.tasks.task(lookup, at, hit);
        let passes = passes && self.tasks.filter.passes_moment(hit.cpu, Some(hit.time));
        let place = match hit.ip {
            None => number(UNKNOWN_PLACE),
            Some(ip) => self.places.find((lookup, at), task.view, (hit.mode, ip), number).0,
        };
        (place, passes)
    }
}
