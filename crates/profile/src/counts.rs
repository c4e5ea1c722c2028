//! How often each distinct address was hit, by block of time.

use rustc_hash::FxHashMap;

use crate::blocks::Clock;
use crate::modules::ModuleId;
use crate::tasks::CommId;

/// What is counted apart: an address of a module in a command, by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) address: u64,
    pub(crate) comm: CommId,
    pub(crate) module: ModuleId,
    pub(crate) event: u32,
}

/// Samples and their weight in one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockCount {
    pub(crate) block: u32,
    pub(crate) samples: u32,
    pub(crate) weight: u64,
}

/// Counts of one key. Most keys have one sample, hence one block and nothing on the heap.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    current: BlockCount,
    earlier: Vec<BlockCount>,
}

impl Cell {
    fn new(block: u32, weight: u64) -> Self {
        Self { current: BlockCount { block, samples: 1, weight }, earlier: Vec::new() }
    }

    fn add(&mut self, block: u32, weight: u64) {
        let current = &mut self.current;
        if current.block == block && current.samples < u32::MAX {
            current.samples += 1;
            current.weight = current.weight.saturating_add(weight);
        } else {
            self.earlier.push(*current);
            *current = BlockCount { block, samples: 1, weight };
        }
    }

    fn halve(&mut self, times: u32) {
        let all: Vec<BlockCount> = self.blocks().collect();
        self.earlier.clear();
        for (index, mut count) in all.into_iter().enumerate() {
            // A jump of the clock can halve more often than a number has bits.
            count.block = count.block.checked_shr(times).unwrap_or(0);
            let merged = index > 0
                && self.current.block == count.block
                && self.current.samples.checked_add(count.samples).is_some();
            if merged {
                self.current.samples += count.samples;
                self.current.weight = self.current.weight.saturating_add(count.weight);
            } else {
                if index > 0 {
                    self.earlier.push(self.current);
                }
                self.current = count;
            }
        }
    }

    /// All counts; a block can come more than once.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockCount> + '_ {
        self.earlier.iter().copied().chain([self.current])
    }
}

/// Counts of all keys.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    clock: Clock,
    cells: FxHashMap<Key, Cell>,
    /// Samples without a time: their blocks mean nothing.
    pub(crate) untimed: u64,
}

impl Counts {
    /// Counts a sample of this weight.
    pub(crate) fn add(&mut self, key: Key, time: Option<u64>, weight: u64) {
        let block = match time {
            Some(time) => {
                let (block, halvings) = self.clock.block(time);
                if halvings > 0 {
                    self.cells.values_mut().for_each(|cell| cell.halve(halvings));
                }
                block
            }
            None => {
                self.untimed += 1;
                0
            }
        };
        self.cells
            .entry(key)
            .and_modify(|cell| cell.add(block, weight))
            .or_insert_with(|| Cell::new(block, weight));
    }

    /// Nanoseconds from the first to the last sample, if they have times.
    pub(crate) fn span(&self) -> Option<u64> {
        self.clock.span()
    }

    /// Number of blocks that intervals may be made of; 0 if some samples have no time.
    pub(crate) fn blocks(&self) -> usize {
        if self.untimed > 0 { 0 } else { self.clock.len() }
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = (&Key, &Cell)> {
        self.cells.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Mostly seconds, sometimes any time at all.
    fn times() -> impl Strategy<Value = u64> {
        prop_oneof![20 => 0_u64..1 << 36, 1 => any::<u64>()]
    }

    proptest! {
        /// Whatever the blocks became on the way, they hold what a count with the final ones holds.
        #[test]
        fn blocks_hold_what_was_counted(
            mut samples in proptest::collection::vec((times(), 0_u64..4, 1_u64..100), 1..300),
        ) {
            samples.sort_unstable();
            let mut counts = Counts::default();
            for &(time, address, weight) in &samples {
                let key = Key { address, comm: 0, module: 0, event: 0 };
                counts.add(key, Some(time), weight);
            }
            let mut fresh = counts.clock.clone();
            for address in 0..4 {
                let mut expected = vec![(0, 0); counts.blocks()];
                for &(time, _, weight) in samples.iter().filter(|sample| sample.1 == address) {
                    let (block, halvings) = fresh.block(time);
                    prop_assert_eq!(halvings, 0);
                    expected[block as usize].0 += 1;
                    expected[block as usize].1 += weight;
                }
                let mut found = vec![(0, 0); counts.blocks()];
                let key = Key { address, comm: 0, module: 0, event: 0 };
                for count in counts.cells.get(&key).iter().flat_map(|cell| cell.blocks()) {
                    found[count.block as usize].0 += count.samples;
                    found[count.block as usize].1 += count.weight;
                }
                prop_assert_eq!(found, expected);
            }
            prop_assert!(counts.blocks() <= 128);
        }
    }
}
