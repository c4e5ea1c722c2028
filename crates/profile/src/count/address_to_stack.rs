//! Places to stacks, once places have names: what the last pass over a recording without call chains
//! looks up for each sample.
//!
//! Neighbors are mostly in one function, so that ranges are few:
//!
//! ```text
//!  addresses with samples   1010 1012 101e │ 1024 1030 ║ 1044 ║        ║ a line begins
//!  range from               1010           │ 1024      ║ 1044 ║
//!  bits of the line         …1…             …1…        ║ …1…  ║
//!  stack                    17             │ 4         ║ 17   ║        the line has where its first one is
//! ```

use crate::aggregate::{StackId, Stacks};
use crate::count::code_lines::{CodeLines, LINE};
use crate::timeline::modules::ModuleId;
use crate::timeline::tasks::ModuleAddress;

/// Stacks of places.
#[derive(Debug, Default)]
pub(crate) struct AddressToStack {
    /// By module, the one it counts as.
    same: Vec<ModuleId>,
    /// A bit for each byte where a range begins, and where the stacks of these are.
    lines: CodeLines,
    /// Of ranges, in order.
    stacks: Vec<StackId>,
}

impl AddressToStack {
    /// Empty, with room for `lines` lines. Module `m` counts as module `same[m]`.
    pub(crate) fn new(same: &[ModuleId], lines: usize) -> Self {
        Self { same: same.to_vec(), lines: CodeLines::with_capacity(lines), stacks: Vec::new() }
    }

    /// Takes the places of a module: addresses in order, with their stacks.
    pub(crate) fn push_module(
        &mut self,
        module: ModuleId,
        places: impl Iterator<Item = (u64, StackId)>,
    ) {
        let mut latest = None;
        for (address, stack) in places {
            if latest != Some((address / LINE, stack)) {
                let first = self.stacks.len() as u32;
                self.lines.set(ModuleAddress { module, address }, || first);
                self.stacks.push(stack);
                latest = Some((address / LINE, stack));
            }
        }
    }

    /// Looks at what [`AddressToStack::stack`] will need for places, of which none has to wait for another: so
    /// memory works on them at the same time.
    pub(crate) fn look_ahead(&self, places: impl Iterator<Item = ModuleAddress> + Clone) {
        let first = |place| self.lines.look_ahead(self.counts_as(place));
        std::hint::black_box(places.clone().map(first).fold(0, |all, first| all | first));
        let stack = |place| self.stacks.get(first(place) as usize).copied().unwrap_or(0);
        std::hint::black_box(places.map(stack).fold(0, |all, stack| all | stack));
    }

    /// The stack of a place. Nothing is known of one that had no sample before: then somebody writes to
    /// the recording meanwhile.
    #[inline]
    pub(crate) fn stack(&self, place: ModuleAddress) -> StackId {
        let Some(line) = self.lines.find(self.counts_as(place)) else { return Stacks::ROOT };
        let range = line.ones_up_to(place.address).checked_sub(1);
        range.map_or(Stacks::ROOT, |range| self.stacks[(line.first + range) as usize])
    }

    #[inline]
    fn counts_as(&self, place: ModuleAddress) -> ModuleAddress {
        ModuleAddress { module: self.same[place.module as usize], ..place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_come_to_the_stacks_that_were_pushed(
            addresses in proptest::collection::btree_map(0_u64..1000, 0_u32..3, 0..200),
        ) {
            // Module 0 counts as module 1.
            let mut located = AddressToStack::new(&[1, 1], 3);
            located.push_module(1, addresses.iter().map(|(&address, &stack)| (address, stack)));
            for (&address, &stack) in &addresses {
                for module in 0..2 {
                    prop_assert_eq!(located.stack(ModuleAddress { module, address }), stack);
                }
            }
            prop_assert_eq!(located.stack(ModuleAddress { module: 1, address: 5000 }), Stacks::ROOT);
        }
    }
}
