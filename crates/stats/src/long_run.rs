//! The long-run variance: variance of a sum over time of autocorrelated terms.
//!
//! A program runs in phases, so neighboring blocks of time are alike, and the variance between blocks
//! understates that of their sum. This estimates the spectrum of the blocks' influences near frequency
//! 0: the mean of the squares of their first B cosine transforms, each of which is an almost independent
//! estimate of it. The interval is then Student's with B degrees of freedom (equal-weighted cosine
//! estimate; Lazarus, Lewis, Stock & Watson 2018, Journal of Business & Economic Statistics 36(4)).
//! Batch means need a length that divides the recording, and a Bartlett kernel needs critical values of
//! its own; this has neither, and its intervals hold for few blocks.
//!
//! B follows from the data. Blocks with a memory of time constant τ (in blocks) have a flat spectrum
//! up to about 1/τ, so B is at most a third of the recording's length over 2τ, the number of its
//! independent periods ("phases"). τ is that of an autoregression whose coefficient is the larger of
//! the first autocorrelation and of how fast the autocorrelations decay (noise lowers all of them
//! alike), raised by a standard error. With fewer than [`MIN_PHASES`], neither τ nor the variance can
//! be known, and there is no interval. Autocorrelation that may be chance never withholds one: it only
//! lowers B. Few phases also vary in length, and a recording that happens to have short ones
//! understates both τ and the variance, so the variance is raised by a share of [`RAISE`] over the
//! number of phases.
//!
//! For the same reason, a row must not decide whether it has an interval: of recordings near the limit,
//! those kept would be the ones that show too small a variance. Where a program has many rows, the large
//! ones decide for all ([`MIN_PHASES`]), and a row's own phases withhold its interval only below half of
//! that ([`MIN_OWN_PHASES`]); above, they lower B.
//!
//! All of these are set by simulation (`crates/profile/examples/coverage.rs`; docs/benchmarks.md has its
//! table).
//!
//! A recording that is shorter than one phase cannot show that there are others, with any method.
//!
//! Time is measured by the sizes of the blocks (samples, windows), so blocks of uneven size are
//! weighted by what they contain, and a few large ones count as few (Kish 1965).

use std::f64::consts::PI;

use crate::dist::t_quantile;
use crate::interval::LEVEL;

/// Independent stretches that a recording needs at least.
pub const MIN_PHASES: f64 = 24.0;
/// The same for one of many rows, where others decide whether the recording has enough.
pub const MIN_OWN_PHASES: f64 = 12.0;
/// Variance is raised by this share of itself, over the number of phases.
const RAISE: f64 = 8.0;
/// Blocks' worth needed at least.
const MIN_SIZE: f64 = 10.0;
/// Cosines used: fewer are Student's with 2 degrees or less, more bring nothing.
const COSINES: (f64, f64) = (4.0, 16.0);
/// So many standard errors from 0 an autocorrelation is certain, though many rows are looked at.
const CERTAIN: f64 = 3.5;

/// Long-run variance of a sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongRun {
    /// Variance of the sum of influences.
    pub variance: f64,
    /// Degrees of freedom of that variance.
    pub freedom: f64,
    /// As many blocks of one size would say as much.
    pub worth: f64,
    /// Independent stretches of time; fewer than [`MIN_PHASES`] only where that is beyond doubt.
    pub phases: f64,
}

