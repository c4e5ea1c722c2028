//! Whether threads fight over the same bytes of a line, or only over the line.
//!
//! A contended load says that another core had written the line, not which bytes. So each is put down to the bytes that
//! it read itself, if a thread other than its own writes these; else to other bytes of the line:
//!
//! ```text
//!  line        │ hits │ head │ tail │          a word: where accesses were sampled
//!  thread 1      load   store                  its loads of hits: thread 2 writes hits      true sharing
//!  thread 2      store  load                   its loads of tail: nobody else writes tail   false sharing
//!                              load
//! ```
//! Where both may be the reason, that is true sharing: a gain from another layout is an upper bound all the same.

use std::collections::BTreeMap;

use pmuscope_stats::{Interval, LEVEL, normal_quantile};

use crate::hits::SharingVerdict;

/// Fewer contended loads and writes than this say nothing.
pub(super) const LEAST: u64 = 30;
/// A thread with a smaller share of a line's contended loads and writes (it set it up, say) does not count.
pub(super) const SLIGHT: f64 = 0.01;
/// Up to this share of one kind of sharing the verdict is the other one.
const MIXED: f64 = 0.05;

/// What a thread did with a word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WordUse {
    pub(super) word: u32,
    pub(super) thread: u32,
    pub(super) contended: u64,
    pub(super) cost: u64,
    pub(super) writes: u64,
}

/// What goes on in a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineVerdict {
    /// In a word.
    pub verdict: SharingVerdict,
    /// Share of contended loads of bytes that no other thread writes: those due to false sharing. `None` where there
    /// are none.
    pub false_share: Option<f64>,
    /// Its 95 % interval, as of independent samples (Wilson).
    pub interval: Option<Interval>,
    /// What these loads cost ([`AccessSums::cost`](super::AccessSums::cost)): with bytes of each thread in lines of
    /// their own they would not be contended.
    pub false_cost: u64,
    /// Whether writes of the line were sampled. Where none were, each word counts as written by all who use it.
    pub sees_writes: bool,
}

/// Uses by threads that count, and whether each counts as a write.
pub(super) fn counted(uses: &[WordUse]) -> Vec<(&WordUse, bool)> {
    let weight = |one: &WordUse| one.contended + one.writes;
    let all: u64 = uses.iter().map(weight).sum();
    let mut by_thread: BTreeMap<u32, u64> = BTreeMap::new();
    uses.iter().for_each(|one| *by_thread.entry(one.thread).or_default() += weight(one));
    let counts = |one: &&WordUse| by_thread[&one.thread] as f64 >= SLIGHT * all as f64;
    let uses: Vec<&WordUse> = uses.iter().filter(counts).collect();
    let writes: u64 = uses.iter().map(|one| one.writes).sum();
    let is_writer = |one: &WordUse| match writes {
        0 => one.contended > 0,
        writes => one.writes as f64 >= (SLIGHT * writes as f64).max(1.0),
    };
    uses.into_iter().map(|one| (one, is_writer(one))).collect()
}

