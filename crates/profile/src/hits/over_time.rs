//! Hits and values by blocks of time.

use pmuscope_perfdata::watch::ArmedBlock;

use super::bottom_k::BottomKSample;
use crate::timeline::blocks::Clock;

/// Values of a block that its median is of, at most.
const VALUES: usize = 65;

/// What happened in a stretch of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Seconds from the start.
    pub from_s: f64,
    /// First moment behind it.
    pub until_s: f64,
    /// Hits per second of the time that points were armed; `None` where they were not.
    pub hits_per_s: Option<f64>,
    /// Share of the time that points were armed; `None` where that is not known.
    pub armed: Option<f64>,
    /// Hits that were written down.
    pub records: u64,
    /// Values of them, where they are numbers.
    pub values: Option<BlockValues>,
}

/// Values of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockValues {
    /// The smallest.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// How many.
    pub n: u64,
    /// The median is that of a sample of them.
    pub of_sample: bool,
}

/// What is known of each hit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HitFacts {
    /// Its number in its target.
    pub(super) number: u64,
    /// Hits it stands for.
    pub(super) stands_for: u64,
    /// From what to what is known.
    pub(super) is_pair: bool,
    pub(super) changed: bool,
    pub(super) plus_one: bool,
    /// The value it found, if that is a number.
    pub(super) value: Option<f64>,
}

/// What adds up in a block.
#[derive(Debug, Clone)]
pub(super) struct Sum {
    pub(super) records: u64,
    pub(super) hits: u64,
    pub(super) pairs: u64,
    pub(super) changed: u64,
    pub(super) plus_one: u64,
    ends: Option<(f64, f64)>,
    values: BottomKSample<f64>,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            records: 0,
            hits: 0,
            pairs: 0,
            changed: 0,
            plus_one: 0,
            ends: None,
            values: BottomKSample::new(VALUES),
        }
    }
}

impl Sum {
    fn add(&mut self, seen: &HitFacts) {
        self.records += 1;
        let weight = seen.stands_for;
        let add = |sum: &mut u64, is: bool| *sum = sum.saturating_add(weight * u64::from(is));
        add(&mut self.hits, true);
        add(&mut self.pairs, seen.is_pair);
        add(&mut self.changed, seen.changed);
        add(&mut self.plus_one, seen.plus_one);
        if let Some(value) = seen.value {
            let (low, high) = self.ends.unwrap_or((value, value));
            self.ends = Some((low.min(value), high.max(value)));
            self.values.add(seen.number, value);
        }
    }

    fn merge(&mut self, other: Self) {
        self.records += other.records;
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.hits, other.hits);
        sum(&mut self.pairs, other.pairs);
        sum(&mut self.changed, other.changed);
        sum(&mut self.plus_one, other.plus_one);
        let (low, high) = (f64::min, f64::max);
        self.ends = match (self.ends, other.ends) {
            (Some(a), Some(b)) => Some((low(a.0, b.0), high(a.1, b.1))),
            (a, b) => a.or(b),
        };
        self.values.merge(other.values);
    }

    fn values(&self) -> Option<BlockValues> {
        let (min, max) = self.ends?;
        let n = self.values.seen();
        let values = self.values.clone().finish();
        let median = pmuscope_stats::median(&values)?;
        Some(BlockValues { min, median, max, n, of_sample: n > values.len() as u64 })
    }
}

/// Blocks of all targets.
#[derive(Debug)]
pub(super) struct OverTime {
    clock: Clock,
    targets: Vec<Vec<Sum>>,
}

impl OverTime {
    /// `times`: the first and the last moment, if they are known.
    pub(super) fn new(targets: usize, times: Option<(u64, u64)>) -> Self {
        Self { clock: Clock::of(times), targets: vec![Vec::new(); targets] }
    }

    pub(super) fn add(&mut self, target: usize, time: u64, seen: &HitFacts) {
        let (block, halvings) = self.clock.block(time);
        if halvings > 0 {
            self.targets.iter_mut().for_each(|sums| halve(sums, halvings));
        }
        let sums = &mut self.targets[target];
        let block = block as usize;
        sums.resize(sums.len().max(block + 1), Sum::default());
        sums[block].add(seen);
    }

    /// First time stamp, nanoseconds; nanoseconds to the last.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        self.clock.origin().zip(self.clock.span())
    }

    pub(super) fn sums(&self, target: usize) -> &[Sum] {
        &self.targets[target]
    }

    /// Blocks of a target. `armed`: when its points were armed, with their hits; these tell the rates
    /// where `told` is set, else what was written down does.
    pub(super) fn blocks(&self, target: usize, armed: &[ArmedPart], told: bool) -> Vec<Block> {
        let Some((origin, _)) = self.span() else { return Vec::new() };
        let length = 1_u64 << self.clock.shift().min(63);
        let end = origin.saturating_add(self.clock.span().unwrap_or(0));
        let parts = spread(armed, origin, length, self.clock.len());
        let empty = Sum::default();
        let one = |at: usize| {
            let sum = self.targets[target].get(at).unwrap_or(&empty);
            let from = origin.saturating_add(at as u64 * length);
            let until = from.saturating_add(length).min(end.max(from + 1));
            let seconds = (until - from) as f64 / 1e9;
            let part = parts.get(at);
            let armed = part.map(|part| (part.armed / 1e9 / seconds).min(1.0));
            let armed_s = part.map_or(seconds, |part| part.armed / 1e9);
            let hits = match part.filter(|_| told) {
                Some(part) => part.hits,
                None => sum.hits as f64,
            };
            Block {
                from_s: (from - origin) as f64 / 1e9,
                until_s: (until - origin) as f64 / 1e9,
                hits_per_s: (armed_s > 0.0).then(|| hits / armed_s),
                armed,
                records: sum.records,
                values: sum.values(),
            }
        };
        (0..self.clock.len()).map(one).collect()
    }
}

