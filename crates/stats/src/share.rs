//! Interval of a share of samples: part over total, from blocks of time.
//!
//! Samples of a running program are not independent: phases last longer than a sampling period, so a
//! binomial interval of a function's share is far too narrow. The variance of the ratio of the sums is
//! the long-run variance of what each block adds to it ([`LongRun`]). With it, the samples count as
//! `n = p (1 - p) / variance` independent ones, of which Wilson's interval (1927, with Student's
//! quantile) stays inside 0..=1 and holds for few samples (Kott & Carr 1997 do so for surveys).
//! Coverage is checked by simulation in the tests.

use crate::dist::t_quantile;
use crate::interval::{Interval, LEVEL};
use crate::long_run::LongRun;

/// Fewer blocks than this give no interval.
pub const MIN_BLOCKS: usize = 30;

/// Blocks of one total, used for every part (function, module) of it.
#[derive(Debug, Clone)]
pub struct Shares {
    totals: Vec<f64>,
    total: f64,
}

/// What is known about a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Part over total.
    pub share: f64,
    /// Its 95 % interval, as of one of many rows ([`LongRun::is_enough_of_many`]); `None` where phases
    /// are too long for one.
    pub interval: Option<Interval>,
    /// How it varies over time.
    pub long_run: LongRun,
}

impl Shares {
    /// Prepares for blocks with these totals (samples or period, any unit, in order of time).
    /// `None` with fewer than [`MIN_BLOCKS`], with a total that is not positive, or where an
    /// entry is negative or not finite.
    pub fn new(totals: &[f64]) -> Option<Self> {
        let total: f64 = totals.iter().sum();
        let usable = totals.iter().all(|&t| t.is_finite() && t >= 0.0);
        if totals.len() < MIN_BLOCKS || !usable || !total.is_finite() || total <= 0.0 {
            return None;
        }
        Some(Self { totals: totals.to_vec(), total })
    }

    /// The share `sum(parts)` over the sum of totals. `None` where the lengths differ, a part is
    /// negative or not finite, or nearly all is in a few blocks.
    pub fn share(&self, parts: &[f64]) -> Option<Share> {
        let usable = parts.iter().all(|&p| p.is_finite() && p >= 0.0);
        if parts.len() != self.totals.len() || !usable {
            return None;
        }
        let share = parts.iter().sum::<f64>() / self.total;
        let influence = |(part, total): (&f64, &f64)| ((part - share * total) / self.total, *total);
        let long_run = LongRun::of(parts.iter().zip(&self.totals).map(influence))?;
        let interval = long_run.is_enough_of_many().then(|| wilson(share, &long_run));
        Some(Share { share, interval, long_run })
    }

    /// The 95 % interval of a share that is known by itself alone; `None` where its phases are too long.
    pub fn interval(&self, parts: &[f64]) -> Option<Interval> {
        self.share(parts).filter(|share| share.long_run.is_enough())?.interval
    }
}

/// Of a share that is known as well as from `p (1 - p) / variance` independent samples.
fn wilson(share: f64, long_run: &LongRun) -> Interval {
    let t = t_quantile(0.5 + LEVEL / 2.0, long_run.freedom);
    let binomial = share * (1.0 - share);
    // Rounding leaves some variance to what has none.
    let is_certain = long_run.variance <= (share * 1e-12).powi(2);
    let (low, high) = if is_certain {
        (share, share)
    } else if binomial <= 0.0 {
        // Parts of a total that is no count can exceed it.
        let half = t * long_run.variance.sqrt();
        ((share - half).max(0.0), share + half)
    } else {
        let extra = t * t * long_run.variance / binomial;
        let center = (share + extra / 2.0) / (1.0 + extra);
        let half =
            t * (long_run.variance * (1.0 + extra / (4.0 * binomial))).sqrt() / (1.0 + extra);
        ((center - half).clamp(0.0, share), (center + half).clamp(share, 1.0))
    };
    Interval { low, high, level: LEVEL }
}

/// 95 % interval of `sum(part) / sum(total)` over blocks of time `(part, total)`, in order of
/// time. `None` with fewer than [`MIN_BLOCKS`] blocks, with entries that are negative or not
/// finite, or where phases are too long for one. For many parts of one total, use [`Shares`].
pub fn share_over_time(blocks: &[(f64, f64)]) -> Option<Interval> {
    let (parts, totals): (Vec<f64>, Vec<f64>) = blocks.iter().copied().unzip();
    Shares::new(&totals)?.interval(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn too_few_or_unusable_blocks_give_no_interval() {
        assert_eq!(share_over_time(&[(1.0, 2.0); 29]), None);
        assert_eq!(share_over_time(&[(0.0, 0.0); 40]), None);
        assert_eq!(share_over_time(&[(f64::NAN, 1.0); 40]), None);
        assert_eq!(share_over_time(&[(1.0, f64::INFINITY); 40]), None);
        assert_eq!(share_over_time(&[(-1.0, 1.0); 40]), None);
        assert!(share_over_time(&[(1.0, 2.0); 30]).is_some());
    }

    #[test]
    fn a_constant_share_has_no_width() {
        let blocks: Vec<_> = (1..=60).map(|i| (f64::from(i), 4.0 * f64::from(i))).collect();
        let interval = share_over_time(&blocks).unwrap();
        assert!((interval.low - 0.25).abs() < 1e-12 && interval.half_width() < 1e-12);
    }

    proptest! {
        #[test]
        fn lies_within_0_and_1_and_round_the_share(
            blocks in prop::collection::vec((0.0..1.0f64, 0.1..100.0f64), 30..120),
            unit in 0.001..1000.0f64,
        ) {
            let blocks: Vec<_> = blocks.iter().map(|(p, t)| (p * t, *t)).collect();
            let Some(interval) = share_over_time(&blocks) else { return Ok(()) };
            let (part, total) = blocks.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            prop_assert!(0.0 <= interval.low && interval.high <= 1.0 + 1e-9);
            prop_assert!(interval.contains(part / total));
            // Another unit of the same samples is the same share.
            let scaled: Vec<_> = blocks.iter().map(|(p, t)| (p * unit, t * unit)).collect();
            let other = share_over_time(&scaled).unwrap();
            prop_assert!((interval.low - other.low).abs() < 1e-9);
            prop_assert!((interval.high - other.high).abs() < 1e-9);
        }
    }
}
