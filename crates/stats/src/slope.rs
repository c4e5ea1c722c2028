//! The cost per event, from runs of one configuration: those with more events took longer.

use crate::dist::t_quantile;
use crate::interval::{Estimate, Interval};
use crate::samples::{Scaled, TwoSamples, shared};

/// By how much `of` grows per unit of `over`, from run to run within each sample: least squares with
/// a constant for each sample, so that what differs between them does not count. `None` with fewer
/// than two shared runs a side or where `over` does not vary; `n` is the runs that have both.
pub fn slope_within(of: &TwoSamples, over: &TwoSamples, level: f64) -> Option<Estimate> {
    let plain =
        |two: &TwoSamples| Scaled { a: two.a.clone(), b: two.b.clone(), is_log: false, floor: 0.0 };
    let pairs = shared(&plain(over), &plain(of), true);
    let freedom = pairs.len() as f64 - 3.0;
    let (xx, xy) = pairs.iter().fold((0.0, 0.0), |s, (x, y)| (s.0 + x * x, s.1 + x * y));
    if freedom < 1.0 || xx <= 0.0 || !xx.is_finite() || !xy.is_finite() {
        return None;
    }
    let value = xy / xx;
    let left: f64 = pairs.iter().map(|(x, y)| (y - value * x).powi(2)).sum();
    let reach = t_quantile(0.5 + level / 2.0, freedom) * (left / freedom / xx).sqrt();
    let interval = Interval { low: value - reach, high: value + reach, level };
    Some(Estimate { value, interval: Some(interval), n: pairs.len() })
}

/// The product of two independent estimates, with the interval of its first-order error (Goodman 1960,
/// Journal of the American Statistical Association 55): what a change of a count comes to at a cost.
pub fn product(x: &Estimate, y: &Estimate) -> Estimate {
    let value = x.value * y.value;
    let interval = x.interval.zip(y.interval).map(|(of_x, of_y)| {
        let reach = (y.value * of_x.half_width()).hypot(x.value * of_y.half_width());
        Interval { low: value - reach, high: value + reach, level: of_x.level }
    });
    Estimate { value, interval, n: x.n.min(y.n) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LEVEL;

    #[test]
    fn what_differs_between_samples_does_not_count() {
        let line = |from: f64, runs: usize| -> Vec<(usize, f64)> {
            (0..runs).map(|run| (run, from + 3.0 * run as f64)).collect()
        };
        let count =
            |runs: usize| -> Vec<(usize, f64)> { (0..runs).map(|run| (run, run as f64)).collect() };
        let time = TwoSamples { a: line(100.0, 5), b: line(900.0, 5), resolution: 0.0 };
        let misses = TwoSamples { a: count(5), b: count(5), resolution: 0.0 };
        let slope = slope_within(&time, &misses, LEVEL).unwrap();
        assert!((slope.value - 3.0).abs() < 1e-12 && slope.n == 10);
        assert_eq!(slope_within(&misses, &TwoSamples::default(), LEVEL), None);
    }

    #[test]
    fn errors_of_a_product_add_up() {
        let estimate = |value: f64, half: f64| Estimate {
            value,
            interval: Some(Interval { low: value - half, high: value + half, level: LEVEL }),
            n: 5,
        };
        let got = product(&estimate(2.0, 0.3), &estimate(10.0, 2.0));
        assert!((got.value - 20.0).abs() < 1e-12);
        assert!((got.interval.unwrap().half_width() - 5.0).abs() < 1e-12);
    }
}
