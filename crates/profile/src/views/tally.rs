//! Counts by key as samples come, each with how it spread over time: shares with intervals of what no
//! [`Aggregate`](crate::aggregate::Aggregate) holds.
//!
//! ```text
//!  add (key, time) ─► key: sums, (block, number) (block, number) …
//!                                                                  └─► rows by key, each
//!  rekeyed: addresses become functions, several keys become one        with its interval
//! ```

use std::hash::Hash;

use pmuscope_stats::Interval;
use rustc_hash::FxHashMap;

use crate::Intervals;
use crate::aggregate::RowSeries;
use crate::timeline::blocks::Clock;

/// What is counted for a key.
pub(super) trait KeyCounts: Default {
    /// Both together.
    fn add(&mut self, other: &Self);
    /// What shares are of.
    fn number(&self) -> u64;
}

/// Counts by key and block of time.
#[derive(Debug)]
pub(super) struct KeyTally<K, S> {
    clock: Clock,
    /// Block of the latest sample: of those that tell no time.
    latest: u32,
    of: FxHashMap<K, Timed<S>>,
}

#[derive(Debug, Default)]
struct Timed<S> {
    sums: S,
    /// Block and number; neighbors are of different blocks.
    blocks: Vec<(u32, u64)>,
}

impl<K, S> Default for KeyTally<K, S> {
    fn default() -> Self {
        Self { clock: Clock::default(), latest: 0, of: FxHashMap::default() }
    }
}

impl<K: Hash + Eq, S: KeyCounts> KeyTally<K, S> {
    /// Counts for a key at a time, nanoseconds.
    pub(super) fn add(&mut self, key: K, time: Option<u64>, sums: &S) {
        if let Some(time) = time {
            let (block, halvings) = self.clock.block(time);
            if halvings > 0 {
                self.of.values_mut().for_each(|timed| timed.halve(halvings));
            }
            self.latest = block;
        }
        let timed = self.of.entry(key).or_default();
        timed.sums.add(sums);
        timed.push(self.latest, sums.number());
    }

    /// All that was counted for.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.of.keys()
    }

    /// All that was counted, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &S)> {
        self.of.iter().map(|(key, timed)| (key, &timed.sums))
    }

    /// The same by other keys; what gets the same one is one.
    pub(super) fn rekeyed<L: Hash + Eq>(self, mut key: impl FnMut(K) -> L) -> KeyTally<L, S> {
        let mut of: FxHashMap<L, Timed<S>> = FxHashMap::default();
        for (old, timed) in self.of {
            let into = of.entry(key(old)).or_default();
            into.sums.add(&timed.sums);
            timed.blocks.into_iter().for_each(|(block, number)| into.push(block, number));
        }
        KeyTally { clock: self.clock, latest: self.latest, of }
    }

    /// The largest number first, then by key; with the 95 % interval of each one's share where enough
    /// blocks of time have some, and a row is among those that anyone looks at.
    pub(super) fn rows(self) -> Vec<(K, S, Option<Interval>)>
    where
        K: Ord,
    {
        let mut of: Vec<(K, Timed<S>)> = self.of.into_iter().collect();
        of.sort_by(|(a, a_timed), (b, b_timed)| {
            b_timed.sums.number().cmp(&a_timed.sums.number()).then_with(|| a.cmp(b))
        });
        // What tells no time has a block too.
        let blocks = self.clock.len().max(1);
        let timed = of.iter().map(|(_, timed)| &timed.blocks[..]);
        let mut intervals = series(timed, blocks).intervals().into_iter();
        of.into_iter().map(|(key, timed)| (key, timed.sums, intervals.next().flatten())).collect()
    }
}

/// All blocks' totals, and the largest rows.
fn series<'a>(rows: impl ExactSizeIterator<Item = &'a [(u32, u64)]>, blocks: usize) -> RowSeries {
    let shown = rows.len().min(Intervals::MOST);
    let mut series = RowSeries { totals: vec![0.0; blocks], rows: vec![0.0; blocks * shown] };
    for (at, row) in rows.enumerate() {
        for &(block, number) in row {
            series.totals[block as usize] += number as f64;
            if at < shown {
                series.rows[at * blocks + block as usize] += number as f64;
            }
        }
    }
    series
}

impl<S> Timed<S> {
    fn push(&mut self, block: u32, number: u64) {
        match self.blocks.last_mut() {
            Some((last, sum)) if *last == block => *sum += number,
            _ => self.blocks.push((block, number)),
        }
    }

    fn halve(&mut self, times: u32) {
        for (block, number) in std::mem::take(&mut self.blocks) {
            self.push(block.checked_shr(times).unwrap_or(0), number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl KeyCounts for u64 {
        fn add(&mut self, other: &Self) {
            *self += other;
        }

        fn number(&self) -> u64 {
            *self
        }
    }

    fn tally(samples: impl IntoIterator<Item = (u8, Option<u64>)>) -> KeyTally<u8, u64> {
        let mut tally = KeyTally::default();
        samples.into_iter().for_each(|(key, time)| tally.add(key, time, &1));
        tally
    }

    #[test]
    fn a_steady_share_has_an_interval_around_it_and_a_short_recording_none() {
        let sample = |at: u64| (u8::from(at.is_multiple_of(4)), Some(at * 1_000_000));
        let rows = tally((0..4000).map(sample)).rows();
        assert_eq!(
            rows.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(),
            [(0, 3000), (1, 1000)]
        );
        for ((_, _, interval), share) in rows.iter().zip([0.75, 0.25]) {
            let interval = interval.unwrap();
            assert!(interval.contains(share) && interval.half_width() < 0.02, "{interval:?}");
        }
        let short = tally((0..20).map(sample)).rows();
        assert!(short.iter().all(|row| row.2.is_none()), "{short:?}");
    }

    #[test]
    fn samples_that_tell_no_time_are_in_one_block() {
        let rows = tally((0..1000).map(|at| ((at % 2) as u8, None))).rows();
        assert_eq!(rows, [(0, 500, None), (1, 500, None)]);
    }

    proptest! {
        /// However often blocks double, and whatever keys become one: every block's sum is that of its time.
        #[test]
        fn blocks_have_what_their_times_had(
            samples in proptest::collection::vec((0..6_u8, 0..1_u64 << 40), 1..200),
        ) {
            let counted = tally(samples.iter().map(|&(key, time)| (key, Some(time)))).rekeyed(|key| key / 2);
            let blocks = counted.clock.len();
            let mut should: BTreeMap<(u8, usize), f64> = BTreeMap::new();
            for &(key, time) in &samples {
                let since = time.saturating_sub(samples[0].1) >> counted.clock.shift();
                *should.entry((key / 2, since as usize)).or_default() += 1.0;
            }
            let mut has: BTreeMap<(u8, usize), f64> = BTreeMap::new();
            for (key, timed) in &counted.of {
                let row = series([&timed.blocks[..]].into_iter(), blocks);
                for (block, &number) in row.totals.iter().enumerate().filter(|(_, number)| **number > 0.0) {
                    has.insert((*key, block), number);
                }
            }
            prop_assert_eq!(has, should);
            let sum: u64 = counted.rows().iter().map(|row| row.1).sum();
            prop_assert_eq!(sum, samples.len() as u64);
        }
    }
}
