//! Interval of a share of samples: part over total, from blocks of time.
//!
//! Samples of a running program are not independent: phases last longer than a sampling period,
//! so a binomial interval of a function's share is far too narrow. Blocks of time are nearly
//! independent once they are longer than a phase; what is left between neighbours is covered by
//! resampling runs of adjacent blocks.
//!
//! Method: circular block bootstrap (Politis & Romano 1992) of the ratio of sums. A run is at
//! least n^(1/3) blocks, the rate-optimal order (Hall, Horowitz & Jing 1995), and longer where
//! the part's own autocorrelation asks for it (Politis & White 2004, with a first-order
//! autoregression as the model). Percentile levels are widened for the few runs that n blocks
//! make ("expanded percentile", Hesterberg 2015, The American Statistician 69, section 4). The
//! percentile form keeps a share inside 0..=1. Coverage is checked by simulation in the tests.

use crate::interval::{Interval, LEVEL};
use crate::{dist, order};

/// Fewer blocks than this give no interval.
pub const MIN_BLOCKS: usize = 30;

const RESAMPLES: usize = 1000;
const SEED: u64 = 0x7368_6172_6500_0001;

/// Run lengths prepared, as multiples of the shortest.
const LENGTHS: [usize; 3] = [1, 2, 4];

/// Runs a set of blocks must make at least; fewer say nothing about their own spread.
const MIN_RUNS: usize = 5;

/// The resamples of one set of blocks, drawn once and used for every part (function, module) of
/// the same total. One interval then costs `resamples x blocks` multiplications, and the parts'
/// intervals belong together.
#[derive(Debug, Clone)]
pub struct ShareBootstrap {
    totals: Vec<f64>,
    total: f64,
    /// By ascending run length.
    draws: Vec<Draws>,
}

/// Resamples made of runs of one length.
#[derive(Debug, Clone)]
struct Draws {
    run_length: usize,
    /// How often each resample took each block; row per resample.
    counts: Vec<f32>,
    /// Total of each resample.
    totals: Vec<f64>,
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
        let shortest = (totals.len() as f64).cbrt().ceil() as usize;
        let draws = LENGTHS
            .iter()
            .map(|factor| (factor * shortest).min(totals.len() / MIN_RUNS))
            .map(|run_length| Draws::new(totals, run_length))
            .collect();
        Some(Self { totals: totals.to_vec(), total, draws })
    }

    /// The 95 % interval of `sum(parts)` over the sum of totals. `None` where the lengths differ
    /// or a part is negative or not finite.
    pub fn interval(&self, parts: &[f64]) -> Option<Interval> {
        let usable = parts.iter().all(|&p| p.is_finite() && p >= 0.0);
        if parts.len() != self.totals.len() || !usable {
            return None;
        }
        let share = parts.iter().sum::<f64>() / self.total;
        let wanted = wanted_run_length(parts, &self.totals, share);
        let draws =
            self.draws.iter().find(|d| d.run_length as f64 >= wanted).or(self.draws.last())?;
        let shares = draws.shares(parts);
        let tail = dist::expanded_tail(LEVEL, parts.len() as f64 / draws.run_length as f64);
        // Resampling cannot leave out the estimate itself, rounding can.
        Some(Interval {
            low: order::quantile_sorted(&shares, tail)?.min(share),
            high: order::quantile_sorted(&shares, 1.0 - tail)?.max(share),
            level: LEVEL,
        })
    }
}

impl Draws {
    fn new(totals: &[f64], run_length: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(SEED);
        let mut this = Self { run_length, counts: Vec::new(), totals: Vec::new() };
        for _ in 0..RESAMPLES {
            let counts = draw(&mut rng, totals.len(), run_length);
            let drawn = dot(&counts, totals);
            // Only where nearly all blocks are empty; such a resample says nothing.
            if drawn > 0.0 {
                this.counts.extend_from_slice(&counts);
                this.totals.push(drawn);
            }
        }
        this
    }

    /// The share in each resample, ascending.
    fn shares(&self, parts: &[f64]) -> Vec<f64> {
        let rows = self.counts.chunks_exact(parts.len());
        let mut shares: Vec<f64> =
            rows.zip(&self.totals).map(|(counts, total)| dot(counts, parts) / total).collect();
        shares.sort_unstable_by(f64::total_cmp);
        shares
    }
}

/// 95 % interval of `sum(part) / sum(total)` over blocks of time `(part, total)`, in order of
/// time. `None` with fewer than [`MIN_BLOCKS`] blocks or with entries that are negative or not
/// finite. Equal input gives equal output. For many parts of one total, use [`ShareBootstrap`].
pub fn block_bootstrap_share(blocks: &[(f64, f64)]) -> Option<Interval> {
    let (parts, totals): (Vec<f64>, Vec<f64>) = blocks.iter().copied().unzip();
    ShareBootstrap::new(&totals)?.interval(&parts)
}

/// The run length, in blocks, that is best for a mean of a first-order autoregression with the
/// lag-1 correlation ρ of what the ratio leaves over: (6 ρ² n / (1 - ρ²)²)^(1/3), Politis & White
/// 2004, equation 9 with its spectral terms written out. Anticorrelation asks for nothing.
fn wanted_run_length(parts: &[f64], totals: &[f64], share: f64) -> f64 {
    let rest: Vec<f64> = parts.iter().zip(totals).map(|(p, t)| p - share * t).collect();
    let n = rest.len() as f64;
    let variance: f64 = rest.iter().map(|r| r * r).sum();
    if variance <= 0.0 {
        return 0.0;
    }
    let neighbours: f64 = rest.windows(2).map(|w| w[0] * w[1]).sum();
    let seen = neighbours / variance;
    // A short series shows too little correlation (Kendall 1954).
    let rho = (seen + (1.0 + 3.0 * seen) / n).clamp(0.0, 0.95);
    (6.0 * rho * rho * n / (1.0 - rho * rho).powi(2)).cbrt()
}

/// How often a resample takes each block: whole runs from random starts, wrapping round, the
/// last one cut so that every resample has as many blocks as there are.
fn draw(rng: &mut fastrand::Rng, blocks: usize, run_length: usize) -> Vec<f32> {
    let mut counts = vec![0.0; blocks];
    let mut left = blocks;
    while left > 0 {
        let start = rng.usize(..blocks);
        let length = run_length.min(left);
        for i in 0..length {
            counts[(start + i) % blocks] += 1.0;
        }
        left -= length;
    }
    counts
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
