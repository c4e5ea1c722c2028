//! One metric in two independent samples of runs, on the scale on which it is tested.

use crate::dist::t_quantile;
use crate::interval::{Estimate, Interval};
use crate::mean::{difference_of_means, mean, ratio_of_means, variance};
use crate::serial::{at_least, dependence};

/// The values of a metric in the runs of two samples. Runs are numbered within each sample,
/// ascending: metrics with a value of the same number were measured together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TwoSamples {
    /// Number of the run and value, first sample.
    pub a: Vec<(usize, f64)>,
    /// Number of the run and value, second sample.
    pub b: Vec<(usize, f64)>,
    /// The least step between two values: 1 for a count, 1 / units for a count per unit; 0 where
    /// that is not known. Values that are all alike are then known only to within one.
    pub resolution: f64,
}

impl TwoSamples {
    /// The values of both samples, without the numbers of runs.
    pub fn values(&self) -> (Vec<f64>, Vec<f64>) {
        let of = |sample: &[(usize, f64)]| sample.iter().map(|&(_, value)| value).collect();
        (of(&self.a), of(&self.b))
    }

    /// How much larger the second side is on average: [`difference_of_means`], less sure where runs depend
    /// on those before them, by this correlation at least ([`correlation_in_time`](crate::correlation_in_time)).
    pub fn difference(&self, of_all: f64, level: f64) -> Option<Estimate> {
        let (a, b) = self.values();
        let plain = difference_of_means(&a, &b, level)?;
        Some(match at_least(of_all, &a, &b) {
            rho if rho > 0.0 => widened(plain, (&a, &b), rho, level, plain.value),
            _ => plain,
        })
    }

    /// [`ratio_of_means`], less sure where runs depend on those before them, as [`Self::difference`].
    pub fn ratio(&self, of_all: f64, level: f64) -> Option<Estimate> {
        let (a, b) = self.values();
        let plain = ratio_of_means(&a, &b, level)?;
        let rho = at_least(of_all, &a, &b);
        if rho <= 0.0 {
            return Some(plain);
        }
        let relative = |side: &[f64]| -> Option<Vec<f64>> {
            let center = mean(side)?;
            Some(side.iter().map(|value| value / center).collect())
        };
        let log = widened(plain, (&relative(&a)?, &relative(&b)?), rho, level, plain.value.ln());
        let interval = log.interval.map(|interval| interval.map(f64::exp));
        Some(Estimate { interval, ..plain })
    }

    /// Whether all runs of both samples have one value.
    pub fn is_constant(&self) -> bool {
        let mut all = self.a.iter().chain(&self.b).map(|&(_, value)| value);
        all.next().is_some_and(|first| all.all(|value| value == first))
    }

    /// On a scale on which spreads of different figures are alike; `None` with fewer than two
    /// values on a side, or what is not finite.
    pub(crate) fn scaled(&self) -> Option<Scaled> {
        let all = || self.a.iter().chain(&self.b).map(|&(_, value)| value);
        if self.a.len() < 2 || self.b.len() < 2 || !all().all(f64::is_finite) {
            return None;
        }
        let size = all().map(f64::abs).sum::<f64>() / (self.a.len() + self.b.len()) as f64;
        let is_log = all().all(|value| value > 0.0);
        let map = |sample: &[(usize, f64)]| -> Vec<(usize, f64)> {
            let scale = |value: f64| match is_log {
                true => value.ln(),
                false if size > 0.0 => value / size,
                false => value,
            };
            sample.iter().map(|&(run, value)| (run, scale(value))).collect()
        };
        // A value rounded to a step has the variance of an even distribution over it.
        let step = if size > 0.0 { self.resolution / size } else { 0.0 };
        Some(Scaled { a: map(&self.a), b: map(&self.b), is_log, floor: step * step / 12.0 })
    }
}

/// Logarithms where all values are positive, else values over the mean of their sizes.
#[derive(Debug, Clone)]
pub(crate) struct Scaled {
    pub(crate) a: Vec<(usize, f64)>,
    pub(crate) b: Vec<(usize, f64)>,
    pub(crate) is_log: bool,
    /// The least variance that either side can be believed to have.
    pub(crate) floor: f64,
}

/// Numbers of values, means and variances of both sides; of values that depend on those before them as
/// many independent ones as say as much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moments {
    pub(crate) n: (f64, f64),
    pub(crate) shift: f64,
    pub(crate) variances: (f64, f64),
}

impl Scaled {
    /// With the correlation that neighbors of all figures have in time, at least. `None` where runs
    /// depend so much on those before them that their spread says nothing.
    pub(crate) fn moments(&self, of_all: f64) -> Option<Moments> {
        let (a, b) = self.sides();
        moments((&a, &b), at_least(of_all, &a, &b), self.floor)
    }

    /// The values of both sides in the order of runs.
    pub(crate) fn sides(&self) -> (Vec<f64>, Vec<f64>) {
        let of = |sample: &[(usize, f64)]| sample.iter().map(|&(_, value)| value).collect();
        (of(&self.a), of(&self.b))
    }
}

