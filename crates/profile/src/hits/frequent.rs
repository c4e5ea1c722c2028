//! What came most often, in bounded memory: the summary of Misra and Gries (1982), as merged by Agarwal
//! and others (Mergeable Summaries, 2012).
//!
//! Once twice as many keys are there as are kept, the count of the largest that has to go is taken
//! from all. So a count is too small by what was taken in all, at most, and what came more often than
//! that is there.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Counts of keys.
#[derive(Debug, Clone)]
pub(super) struct KeyCounter<K> {
    counts: FxHashMap<K, u64>,
    keep: usize,
    taken: u64,
    total: u64,
}

/// The keys that came most often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frequent<K> {
    /// By count, the largest first.
    pub rows: Vec<(K, u64)>,
    /// Of all keys.
    pub total: u64,
    /// Each count is too small by this at most; 0: exact.
    pub short_by: u64,
    /// How many keys there were; `None` where more than were kept.
    pub distinct: Option<u64>,
}

impl<K: Copy + Eq + Hash + Ord> KeyCounter<K> {
    pub(super) fn new(keep: usize) -> Self {
        Self { counts: FxHashMap::default(), keep: keep.max(1), taken: 0, total: 0 }
    }

    pub(super) fn add(&mut self, key: K, count: u64) {
        self.total = self.total.saturating_add(count);
        let sum = self.counts.entry(key).or_default();
        *sum = sum.saturating_add(count);
        if self.counts.len() > 2 * self.keep {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        let keep = self.keep;
        let (_, &mut least, _) = counts.select_nth_unstable_by(keep, |a, b| b.cmp(a));
        self.taken = self.taken.saturating_add(least);
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(least);
            *count > 0
        });
    }

    /// The first `most`; keys of one count in their own order.
    pub(super) fn finish(self, most: usize) -> Frequent<K> {
        let distinct = (self.taken == 0).then_some(self.counts.len() as u64);
        let mut rows: Vec<(K, u64)> = self.counts.into_iter().collect();
        rows.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        rows.truncate(most);
        Frequent { rows, total: self.total, short_by: self.taken, distinct }
    }
}

impl<K> Frequent<K> {
    /// What is not in the rows.
    #[must_use]
    pub fn others(&self) -> u64 {
        let shown = self.rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.1));
        self.total.saturating_sub(shown)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_are_short_by_no_more_than_is_said(
            keys in proptest::collection::vec((0_u64..40, 1_u64..5), 0..400),
            keep in 1_usize..30,
        ) {
            let mut counter = KeyCounter::new(keep);
            let mut truth = BTreeMap::<u64, u64>::new();
            for &(key, count) in &keys {
                // Small keys come more often.
                let key = key * key / 40;
                counter.add(key, count);
                *truth.entry(key).or_default() += count;
            }
            let found = counter.finish(usize::MAX);
            prop_assert_eq!(found.total, truth.values().sum::<u64>());
            prop_assert!(found.rows.is_sorted_by(|a, b| a.1 >= b.1));
            for (key, count) in &found.rows {
                prop_assert!(*count <= truth[key] && truth[key] <= count + found.short_by);
            }
            for (key, count) in &truth {
                let is_there = found.rows.iter().any(|row| row.0 == *key);
                prop_assert!(is_there || *count <= found.short_by);
            }
            // The bound of the theorem.
            prop_assert!(found.short_by as f64 <= found.total as f64 / keep as f64);
            if truth.len() <= 2 * keep {
                prop_assert_eq!((found.short_by, found.distinct), (0, Some(truth.len() as u64)));
            }
        }
    }
}