fn halve(sums: &mut Vec<Sum>, halvings: u32) {
    for (at, sum) in std::mem::take(sums).into_iter().enumerate() {
        let block = at.checked_shr(halvings).unwrap_or(0);
        sums.resize(sums.len().max(block + 1), Sum::default());
        sums[block].merge(sum);
    }
}

/// A stretch of time, of a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ArmedPart {
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    pub(super) armed_ns: u64,
    pub(super) hits: u64,
}

impl ArmedPart {
    /// What a block tells of some points: that any of them was armed; `None` if none had its turn.
    pub(super) fn of(block: &ArmedBlock, points: &[u32]) -> Option<Self> {
        let here = |point: &u32| block.points.is_empty() || block.points.contains(point);
        let hits = points.iter().filter_map(|&point| block.hits.get(point as usize));
        points.iter().any(here).then(|| Self {
            from_ns: block.from_ns,
            until_ns: block.until_ns,
            armed_ns: block.armed_ns,
            hits: hits.fold(0, |sum, hits| sum.saturating_add(*hits)),
        })
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct TimeSlice {
    armed: f64,
    hits: f64,
}

/// Spreads stretches evenly over the blocks that they touch.
fn spread(armed: &[ArmedPart], origin: u64, length: u64, blocks: usize) -> Vec<TimeSlice> {
    let mut parts = vec![TimeSlice::default(); if armed.is_empty() { 0 } else { blocks }];
    for one in armed {
        let whole = one.until_ns.saturating_sub(one.from_ns) as f64;
        let last = parts.len().saturating_sub(1);
        let block = |time: u64| (time.saturating_sub(origin) / length).min(last as u64) as usize;
        let behind = one.until_ns.saturating_sub(1);
        for (at, part) in
            parts.iter_mut().enumerate().take(block(behind) + 1).skip(block(one.from_ns))
        {
            // What lies outside of all blocks belongs to the nearest.
            let from = if at == 0 { 0 } else { origin + at as u64 * length };
            let until = if at == last { u64::MAX } else { origin + (at as u64 + 1) * length };
            let here = until.min(one.until_ns).saturating_sub(from.max(one.from_ns)) as f64;
            let share = if whole > 0.0 { here / whole } else { 0.0 };
            part.armed += share * one.armed_ns as f64;
            part.hits += share * one.hits as f64;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the length of blocks came to, each has what its time has.
        #[test]
        fn blocks_are_those_of_an_oracle(
            hits in proptest::collection::vec((0_u64..1 << 33, 0_u32..50, 1_u64..4), 1..150),
        ) {
            let mut over_time = OverTime::new(2, None);
            let origin = hits[0].0;
            for (number, &(time, value, stands_for)) in hits.iter().enumerate() {
                let value = Some(f64::from(value));
                let seen = HitFacts { number: number as u64, stands_for, value, ..HitFacts::default() };
                over_time.add(1, time, &seen);
            }
            let blocks = over_time.blocks(1, &[], false);
            let length = 1_u64 << over_time.clock.shift();
            for (at, block) in blocks.iter().enumerate() {
                let at = at as u64;
                let here = hits.iter().filter(|hit| hit.0.saturating_sub(origin) / length == at);
                let mut values: Vec<f64> = here.clone().map(|hit| f64::from(hit.1)).collect();
                values.sort_by(f64::total_cmp);
                prop_assert_eq!(block.records as usize, values.len());
                let all: u64 = here.map(|hit| hit.2).sum();
                let rate = block.hits_per_s.unwrap() * (block.until_s - block.from_s);
                prop_assert!((rate - all as f64).abs() < 1e-6 * (1.0 + rate));
                let found = block.values.map(|values| (values.min, values.max, values.n));
                let ends = values.first().map(|first| (*first, values[values.len() - 1], values.len() as u64));
                prop_assert_eq!(found, ends);
                if let Some(found) = block.values.filter(|found| !found.of_sample) {
                    prop_assert_eq!(Some(found.median), pmuscope_stats::median(&values));
                }
            }
            prop_assert!(over_time.blocks(0, &[], false).iter().all(|block| block.records == 0));
        }

        #[test]
        fn nothing_is_lost_between_blocks(
            parts in proptest::collection::vec((1_u64..5000, 0_u64..100), 1..40),
            length in 1_u64..3000, blocks in 1_usize..60,
        ) {
            let mut from_ns = 500;
            let parts: Vec<ArmedPart> = parts
                .into_iter()
                .map(|(long, hits)| {
                    let part = ArmedPart { from_ns, until_ns: from_ns + long, armed_ns: long / 2, hits };
                    from_ns += long;
                    part
                })
                .collect();
            let spread = spread(&parts, 1000, length, blocks);
            let near = |a: f64, b: u64| (a - b as f64).abs() < 1e-6 * (1.0 + a);
            let sum = |of: fn(&TimeSlice) -> f64| spread.iter().map(of).sum::<f64>();
            prop_assert!(near(sum(|part| part.hits), parts.iter().map(|part| part.hits).sum()));
            prop_assert!(near(sum(|part| part.armed), parts.iter().map(|part| part.armed_ns).sum()));
        }
    }
}
