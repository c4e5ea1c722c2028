//! One metric in pairs of runs that were made one after the other, in random order.
//!
//! What both runs of a pair share (temperature, neighbors, the time of day) cancels in their difference.
//! What changes from the first run of a pair to the second does not: under drift, the later run has
//! more. So each difference is modeled as
//!
//! ```text
//!  difference = effect + drift × lag + rest        lag: runs from the first side's to the second side's
//! ```
//!
//! by least squares. If orders were drawn at random, both equally often, the rest has a random sign that
//! is independent from pair to pair, however runs depend on earlier ones: Student's interval of the
//! effect needs no model of drift or autocorrelation (Freedman 2008, Advances in Applied Mathematics 40;
//! Lin 2013, Annals of Applied Statistics 7).

use crate::dist::{t_quantile, t_two_sided};
use crate::interval::{Estimate, Interval};
use crate::mean::mean;
use crate::moderate::Contrast;

/// Fewer pairs do not show the effect apart from the drift.
const MIN_PAIRS: usize = 3;
/// Logarithms and quotients are not known better than this.
const ROUNDING: f64 = 1e-12;

/// The values of a metric in the two runs of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Number of the pair: metrics with the same number were measured in the same runs.
    pub number: usize,
    /// In the run of the first side.
    pub a: f64,
    /// In the run of the second side.
    pub b: f64,
    /// How many runs later that of the second side was made; negative if it was made first.
    pub lag: f64,
}

/// One metric in all pairs of runs, by ascending number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pairs {
    /// The pairs.
    pub list: Vec<Pair>,
    /// The least step between two values, as [`TwoSamples::resolution`](crate::TwoSamples::resolution).
    pub resolution: f64,
}

/// Least squares of differences over lags.
struct LineFit {
    /// The effect: the difference at no lag.
    effect: f64,
    /// Variance of what is left of a difference.
    variance: f64,
    /// Degrees of freedom of it.
    freedom: f64,
    /// The variance of the effect is this many times that.
    scale: f64,
    /// What is left of each difference.
    rest: Vec<f64>,
}