impl LongRun {
    /// From influence and size of each block, in order of time. Influences sum to about 0; blocks of
    /// size 0 say nothing. `None` where there are fewer than ten blocks' worth.
    #[must_use]
    pub fn of(blocks: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let blocks: Vec<(f64, f64)> = blocks
            .into_iter()
            .filter(|(influence, size)| influence.is_finite() && *size > 0.0)
            .collect();
        let size: f64 = blocks.iter().map(|block| block.1).sum();
        let squares: f64 = blocks.iter().map(|block| block.1 * block.1).sum();
        let worth = size * size / squares;
        // Not a number without blocks.
        if worth.is_nan() || worth < MIN_SIZE {
            return None;
        }
        let (memory, is_correlated) = memory(&blocks);
        let seen = worth / (2.0 * memory).max(1.0);
        let phases = if is_correlated { seen } else { seen.max(MIN_PHASES) };
        let most = (0.4 * worth.powf(2.0 / 3.0)).clamp(COSINES.0, COSINES.1);
        let freedom = (phases / 3.0).floor().clamp(COSINES.0, most.floor());
        // What is left of the spectrum's slope, for an autoregression.
        let width = PI * freedom / blocks.len() as f64 * memory;
        let slope = if width > 0.01 { (width / width.atan()).min(1.3) } else { 1.0 };
        let variance = (1.0 + RAISE / phases) * slope * cosines(&blocks, size, freedom as usize);
        Some(Self { variance, freedom, worth, phases })
    }

    /// Of the sum of independent parts, such as threads: variances and phases add up, and the degrees of
    /// freedom are those of their sum (Satterthwaite 1946). `None` of no part.
    #[must_use]
    pub fn sum(parts: impl IntoIterator<Item = Self>) -> Option<Self> {
        let (mut sum, mut squares) = (None::<Self>, 0.0);
        for part in parts {
            squares += part.variance * part.variance / part.freedom;
            sum = Some(match sum {
                None => part,
                Some(sum) => Self {
                    variance: sum.variance + part.variance,
                    freedom: sum.freedom + part.freedom,
                    worth: sum.worth + part.worth,
                    phases: sum.phases + part.phases,
                },
            });
        }
        let mut sum = sum?;
        if squares > 0.0 {
            sum.freedom = sum.variance * sum.variance / squares;
        }
        Some(sum)
    }

    /// Whether the recording has enough independent stretches for an interval.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.phases >= MIN_PHASES
    }

    /// Whether there are enough for one of many rows of a recording that has enough.
    #[must_use]
    pub fn is_enough_of_many(&self) -> bool {
        self.phases >= MIN_OWN_PHASES
    }

    /// Half the width of the 95 % interval; `None` where phases are too long for one.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        self.is_enough().then(|| self.half()).flatten()
    }

    /// The same for one of many rows of a recording that has enough.
    #[must_use]
    pub fn half_width_of_many(&self) -> Option<f64> {
        self.is_enough_of_many().then(|| self.half()).flatten()
    }

    fn half(&self) -> Option<f64> {
        let half = t_quantile(0.5 + LEVEL / 2.0, self.freedom) * self.variance.sqrt();
        half.is_finite().then_some(half)
    }
}

/// Mean of the squares of the first cosine transforms.
fn cosines(blocks: &[(f64, f64)], size: f64, number: usize) -> f64 {
    let mut sums = vec![0.0; number];
    let mut before = 0.0;
    for (influence, of) in blocks {
        let middle = PI * (before + of / 2.0) / size;
        before += of;
        for (sum, order) in sums.iter_mut().zip(1_u32..) {
            *sum += (middle * f64::from(order)).cos() * influence;
        }
    }
    2.0 * sums.iter().map(|sum| sum * sum).sum::<f64>() / number as f64
}

