//! Serially correlated runs: one after the other on a machine that warms up, or with neighbors that come
//! and go.
//!
//! Then n runs say less about the mean than n independent ones. How much less is estimated from the
//! correlation of neighbors in time within each sample (first order; Kendall 1954, Biometrika 41, for its
//! bias), as in a process where each value depends on the one before: the variance of the mean grows by
//! `1 + 2 Σ (1 - k/n) ρ^k`, and the degrees of freedom shrink by the same (Bayley & Hammersley 1946, Journal
//! of the Royal Statistical Society 8, supplement). A drift looks like a correlation near 1. A drift between
//! two samples, but within neither, cannot be detected.

use crate::mean::mean;
use crate::samples::TwoSamples;

/// With fewer values a side, the correlation of all figures together is not known.
const MIN_VALUES: usize = 5;
/// With fewer, that of a figure alone is known too badly to be of use.
const MIN_VALUES_OF_ONE: usize = 10;
/// A drift looks like this correlation.
const LARGEST: f64 = 0.99;
/// Fewer independent values than this have no spread to go by.
const MIN_INDEPENDENT: f64 = 1.5;

/// What the mean of values says that depend on those before them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dependence {
    /// The variance of a value is this many times that within the sample.
    pub(crate) of_variance: f64,
    /// As many independent values would say as much.
    pub(crate) independent: f64,
}

/// The average correlation of neighbors in time of all metrics within each sample; 0 if it is not
/// positive or unknown. The dependence of runs comes from the machine, so all metrics together show it
/// better than one.
#[must_use]
pub fn correlation_in_time(figures: &[TwoSamples]) -> f64 {
    let of = |figure: &TwoSamples| {
        let (a, b) = figure.scaled()?.sides();
        of_one(&a, &b)
    };
    mean(&figures.iter().filter_map(of).collect::<Vec<f64>>()).unwrap_or(0.0).max(0.0)
}

/// That of one figure, no less than that of all.
pub(crate) fn at_least(of_all: f64, a: &[f64], b: &[f64]) -> f64 {
    let enough = a.len().min(b.len()) >= MIN_VALUES_OF_ONE;
    of_one(a, b).filter(|_| enough).unwrap_or(0.0).max(of_all)
}

/// Less its bias; `None` where it cannot be known.
fn of_one(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len().min(b.len()) < MIN_VALUES {
        return None;
    }
    let (mut squares, mut products) = (0.0, 0.0);
    for sample in [a, b] {
        let center = mean(sample)?;
        squares += sample.iter().map(|value| (value - center).powi(2)).sum::<f64>();
        products += sample.windows(2).map(|two| (two[0] - center) * (two[1] - center)).sum::<f64>();
    }
    let n = (a.len() + b.len()) as f64 / 2.0;
    let seen = products / squares;
    seen.is_finite().then(|| (seen + (1.0 + 3.0 * seen) / n).min(LARGEST))
}

/// What `n` values say if neighbors are correlated by `rho`; `None` where that is too little.
pub(crate) fn dependence(n: usize, rho: f64) -> Option<Dependence> {
    let of = n as f64;
    if rho <= 0.0 {
        return Some(Dependence { of_variance: 1.0, independent: of });
    }
    let sum: f64 = (1..n).map(|k| (1.0 - k as f64 / of) * rho.powi(k as i32)).sum();
    let growth = 1.0 + 2.0 * sum;
    let independent = of / growth;
    (independent >= MIN_INDEPENDENT)
        .then(|| Dependence { of_variance: (of - 1.0) / (of - growth), independent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_looks_like_dependence_and_noise_does_not() {
        let line: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(of_one(&line, &line), Some(LARGEST));
        assert_eq!(dependence(20, LARGEST), None);
        let alternating: Vec<f64> = (0..20).map(|at| f64::from(at % 2)).collect();
        assert_eq!(at_least(0.0, &alternating, &alternating), 0.0);
        assert_eq!(at_least(0.3, &alternating, &alternating), 0.3);
        assert_eq!(of_one(&line[..4], &line[..4]), None);
        assert_eq!(of_one(&[1.0; 9], &[1.0; 9]), None);
    }

    #[test]
    fn dependent_values_are_worth_fewer() {
        let none = dependence(20, 0.0).unwrap();
        assert_eq!((none.of_variance, none.independent), (1.0, 20.0));
        // Of infinitely many, (1 - ρ) / (1 + ρ) are left.
        let half = dependence(1000, 0.5).unwrap();
        assert!((half.independent - 333.3).abs() < 2.0, "{half:?}");
        assert!((half.of_variance - 1.0).abs() < 0.01, "{half:?}");
    }
}