impl Pairs {
    /// Whether all runs have one value.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        let mut all = self.list.iter().flat_map(|pair| [pair.a, pair.b]);
        all.next().is_some_and(|first| all.all(|value| value == first))
    }

    /// Whether all pairs ran in the same order, so that a drift cannot be distinguished from an effect.
    #[must_use]
    pub fn is_of_one_order(&self) -> bool {
        let lags = || self.list.iter().map(|pair| pair.lag);
        lags().any(|lag| lag != 0.0) && lags().all(|lag| Some(lag) == lags().next())
    }

    /// How much larger the second side is. `None` without pairs; no interval with fewer than three or
    /// where all ran in one order. `n` is the number of pairs.
    #[must_use]
    pub fn difference(&self, level: f64) -> Option<Estimate> {
        let differences: Vec<f64> = self.list.iter().map(|pair| pair.b - pair.a).collect();
        self.estimate(&differences, level)
    }

    /// Mean of the second side over mean of the first, with the interval of the difference of logarithms
    /// (delta method). `None` where a value is not above 0.
    #[must_use]
    pub fn ratio(&self, level: f64) -> Option<Estimate> {
        let sides = || self.list.iter().flat_map(|pair| [pair.a, pair.b]);
        if !sides().all(|value| value.is_finite() && value > 0.0) {
            return None;
        }
        let of = |side: fn(&Pair) -> f64| mean(&self.list.iter().map(side).collect::<Vec<f64>>());
        let (mean_a, mean_b) = (of(|pair| pair.a)?, of(|pair| pair.b)?);
        let relative: Vec<f64> =
            self.list.iter().map(|pair| pair.b / mean_b - pair.a / mean_a).collect();
        let log = self.estimate(&relative, level)?;
        let shift = (mean_b / mean_a).ln();
        let back = |value: f64| (value + shift).exp();
        let interval = log.interval.map(|interval| interval.map(back));
        Some(Estimate { value: back(log.value), interval, n: log.n })
    }

    fn estimate(&self, differences: &[f64], level: f64) -> Option<Estimate> {
        let n = differences.len();
        let plain = mean(differences).filter(|value| value.is_finite())?;
        let Some(fit) = self.fit(differences) else {
            return Some(Estimate { value: plain, interval: None, n });
        };
        let reach = t_quantile(0.5 + level / 2.0, fit.freedom) * (fit.variance * fit.scale).sqrt();
        let interval = reach.is_finite().then_some(Interval {
            low: fit.effect - reach,
            high: fit.effect + reach,
            level,
        });
        Some(Estimate { value: fit.effect, interval, n })
    }

    /// `None` with too few pairs, or where they do not show the effect apart from the drift.
    fn fit(&self, differences: &[f64]) -> Option<LineFit> {
        let n = differences.len() as f64;
        if differences.len() < MIN_PAIRS || self.is_of_one_order() {
            return None;
        }
        let center = mean(differences)?;
        let lag = mean(&self.list.iter().map(|pair| pair.lag).collect::<Vec<f64>>())?;
        let (mut xx, mut xy) = (0.0, 0.0);
        for (pair, difference) in self.list.iter().zip(differences) {
            xx += (pair.lag - lag).powi(2);
            xy += (pair.lag - lag) * (difference - center);
        }
        // Where no lags are known, they are all 0.
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        let freedom = if xx > 0.0 { n - 2.0 } else { n - 1.0 };
        let effect = center - slope * lag;
        // Equal differences have a spread of rounding errors else.
        let varies = differences.iter().any(|difference| *difference != differences[0]);
        let rest: Vec<f64> = self
            .list
            .iter()
            .zip(differences)
            .map(|(pair, difference)| match varies {
                true => difference - effect - slope * pair.lag,
                false => 0.0,
            })
            .collect();
        let variance = rest.iter().map(|left| left * left).sum::<f64>() / freedom;
        let scale = 1.0 / n + if xx > 0.0 { lag * lag / xx } else { 0.0 };
        Some(LineFit { effect, variance, freedom, scale, rest })
    }

    /// What a test needs, on logarithms where all values are positive, else relative to their mean size.
    pub(crate) fn contrast(&self) -> Option<Contrast> {
        let all = || self.list.iter().flat_map(|pair| [pair.a, pair.b]);
        if self.is_constant() || !all().all(f64::is_finite) {
            return None;
        }
        let size = all().map(f64::abs).sum::<f64>() / (2 * self.list.len()) as f64;
        let is_log = all().all(|value| value > 0.0);
        let scaled = |pair: &Pair| match is_log {
            true => pair.b.ln() - pair.a.ln(),
            false => (pair.b - pair.a) / size,
        };
        let fit = self.fit(&self.list.iter().map(scaled).collect::<Vec<f64>>())?;
        // A value rounded to a step has the variance of an even distribution over it, here twice.
        let step = self.resolution / size;
        let variance = fit.variance.max(step * step / 6.0).max(ROUNDING * ROUNDING);
        // Without rest and step there is no error to test with.
        let error = if fit.variance.max(step) > 0.0 { (variance * fit.scale).sqrt() } else { 0.0 };
        let numbered = self.list.iter().zip(&fit.rest).map(|(pair, left)| (pair.number, *left));
        (error > 0.0).then(|| Contrast {
            within: [numbered.collect(), Vec::new()],
            is_log,
            shift: fit.effect,
            variance,
            freedom: fit.freedom,
            scale: fit.scale,
            own: t_two_sided(fit.effect / error, fit.freedom),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LEVEL, paired_tests};

    fn pairs(list: &[(f64, f64, f64)]) -> Pairs {
        let pair = |(number, &(a, b, lag))| Pair { number, a, b, lag };
        Pairs { list: list.iter().enumerate().map(pair).collect(), resolution: 0.0 }
    }

    /// A drift of 1 per run, an effect of 0.5, and a step of the machine between pairs.
    fn drifting() -> Pairs {
        let mut list = Vec::new();
        for (round, first) in [1.0, -1.0, -1.0, 1.0, 1.0, -1.0].into_iter().enumerate() {
            let at = 100.0 + 2.0 * round as f64 + if round > 2 { 50.0 } else { 0.0 };
            let (a, b) = if first > 0.0 { (at, at + 1.0) } else { (at + 1.0, at) };
            list.push((a, b + 0.5, first));
        }
        pairs(&list)
    }

    #[test]
    fn drift_is_not_taken_for_an_effect() {
        let got = drifting().difference(LEVEL).unwrap();
        assert!((got.value - 0.5).abs() < 1e-9 && got.n == 6);
        assert!(got.interval.unwrap().half_width() < 1e-9);
        let ratio = drifting().ratio(LEVEL).unwrap();
        assert!(ratio.interval.unwrap().contains(ratio.value) && ratio.value > 1.0);
    }

    #[test]
    fn without_lags_it_is_students_paired_interval() {
        let sleep = [
            (0.7, 1.9),
            (-1.6, 0.8),
            (-0.2, 1.1),
            (-1.2, 0.1),
            (-0.1, -0.1),
            (3.4, 4.4),
            (3.7, 5.5),
            (0.8, 1.6),
            (0.0, 4.6),
            (2.0, 3.4),
        ];
        let list: Vec<(f64, f64, f64)> = sleep.iter().map(|(a, b)| (*a, *b, 0.0)).collect();
        let ours = pairs(&list).difference(LEVEL).unwrap();
        let known = crate::paired_difference(&sleep, LEVEL).unwrap();
        assert!((ours.value - known.value).abs() < 1e-12);
        let (ours, known) = (ours.interval.unwrap(), known.interval.unwrap());
        assert!((ours.low - known.low).abs() < 1e-9 && (ours.high - known.high).abs() < 1e-9);
        // The p-value that textbooks have for these data.
        let p = paired_tests(&[pairs(&list)])[0].unwrap().p;
        assert!((p - 0.002_833).abs() < 1e-5, "{p}");
    }

    #[test]
    fn what_cannot_be_estimated_has_no_interval_and_no_test() {
        let one_order = pairs(&[(1.0, 2.0, 1.0), (1.1, 2.2, 1.0), (1.0, 2.1, 1.0)]);
        assert!(one_order.is_of_one_order());
        assert_eq!(one_order.difference(LEVEL).unwrap().interval, None);
        let two = pairs(&[(1.0, 2.0, 1.0), (1.1, 2.2, -1.0)]);
        assert_eq!(two.difference(LEVEL).unwrap().interval, None);
        let same = pairs(&[(5.0, 5.0, 1.0), (5.0, 5.0, -1.0), (5.0, 5.0, 1.0)]);
        assert_eq!(paired_tests(&[one_order, two, same]), [None; 3]);
        assert_eq!(Pairs::default().difference(LEVEL), None);
    }

    #[test]
    fn counts_that_never_vary_are_known_to_within_one() {
        let list = |b: f64| {
            let order = |at: u32| if at.is_multiple_of(2) { 1.0 } else { -1.0 };
            let list: Vec<(f64, f64, f64)> = (0..8).map(|at| (500.0, b, order(at))).collect();
            Pairs { resolution: 1.0, ..pairs(&list) }
        };
        let tested = paired_tests(&[list(600.0), list(501.0)]);
        assert!(tested[0].unwrap().p < 1e-10 && tested[1].unwrap().p > 1e-4, "{tested:?}");
    }
}
