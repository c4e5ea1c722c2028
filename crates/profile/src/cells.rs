//! The counts of a counter, found and raised in one line of the cache.
//!
//! A wide program is sampled at a million addresses: the table is far larger than the cache, and nearly
//! every sample waits for memory. So samples wait in a batch, whose lines are asked for all together.

use crate::log::{Entry, Log};
use crate::table::mix;

/// Samples in a batch: more than memory answers at once.
const BATCH: usize = 32;

/// 32 bytes, so that no slot lies in two lines.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    address: u64,
    /// Plus one; 0 if the slot is free.
    of: u32,
    cell: u32,
    block: u32,
    samples: u32,
    weight: u64,
}

/// What is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) of: u32,
    pub(crate) address: u64,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    hash: u64,
    key: Key,
    block: u32,
    weight: u64,
}

/// Counts by key, in one block of time each; earlier ones go to the log.
#[derive(Debug)]
pub(crate) struct Cells {
    slots: Vec<Slot>,
    /// The slots are 2^bits.
    bits: u32,
    used: u32,
    waiting: Vec<Waiting>,
}

impl Default for Cells {
    fn default() -> Self {
        let bits = 10;
        let slots = vec![Slot::default(); 1 << bits];
        Self { slots, bits, used: 0, waiting: Vec::with_capacity(BATCH) }
    }
}

impl Cells {
    /// Counts a sample, sooner or later.
    #[inline]
    pub(crate) fn count(&mut self, key: Key, block: u32, weight: u64, log: &mut Log) {
        let hash = mix(key.address, key.of.into());
        self.waiting.push(Waiting { hash, key, block, weight });
        if self.waiting.len() == BATCH {
            self.settle(log);
        }
    }

    /// Counts what waits.
    fn settle(&mut self, log: &mut Log) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let shift = 64 - self.bits;
        // These loads do not depend on one another, so memory works on all of them at a time.
        let touched = waiting.iter().map(|one| self.slots[(one.hash >> shift) as usize].of);
        std::hint::black_box(touched.fold(0, |sum: u32, of| sum.wrapping_add(of)));
        for one in waiting.drain(..) {
            self.count_now(one, log);
        }
        self.waiting = waiting;
    }

    fn count_now(&mut self, one: Waiting, log: &mut Log) {
        let Waiting { hash, key, block, weight } = one;
        let mask = self.slots.len() - 1;
        let mut at = (hash >> (64 - self.bits)) as usize;
        loop {
            let slot = &mut self.slots[at];
            if slot.of == key.of + 1 && slot.address == key.address {
                if slot.block != block || slot.samples == u32::MAX {
                    slot.write(log);
                    slot.block = block;
                }
                slot.samples += 1;
                slot.weight = slot.weight.saturating_add(weight);
                return;
            }
            if slot.of == 0 {
                let (address, of, cell) = (key.address, key.of + 1, self.used);
                *slot = Slot { address, of, cell, block, samples: 1, weight };
                self.used += 1;
                if self.used as usize * 4 > self.slots.len() * 3 {
                    self.grow();
                }
                return;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        self.bits += 1;
        let mask = (1 << self.bits) - 1;
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); mask + 1]);
        for slot in old.into_iter().filter(|slot| slot.of != 0) {
            let hash = mix(slot.address, (slot.of - 1).into());
            let mut at = (hash >> (64 - self.bits)) as usize;
            while self.slots[at].of != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }

    /// Writes down what the log does not have yet; all cells then stand in block 0.
    pub(crate) fn flush(&mut self, log: &mut Log) {
        self.settle(log);
        for slot in self.slots.iter_mut().filter(|slot| slot.of != 0) {
            slot.write(log);
            slot.block = 0;
        }
    }

    /// The keys of all cells, by the numbers that the log has for them.
    pub(crate) fn into_keys(self) -> Vec<Key> {
        let mut keys = vec![Key { of: 0, address: 0 }; self.used as usize];
        for slot in self.slots.iter().filter(|slot| slot.of != 0) {
            keys[slot.cell as usize] = Key { of: slot.of - 1, address: slot.address };
        }
        keys
    }
}

impl Slot {
    fn write(&mut self, log: &mut Log) {
        if self.samples > 0 {
            let Self { cell, block, samples, weight, .. } = *self;
            log.push(Entry { cell, block, samples, weight });
            (self.samples, self.weight) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn the_log_and_the_keys_hold_what_was_counted(
            counted in proptest::collection::vec((0_u32..40, 0_u64..60, 0_u32..3, 1_u64..9), 0..3000),
        ) {
            let (mut cells, mut log) = (Cells::default(), Log::new(20));
            let mut expected: BTreeMap<_, (u64, u64)> = BTreeMap::new();
            for &(of, address, block, weight) in &counted {
                let key = Key { of, address };
                cells.count(key, block, weight, &mut log);
                let sums = expected.entry((key, block)).or_default();
                *sums = (sums.0 + 1, sums.1 + weight);
            }
            cells.flush(&mut log);
            let keys = cells.into_keys();
            let distinct: BTreeSet<Key> = keys.iter().copied().collect();
            prop_assert_eq!(distinct.len(), keys.len());
            let mut found: BTreeMap<_, (u64, u64)> = BTreeMap::new();
            for entry in log.entries(20) {
                let sums = found.entry((keys[entry.cell as usize], entry.block)).or_default();
                *sums = (sums.0 + u64::from(entry.samples), sums.1 + entry.weight);
            }
            prop_assert_eq!(found, expected);
        }
    }
}
