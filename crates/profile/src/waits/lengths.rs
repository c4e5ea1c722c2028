//! How long waits lasted: counts by length, fine enough for three digits, in memory that does not follow
//! from their number.

/// Buckets of each power of two, as a power of two: a bucket is at most 1/256 of its lengths wide.
const SUB_BITS: u32 = 8;
const SUB: u64 = 1 << SUB_BITS;

/// Lengths of waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lengths {
    /// In the order of buckets.
    counts: Vec<BucketCount>,
    n: u64,
    longest_ns: u64,
}

/// Waits of about one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BucketCount {
    bucket: u16,
    waits: u64,
    /// Their lengths together.
    ns: u64,
    /// Of them, on a run queue.
    queued_ns: u64,
}

/// Waits from one power of two of nanoseconds to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthRange {
    /// The power of two, nanoseconds; 0 for everything below [`LengthRange::SHORTEST`].
    pub from_ns: u64,
    /// How many.
    pub waits: u64,
    /// Their lengths together, nanoseconds.
    pub ns: u64,
    /// Of them, from the wakeup until the thread ran, where it is known.
    pub queued_ns: u64,
}

impl LengthRange {
    /// Shorter waits are one range, nanoseconds.
    pub const SHORTEST: u64 = 1 << 10;
}

impl Lengths {
    /// Counts one, which was on a run queue for a part of it.
    pub(super) fn add(&mut self, ns: u64, queued_ns: u64) {
        self.add_many(BucketCount { bucket: bucket(ns), waits: 1, ns, queued_ns });
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Counts all of another.
    pub(super) fn add_all(&mut self, other: &Self) {
        other.counts.iter().for_each(|&count| self.add_many(count));
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    fn add_many(&mut self, more: BucketCount) {
        self.n += more.waits;
        match self.counts.binary_search_by_key(&more.bucket, |count| count.bucket) {
            Ok(at) => {
                let count = &mut self.counts[at];
                count.waits += more.waits;
                count.ns = count.ns.saturating_add(more.ns);
                count.queued_ns = count.queued_ns.saturating_add(more.queued_ns);
            }
            Err(at) => self.counts.insert(at, more),
        }
    }

    /// Waits by powers of two of their length, exactly, the shortest first: what adds up over machines.
    #[must_use]
    pub fn ranges(&self) -> Vec<LengthRange> {
        let mut ranges: Vec<LengthRange> = Vec::new();
        for count in &self.counts {
            // No bucket is on both sides of a power of two.
            let from_ns = match first(count.bucket).checked_ilog2() {
                Some(power) if 1 << power >= LengthRange::SHORTEST => 1 << power,
                _ => 0,
            };
            match ranges.last_mut().filter(|last| last.from_ns == from_ns) {
                Some(last) => {
                    last.waits += count.waits;
                    last.ns = last.ns.saturating_add(count.ns);
                    last.queued_ns = last.queued_ns.saturating_add(count.queued_ns);
                }
                None => {
                    let BucketCount { waits, ns, queued_ns, .. } = *count;
                    ranges.push(LengthRange { from_ns, waits, ns, queued_ns });
                }
            }
        }
        ranges
    }

    /// How many there are.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The longest, exactly, nanoseconds; `None` without any.
    #[must_use]
    pub fn longest_ns(&self) -> Option<u64> {
        (self.n > 0).then_some(self.longest_ns)
    }

    /// The length that so many (`part`, 0 to 1) do not exceed, within 0.2 %, nanoseconds; `None` where there
    /// are too few for anything to lie beyond it.
    #[must_use]
    pub fn quantile_ns(&self, part: f64) -> Option<u64> {
        let n = self.n as f64;
        if self.n == 0 || n * (1.0 - part) < 1.0 && part > 0.5 {
            return None;
        }
        let rank = ((part * n).ceil() as u64).clamp(1, self.n);
        let mut seen = 0;
        let found = self.counts.iter().find(|count| {
            seen += count.waits;
            seen >= rank
        });
        found.map(|count| middle(count.bucket).min(self.longest_ns))
    }
}

/// Lengths below 512 ns have a bucket each.
fn bucket(ns: u64) -> u16 {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(SUB_BITS + 1);
    (u64::from(shift) * SUB + (ns >> shift)) as u16 // 14,591 at most
}

/// The shortest length of a bucket.
fn first(bucket: u16) -> u64 {
    let shift = shift(bucket);
    (u64::from(bucket) - shift * SUB) << shift
}

fn middle(bucket: u16) -> u64 {
    first(bucket) + (1 << shift(bucket)) / 2
}

/// How wide a bucket is, as a power of two.
fn shift(bucket: u16) -> u64 {
    (u64::from(bucket) / SUB).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_all_lengths_within_the_width_of_a_bucket(
            lengths in proptest::collection::vec(
                prop_oneof![0_u64..600, 0_u64..10_000_000_000, any::<u64>()], 1..300),
            part in prop_oneof![Just(0.5), Just(0.99), 0.01_f64..0.99],
        ) {
            let (mut all, mut halves) = (Lengths::default(), [Lengths::default(), Lengths::default()]);
            for (at, &ns) in lengths.iter().enumerate() {
                all.add(ns, 0);
                halves[at % 2].add(ns, 0);
            }
            let [mut sum, other] = halves;
            sum.add_all(&other);
            prop_assert_eq!(&sum, &all);
            let mut sorted = lengths.clone();
            sorted.sort_unstable();
            let n = sorted.len();
            prop_assert_eq!((all.n(), all.longest_ns()), (n as u64, sorted.last().copied()));
            match all.quantile_ns(part) {
                None => prop_assert!(part > 0.5 && n as f64 * (1.0 - part) < 1.0),
                Some(found) => {
                    let rank = ((part * n as f64).ceil() as usize).clamp(1, n);
                    let expected = sorted[rank - 1] as f64;
                    prop_assert!((found as f64 - expected).abs() <= expected / 500.0 + 1e-9);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn ranges_are_those_of_all_lengths(
            lengths in proptest::collection::vec(
                prop_oneof![0_u64..3000, 0_u64..10_000_000_000, any::<u64>()], 0..100),
        ) {
            let mut all = Lengths::default();
            let mut expected = std::collections::BTreeMap::<u64, (u64, u64, u64)>::new();
            for ns in lengths {
                all.add(ns, ns / 3);
                let from = if ns < 1024 { 0 } else { 1 << ns.ilog2() };
                let sums = expected.entry(from).or_default();
                *sums = (sums.0 + 1, sums.1.saturating_add(ns), sums.2.saturating_add(ns / 3));
            }
            let found = all.ranges().into_iter().map(|one| (one.from_ns, (one.waits, one.ns, one.queued_ns)));
            prop_assert_eq!(found.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn there_is_no_p99_of_a_few() {
        let mut lengths = Lengths::default();
        assert_eq!((lengths.quantile_ns(0.5), lengths.longest_ns()), (None, None));
        (1..=99).for_each(|ns| lengths.add(ns, 0));
        assert_eq!((lengths.quantile_ns(0.5), lengths.quantile_ns(0.99)), (Some(50), None));
        lengths.add(100, 0);
        assert_eq!(lengths.quantile_ns(0.99), Some(99));
    }
}