/// Time constant of the influences' memory, in blocks, and whether it is beyond doubt.
fn memory(blocks: &[(f64, f64)]) -> (f64, bool) {
    let n = blocks.len() as f64;
    let variance: f64 = blocks.iter().map(|block| block.0 * block.0).sum();
    if variance <= 0.0 {
        return (0.0, false);
    }
    // A mean taken from the data lowers each by about 1/n (Kendall 1954).
    let lag = |by: usize| {
        let products: f64 = blocks.windows(by + 1).map(|pair| pair[0].0 * pair[by].0).sum();
        products / variance + 1.0 / n
    };
    let lags = [lag(1), lag(2), lag(3), lag(4)];
    let (near, far) = (lags[..3].iter().sum::<f64>(), lags[1..].iter().sum::<f64>());
    let error = (3.0 / n).sqrt();
    let mut kept = 0.0_f64;
    if near > 1.5 * error {
        kept = (far / near).clamp(0.0, 0.99);
    }
    if lags[0] > 2.0 / n.sqrt() {
        kept = kept.max(lags[0]);
    }
    if kept <= 0.0 {
        return (0.0, false);
    }
    let raised = kept + (1.0 + 3.0 * kept) / n + ((1.0 - kept * kept).max(0.0) / n).sqrt();
    (-1.0 / raised.min(0.995).ln(), near > CERTAIN * error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Box & Muller 1958.
    fn normal(rng: &mut fastrand::Rng) -> f64 {
        let (u, v) = (1.0 - rng.f64(), rng.f64());
        (-2.0 * u.ln()).sqrt() * (2.0 * PI * v).cos()
    }

    /// How often the interval of a mean of 0 covers it, and how often there is none.
    fn coverage(n: usize, rho: f64, noise: f64) -> (f64, f64) {
        let mut rng = fastrand::Rng::with_seed(11);
        let (mut held, mut all) = (0.0, 0.0);
        const RUNS: usize = 1000;
        for _ in 0..RUNS {
            let mut state = normal(&mut rng);
            let values: Vec<f64> = (0..n)
                .map(|_| {
                    state = rho * state + (1.0 - rho * rho).sqrt() * normal(&mut rng);
                    state + noise * normal(&mut rng)
                })
                .collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            let each = values.iter().map(|value| ((value - mean) / n as f64, 1.0));
            if let Some(half) = LongRun::of(each).and_then(|found| found.half_width()) {
                all += 1.0;
                held += f64::from(u8::from(mean.abs() <= half));
            }
        }
        (held / all, 1.0 - all / RUNS as f64)
    }

    #[test]
    fn blocks_that_remember_keep_their_coverage() {
        for (n, rho, noise) in
            [(200, 0.0, 0.0), (60, 0.0, 0.0), (200, 0.5, 0.0), (200, 0.6, 2.0), (256, 0.7, 0.5)]
        {
            let (held, none) = coverage(n, rho, noise);
            println!("{n} blocks, {rho}, noise {noise}: {held:.3}, none {none:.3}");
            assert!((0.92..=0.975).contains(&held), "{n} {rho} {noise}: {held}");
            assert!(none < 0.3, "{n} {rho} {noise}: none in {none}");
        }
    }

    #[test]
    fn parts_of_a_sum_add_their_variances() {
        let part = |variance, freedom| LongRun { variance, freedom, worth: 60.0, phases: 20.0 };
        let sum = LongRun::sum([part(2.0, 4.0), part(2.0, 4.0)]).unwrap();
        assert_eq!((sum.variance, sum.phases), (4.0, 40.0));
        assert!((sum.freedom - 8.0).abs() < 1e-12);
        let one = LongRun::sum([part(3.0, 5.0), part(0.0, 9.0)]).unwrap();
        assert!((one.freedom - 5.0).abs() < 1e-12, "what has no variance adds none");
        assert_eq!(LongRun::sum([]), None);
    }

    #[test]
    fn phases_as_long_as_the_recording_leave_no_interval() {
        let (_, none) = coverage(200, 0.98, 0.0);
        assert!(none > 0.97, "{none}");
        let phases = |each: f64| {
            (0..200).map(move |at| (if f64::from(at) < each { 1.0 } else { -1.0 }, 1.0))
        };
        let found = LongRun::of(phases(100.0)).unwrap();
        assert!(!found.is_enough() && found.half_width().is_none(), "{found:?}");
    }

    #[test]
    fn few_blocks_and_one_large_one_say_nothing() {
        assert_eq!(LongRun::of([(1.0, 1.0); 9]), None);
        assert_eq!(LongRun::of((0..50).map(|at| (0.1, if at == 7 { 1000.0 } else { 1.0 }))), None);
        let flat = LongRun::of([(0.0, 2.0); 40]).unwrap();
        assert_eq!(flat.half_width(), Some(0.0));
    }
}
