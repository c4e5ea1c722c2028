//! Bootstrap intervals of medians, reproducible by their seed.
//!
//! The kind is the percentile interval: a median is a step function of the data, for which the
//! jackknife that BCa needs is inconsistent (Efron & Tibshirani 1993, section 11.6), while the
//! percentile interval of a median is close to the exact one from order statistics, down to five
//! values. For one sample the levels are widened as small samples need ("expanded percentile",
//! Hesterberg 2015); for the ratio of two samples, simulation shows that they need not be.
//!
//! Means have no bootstrap here: up to some thirty runs Student's interval
//! ([`crate::mean_interval`]) covers better than BCa does, for skewed times as well.

use crate::dist;
use crate::interval::{Estimate, Interval};
use crate::order;

/// Resamples: the simulation error of a 2.5 % tail is then 0.3 percentage points.
const RESAMPLES: usize = 2000;

/// Fewer values than this cannot carry a 95 % interval of a median: both ends of the data leave
/// out 2 / 2^n of the cases, 6 % for five.
pub const MIN_VALUES: usize = 5;

/// Median with its expanded percentile interval. `None` if empty or a value is NaN; no interval
/// with fewer than [`MIN_VALUES`].
pub fn median_interval(values: &[f64], level: f64, seed: u64) -> Option<Estimate> {
    let value = order::median(values)?;
    let n = values.len();
    let interval = (n >= MIN_VALUES).then(|| {
        let mut rng = fastrand::Rng::with_seed(seed);
        let draws = (0..RESAMPLES).filter_map(|_| order::median(&resample(&mut rng, values)));
        percentile(draws.collect(), dist::expanded_tail(level, n as f64), level)
    });
    Some(Estimate { value, interval: interval.flatten(), n })
}

/// Median of `other` over median of `base`, independent samples, with its percentile interval.
/// `None` if one is empty, holds NaN, or the base's median is not positive; no interval with
/// fewer than [`MIN_VALUES`] in either. `n` is the smaller of the two.
pub fn ratio_of_medians(base: &[f64], other: &[f64], level: f64, seed: u64) -> Option<Estimate> {
    let value = quotient(base, other)?;
    let n = base.len().min(other.len());
    let interval = (n >= MIN_VALUES).then(|| {
        let mut rng = fastrand::Rng::with_seed(seed);
        let draws = (0..RESAMPLES)
            .filter_map(|_| quotient(&resample(&mut rng, base), &resample(&mut rng, other)));
        percentile(draws.collect(), (1.0 - level) / 2.0, level)
    });
    Some(Estimate { value, interval: interval.flatten(), n })
}

fn quotient(base: &[f64], other: &[f64]) -> Option<f64> {
    let base = order::median(base).filter(|b| *b > 0.0)?;
    Some(order::median(other)? / base)
}

fn resample(rng: &mut fastrand::Rng, values: &[f64]) -> Vec<f64> {
    (0..values.len()).map(|_| values[rng.usize(..values.len())]).collect()
}

fn percentile(mut draws: Vec<f64>, tail: f64, level: f64) -> Option<Interval> {
    draws.sort_unstable_by(f64::total_cmp);
    Some(Interval {
        low: order::quantile_sorted(&draws, tail)?,
        high: order::quantile_sorted(&draws, 1.0 - tail)?,
        level,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::LEVEL;
    use proptest::prelude::*;

    #[test]
    fn equal_seeds_give_equal_intervals() {
        let values = [3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.0];
        assert_eq!(median_interval(&values, LEVEL, 1), median_interval(&values, LEVEL, 1));
    }

    #[test]
    fn few_or_unusable_values() {
        assert_eq!(median_interval(&[], LEVEL, 1), None);
        assert_eq!(median_interval(&[1.0, f64::NAN], LEVEL, 1), None);
        assert_eq!(
            median_interval(&[1.0, 2.0], LEVEL, 1),
            Some(Estimate { value: 1.5, interval: None, n: 2 })
        );
        assert_eq!(ratio_of_medians(&[0.0; 9], &[1.0; 9], LEVEL, 1), None);
    }

    proptest! {
        #[test]
        fn stays_inside_the_data_and_round_the_median(
            values in prop::collection::vec(0.1..100.0f64, 5..40),
            unit in 0.001..1000.0f64,
        ) {
            let got = median_interval(&values, LEVEL, 5).unwrap();
            let interval = got.interval.unwrap();
            let sorted = order::sorted(&values).unwrap();
            prop_assert!(sorted[0] <= interval.low && interval.high <= sorted[sorted.len() - 1]);
            prop_assert!(interval.contains(got.value));
            let scaled: Vec<f64> = values.iter().map(|v| v * unit).collect();
            let other = median_interval(&scaled, LEVEL, 5).unwrap().interval.unwrap();
            prop_assert!((other.low / unit / interval.low - 1.0).abs() < 1e-9);
            let ratio = ratio_of_medians(&values, &scaled, LEVEL, 5).unwrap();
            prop_assert!((ratio.value / unit - 1.0).abs() < 1e-9);
        }
    }
}
