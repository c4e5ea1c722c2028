//! [`CpuSet`]: a set of CPU numbers, in the kernel's own notation.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const BITS: u32 = u64::BITS;

/// A growable set of CPU numbers below [`CpuSet::MAX`].
///
/// Reads and writes the list form of sysfs and cpusets (`0-3,8`), also through serde. Sets are ordered
/// by their members, so that a sorted list of disjoint sets starts with the one that holds the lowest CPU.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// Bit `i % 64` of word `i / 64`; the last word is never 0, so that equal sets have equal words.
    words: Vec<u64>,
}

/// Why a text is no list of CPU numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// An element is neither a number nor a range.
    #[error("{0:?} is not a CPU number or a range such as 0-3")]
    NotANumber(String),
    /// A range that ends before it starts.
    #[error("the range {0:?} ends before it starts")]
    Backwards(String),
    /// A number that no Linux kernel can have.
    #[error("CPU number {0} is too large; the limit is {max}", max = CpuSet::MAX - 1)]
    TooLarge(u64),
}

impl CpuSet {
    /// One more than the largest CPU number a set can hold. Kernels are built for at most 8192 CPUs.
    pub const MAX: u32 = 1 << 16;

    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the kernel's list form; surrounding white space is ignored, nothing at all is the empty set.
    ///
    /// # Errors
    /// If an element is no number or range, or beyond [`CpuSet::MAX`].
    pub fn parse(text: &str) -> Result<Self, CpuListError> {
        let mut set = Self::default();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for element in text.trim().split(',') {
            let element = element.trim();
            let (first, last) = match element.split_once('-') {
                Some((first, last)) => (number(first, element)?, number(last, element)?),
                None => (number(element, element)?, number(element, element)?),
            };
            if last < first {
                return Err(CpuListError::Backwards(excerpt(element)));
            }
            for cpu in first..=last {
                set.insert(cpu);
            }
        }
        Ok(set)
    }

    /// Adds a CPU. Tells whether the set changed: not if the CPU was there, nor if it is not below
    /// [`CpuSet::MAX`].
    pub fn insert(&mut self, cpu: u32) -> bool {
        if cpu >= Self::MAX {
            return false;
        }
        let (word, bit) = place_of(cpu);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let before = self.words[word];
        self.words[word] |= bit;
        before & bit == 0
    }

    /// Removes a CPU. Tells whether it was there.
    pub fn remove(&mut self, cpu: u32) -> bool {
        let (word, bit) = place_of(cpu);
        let Some(bits) = self.words.get_mut(word) else { return false };
        let was = *bits & bit != 0;
        *bits &= !bit;
        self.trim();
        was
    }

    /// Whether a CPU is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        let (word, bit) = place_of(cpu);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// How many CPUs the set has.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest CPU.
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The highest CPU.
    pub fn last(&self) -> Option<u32> {
        let word = self.words.last()?;
        Some((self.words.len() as u32) * BITS - 1 - word.leading_zeros())
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> CpuIter<'_> {
        CpuIter { words: &self.words, next_word: 0, left: 0 }
    }

    /// The CPUs that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        Self::from_words(words)
    }

    /// The CPUs that are in one set or the other.
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) =
            if self.words.len() >= other.words.len() { (self, other) } else { (other, self) };
        let mut words = long.words.clone();
        for (word, more) in words.iter_mut().zip(&short.words) {
            *word |= more;
        }
        Self { words }
    }

    /// The CPUs of this set that are not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        let mut words = self.words.clone();
        for (word, less) in words.iter_mut().zip(&other.words) {
            *word &= !less;
        }
        Self::from_words(words)
    }

    /// Whether every CPU of this set is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }

    /// The bit words, lowest CPUs first, as affinity calls want them.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The set with these bit words; bits at and beyond [`CpuSet::MAX`] are dropped.
    pub(crate) fn from_words(mut words: Vec<u64>) -> Self {
        words.truncate((Self::MAX / BITS) as usize);
        let mut set = Self { words };
        set.trim();
        set
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn place_of(cpu: u32) -> (usize, u64) {
    ((cpu / BITS) as usize, 1 << (cpu % BITS))
}

/// A piece of foreign text short enough for a message.
fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

fn number(text: &str, element: &str) -> Result<u32, CpuListError> {
    // u64::from_str takes a leading plus, which no kernel prints.
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value: u64 = Some(text)
        .filter(|_| plain)
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| CpuListError::NotANumber(excerpt(element)))?;
    u32::try_from(value).ok().filter(|&cpu| cpu < CpuSet::MAX).ok_or(CpuListError::TooLarge(value))
}

