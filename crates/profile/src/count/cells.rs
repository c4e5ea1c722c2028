//! The counts of a counter, found by what is counted.
//!
//! A wide program is sampled at a million addresses: the tables are far larger than the cache, and nearly
//! every sample waits for memory. So samples wait in a batch, whose entries are asked for all together.
//! Cells lie close together in the order in which they came up; a table of slots, each with a part of
//! the hash, finds them:
//!
//! ```text
//!  hash ─► slots  │hash, number│    │hash, number│ …     8 bytes each, a quarter to five eighths of them free
//!                        └─► cells  │what│count│   12 or 16 bytes each, none empty
//! ```
//! Weights lie beside them where samples do not all weigh one. All cells count within one block of time;
//! when samples move on to another, those that counted anything are written to the log, in their order,
//! which a bit for each tells.

use crate::count::log::{Log, LoggedCount};
use crate::table::mix;

/// Samples in a batch: more than memory answers at once.
const BATCH: usize = 32;

#[derive(Debug, Clone, Copy)]
struct CellKey<K> {
    key: K,
    /// In the present block.
    samples: u32,
}

/// What is counted apart.
pub(crate) trait CountKey: Copy + PartialEq {
    /// The same for equal ones.
    fn hash(self) -> u64;
}

/// A node or stack, in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InGroup {
    pub(crate) group: u32,
    pub(crate) what: u32,
}

/// An address, in an area; in halves, since it would take 16 bytes otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InArea {
    area: u32,
    address: [u32; 2],
}

impl InArea {
    pub(crate) fn new(area: u32, address: u64) -> Self {
        Self { area, address: [(address >> 32) as u32, address as u32] }
    }

    pub(crate) fn area(self) -> u32 {
        self.area
    }

    pub(crate) fn address(self) -> u64 {
        u64::from(self.address[0]) << 32 | u64::from(self.address[1])
    }
}

impl CountKey for InGroup {
    #[inline]
    fn hash(self) -> u64 {
        mix(self.what.into(), self.group.into())
    }
}

impl CountKey for InArea {
    #[inline]
    fn hash(self) -> u64 {
        mix(self.address(), self.area.into())
    }
}

#[derive(Debug, Clone, Copy)]
struct PendingCell<K> {
    hash: u64,
    key: K,
    block: u32,
    weight: u64,
}

/// Counts by key, in one block of time; earlier ones go to the log.
#[derive(Debug)]
pub(crate) struct Cells<K> {
    /// By the numbers that the log has for them.
    cells: Vec<CellKey<K>>,
    /// One for each cell, or none at all.
    weights: Vec<u64>,
    has_weights: bool,
    /// 2^bits of them: the lower half of the hash, and the number plus one; 0 if free. The upper bits of
    /// the hash tell where to look first.
    slots: Vec<u64>,
    bits: u32,
    waiting: Vec<PendingCell<K>>,
    /// The block that all cells are in.
    block: u32,
    /// Which cells have samples in it.
    touched: Touched,
}

impl<K: CountKey> Cells<K> {
    /// None yet; without weights every sample weighs one.
    pub(crate) fn new(has_weights: bool) -> Self {
        let (cells, weights, bits) = (Vec::new(), Vec::new(), 10);
        let (slots, waiting) = (vec![0; 1 << bits], Vec::with_capacity(BATCH));
        let (block, touched) = (0, Touched::default());
        Self { cells, weights, has_weights, slots, bits, waiting, block, touched }
    }

