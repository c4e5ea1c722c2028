//! What windows add up to: per row, per group of events, per block of time.

use super::Cause;

/// Sums of one group in one row.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Part {
    pub(crate) group: u32,
    /// Windows kept.
    pub(crate) kept: u64,
    /// By position in the group.
    pub(crate) sums: Vec<u64>,
    /// Block, windows, and the counts' sums, block by block in order.
    blocks: Vec<u64>,
}

/// Windows and sums of a block of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockSums<'a> {
    pub(crate) block: u64,
    pub(crate) kept: u64,
    pub(crate) sums: &'a [u64],
}

impl Part {
    pub(crate) fn new(group: u32, counters: usize) -> Self {
        Self { group, kept: 0, sums: vec![0; counters], blocks: Vec::new() }
    }

    fn stride(&self) -> usize {
        2 + self.sums.len()
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockSums<'_>> {
        self.blocks.chunks_exact(self.stride()).map(|one| BlockSums {
            block: one[0],
            kept: one[1],
            sums: &one[2..],
        })
    }

    fn add(&mut self, block: u64, counts: &[u64]) {
        self.kept += 1;
        for (sum, &count) in self.sums.iter_mut().zip(counts) {
            *sum = sum.saturating_add(count);
        }
        let place = self.block(block);
        self.blocks[place + 1] += 1;
        for (sum, &count) in self.blocks[place + 2..].iter_mut().zip(counts) {
            *sum = sum.saturating_add(count);
        }
    }

    /// Where a block's sums are.
    fn block(&mut self, block: u64) -> usize {
        let stride = self.stride();
        // Nearly always the last one.
        let mut at = self.blocks.len();
        while at > 0 && self.blocks[at - stride] > block {
            at -= stride;
        }
        if at > 0 && self.blocks[at - stride] == block {
            return at - stride;
        }
        let new = std::iter::once(block).chain(std::iter::repeat_n(0, stride - 1));
        self.blocks.splice(at..at, new);
        at
    }

    /// Takes so much off the first count of each window. Of sums, for a single window may have less than its
    /// share: cut off at 0, what scatters around it would come out too large.
    fn less(&mut self, cost: u64) {
        let off = |sum: u64, windows: u64| sum.saturating_sub(cost.saturating_mul(windows));
        let Some(first) = self.sums.first_mut() else { return };
        *first = off(*first, self.kept);
        let stride = self.stride();
        for block in self.blocks.chunks_exact_mut(stride) {
            block[2] = off(block[2], block[1]);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.kept += other.kept;
        for (sum, &more) in self.sums.iter_mut().zip(&other.sums) {
            *sum = sum.saturating_add(more);
        }
        for one in other.blocks() {
            let place = self.block(one.block);
            self.blocks[place + 1] += one.kept;
            for (sum, &more) in self.blocks[place + 2..].iter_mut().zip(one.sums) {
                *sum = sum.saturating_add(more);
            }
        }
    }
}

/// Windows of one row.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RowSums {
    /// Windows that end here, those that do not count too.
    pub(crate) windows: u64,
    /// Of them, by cause, those that do not count.
    pub(crate) rejected: [u64; Cause::ALL.len()],
    /// Of those that came to the test of symbols: with the same at both ends, and with two.
    pub(crate) same: u64,
    pub(crate) other: u64,
    pub(crate) parts: Vec<Part>,
}

impl RowSums {
    pub(crate) fn reject(&mut self, cause: Cause) {
        self.windows += 1;
        self.rejected[cause as usize] += 1;
    }

    pub(crate) fn keep(&mut self, group: u32, block: u64, counts: &[u64]) {
        self.windows += 1;
        self.part(group, counts.len()).add(block, counts);
    }

    fn part(&mut self, group: u32, counters: usize) -> &mut Part {
        let known = self.parts.iter().position(|part| part.group == group);
        let at = known.unwrap_or_else(|| {
            self.parts.push(Part::new(group, counters));
            self.parts.len() - 1
        });
        &mut self.parts[at]
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.windows += other.windows;
        self.same += other.same;
        self.other += other.other;
        for (sum, more) in self.rejected.iter_mut().zip(other.rejected) {
            *sum += more;
        }
        for part in &other.parts {
            self.part(part.group, part.sums.len()).merge(part);
        }
    }

    pub(crate) fn kept(&self) -> u64 {
        self.parts.iter().map(|part| part.kept).sum()
    }

    /// Takes so much off the first count of each window.
    pub(crate) fn less(&mut self, cost: u64) {
        self.parts.iter_mut().for_each(|part| part.less(cost));
    }

    /// Mean of the first count of a window, in the group where it is least.
    pub(crate) fn shortest_mean(&self) -> Option<f64> {
        let kept = self.parts.iter().filter(|part| part.kept > 0);
        let means = kept.filter_map(|part| Some(*part.sums.first()? as f64 / part.kept as f64));
        means.reduce(f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_taken_off_sums_is_taken_off_every_window() {
        let (mut raw, mut less) = (RowSums::default(), RowSums::default());
        for (block, a, b) in [(0, 300, 7), (0, 310, 2), (4, 280, 9)] {
            raw.keep(1, block, &[a, b]);
            less.keep(1, block, &[a - 90, b]);
        }
        raw.less(90);
        assert_eq!(raw, less);
        assert_eq!(raw.shortest_mean(), Some(620.0 / 3.0));
    }

    proptest! {
        /// However windows are dealt out to threads, and in whatever order they come.
        #[test]
        fn sums_do_not_depend_on_who_added_them(
            windows in proptest::collection::vec(
                (0_u32..2, 0_u64..20, 0_u64..1000, 0_u64..1000, 0_usize..3), 1..100),
        ) {
            let mut all = RowSums::default();
            let mut shares = vec![RowSums::default(); 3];
            let mut sorted = windows.clone();
            sorted.sort_unstable();
            for &(group, block, a, b, _) in &sorted {
                all.keep(group, block, &[a, b]);
            }
            for &(group, block, a, b, to) in &windows {
                shares[to].keep(group, block, &[a, b]);
            }
            let mut merged = RowSums::default();
            shares.iter().for_each(|share| merged.merge(share));
            merged.parts.sort_by_key(|part| part.group);
            prop_assert_eq!(&merged, &all);
            for part in &all.parts {
                prop_assert!(part.blocks().is_sorted_by_key(|one| one.block));
                prop_assert_eq!(part.blocks().map(|one| one.kept).sum::<u64>(), part.kept);
            }
        }
    }
}
