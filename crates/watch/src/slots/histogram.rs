//! How many owners use how many slots.

use std::sync::atomic::{AtomicU32, Ordering};

/// Counts of owners by the slots they use, 1 to as many as there are: `counts[k - 1]` use k.
///
/// ```text
///  slots used    1  2  3  4
///  owners        7  0  2  0     the greediest uses 3
/// ```
/// Owners may move at the same time; whoever asks for the largest makes sure that none does (the locks of
/// [`super::Constant`] order everything, so the counts themselves need not).
#[derive(Debug)]
pub(super) struct Histogram<'a> {
    pub(super) counts: &'a [AtomicU32],
}

impl Histogram<'_> {
    /// An owner that used `before` slots uses `after` now.
    #[inline]
    pub(super) fn change(&self, before: u32, after: u32) {
        // More than all slots are never given: weights add up to at most as many.
        if let Some(count) = at(self.counts, before) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(count) = at(self.counts, after) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The most that any owner uses.
    #[inline]
    pub(super) fn largest(&self) -> u32 {
        let used = self.counts.iter().rposition(|count| count.load(Ordering::Relaxed) > 0);
        used.map_or(0, |at| at as u32 + 1)
    }
}

#[inline]
fn at(counts: &[AtomicU32], slots: u32) -> Option<&AtomicU32> {
    counts.get((slots as usize).checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_largest_is_that_of_all_owners(
            moves in proptest::collection::vec((0_usize..6, 0_u32..=5), 0..100),
        ) {
            let counts: Vec<AtomicU32> = (0..5).map(|_| AtomicU32::new(0)).collect();
            let histogram = Histogram { counts: &counts };
            let mut owners = [0; 6];
            for (owner, slots) in moves {
                histogram.change(owners[owner], slots);
                owners[owner] = slots;
                prop_assert_eq!(histogram.largest(), owners.iter().copied().max().unwrap());
            }
        }
    }
}
