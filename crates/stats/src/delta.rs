//! Interval of a function of sums, such as a ratio, by the delta method.
//!
//! A function f of sums over observations changes with each observation by about its influence, the
//! slopes of f times what the observation adds to the sums. f is then f(true) plus a sum of influences
//! of mean 0, with a spread that the observations themselves show (Cochran 1977, Sampling Techniques,
//! section 6.3; for clusters section 9A). Of a ratio Y / X the influence of an observation is (y - R
//! x) / X.
//!
//! If neighbors are alike, the observations are clusters (blocks of time). A few large ones among
//! many small ones say less than the same number of equal ones: n clusters count as (Σ size)² / Σ
//! size² (Kish 1965), and Student's quantile has one degree less.

use crate::dist::t_quantile;
use crate::interval::LEVEL;
use crate::long_run::{LongRun, MIN_PHASES};

/// Spread of a function of sums.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Variance of the function's value.
    pub variance: f64,
    /// As many clusters of one size would say as much.
    pub clusters: f64,
}

impl Spread {
    /// From influence and size of each cluster; sizes are in any unit. Clusters of size 0 say nothing.
    /// `None` where there are not two.
    pub fn of(clusters: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
        let (mut size, mut sizes) = (0.0, 0.0);
        for (influence, of) in clusters.into_iter().filter(|&(_, of)| of > 0.0) {
            n += 1.0;
            sum += influence;
            squares += influence * influence;
            size += of;
            sizes += of * of;
        }
        (n >= 2.0).then(|| Self::from_sums(n, sum, squares, size * size / sizes))
    }

    /// From the number of observations of one size, and the sums of their influences and of the squares.
    /// `None` where there are not two.
    pub fn of_sums(n: f64, sum: f64, squares: f64) -> Option<Self> {
        (n >= 2.0).then(|| Self::from_sums(n, sum, squares, n))
    }

    fn from_sums(n: f64, sum: f64, squares: f64, clusters: f64) -> Self {
        let around_mean = (squares - sum * sum / n).max(0.0);
        Self { variance: around_mean * n / (n - 1.0), clusters }
    }

    /// The same for a part of a sum whose other parts have similar neighbors: independent observations,
    /// with as many phases as clusters. `None` with less than two clusters' worth of data.
    #[must_use]
    pub fn independent(self) -> Option<LongRun> {
        let (variance, freedom) = (self.variance, self.clusters - 1.0);
        let phases = self.clusters.max(MIN_PHASES);
        let worth = self.clusters;
        (freedom >= 1.0).then_some(LongRun { variance, freedom, worth, phases })
    }

    /// Half the width of the 95 % interval; `None` where less than two clusters' worth is known.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        let freedom = self.clusters - 1.0;
        let half = t_quantile(0.5 + LEVEL / 2.0, freedom.max(1.0)) * self.variance.sqrt();
        (freedom >= 1.0 && half.is_finite()).then_some(half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_students() {
        let values = [4.0, 7.0, 1.0, 3.0, 9.0, 2.0];
        let mean = values.iter().sum::<f64>() / 6.0;
        let half = Spread::of(values.map(|x| ((x - mean) / 6.0, 1.0))).unwrap().half_width();
        let students = crate::mean_interval(&values, LEVEL).unwrap().interval.unwrap();
        assert!((half.unwrap() - students.half_width()).abs() < 1e-9);
        let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| {
            let influence = (x - mean) / 6.0;
            (sum + influence, squares + influence * influence)
        });
        let by_sums = Spread::of_sums(6.0, sum, squares).unwrap().half_width();
        assert!((half.unwrap() - by_sums.unwrap()).abs() < 1e-9);
    }

    #[test]
    fn few_clusters_say_nothing_and_one_large_one_little() {
        assert_eq!(Spread::of([(1.0, 1.0), (5.0, 0.0)]), None);
        let spread = Spread::of([(0.1, 100.0), (-0.1, 1.0), (0.0, 1.0)]).unwrap();
        assert!(spread.clusters < 1.1);
        assert_eq!(spread.half_width(), None);
    }

    /// Ratios of correlated counts in blocks of uneven size.
    #[test]
    fn nineteen_of_twenty_intervals_hold_the_ratio() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut held = 0;
        const RUNS: usize = 2000;
        for _ in 0..RUNS {
            let blocks: Vec<(f64, f64)> = (0..40)
                .map(|_| {
                    let x = 5.0 + 10.0 * rng.f64();
                    let noise: f64 = (0..6).map(|_| rng.f64() - 0.5).sum();
                    (x * (2.0 + noise), x)
                })
                .collect();
            let (y, x) = blocks.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            let ratio = y / x;
            let each = blocks.iter().map(|b| ((b.0 - ratio * b.1) / x, b.1));
            let half = Spread::of(each).unwrap().half_width().unwrap();
            held += usize::from((ratio - 2.0).abs() <= half);
        }
        let share = held as f64 / RUNS as f64;
        assert!((0.935..0.965).contains(&share), "{share}");
    }
}