    /// Counts a sample, sooner or later.
    #[inline]
    pub(crate) fn count(&mut self, key: K, block: u32, weight: u64, log: &mut Log) {
        let hash = key.hash();
        self.waiting.push(PendingCell { hash, key, block, weight });
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
            self.cells.get((slot as u32).wrapping_sub(1) as usize).map_or(0, |cell| cell.samples)
        });
        std::hint::black_box(cells.fold(0, |sum: u32, samples| sum.wrapping_add(samples)));
        for one in waiting.drain(..) {
            self.count_now(one, log);
        }
        self.waiting = waiting;
    }

    fn count_now(&mut self, one: PendingCell<K>, log: &mut Log) {
        let PendingCell { hash, key, block, weight } = one;
        if block != self.block {
            self.write(log);
            self.block = block;
        }
        let (mask, tag) = (self.slots.len() - 1, hash << 32);
        let mut at = (hash >> (64 - self.bits)) as usize;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let number = slot as u32 - 1;
            if slot >> 32 << 32 == tag && self.cells[number as usize].key == key {
                if self.cells[number as usize].samples == u32::MAX {
                    self.write(log);
                }
                let cell = &mut self.cells[number as usize];
                if cell.samples == 0 {
                    self.touched.add(number);
                }
                cell.samples += 1;
                if let Some(own) = self.weights.get_mut(number as usize) {
                    *own = own.saturating_add(weight);
                }
                return;
            }
            at = (at + 1) & mask;
        }
        self.touched.add(self.cells.len() as u32);
        self.cells.push(CellKey { key, samples: 1 });
        if self.has_weights {
            self.weights.push(weight);
        }
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
            let hash = cell.key.hash();
            let mut at = (hash >> (64 - self.bits)) as usize;
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = hash << 32 | number;
        }
    }

    /// Writes down what the log does not have yet.
    pub(crate) fn flush(&mut self, log: &mut Log) {
        self.settle(log);
        self.write(log);
    }

    /// What was counted in the present block.
    fn write(&mut self, log: &mut Log) {
        let Self { cells, weights, block, touched, .. } = self;
        touched.take_each(|cell| {
            let samples = std::mem::take(&mut cells[cell as usize].samples);
            let weight = weights.get_mut(cell as usize).map_or(samples.into(), std::mem::take);
            log.push(LoggedCount { cell, block: *block, samples, weight });
        });
    }

    /// The keys of all cells, by the numbers that the log has for them.
    pub(crate) fn into_keys(self) -> impl Iterator<Item = K> {
        drop((self.slots, self.weights));
        self.cells.into_iter().map(|cell| cell.key)
    }
}

/// Numbers, to be had in order: a bit for each, and one for each word of these that is not 0, so that
/// few are found quickly among many.
#[derive(Debug, Default)]
struct Touched {
    bits: Vec<u64>,
    words: Vec<u64>,
}

impl Touched {
    #[inline]
    fn add(&mut self, number: u32) {
        let word = number as usize / 64;
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
            self.words.resize(word / 64 + 1, 0);
        }
        self.bits[word] |= 1 << (number % 64);
        self.words[word / 64] |= 1 << (word % 64);
    }

    /// Hands out all of them; then there is none.
    fn take_each(&mut self, mut take: impl FnMut(u32)) {
        for (words, at) in self.words.iter_mut().zip(0..) {
            for word in ones(std::mem::take(words)) {
                let word = 64 * at + word;
                for bit in ones(std::mem::take(&mut self.bits[word as usize])) {
                    take(64 * word + bit);
                }
            }
        }
    }
}

/// The numbers of the bits that are 1.
fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let at = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (at < u64::BITS).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn the_log_and_the_keys_hold_what_was_counted(
            counted in proptest::collection::vec(
                (0_u32..40, (0_u64..60).prop_map(|at| at << 30), 0_u32..3, 1_u64..9), 0..3000),
            has_weights in any::<bool>(),
        ) {
            let (mut cells, mut log) = (Cells::new(has_weights), Log::new(20));
            let mut expected: BTreeMap<_, (u64, u64)> = BTreeMap::new();
            for &(area, address, block, weight) in &counted {
                let (key, weight) = (InArea::new(area, address), if has_weights { weight } else { 1 });
                prop_assert_eq!((key.area(), key.address()), (area, address));
                cells.count(key, block, weight, &mut log);
                let sums = expected.entry((key, block)).or_default();
                *sums = (sums.0 + 1, sums.1 + weight);
            }
            cells.flush(&mut log);
            let keys: Vec<InArea> = cells.into_keys().collect();
            let distinct: BTreeSet<InArea> = keys.iter().copied().collect();
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
