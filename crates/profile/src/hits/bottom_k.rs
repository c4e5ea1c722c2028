//! An even sample of what streams by, in bounded memory: those with the smallest hashes of their numbers.

use std::collections::BinaryHeap;

use crate::table::mix;

/// A sample of at most so many items, each item of the stream as likely as any other. Two samples
/// make one of both.
#[derive(Debug, Clone)]
pub(super) struct BottomKSample<T> {
    most: usize,
    items: BinaryHeap<Item<T>>,
    seen: u64,
}

#[derive(Debug, Clone)]
struct Item<T> {
    hash: u64,
    number: u64,
    of: T,
}

impl<T> PartialEq for Item<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.hash, self.number) == (other.hash, other.number)
    }
}

impl<T> Eq for Item<T> {}

impl<T> PartialOrd for Item<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Item<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.hash, self.number).cmp(&(other.hash, other.number))
    }
}

impl<T> BottomKSample<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, items: BinaryHeap::new(), seen: 0 }
    }

    /// `number` is the item's own among all that are ever merged.
    pub(super) fn add(&mut self, number: u64, of: T) {
        self.seen += 1;
        self.keep(Item { hash: mix(0x5bd1, number), number, of });
    }

    fn keep(&mut self, item: Item<T>) {
        if self.items.len() < self.most {
            self.items.push(item);
        } else if let Some(mut largest) = self.items.peek_mut()
            && item < *largest
        {
            *largest = item;
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.seen += other.seen;
        other.items.into_iter().for_each(|item| self.keep(item));
    }

    /// How many streamed by.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// The sample, in the order of numbers.
    pub(super) fn finish(self) -> Vec<T> {
        let mut items = self.items.into_vec();
        items.sort_unstable_by_key(|item| item.number);
        items.into_iter().map(|item| item.of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sample_of_two_halves_is_that_of_the_whole(
            numbers in 0_u64..300, cut in 0_u64..300, most in 0_usize..40,
        ) {
            let sample = |numbers: std::ops::Range<u64>| {
                let mut sample = BottomKSample::new(most);
                numbers.for_each(|number| sample.add(number, number));
                sample
            };
            let cut = cut.min(numbers);
            let mut halves = sample(0..cut);
            halves.merge(sample(cut..numbers));
            let whole = sample(0..numbers);
            prop_assert_eq!(halves.seen(), numbers);
            let (halves, whole) = (halves.finish(), whole.finish());
            prop_assert_eq!(whole.len(), most.min(numbers as usize));
            prop_assert!(whole.is_sorted());
            prop_assert_eq!(halves, whole);
        }
    }

    #[test]
    fn all_parts_of_a_stream_are_sampled_alike() {
        let mut sample = BottomKSample::new(1000);
        (0..100_000_u64).for_each(|number| sample.add(number, number));
        let sample = sample.finish();
        for tenth in 0..10 {
            let here = sample.iter().filter(|number| **number / 10_000 == tenth).count();
            // 100 expected, deviation below 10.
            assert!((60..=140).contains(&here), "{tenth}: {here}");
        }
    }
}