/// Judges a line by who did what with its words.
pub(super) fn judge(uses: &[WordUse]) -> LineVerdict {
    let all: u64 = uses.iter().map(|one| one.contended + one.writes).sum();
    let counted = counted(uses);
    let uses: Vec<&WordUse> = counted.iter().map(|one| one.0).collect();
    let sees_writes = uses.iter().any(|one| one.writes > 0);
    let others_write = |of: &WordUse| {
        let is_other = |one: &WordUse| one.word == of.word && one.thread != of.thread;
        counted.iter().any(|(one, is_writer)| *is_writer && is_other(one))
    };
    let contended: u64 = uses.iter().map(|one| one.contended).sum();
    let mut of_false = (0, 0_u64);
    for one in uses.iter().filter(|one| one.contended > 0 && !others_write(one)) {
        of_false = (of_false.0 + one.contended, of_false.1.saturating_add(one.cost));
    }
    let false_share = (contended > 0).then(|| of_false.0 as f64 / contended as f64);
    let mut threads: Vec<u32> = uses.iter().map(|one| one.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let verdict = match false_share {
        _ if all < LEAST => SharingVerdict::NotEnough,
        None => SharingVerdict::NotEnough,
        Some(_) if threads.len() < 2 => SharingVerdict::OneThread,
        Some(share) => of_share(share),
    };
    LineVerdict {
        verdict,
        false_share,
        interval: false_share.map(|_| wilson(of_false.0, contended)),
        false_cost: of_false.1,
        sees_writes,
    }
}

/// The verdict where that share of what threads wait for is due to false sharing.
pub(super) fn of_share(share: f64) -> SharingVerdict {
    match share {
        share if share >= 1.0 - MIXED => SharingVerdict::FalseSharing,
        share if share <= MIXED => SharingVerdict::TrueSharing,
        _ => SharingVerdict::Both,
    }
}

/// Wilson's interval (1927) of a share of independent samples.
fn wilson(part: u64, of: u64) -> Interval {
    let (share, n) = (part as f64 / of as f64, of as f64);
    let z = normal_quantile(0.5 + LEVEL / 2.0);
    let extra = z * z / n;
    let center = (share + extra / 2.0) / (1.0 + extra);
    let half = z * (share * (1.0 - share) / n + extra / (4.0 * n)).sqrt() / (1.0 + extra);
    let (low, high) = ((center - half).clamp(0.0, share), (center + half).clamp(share, 1.0));
    Interval { low, high, level: LEVEL }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Word, thread, contended loads of cost 2 each, writes.
    fn judged(uses: &[(u32, u32, u64, u64)]) -> LineVerdict {
        let one = |&(word, thread, contended, writes): &(u32, u32, u64, u64)| WordUse {
            word,
            thread,
            contended,
            cost: 2 * contended,
            writes,
        };
        judge(&uses.iter().map(one).collect::<Vec<_>>())
    }

    #[test]
    fn each_thread_with_words_of_its_own_is_false_sharing() {
        let line = judged(&[(0, 1, 50, 100), (8, 2, 60, 90)]);
        assert_eq!((line.verdict, line.false_share), (SharingVerdict::FalseSharing, Some(1.0)));
        assert_eq!((line.false_cost, line.sees_writes), (220, true));
        let interval = line.interval.unwrap();
        assert!((0.96..0.97).contains(&interval.low) && interval.high == 1.0, "{interval:?}");
    }

    #[test]
    fn one_word_of_all_is_true_sharing() {
        let line = judged(&[(0, 1, 50, 100), (0, 2, 60, 90)]);
        assert_eq!((line.verdict, line.false_share), (SharingVerdict::TrueSharing, Some(0.0)));
        // One writes, the other reads.
        let line = judged(&[(0, 1, 0, 100), (0, 2, 60, 0)]);
        assert_eq!((line.verdict, line.false_cost), (SharingVerdict::TrueSharing, 0));
    }

    /// Many read a word that never changes, next to one that does.
    #[test]
    fn a_word_that_nobody_writes_suffers_from_its_neighbor() {
        let line = judged(&[(0, 1, 0, 100), (8, 1, 0, 0), (8, 2, 60, 0), (8, 3, 60, 0)]);
        assert_eq!(line.verdict, SharingVerdict::FalseSharing);
    }

    #[test]
    fn both_have_their_shares() {
        let line = judged(&[(0, 1, 30, 100), (0, 2, 30, 100), (8, 3, 40, 50)]);
        assert_eq!((line.verdict, line.false_share), (SharingVerdict::Both, Some(0.4)));
        assert_eq!(line.false_cost, 80);
    }

    #[test]
    fn little_says_little() {
        assert_eq!(judged(&[]).verdict, SharingVerdict::NotEnough);
        assert_eq!(judged(&[(0, 1, 5, 5), (8, 2, 5, 5)]).verdict, SharingVerdict::NotEnough);
        // Writes alone show no contention.
        assert_eq!(judged(&[(0, 1, 0, 50), (8, 2, 0, 50)]).verdict, SharingVerdict::NotEnough);
        assert_eq!(judged(&[(0, 1, 50, 50), (8, 1, 5, 5)]).verdict, SharingVerdict::OneThread);
        // Another one set it up.
        assert_eq!(judged(&[(0, 1, 500, 500), (0, 2, 0, 2)]).verdict, SharingVerdict::OneThread);
    }

    #[test]
    fn without_writes_a_word_is_of_those_who_use_it() {
        let line = judged(&[(0, 1, 50, 0), (8, 2, 60, 0)]);
        assert_eq!((line.verdict, line.sees_writes), (SharingVerdict::FalseSharing, false));
        let line = judged(&[(0, 1, 50, 0), (0, 2, 60, 0)]);
        assert_eq!(line.verdict, SharingVerdict::TrueSharing);
    }
}
