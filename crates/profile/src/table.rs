//! Finds what is equal: a hash table of indices into something that lies elsewhere.
//!
//! The standard map would hold every key a second time, or make a growing list move its keys.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Spreads the bits of a few words over all bits of one.
#[inline]
pub(crate) fn mix(state: u64, word: u64) -> u64 {
    // Both sides of a product: what only adds them up would give equal sums equal hashes. The
    // constants, digits of the golden ratio and of pi, keep zeros from making zeros.
    let factors = (state ^ 0x9e37_79b9_7f4a_7c15, word ^ 0x2437_54a3_243f_6a89);
    let product = u128::from(factors.0) * u128::from(factors.1);
    (product >> 64) as u64 ^ product as u64
}

/// Indices by hash. Each slot holds 32 bits of the hash and the index plus one.
#[derive(Debug, Clone)]
pub(crate) struct HashIndex {
    slots: Vec<u64>,
    length: usize,
}

impl Default for HashIndex {
    fn default() -> Self {
        Self { slots: vec![0; 64], length: 0 }
    }
}

impl HashIndex {
    /// The index for which `is_it`; `new` where there is none, which is then in the table.
    #[inline]
    pub(crate) fn find_or_insert(
        &mut self,
        hash: u64,
        new: u32,
        is_it: impl FnMut(u32) -> bool,
    ) -> u32 {
        let at = match self.probe(hash, is_it) {
            Ok(index) => return index,
            Err(free) => free,
        };
        self.slots[at] = hash >> 32 << 32 | u64::from(new + 1);
        self.length += 1;
        if self.length * 4 > self.slots.len() * 3 {
            self.grow();
        }
        new
    }

    /// The index for which `is_it`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.probe(hash, is_it).ok()
    }

    /// The index for which `is_it`, else the free slot where it would be.
    #[inline]
    fn probe(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Result<u32, usize> {
        let tag = hash >> 32;
        let mask = self.slots.len() - 1;
        let mut at = tag as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return Err(at);
            }
            if slot >> 32 == tag && is_it(slot as u32 - 1) {
                return Ok(slot as u32 - 1);
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![0_u64; mask + 1];
        for &slot in self.slots.iter().filter(|&&slot| slot != 0) {
            let mut at = (slot >> 32) as usize & mask;
            while slots[at] != 0 {
                at = (at + 1) & mask;
            }
            slots[at] = slot;
        }
        self.slots = slots;
    }
}

/// Values, each once, by number.
#[derive(Debug, Clone)]
pub(crate) struct Interned<T> {
    pub(crate) list: Vec<T>,
    table: HashIndex,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { list: Vec::new(), table: HashIndex::default() }
    }
}

impl<T: PartialEq> Interned<T> {
    /// The number of `value`, whose hash is given.
    #[inline]
    pub(crate) fn intern(&mut self, hash: u64, value: T) -> u32 {
        let Self { list, table } = self;
        let new = list.len() as u32;
        let index = table.find_or_insert(hash, new, |index| list[index as usize] == value);
        if index == new {
            list.push(value);
        }
        index
    }
}

/// Values of any kind, each once, by number: where hashing is not what takes time.
#[derive(Debug)]
pub(crate) struct ValueNumbers<T> {
    pub(crate) list: Vec<T>,
    numbers: FxHashMap<T, u32>,
}

impl<T> Default for ValueNumbers<T> {
    fn default() -> Self {
        Self { list: Vec::new(), numbers: FxHashMap::default() }
    }
}

impl<T: Clone + Eq + Hash> ValueNumbers<T> {
    /// The number of `value`.
    pub(crate) fn number(&mut self, value: T) -> u32 {
        let list = &mut self.list;
        *self.numbers.entry(value).or_insert_with_key(|value| {
            list.push(value.clone());
            (list.len() - 1) as u32
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_value_has_one_number(values in proptest::collection::vec(0_u64..300, 0..2000)) {
            let mut interned = Interned::default();
            for &value in &values {
                // Few hashes, so that many values share one.
                let index = interned.intern(mix(0, value % 7), value);
                prop_assert_eq!(interned.list[index as usize], value);
            }
            let mut distinct = values;
            distinct.sort_unstable();
            distinct.dedup();
            interned.list.sort_unstable();
            prop_assert_eq!(interned.list, distinct);
        }
    }
}
