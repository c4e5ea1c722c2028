//! Differences of two independent estimates, and tests of many things at once.

use crate::dist;
use crate::interval::{Estimate, Interval};

/// `b` minus `a`, two independent estimates that each have an interval: the interval of the
/// difference recovers each side's variance from its own interval, so that uneven intervals stay
/// uneven (Zou & Donner 2008). `None` for the interval where a side has none.
pub fn difference_of_estimates(a: &Estimate, b: &Estimate) -> Estimate {
    let value = b.value - a.value;
    let interval = a.interval.zip(b.interval).map(|(of_a, of_b)| {
        let below = (b.value - of_b.low).hypot(of_a.high - a.value);
        let above = (of_b.high - b.value).hypot(a.value - of_a.low);
        Interval { low: value - below, high: value + above, level: of_a.level }
    });
    Estimate { value, interval, n: a.n.min(b.n) }
}

/// [`difference_of_estimates`] of two estimates with Student's intervals, each with its degrees of freedom; and the
/// degrees of freedom of the difference. Each side counts with the width that its standard error has at those:
/// added as they are, the intervals of two short recordings would be too wide together.
pub fn difference_of_t_estimates(a: (&Estimate, f64), b: (&Estimate, f64)) -> (Estimate, f64) {
    let Some((of_a, of_b)) = a.0.interval.zip(b.0.interval) else {
        return (difference_of_estimates(a.0, b.0), f64::INFINITY);
    };
    let freedom = freedom_of_difference((&of_a, a.1), (&of_b, b.1));
    let at_freedom = |(estimate, own): (&Estimate, f64), interval: Interval| {
        let quantile = |freedom| dist::t_quantile(0.5 + interval.level / 2.0, freedom);
        let (value, factor) = (estimate.value, quantile(freedom) / quantile(own));
        let moved = |end: f64| value + (end - value) * factor;
        let interval =
            Interval { low: moved(interval.low), high: moved(interval.high), ..interval };
        Estimate { interval: Some(interval), ..*estimate }
    };
    (difference_of_estimates(&at_freedom(a, of_a), &at_freedom(b, of_b)), freedom)
}

/// Degrees of freedom of a difference of two independent estimates from their intervals, each Student's
/// with the degrees given (Satterthwaite 1946). Infinite where neither side has a width.
fn freedom_of_difference(a: (&Interval, f64), b: (&Interval, f64)) -> f64 {
    let part = |(interval, freedom): (&Interval, f64)| {
        let error = interval.half_width() / dist::t_quantile(0.5 + interval.level / 2.0, freedom);
        (error * error, error.powi(4) / freedom)
    };
    let ((variance_a, square_a), (variance_b, square_b)) = (part(a), part(b));
    let squares = square_a + square_b;
    if squares > 0.0 { (variance_a + variance_b).powi(2) / squares } else { f64::INFINITY }
}

/// Two-sided p-value that an estimate's true value is 0, read back from its interval, which is Student's
/// with `freedom` degrees: from the side on which 0 is. `None` without an interval or with one of no
/// width.
pub fn p_of_zero(estimate: &Estimate, freedom: f64) -> Option<f64> {
    let interval = estimate.interval?;
    let towards_zero = if estimate.value > 0.0 {
        estimate.value - interval.low
    } else {
        interval.high - estimate.value
    };
    let error = towards_zero / dist::t_quantile(0.5 + interval.level / 2.0, freedom);
    let reach = -(estimate.value / error).abs();
    // Beyond this the two are the same.
    let tail = if freedom > 1e6 { dist::normal_cdf(reach) } else { dist::t_cdf(reach, freedom) };
    (error > 0.0).then_some(2.0 * tail)
}

/// p-values of several tests, each adjusted so that taking those below a level finds a difference
/// where there is none in at most that share of all cases (Holm 1979). In the order given; `None`
/// stays `None` and is not counted as a test.
pub fn holm(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    weighted_holm(p_values, &vec![1.0; p_values.len()])
}

