//! Values by ranges of addresses, where the later range covers the earlier.

use std::collections::BTreeMap;

/// Ranges without overlaps, each with a value.
///
/// An insertion cuts the ranges that it overlaps: memory is mapped over memory, and a runtime reuses the
/// address of a function. Each older range is cut or removed once, so n insertions take O(n log n) in
/// all cases.
///
/// ```
/// let mut ranges = pmuscope_symbols::RangeMap::default();
/// ranges.insert(0x1000, 0x4000, "libc");
/// ranges.insert(0x2000, 0x3000, "plugin");
/// assert_eq!(ranges.get(0x2fff), Some(&"plugin"));
/// assert_eq!(ranges.get(0x3000), Some(&"libc"));
/// assert_eq!(ranges.get(0x4000), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeMap<T> {
    /// By first address; the address is one past the last.
    ranges: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        Self { ranges: BTreeMap::new() }
    }
}

impl<T: Clone> RangeMap<T> {
    /// Lays `start..end` over what is there; an empty range changes nothing.
    pub fn insert(&mut self, start: u64, end: u64, value: T) {
        if start < end {
            self.remove(start, end);
            self.ranges.insert(start, (end, value));
        }
    }

    /// Takes `start..end` out; an empty range changes nothing.
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        if let Some((_, (before_end, value))) = self.ranges.range_mut(..start).next_back()
            && *before_end > start
        {
            let behind = (*before_end > end).then(|| (*before_end, value.clone()));
            *before_end = start;
            self.ranges.extend(behind.map(|range| (end, range)));
        }
        while let Some((&inside, _)) = self.ranges.range(start..end).next() {
            let Some((inside_end, value)) = self.ranges.remove(&inside) else { return };
            if inside_end > end {
                self.ranges.insert(end, (inside_end, value));
            }
        }
    }

    /// The value at `address`.
    #[must_use]
    pub fn get(&self, address: u64) -> Option<&T> {
        let (_, (end, value)) = self.ranges.range(..=address).next_back()?;
        (address < *end).then_some(value)
    }

    /// Number of ranges, pieces counted singly.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a table with one entry per address.
        #[test]
        fn what_came_last_is_found(
            steps in proptest::collection::vec((0_u64..90, 0_u64..40, any::<bool>()), 0..60),
        ) {
            let mut map = RangeMap::default();
            let mut table = [None; 130];
            for (number, (start, length, insert)) in steps.into_iter().enumerate() {
                let end = start + length;
                if insert {
                    map.insert(start, end, number);
                } else {
                    map.remove(start, end);
                }
                table[start as usize..end as usize].fill(insert.then_some(number));
            }
            for (address, expected) in table.iter().enumerate() {
                prop_assert_eq!(map.get(address as u64), expected.as_ref());
            }
        }

        #[test]
        fn ends_of_the_address_space_are_no_trouble(start in any::<u64>(), end in any::<u64>()) {
            let mut map = RangeMap::default();
            map.insert(0, u64::MAX, 1);
            map.remove(end, start);
            map.insert(start, end, 2);
            prop_assert_eq!(map.get(start) == Some(&2), start < end);
            prop_assert_eq!(map.get(u64::MAX), None);
        }
    }
}
