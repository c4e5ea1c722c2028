//! Sums over entries in a row, for intervals: neighbors are alike (caches, clock, input), so intervals
//! from single entries would be too narrow.
//!
//! ```text
//!  entries   x x x x x x x x …      at most 256 blocks; when they are full, neighbors are joined
//!  blocks   [x x x x][x x x x] …    and from then on each block takes twice as many
//! ```

/// Blocks before neighbors are joined; even.
const MOST: usize = 256;

/// Sums by block of consecutive entries, each of the same number of entries but the last.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    /// Figures of an entry.
    width: usize,
    /// Entries of a full block.
    entries: u64,
    /// Entries of the last block.
    in_last: u64,
    /// Sums, block after block.
    sums: Vec<f64>,
}

impl Blocks {
    /// None yet, of so many figures each.
    pub(crate) fn new(width: usize) -> Self {
        Self { width, entries: 1, in_last: 0, sums: Vec::new() }
    }

    /// Adds the figures of one entry, of which there are as many as the width says.
    pub(crate) fn add(&mut self, figures: impl IntoIterator<Item = f64>) {
        if self.sums.is_empty() || self.in_last == self.entries {
            if self.sums.len() == MOST * self.width {
                self.join();
            }
            self.sums.resize(self.sums.len() + self.width, 0.0);
            self.in_last = 0;
        }
        let from = self.sums.len() - self.width;
        for (sum, figure) in self.sums[from..].iter_mut().zip(figures) {
            *sum += figure;
        }
        self.in_last += 1;
    }

    /// Joins neighbors; all blocks are full then.
    fn join(&mut self) {
        let joined = self.sums.chunks(2 * self.width).flat_map(|pair| {
            let (first, second) = pair.split_at(self.width);
            first.iter().zip(second).map(|(a, b)| a + b)
        });
        self.sums = joined.collect();
        self.entries *= 2;
    }

    /// The blocks: how many entries, and the sums.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[f64])> {
        let last = (self.sums.len() / self.width).saturating_sub(1);
        let blocks = self.sums.chunks(self.width).enumerate();
        blocks.map(move |(i, sums)| (if i == last { self.in_last } else { self.entries }, sums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_however_many_come() {
        for n in [0_u64, 1, 2, 255, 256, 257, 511, 512, 513, 1000, 100_000] {
            let mut blocks = Blocks::new(2);
            (0..n).for_each(|i| blocks.add([1.0, i as f64]));
            let all: Vec<(u64, &[f64])> = blocks.iter().collect();
            assert!(all.len() <= MOST, "{n}: {} blocks", all.len());
            assert!(n < 256 || all.len() >= MOST / 2, "{n}: {} blocks", all.len());
            assert_eq!(all.iter().map(|(entries, _)| entries).sum::<u64>(), n);
            assert!(all.iter().all(|(entries, sums)| sums[0] == *entries as f64));
            let sum: f64 = all.iter().map(|(_, sums)| sums[1]).sum();
            assert_eq!(sum, (n * n.saturating_sub(1) / 2) as f64);
            // In the order of time: the first block holds the first entries.
            if let [(entries, first), _, ..] = all[..] {
                assert_eq!(first[1], (entries * (entries - 1) / 2) as f64);
            }
        }
    }
}