/// As [`holm`], with a `weight` above 0 for each test: one with twice the weight of another is taken below twice the
/// level (Holm 1979, section 3, the weighted procedure). Weights are chosen before the p-values are known.
///
/// # Panics
/// If there are fewer weights than tests.
pub fn weighted_holm(p_values: &[Option<f64>], weights: &[f64]) -> Vec<Option<f64>> {
    assert!(weights.len() >= p_values.len(), "each test has a weight");
    let tests = p_values.iter().zip(weights).enumerate();
    let mut order: Vec<(usize, f64, f64)> =
        tests.filter_map(|(at, (p, &weight))| Some((at, (*p)? / weight, weight))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut adjusted = vec![None; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, &(at, p, _)) in order.iter().enumerate() {
        let left: f64 = order[rank..].iter().map(|(.., weight)| weight).sum();
        largest = largest.max(left * p).min(1.0);
        adjusted[at] = Some(largest);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LEVEL;
    use proptest::prelude::*;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, interval: Some(Interval { low, high, level: LEVEL }), n: 40 }
    }

    #[test]
    fn even_intervals_add_like_the_sides_of_a_triangle() {
        let difference =
            difference_of_estimates(&estimate(0.10, 0.07, 0.13), &estimate(0.30, 0.26, 0.34));
        let interval = difference.interval.unwrap();
        assert!((difference.value - 0.20).abs() < 1e-12);
        assert!((interval.low - 0.15).abs() < 1e-12 && (interval.high - 0.25).abs() < 1e-12);
    }

    /// Two means of normal samples of equal variance: the interval is that of Student's two-sample test.
    #[test]
    fn two_small_samples_have_the_interval_of_their_joint_degrees_of_freedom() {
        let own = dist::t_quantile(0.975, 4.0);
        let (a, b) = (estimate(1.0, 1.0 - own, 1.0 + own), estimate(3.0, 3.0 - own, 3.0 + own));
        let (difference, freedom) = difference_of_t_estimates((&a, 4.0), (&b, 4.0));
        assert!((freedom - 8.0).abs() < 1e-9);
        let half = difference.interval.unwrap().half_width();
        let expected = dist::t_quantile(0.975, 8.0) * 2_f64.sqrt();
        assert!((half - expected).abs() < 1e-9, "{half} {expected}");
    }

    #[test]
    fn a_side_without_interval_leaves_none() {
        let bare = Estimate { value: 0.1, interval: None, n: 3 };
        assert_eq!(difference_of_estimates(&bare, &estimate(0.3, 0.2, 0.4)).interval, None);
    }

    #[test]
    fn an_interval_that_ends_at_zero_is_a_p_of_one_minus_its_level() {
        assert!((p_of_zero(&estimate(2.0, 0.0, 9.0), 7.0).unwrap() - 0.05).abs() < 1e-6);
        assert!(
            (p_of_zero(&estimate(-2.0, -3.0, 0.0), f64::INFINITY).unwrap() - 0.05).abs() < 1e-6
        );
        assert_eq!(p_of_zero(&estimate(0.0, 0.0, 0.0), 9.0), None);
    }

    /// Holm's own rule, step by step: reject while p times the number of tests left is small.
    fn rejected_by_steps(p_values: &[f64], level: f64) -> usize {
        let mut sorted = p_values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let fits = |(rank, p): &(usize, &f64)| **p * (sorted.len() - rank) as f64 <= level;
        sorted.iter().enumerate().take_while(fits).count()
    }

    proptest! {
        #[test]
        fn adjusted_values_reject_what_the_steps_reject(
            p_values in proptest::collection::vec(0.0_f64..1.0, 0..20),
            level in 0.01_f64..0.5,
        ) {
            let given: Vec<Option<f64>> = p_values.iter().copied().map(Some).collect();
            let rejected = holm(&given).into_iter().flatten().filter(|p| *p <= level).count();
            prop_assert_eq!(rejected, rejected_by_steps(&p_values, level));
        }
    }

    proptest! {
        /// As often where nothing differs as without weights: in at most the level of all cases, however they are
        /// chosen. Uniform p-values that are independent come close to it.
        #[test]
        fn weights_share_the_level(weights in proptest::collection::vec(0.05_f64..20.0, 1..8)) {
            let level = 0.2;
            let mut rng = fastrand::Rng::with_seed(7);
            let cases = 4000;
            let claims = (0..cases).filter(|_| {
                let p_values: Vec<Option<f64>> = weights.iter().map(|_| Some(rng.f64())).collect();
                weighted_holm(&p_values, &weights).iter().flatten().any(|p| *p <= level)
            });
            let share = claims.count() as f64 / f64::from(cases);
            // Four standard errors.
            prop_assert!(share <= level + 4.0 * (level * (1.0 - level) / f64::from(cases)).sqrt(), "{share}");
        }

        #[test]
        fn equal_weights_are_holms(p_values in proptest::collection::vec(0.0_f64..1.0, 0..20), weight in 0.1_f64..9.0) {
            let given: Vec<Option<f64>> = p_values.iter().copied().map(Some).collect();
            let weighted = weighted_holm(&given, &vec![weight; given.len()]);
            for (own, weighted) in holm(&given).into_iter().zip(weighted) {
                prop_assert!((own.unwrap() - weighted.unwrap()).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn a_test_with_half_of_the_weight_is_taken_below_half_of_the_level() {
        // One question that matters, and three others.
        let weights = [3.0, 1.0, 1.0, 1.0];
        let p_values = [Some(0.004), Some(0.004), Some(0.5), None];
        let adjusted = weighted_holm(&p_values, &weights);
        // Three of five parts of the weight that was tested are the first one's; two are left then.
        let close = |got: Option<f64>, want: f64| (got.unwrap() - want).abs() < 1e-12;
        assert!(close(adjusted[0], 0.004 / 3.0 * 5.0), "{adjusted:?}");
        assert!(close(adjusted[1], 0.004 * 2.0) && close(adjusted[2], 0.5), "{adjusted:?}");
        assert_eq!(adjusted[3], None);
        assert!(close(holm(&p_values)[0], 0.012));
    }

    #[test]
    fn what_was_not_tested_does_not_count() {
        assert_eq!(holm(&[Some(0.02), None, Some(0.04)]), [Some(0.04), None, Some(0.04)]);
    }
}
