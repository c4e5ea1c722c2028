//! Interval of a share of samples: part over total, from blocks of time.
//!
//! Samples of a running program are not independent: phases last longer than a sampling period,
//! so a binomial interval of a function's share is far too narrow. Blocks of time are nearly
//! independent once they are longer than a phase; what is left between neighbours is covered by
//! resampling runs of adjacent blocks.
//!
//! Method: circular block bootstrap (Politis & Romano 1992) of the ratio of sums, in runs of
//! about n^(1/3) blocks, the rate-optimal order (Hall, Horowitz & Jing 1995), with the
//! percentile levels widened for the few runs that n blocks make ("expanded percentile",
//! Hesterberg 2015, The American Statistician 69, section 4). The percentile form keeps a share
//! inside 0..=1. Coverage is checked by simulation in the tests.

use crate::interval::{Interval, LEVEL};
use crate::{dist, order};

/// Fewer blocks than this give no interval.
pub const MIN_BLOCKS: usize = 30;

const RESAMPLES: usize = 1000;
const SEED: u64 = 0x7368_6172_6500_0001;

/// The resamples of one set of blocks, drawn once and used for every part (function, module) of
/// the same total. One interval then costs `resamples x blocks` multiplications, and the parts'
/// intervals belong together.
#[derive(Debug, Clone)]
pub struct ShareBootstrap {
    /// How often each resample took each block; row per resample.
    counts: Vec<f32>,
    /// Total of each resample.
    totals: Vec<f64>,
    blocks: usize,
    total: f64,
}

impl ShareBootstrap {
    /// Prepares for blocks with these totals (samples or period, any unit, in order of time).
    /// `None` with fewer than [`MIN_BLOCKS`], with a total that is not positive, or where an
    /// entry is negative or not finite.
    pub fn new(totals: &[f64]) -> Option<Self> {
        let total: f64 = totals.iter().sum();
        let usable = totals.iter().all(|&t| t.is_finite() && t >= 0.0);
        if totals.len() < MIN_BLOCKS || !usable || !total.is_finite() || total <= 0.0 {
            return None;
        }
        let mut this = Self { counts: Vec::new(), totals: Vec::new(), blocks: totals.len(), total };
        let mut rng = fastrand::Rng::with_seed(SEED);
        for _ in 0..RESAMPLES {
            let counts = draw(&mut rng, totals.len());
            let drawn: f64 = counts.iter().zip(totals).map(|(&c, t)| f64::from(c) * t).sum();
            // Only where nearly all blocks are empty; such a resample says nothing.
            if drawn > 0.0 {
                this.counts.extend_from_slice(&counts);
                this.totals.push(drawn);
            }
        }
        Some(this)
    }

    /// The 95 % interval of `sum(parts)` over the sum of totals. `None` where the lengths differ
    /// or a part is negative or not finite.
    pub fn interval(&self, parts: &[f64]) -> Option<Interval> {
        if parts.len() != self.blocks || !parts.iter().all(|&p| p.is_finite() && p >= 0.0) {
            return None;
        }
        let mut shares: Vec<f64> = self
            .counts
            .chunks_exact(self.blocks)
            .zip(&self.totals)
            .map(|(counts, total)| dot(counts, parts) / total)
            .collect();
        shares.sort_unstable_by(f64::total_cmp);
        let tail = expanded_tail(self.blocks);
        // Resampling cannot leave out the estimate itself, rounding can.
        let share = parts.iter().sum::<f64>() / self.total;
        Some(Interval {
            low: order::quantile_sorted(&shares, tail)?.min(share),
            high: order::quantile_sorted(&shares, 1.0 - tail)?.max(share),
            level: LEVEL,
        })
    }
}

