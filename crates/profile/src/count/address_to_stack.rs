//! Places to stacks, once places have names: what the last pass over a recording without call chains
//! looks up for each sample.
//!
//! Neighbors are mostly in one function, so that ranges are few:
//!
//! ```text
//!  addresses with samples   1010 1012 101e │ 1024 1030 │ 1044 ║ 2008      ║ a page begins
//!  range from               1010           │ 1024      │ 1044 ║ 2008
//!  stack                    17             │ 4         │ 17   ║ 17
//! ```

use crate::aggregate::{StackId, Stacks};
use crate::table::{HashIndex, mix};
use crate::timeline::modules::ModuleId;
use crate::timeline::tasks::ModuleAddress;

/// Bytes of code that are looked up together.
const PAGE: u64 = 4096;

#[derive(Debug)]
struct Page {
    module: ModuleId,
    /// Its first range; the last is the one before the next page's.
    first: u32,
    /// Its first address is this many times [`PAGE`].
    number: u64,
}

/// Stacks of places.
#[derive(Debug, Default)]
pub(crate) struct AddressToStack {
    /// By module, the one it counts as.
    same: Vec<ModuleId>,
    pages: Vec<Page>,
    table: HashIndex,
    /// Where each range starts in its page.
    starts: Vec<u16>,
    stacks: Vec<StackId>,
}

impl AddressToStack {
    /// No place yet; a module counts as the one that `same` tells for it.
    pub(crate) fn new(same: &[ModuleId]) -> Self {
        Self { same: same.to_vec(), ..Self::default() }
    }

    /// Takes the places of a module: addresses in order, with their stacks.
    pub(crate) fn push_module(
        &mut self,
        module: ModuleId,
        places: impl Iterator<Item = (u64, StackId)>,
    ) {
        let mut latest = None;
        for (address, stack) in places {
            let number = address / PAGE;
            if latest != Some((number, stack)) {
                if latest.is_none_or(|(page, _)| page != number) {
                    let new = self.pages.len() as u32;
                    self.table.find_or_insert(hash(module, number), new, |_| false);
                    self.pages.push(Page { module, first: self.starts.len() as u32, number });
                }
                self.starts.push((address % PAGE) as u16);
                self.stacks.push(stack);
                latest = Some((number, stack));
            }
        }
    }

    /// Looks at what [`AddressToStack::stack`] will need for places, of which none has to wait for another: so
    /// memory works on them at the same time.
    pub(crate) fn look_ahead(&self, places: impl Iterator<Item = ModuleAddress> + Clone) {
        let page = |place: ModuleAddress| {
            let (module, number) = (self.same[place.module as usize], place.address / PAGE);
            self.pages.get(self.table.likely(hash(module, number))? as usize)
        };
        let first = |place| page(place).map_or(0, |page| page.first);
        std::hint::black_box(places.clone().map(first).fold(0, |all, first| all | first));
        let stack = |place| {
            let first = first(place) as usize;
            let start = self.starts.get(first).copied().unwrap_or(0);
            self.stacks.get(first).map_or(0, |stack| stack | u32::from(start))
        };
        std::hint::black_box(places.map(stack).fold(0, |all, stack| all | stack));
    }

    /// The stack of a place. Nothing is known of one that had no sample before: then somebody writes to
    /// the recording meanwhile.
    #[inline]
    pub(crate) fn stack(&self, place: ModuleAddress) -> StackId {
        let (module, number) = (self.same[place.module as usize], place.address / PAGE);
        let page = self.table.find(hash(module, number), |page| {
            let page = &self.pages[page as usize];
            page.number == number && page.module == module
        });
        let Some(page) = page.map(|page| page as usize) else { return Stacks::ROOT };
        let first = self.pages[page].first as usize;
        let end = self.pages.get(page + 1).map_or(self.starts.len(), |next| next.first as usize);
        let start = (place.address % PAGE) as u16;
        let behind = self.starts[first..end].partition_point(|&other| other <= start);
        behind.checked_sub(1).map_or(Stacks::ROOT, |at| self.stacks[first + at])
    }
}

#[inline]
fn hash(module: ModuleId, number: u64) -> u64 {
    mix(number, module.into())
}
