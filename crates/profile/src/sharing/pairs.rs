//! Who writes what others then wait for: writers and readers of a line, as far as samples show it.
//!
//! A contended load does not say who had written the line. So it is divided among the writes of other threads, by how many
//! of each were sampled: among those to the word that it read, if there are any, else among all of the line.
//!
//! ```text
//!  loads of thread 1     word 0: 60         writes of others    word 0: thread 2, bump 30, reset 10
//!                        word 8: 20                             word 16: thread 3, count 40
//!  pairs                 word 0 ◄─ bump 45, reset 15     word 8 (nobody writes it) ◄─ bump 7.5, reset 2.5, count 10
//! ```
//! An estimate: writes that find the line in their own cache take nothing from others, and count all the same.

use std::collections::BTreeMap;

/// Uses by which loads, and by which writes, that are paired: those with the most.
const MOST_USES: usize = 128;
/// Pairs that are kept.
const MOST_PAIRS: usize = 256;

/// What a thread did at a word from one place in code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CodeUse {
    pub(super) word: u32,
    pub(super) site: u32,
    pub(super) thread: u32,
    pub(super) contended: u64,
    pub(super) cost: u64,
    pub(super) writes: u64,
}

/// Loads that waited for writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinePair {
    /// Offset of the word that was loaded.
    pub read_word: u32,
    /// Code that loaded it: position in [`SharedLines::sites`](super::SharedLines::sites).
    pub reader: u32,
    /// Offset of the word that was written.
    pub written_word: u32,
    /// Code that wrote it.
    pub writer: u32,
    /// Contended loads, an estimate.
    pub contended: f64,
    /// What they cost, in the unit of [`AccessSums::cost`](super::AccessSums::cost).
    pub cost: f64,
}

/// Pairs of a line, those with the most loads first; as many as are kept.
pub(super) fn pairs(uses: &[CodeUse]) -> Vec<LinePair> {
    let largest = |number: fn(&CodeUse) -> u64| {
        let mut all: Vec<&CodeUse> = uses.iter().filter(|one| number(one) > 0).collect();
        all.sort_by_key(|one| std::cmp::Reverse(number(one)));
        all.truncate(MOST_USES);
        all
    };
    let (reads, writes) = (largest(|one| one.contended), largest(|one| one.writes));
    // Writes of each thread, and of each to a word: all of them.
    let mut written: BTreeMap<(Option<u32>, Option<u32>), u64> = BTreeMap::new();
    for one in uses {
        for (thread, word) in [
            (None, None),
            (Some(one.thread), None),
            (None, Some(one.word)),
            (Some(one.thread), Some(one.word)),
        ] {
            *written.entry((thread, word)).or_default() += one.writes;
        }
    }
    let of = |thread, word| written.get(&(thread, word)).copied().unwrap_or(0);
    // By reader's word and code, writer's word and code: loads, cost.
    let mut sums: BTreeMap<(u32, u32, u32, u32), (f64, f64)> = BTreeMap::new();
    for read in reads {
        let by_others = |word| of(None, word) - of(Some(read.thread), word);
        let word = Some(read.word).filter(|_| by_others(Some(read.word)) > 0);
        let all = by_others(word);
        let is_cause =
            |one: &&&CodeUse| one.thread != read.thread && word.is_none_or(|word| one.word == word);
        for write in writes.iter().filter(is_cause) {
            let share = write.writes as f64 / all as f64;
            let sum = sums.entry((read.word, read.site, write.word, write.site)).or_default();
            sum.0 += share * read.contended as f64;
            sum.1 += share * read.cost as f64;
        }
    }
    let pair = |((read_word, reader, written_word, writer), (contended, cost))| LinePair {
        read_word,
        reader,
        written_word,
        writer,
        contended,
        cost,
    };
    let mut pairs: Vec<LinePair> = sums.into_iter().map(pair).collect();
    // In the order of places where two are equal.
    pairs.sort_by(|a, b| b.contended.total_cmp(&a.contended));
    pairs.truncate(MOST_PAIRS);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn used(word: u32, site: u32, thread: u32, contended: u64, writes: u64) -> CodeUse {
        CodeUse { word, site, thread, contended, cost: 10 * contended, writes }
    }

    #[test]
    fn loads_are_divided_among_the_writes_of_others() {
        let uses = [
            used(0, 1, 1, 60, 0),
            used(8, 2, 1, 20, 0),
            used(0, 3, 2, 0, 30),
            used(0, 4, 2, 0, 10),
            used(16, 5, 3, 0, 40),
            // Its own: it does not wait for these.
            used(8, 6, 1, 0, 99),
        ];
        let found = pairs(&uses);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.read_word, one.reader, one.written_word, one.writer, one.contended))
            .collect();
        let expected = [
            (0, 1, 0, 3, 45.0),
            (0, 1, 0, 4, 15.0),
            (8, 2, 16, 5, 10.0),
            (8, 2, 0, 3, 7.5),
            (8, 2, 0, 4, 2.5),
        ];
        assert_eq!(found, expected);
        assert!(pairs(&[used(0, 1, 1, 5, 5)]).is_empty());
    }

    proptest! {
        /// Each load that has a writer is in the pairs once.
        #[test]
        fn loads_are_neither_lost_nor_made(
            uses in proptest::collection::vec((0_u32..4, 0_u32..3, 0_u32..3, 0_u64..50, 0_u64..50), 0..20),
        ) {
            let uses: Vec<CodeUse> = uses
                .into_iter()
                .map(|(word, site, thread, contended, writes)| used(word, site, thread, contended, writes))
                .collect();
            let others = |thread| uses.iter().any(|one| one.writes > 0 && one.thread != thread);
            let loads: u64 =
                uses.iter().filter(|one| others(one.thread)).map(|one| one.contended).sum();
            let found = pairs(&uses);
            let sum: f64 = found.iter().map(|pair| pair.contended).sum();
            prop_assert!((sum - loads as f64).abs() < 1e-6);
            let cost: f64 = found.iter().map(|pair| pair.cost).sum();
            prop_assert!((cost - 10.0 * loads as f64).abs() < 1e-5);
        }
    }
}