/// With the interval round `center` that dependent runs have; none where they say too little.
fn widened(of: Estimate, sides: (&[f64], &[f64]), rho: f64, level: f64, center: f64) -> Estimate {
    let interval = moments(sides, rho, 0.0).and_then(|moments| {
        let (error, freedom) = moments.error();
        let reach = t_quantile(0.5 + level / 2.0, freedom) * error;
        let interval = Interval { low: center - reach, high: center + reach, level };
        reach.is_finite().then_some(interval)
    });
    Estimate { interval: of.interval.and(interval), ..of }
}

/// Of two samples in the order of time; no variance is believed to be below `floor`.
pub(crate) fn moments((a, b): (&[f64], &[f64]), rho: f64, floor: f64) -> Option<Moments> {
    let of = |values: &[f64]| -> Option<(f64, f64, f64)> {
        // Equal values have a variance of rounding errors else.
        let varies = values.iter().any(|value| *value != values[0]);
        let variance = if varies { variance(values)? } else { 0.0 };
        let said = dependence(values.len(), rho)?;
        Some((mean(values)?, (variance * said.of_variance).max(floor), said.independent))
    };
    let ((mean_a, a, n), (mean_b, b, m)) = (of(a)?, of(b)?);
    Some(Moments { n: (n, m), shift: mean_b - mean_a, variances: (a, b) })
}

impl Moments {
    /// Standard error of the shift and its degrees of freedom (Welch 1947).
    pub(crate) fn error(&self) -> (f64, f64) {
        let (a, b) = (self.variances.0 / self.n.0, self.variances.1 / self.n.1);
        let squares = a * a / (self.n.0 - 1.0) + b * b / (self.n.1 - 1.0);
        let freedom = if squares > 0.0 { (a + b).powi(2) / squares } else { self.freedom() };
        ((a + b).sqrt(), freedom)
    }

    /// Degrees of freedom of the variance of both sides together.
    pub(crate) fn freedom(&self) -> f64 {
        self.n.0 + self.n.1 - 2.0
    }

    /// The variance of both sides together.
    pub(crate) fn pooled(&self) -> f64 {
        let squares = (self.n.0 - 1.0) * self.variances.0 + (self.n.1 - 1.0) * self.variances.1;
        squares / self.freedom()
    }
}

/// Values of runs that both have, each side less its mean where `centerd`.
pub(crate) fn shared(x: &Scaled, y: &Scaled, centerd: bool) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    for (x, y) in [(&x.a, &y.a), (&x.b, &y.b)] {
        let from = all.len();
        each_shared(x, y, |x, y| all.push((x, y)));
        if centerd {
            let n = (all.len() - from) as f64;
            let (sx, sy) = all[from..].iter().fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
            all[from..].iter_mut().for_each(|p| *p = (p.0 - sx / n, p.1 - sy / n));
        }
    }
    all
}

/// Hands out the values of runs that both have; runs ascend.
pub(crate) fn each_shared(x: &[(usize, f64)], y: &[(usize, f64)], mut f: impl FnMut(f64, f64)) {
    let mut rest = y.iter().peekable();
    for &(run, value) in x {
        while rest.next_if(|&&(other, _)| other < run).is_some() {}
        if let Some(&(_, other)) = rest.next_if(|&&(other, _)| other == run) {
            f(value, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(a: &[(usize, f64)], b: &[(usize, f64)]) -> TwoSamples {
        TwoSamples { a: a.to_vec(), b: b.to_vec(), resolution: 0.0 }
    }

    #[test]
    fn only_runs_of_both_are_shared() {
        let x = two(&[(0, 1.0), (2, 3.0), (5, 5.0)], &[(1, 0.0), (2, 2.0)]).scaled().unwrap();
        let y = two(&[(2, 10.0), (3, 20.0), (5, 0.0)], &[(1, 1.0), (2, 3.0)]).scaled().unwrap();
        let size = (x.a[0].1, y.a[1].1); // the first of x is 1 on its scale, the second of y 20
        let unscaled: Vec<(f64, f64)> =
            shared(&x, &y, false).iter().map(|p| (p.0 / size.0, 20.0 * p.1 / size.1)).collect();
        let close = |got: &[(f64, f64)], want: &[(f64, f64)]| {
            got.iter().zip(want).all(|(g, w)| (g.0 - w.0).abs() < 1e-12 && (g.1 - w.1).abs() < 1e-9)
        };
        assert_eq!(unscaled.len(), 4);
        assert!(close(&unscaled, &[(3.0, 10.0), (5.0, 0.0), (0.0, 1.0), (2.0, 3.0)]));
        let sums = shared(&x, &y, true).iter().fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
        assert!(f64::abs(sums.0) < 1e-12 && f64::abs(sums.1) < 1e-12);
    }

    #[test]
    fn a_count_that_never_varies_is_known_to_within_one() {
        let mut count = two(&[(0, 100.0), (1, 100.0)], &[(0, 101.0), (1, 101.0)]);
        assert_eq!(count.scaled().unwrap().moments(0.0).unwrap().pooled(), 0.0);
        count.resolution = 1.0;
        let pooled = count.scaled().unwrap().moments(0.0).unwrap().pooled();
        assert!((pooled * 12.0 * 100.5_f64.powi(2) - 1.0).abs() < 1e-9);
        assert!(!count.is_constant());
        assert!(two(&[(0, 7.0)], &[(0, 7.0), (1, 7.0)]).is_constant());
    }
}
