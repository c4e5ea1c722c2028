//! Times as a histogram: how often what was found, within a thirty-second of it.

/// Buckets of an octave.
const PER_OCTAVE: u64 = 32;
/// Octaves: times to 2^40 ns, a quarter of an hour; longer ones are counted with the longest.
const OCTAVES: u64 = 36;
/// Buckets in all.
pub(crate) const BUCKETS: usize = ((OCTAVES + 1) * PER_OCTAVE) as usize;

/// The bucket of a number: exact below 64, then 32 for each doubling.
pub(crate) fn bucket(value: u64) -> usize {
    if value < PER_OCTAVE {
        return value as usize;
    }
    let octave = u64::from(value.ilog2() - PER_OCTAVE.ilog2());
    let within = (value >> octave) - PER_OCTAVE;
    (((octave + 1) * PER_OCTAVE + within) as usize).min(BUCKETS - 1)
}

/// The middle of a bucket.
pub(crate) fn middle(bucket: usize) -> f64 {
    let (octave, within) = (bucket as u64 / PER_OCTAVE, bucket as u64 % PER_OCTAVE);
    if octave == 0 {
        return within as f64;
    }
    let width = (1_u64 << (octave - 1)) as f64;
    (PER_OCTAVE + within) as f64 * width + (width - 1.0) / 2.0
}

/// The number that so large a share of all is not above, by counts of buckets; `None` without any.
pub(crate) fn quantile(counts: &[u64], share: f64) -> Option<f64> {
    let all: u64 = counts.iter().sum();
    let rank = ((share * all as f64).ceil() as u64).clamp(1, all.max(1));
    let mut below = 0;
    let found = counts.iter().position(|count| {
        below += count;
        below >= rank
    });
    found.filter(|_| all > 0).map(middle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_is_in_a_bucket_that_is_near_it(value in 0..1_u64 << 40) {
            let (middle, value) = (middle(bucket(value)), value as f64);
            prop_assert!((middle - value).abs() <= value / 60.0 + 0.01, "{} for {}", middle, value);
        }

        #[test]
        fn buckets_are_in_the_order_of_numbers(a: u64, b: u64) {
            prop_assert_eq!(bucket(a) <= bucket(b) || a > b, true);
        }

        /// Against the sorted numbers.
        #[test]
        fn quantiles_are_those_of_the_numbers(
            mut values in proptest::collection::vec(0..1_000_000_u64, 1..200), share in 0.0..1.0_f64
        ) {
            let mut counts = vec![0; BUCKETS];
            values.iter().for_each(|&value| counts[bucket(value)] += 1);
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            let expected = values[rank - 1];
            prop_assert_eq!(quantile(&counts, share), Some(middle(bucket(expected))));
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(quantile(&[0; BUCKETS], 0.5), None);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