/// 95 % interval of `sum(part) / sum(total)` over blocks of time `(part, total)`, in order of
/// time. `None` with fewer than [`MIN_BLOCKS`] blocks or with entries that are negative or not
/// finite. Equal input gives equal output. For many parts of one total, use [`ShareBootstrap`].
pub fn block_bootstrap_share(blocks: &[(f64, f64)]) -> Option<Interval> {
    let (parts, totals): (Vec<f64>, Vec<f64>) = blocks.iter().copied().unzip();
    ShareBootstrap::new(&totals)?.interval(&parts)
}

/// How many adjacent blocks are drawn together.
fn run_length(blocks: usize) -> usize {
    ((blocks as f64).cbrt().ceil() as usize).max(1)
}

/// How often a resample takes each block: whole runs from random starts, wrapping round, the
/// last one cut so that every resample has as many blocks as there are.
fn draw(rng: &mut fastrand::Rng, blocks: usize) -> Vec<f32> {
    let mut counts = vec![0.0; blocks];
    let mut left = blocks;
    while left > 0 {
        let start = rng.usize(..blocks);
        let length = run_length(blocks).min(left);
        for i in 0..length {
            counts[(start + i) % blocks] += 1.0;
        }
        left -= length;
    }
    counts
}

/// The lower percentile level that has nominal coverage where only `blocks / run_length` runs are
/// independent: Φ(-sqrt(m / (m - 1)) t(1 - α/2, m - 1)).
fn expanded_tail(blocks: usize) -> f64 {
    let runs = blocks as f64 / run_length(blocks) as f64;
    let t = dist::t_quantile(0.5 + LEVEL / 2.0, runs - 1.0);
    dist::normal_cdf(-(runs / (runs - 1.0)).sqrt() * t)
}

/// Four sums at once: a single one waits for each addition.
fn dot(counts: &[f32], parts: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (counts4, counts1) = counts.as_chunks::<4>();
    let (parts4, parts1) = parts.as_chunks::<4>();
    for (c, p) in counts4.iter().zip(parts4) {
        for i in 0..4 {
            sums[i] += f64::from(c[i]) * p[i];
        }
    }
    let rest: f64 = counts1.iter().zip(parts1).map(|(&c, p)| f64::from(c) * p).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn too_few_or_unusable_blocks_give_no_interval() {
        assert_eq!(block_bootstrap_share(&[(1.0, 2.0); 29]), None);
        assert_eq!(block_bootstrap_share(&[(0.0, 0.0); 40]), None);
        assert_eq!(block_bootstrap_share(&[(f64::NAN, 1.0); 40]), None);
        assert_eq!(block_bootstrap_share(&[(1.0, f64::INFINITY); 40]), None);
        assert_eq!(block_bootstrap_share(&[(-1.0, 1.0); 40]), None);
        assert!(block_bootstrap_share(&[(1.0, 2.0); 30]).is_some());
    }

    #[test]
    fn a_constant_share_has_no_width() {
        let blocks: Vec<_> = (1..=60).map(|i| (f64::from(i), 4.0 * f64::from(i))).collect();
        let interval = block_bootstrap_share(&blocks).unwrap();
        assert!((interval.low - 0.25).abs() < 1e-12 && interval.half_width() < 1e-12);
    }

    proptest! {
        #[test]
        fn lies_within_0_and_1_and_round_the_share(
            blocks in prop::collection::vec((0.0..1.0f64, 0.1..100.0f64), 30..120),
            unit in 0.001..1000.0f64,
        ) {
            let blocks: Vec<_> = blocks.iter().map(|(p, t)| (p * t, *t)).collect();
            let interval = block_bootstrap_share(&blocks).unwrap();
            let (part, total) = blocks.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            prop_assert!(0.0 <= interval.low && interval.high <= 1.0 + 1e-9);
            prop_assert!(interval.contains(part / total));
            // Another unit of the same samples is the same share.
            let scaled: Vec<_> = blocks.iter().map(|(p, t)| (p * unit, t * unit)).collect();
            let other = block_bootstrap_share(&scaled).unwrap();
            prop_assert!((interval.low - other.low).abs() < 1e-9);
            prop_assert!((interval.high - other.high).abs() < 1e-9);
        }
    }
}