/// The CPUs of a [`CpuSet`] in ascending order.
#[derive(Debug, Clone)]
pub struct CpuIter<'a> {
    words: &'a [u64],
    next_word: u32,
    left: u64,
}

impl Iterator for CpuIter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while self.left == 0 {
            self.left = *self.words.get(self.next_word as usize)?;
            self.next_word += 1;
        }
        let bit = self.left.trailing_zeros();
        self.left &= self.left - 1;
        Some((self.next_word - 1) * BITS + bit)
    }
}

impl<'a> IntoIterator for &'a CpuSet {
    type Item = u32;
    type IntoIter = CpuIter<'a>;

    fn into_iter(self) -> CpuIter<'a> {
        self.iter()
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::default();
        set.extend(cpus);
        set
    }
}

impl Extend<u32> for CpuSet {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl FromStr for CpuSet {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        Self::parse(text)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

impl PartialOrd for CpuSet {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CpuSet {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.iter().cmp(other.iter())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_what_the_kernel_prints() {
        for (text, members) in [
            ("", vec![]),
            ("\n", vec![]),
            ("0\n", vec![0]),
            ("0-3,8\n", vec![0, 1, 2, 3, 8]),
            ("63-64,127,65535", vec![63, 64, 127, 65535]),
        ] {
            let set = CpuSet::parse(text).unwrap();
            assert_eq!(set.iter().collect::<Vec<_>>(), members, "{text:?}");
            assert_eq!(set.to_string(), text.trim_end());
        }
    }

    #[test]
    fn refuses_what_is_no_list() {
        for text in ["a", "1,,2", ",", "-3", "3-", "1-2-3", "+1", "0x1", "(null)", "1;2"] {
            assert!(matches!(CpuSet::parse(text), Err(CpuListError::NotANumber(_))), "{text:?}");
        }
        assert_eq!(CpuSet::parse("3-1"), Err(CpuListError::Backwards("3-1".into())));
        assert_eq!(CpuSet::parse("65536"), Err(CpuListError::TooLarge(65536)));
        assert_eq!(CpuSet::parse("0-4294967296"), Err(CpuListError::TooLarge(1 << 32)));
    }

    #[test]
    fn a_number_beyond_the_limit_changes_nothing() {
        let mut set = CpuSet::parse("1").unwrap();
        assert!(!set.insert(u32::MAX));
        assert!(!set.contains(u32::MAX));
        assert!(!set.remove(u32::MAX));
        assert_eq!(set.to_string(), "1");
    }

    #[test]
    fn sets_sort_by_their_lowest_member() {
        let mut sets: Vec<CpuSet> =
            ["64-65", "1,3", "0,2", ""].iter().map(|text| text.parse().unwrap()).collect();
        sets.sort();
        let text: Vec<String> = sets.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["", "0,2", "1,3", "64-65"]);
    }

    fn members() -> impl Strategy<Value = BTreeSet<u32>> {
        prop_oneof![btree_set(0..200u32, 0..80), btree_set(0..CpuSet::MAX, 0..20)]
    }

    fn set(members: &BTreeSet<u32>) -> CpuSet {
        members.iter().copied().collect()
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(a in members(), b in members()) {
            let (x, y) = (set(&a), set(&b));
            prop_assert_eq!(x.iter().collect::<BTreeSet<_>>(), a.clone());
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(x.is_empty(), a.is_empty());
            prop_assert_eq!(x.first(), a.first().copied());
            prop_assert_eq!(x.last(), a.last().copied());
            prop_assert_eq!(x.intersection(&y), a.intersection(&b).copied().collect());
            prop_assert_eq!(x.union(&y), a.union(&b).copied().collect());
            prop_assert_eq!(x.difference(&y), a.difference(&b).copied().collect());
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x == y, a == b);
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        }

        #[test]
        fn inserting_and_removing_keep_equality(a in members(), cpu in 0..300u32) {
            let mut expected = a.clone();
            let mut x = set(&a);
            prop_assert_eq!(x.insert(cpu), expected.insert(cpu));
            prop_assert_eq!(&x, &set(&expected));
            prop_assert_eq!(x.remove(cpu), expected.remove(&cpu));
            prop_assert!(!x.contains(cpu));
            prop_assert_eq!(x, set(&expected));
        }

        #[test]
        fn text_comes_back(a in members()) {
            let x = set(&a);
            prop_assert_eq!(CpuSet::parse(&x.to_string()), Ok(x));
        }

        #[test]
        fn any_text_parses_or_is_refused(text in "[-0-9, \\n]{0,30}|.{0,20}") {
            if let Ok(set) = CpuSet::parse(&text) {
                prop_assert_eq!(CpuSet::parse(&set.to_string()), Ok(set));
            }
        }
    }
}
