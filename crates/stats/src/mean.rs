//! Means and their intervals, for observations that are independent and not too skewed.

use crate::dist;
use crate::interval::{Estimate, Interval};

/// Arithmetic mean; `None` if empty.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sample variance (n - 1 in the denominator); `None` with fewer than two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    let center = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - center).powi(2)).sum();
    (values.len() >= 2).then(|| squares / (values.len() - 1) as f64)
}

/// Sample standard deviation; `None` with fewer than two values.
pub fn std_dev(values: &[f64]) -> Option<f64> {
    variance(values).map(f64::sqrt)
}

/// Mean with Student's interval (Student 1908). `None` if empty; no interval with one value.
pub fn mean_interval(values: &[f64], level: f64) -> Option<Estimate> {
    let value = mean(values)?;
    let n = values.len();
    let interval =
        variance(values).and_then(|v| around(value, (v / n as f64).sqrt(), (n - 1) as f64, level));
    Some(Estimate { value, interval, n })
}

/// Mean of `second - first` over pairs, with Student's interval of the differences: what two runs
/// of one round have in common (temperature, neighbors) cancels. `n` is the number of pairs.
pub fn paired_difference(pairs: &[(f64, f64)], level: f64) -> Option<Estimate> {
    let differences: Vec<f64> = pairs.iter().map(|(first, second)| second - first).collect();
    mean_interval(&differences, level)
}

/// Mean of `b` minus mean of `a`, independent samples of unequal variance (Welch 1947). `None` if
/// one is empty; no interval where one has fewer than two values. `n` is the smaller of the two.
pub fn difference_of_means(a: &[f64], b: &[f64], level: f64) -> Option<Estimate> {
    let value = mean(b)? - mean(a)?;
    let interval = welch(a, b).and_then(|(error, df)| around(value, error, df, level));
    Some(Estimate { value, interval, n: a.len().min(b.len()) })
}

/// Two-sided p-value of Welch's t test that the means of `a` and `b` are equal. `None` with fewer
/// than two values in either, or without any spread.
pub fn welch_test(a: &[f64], b: &[f64]) -> Option<f64> {
    let (error, df) = welch(a, b).filter(|(error, _)| *error > 0.0)?;
    let t = (mean(b)? - mean(a)?) / error;
    Some(2.0 * dist::t_cdf(-t.abs(), df))
}

/// Mean of `b` over mean of `a`, independent samples of positive values, with the interval of the
/// difference of logarithms: each mean's relative error by the delta method, degrees of freedom
/// after Welch and Satterthwaite. Fit for coefficients of variation up to about 0.2, from three
/// values on each side. `None` if a value is not positive or a side is empty.
pub fn ratio_of_means(a: &[f64], b: &[f64], level: f64) -> Option<Estimate> {
    if !a.iter().chain(b).all(|v| v.is_finite() && *v > 0.0) {
        return None;
    }
    let value = mean(b)? / mean(a)?;
    let relative = |x: &[f64]| -> Option<Vec<f64>> {
        let center = mean(x)?;
        Some(x.iter().map(|v| v / center).collect())
    };
    let interval = welch(&relative(a)?, &relative(b)?)
        .and_then(|(error, df)| around(value.ln(), error, df, level))
        .map(|log| log.map(f64::exp));
    Some(Estimate { value, interval, n: a.len().min(b.len()) })
}

/// Standard error of a difference of means and its degrees of freedom (Satterthwaite 1946).
fn welch(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let part = |x: &[f64]| Some((variance(x)? / x.len() as f64, (x.len() - 1) as f64));
    let ((va, da), (vb, db)) = (part(a)?, part(b)?);
    let sum = va + vb;
    // Without spread any number of degrees gives the same interval, of no width.
    let df = if sum > 0.0 { sum * sum / (va * va / da + vb * vb / db) } else { da + db };
    Some((sum.sqrt(), df))
}

fn around(value: f64, error: f64, df: f64, level: f64) -> Option<Interval> {
    let reach = dist::t_quantile(0.5 + level / 2.0, df) * error;
    (reach.is_finite() && value.is_finite()).then_some(Interval {
        low: value - reach,
        high: value + reach,
        level,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::LEVEL;
    use proptest::prelude::*;

    /// Student's own example (Cushny & Peebles' sleep data), in every textbook.
    const SLEEP: [(f64, f64); 10] = [
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

    #[track_caller]
    fn close(got: f64, want: f64) {
        assert!((got - want).abs() < 5e-7, "{got} is not {want}");
    }

    #[test]
    fn the_sleep_data_give_the_published_intervals() {
        let paired = paired_difference(&SLEEP, LEVEL).unwrap();
        close(paired.value, 1.58);
        close(paired.interval.unwrap().low, 0.700_114_2);
        close(paired.interval.unwrap().high, 2.459_885_8);

        let (a, b): (Vec<f64>, Vec<f64>) = SLEEP.iter().copied().unzip();
        let welch = difference_of_means(&a, &b, LEVEL).unwrap();
        close(welch.interval.unwrap().low, -0.205_483_2);
        close(welch.interval.unwrap().high, 3.365_483_2);
        close(welch_test(&a, &b).unwrap(), 0.079_394_14);
    }

    #[test]
    fn few_values_give_what_they_can() {
        assert_eq!(mean_interval(&[], LEVEL), None);
        assert_eq!(
            mean_interval(&[3.0], LEVEL),
            Some(Estimate { value: 3.0, interval: None, n: 1 })
        );
        assert_eq!(variance(&[1.0]), None);
        assert_eq!(welch_test(&[1.0, 1.0], &[2.0, 2.0]), None);
        assert_eq!(ratio_of_means(&[0.0, 1.0], &[1.0, 2.0], LEVEL), None);
    }

    proptest! {
        #[test]
        fn a_ratio_turns_over_with_its_samples(
            a in prop::collection::vec(1.0..2.0f64, 2..20),
            b in prop::collection::vec(1.0..2.0f64, 2..20),
            unit in 0.01..100.0f64,
        ) {
            let there = ratio_of_means(&a, &b, LEVEL).unwrap();
            let back = ratio_of_means(&b, &a, LEVEL).unwrap();
            prop_assert!((there.value * back.value - 1.0).abs() < 1e-12);
            let (there_i, back_i) = (there.interval.unwrap(), back.interval.unwrap());
            prop_assert!((there_i.low * back_i.high - 1.0).abs() < 1e-9);
            let in_other_unit: Vec<f64> = b.iter().map(|v| v * unit).collect();
            let scaled = ratio_of_means(&a, &in_other_unit, LEVEL).unwrap();
            prop_assert!((scaled.value / there.value / unit - 1.0).abs() < 1e-12);
        }
    }
}
