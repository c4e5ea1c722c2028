//! The counts of a counter, found by what is counted.
//!
//! A wide program is sampled at a million addresses: the tables are far larger than the cache, and nearly
//! every sample waits for memory. So samples wait in a batch, whose entries are asked for all together.
//! Cells lie close together in the order in which they came up; a table of slots, each with a part of
//! the hash, finds them:
//!
//! ```text
//!  hash ─► slots  │hash, number│    │hash, number│ …     8 bytes each, a quarter to five eighths of them free
//!                        └─► cells  │what│block│count│   24 bytes each, none empty
//! ```

use crate::log::{Entry, Log};
use crate::table::mix;

/// Samples in a batch: more than memory answers at once.
const BATCH: usize = 32;

#[derive(Debug, Clone, Copy)]
struct Cell {
    address: u64,
    weight: u64,
    of: u32,
    /// There are few blocks (`blocks::MOST`).
    block: u16,
    samples: u16,
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
    block: u16,
    weight: u64,
}

/// Counts by key, in one block of time each; earlier ones go to the log.
#[derive(Debug)]
pub(crate) struct Cells {
    /// By the numbers that the log has for them.
    cells: Vec<Cell>,
    /// 2^bits of them: the lower half of the hash, and the number plus one; 0 if free. The upper bits of
    /// the hash tell where to look first.
    slots: Vec<u64>,
    bits: u32,
    waiting: Vec<Waiting>,
}

impl Default for Cells {
    fn default() -> Self {
        let bits = 10;
        let slots = vec![0; 1 << bits];
        Self { cells: Vec::new(), slots, bits, waiting: Vec::with_capacity(BATCH) }
    }
}

impl Cells {
    /// Counts a sample, sooner or later.
    #[inline]
    pub(crate) fn count(&mut self, key: Key, block: u32, weight: u64, log: &mut Log) {
        let hash = hash(key);
        self.waiting.push(Waiting { hash, key, block: block as u16, weight });
        if self.waiting.len() == BATCH {
            self.settle(log);
        }
    }

    /// Counts what waits.
    fn settle(&mut self, log: &mut Log) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let shift = 64 - self.bits;
        // These loads do not depend on one another, so memory works on all of them at a time: first
        // the slots, then what most of them point to.
        let slots = waiting.iter().map(|one| self.slots[(one.hash >> shift) as usize]);
        std::hint::black_box(slots.fold(0, |sum: u64, slot| sum.wrapping_add(slot)));
        let cells = waiting.iter().map(|one| {
            let slot = self.slots[(one.hash >> shift) as usize];
            self.cells.get((slot as u32).wrapping_sub(1) as usize).map_or(0, |cell| cell.of)
        });
        std::hint::black_box(cells.fold(0, |sum: u32, of| sum.wrapping_add(of)));
        for one in waiting.drain(..) {
            self.count_now(one, log);
        }
        self.waiting = waiting;
    }

    fn count_now(&mut self, one: Waiting, log: &mut Log) {
        let Waiting { hash, key, block, weight } = one;
        let (mask, tag) = (self.slots.len() - 1, hash << 32);
        let mut at = (hash >> (64 - self.bits)) as usize;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let number = slot as u32 - 1;
            let cell = &mut self.cells[number as usize];
            if slot >> 32 << 32 == tag && cell.of == key.of && cell.address == key.address {
                if cell.block != block || cell.samples == u16::MAX {
                    cell.write(number, log);
                    cell.block = block;
                }
                cell.samples += 1;
                cell.weight = cell.weight.saturating_add(weight);
                return;
            }
            at = (at + 1) & mask;
        }
        let Key { of, address } = key;
        self.cells.push(Cell { address, weight, of, block, samples: 1 });
        self.slots[at] = tag | self.cells.len() as u64;
        if self.cells.len() * 4 > self.slots.len() * 3 {
            self.grow();
        }
    }

    fn grow(&mut self) {
        self.bits += 1;
        let mask = (1 << self.bits) - 1;
        // The old ones go first: they are of no use, and memory is short when this matters.
        self.slots = Vec::new();
        self.slots = vec![0; mask + 1];
        for (cell, number) in self.cells.iter().zip(1_u64..) {
            let hash = hash(Key { of: cell.of, address: cell.address });
            let mut at = (hash >> (64 - self.bits)) as usize;
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = hash << 32 | number;
        }
    }

    /// Writes down what the log does not have yet; all cells then stand in block 0.
    pub(crate) fn flush(&mut self, log: &mut Log) {
        self.settle(log);
        for (cell, number) in self.cells.iter_mut().zip(0..) {
            cell.write(number, log);
            cell.block = 0;
        }
    }

    /// The keys of all cells, by the numbers that the log has for them.
    pub(crate) fn into_keys(self) -> Vec<Key> {
        drop(self.slots);
        self.cells.into_iter().map(|cell| Key { of: cell.of, address: cell.address }).collect()
    }
}

fn hash(key: Key) -> u64 {
    mix(key.address, key.of.into())
}

impl Cell {
    fn write(&mut self, number: u32, log: &mut Log) {
        if self.samples > 0 {
            let (samples, weight) = (self.samples.into(), self.weight);
            log.push(Entry { cell: number, block: self.block.into(), samples, weight });
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
