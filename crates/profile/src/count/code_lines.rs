//! Lines of code: 64 bytes each, with a bit for each byte, found by module and address.
//!
//! ```text
//!  module, address / 64 ─► slot  │ module, number │ 64 bits │ a number │      24 bytes: as a rule one cache line
//! ```
//! Wide programs are sampled in a million places. A lookup then waits for memory as often as it touches another cache line,
//! so a slot holds all that is asked for, and batches ask for their slots at once ([`CodeLines::look_ahead`]).

use crate::table::mix;
use crate::timeline::modules::ModuleId;
use crate::timeline::tasks::ModuleAddress;

/// Bytes of code in a line.
pub(crate) const LINE: u64 = u64::BITS as u64;

/// A line of code.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CodeLine {
    /// Its first address is this many times [`LINE`].
    number: u64,
    /// By byte; 0 where the slot is free.
    bits: u64,
    module: ModuleId,
    /// Given with its first bit: [`AddressToStack`](super::address_to_stack) keeps the index of its first range.
    pub(crate) first: u32,
}

impl CodeLine {
    /// The module, the line's number in it, and its bits.
    pub(crate) fn parts(&self) -> (ModuleId, u64, u64) {
        (self.module, self.number, self.bits)
    }

    /// How many bits are set up to that of `address`, which lies in the line.
    #[inline]
    pub(crate) fn ones_up_to(&self, address: u64) -> u32 {
        (self.bits << (LINE - 1 - address % LINE)).count_ones()
    }
}

/// Lines that have bits.
#[derive(Debug)]
pub(crate) struct CodeLines {
    slots: Vec<CodeLine>,
    length: usize,
}

impl Default for CodeLines {
    fn default() -> Self {
        Self::with_capacity(64)
    }
}

impl CodeLines {
    /// Empty, with room for `lines` lines.
    pub(crate) fn with_capacity(lines: usize) -> Self {
        Self { slots: vec![CodeLine::default(); lines * 3 / 2 + 2], length: 0 }
    }

    /// Sets the bit of a place. A line that is new gets the number that `first` says.
    #[inline]
    pub(crate) fn set(&mut self, place: ModuleAddress, first: impl FnOnce() -> u32) {
        let at = self.slot(place.module, place.address / LINE);
        let bit = 1 << (place.address % LINE);
        if self.slots[at].bits != 0 {
            self.slots[at].bits |= bit;
            return;
        }
        let ModuleAddress { module, address } = place;
        self.slots[at] = CodeLine { number: address / LINE, bits: bit, module, first: first() };
        self.length += 1;
        if self.length * 4 > self.slots.len() * 3 {
            self.grow();
        }
    }

    /// The line of a place, if any of its bits is set.
    #[inline]
    pub(crate) fn find(&self, place: ModuleAddress) -> Option<&CodeLine> {
        let line = &self.slots[self.slot(place.module, place.address / LINE)];
        (line.bits != 0).then_some(line)
    }

    /// Looks at what is most likely found at a place, before it is needed, and returns [`CodeLine::first`]. No such
    /// load depends on another one, so memory works on those of a batch at the same time.
    #[inline]
    pub(crate) fn look_ahead(&self, place: ModuleAddress) -> u32 {
        self.slots[self.start(place.module, place.address / LINE)].first
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &CodeLine> {
        self.slots.iter().filter(|line| line.bits != 0)
    }

    /// Where a line would be if it had no neighbors.
    #[inline]
    fn start(&self, module: ModuleId, number: u64) -> usize {
        // The upper half of the hash, scaled: the table may have any length.
        let upper = mix(number, module.into()) >> 32;
        ((upper * self.slots.len() as u64) >> 32) as usize
    }

    /// Where a line is, or the free slot where it would be.
    #[inline]
    fn slot(&self, module: ModuleId, number: u64) -> usize {
        let mut at = self.start(module, number);
        loop {
            let line = &self.slots[at];
            if line.bits == 0 || (line.number == number && line.module == module) {
                return at;
            }
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
    }

    /// By half, not to twice the size: memory is short where this matters.
    fn grow(&mut self) {
        let longer = vec![CodeLine::default(); self.slots.len() * 3 / 2 + 1];
        for line in std::mem::replace(&mut self.slots, longer) {
            if line.bits != 0 {
                let at = self.slot(line.module, line.number);
                self.slots[at] = line;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn lines_hold_the_bits_that_were_set(
            places in proptest::collection::vec(
                (0_u32..3, prop_oneof![0_u64..2000, (0_u64..300).prop_map(|at| u64::MAX - at)]), 0..1500),
        ) {
            // It begins as small as it may.
            let mut lines = CodeLines::with_capacity(0);
            let mut expected: BTreeMap<(u32, u64), (u64, u32)> = BTreeMap::new();
            for (&(module, address), number) in places.iter().zip(0..) {
                lines.set(ModuleAddress { module, address }, || number);
                let line = expected.entry((module, address / LINE)).or_insert((0, number));
                line.0 |= 1 << (address % LINE);
            }
            prop_assert_eq!(lines.iter().count(), expected.len());
            for (&(module, number), &(bits, first)) in &expected {
                for bit in 0..LINE {
                    let address = number * LINE + bit;
                    let line = lines.find(ModuleAddress { module, address }).unwrap();
                    prop_assert_eq!((line.parts(), line.first), ((module, number, bits), first));
                    let ones = (0..=bit).filter(|bit| bits >> bit & 1 == 1).count();
                    prop_assert_eq!(line.ones_up_to(address), ones as u32);
                }
            }
            let nowhere = ModuleAddress { module: 3, address: 0 };
            prop_assert!(lines.find(nowhere).is_none());
        }
    }
}
