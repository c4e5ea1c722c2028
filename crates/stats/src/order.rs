//! Order statistics: quantiles, median, and a spread that is robust to outliers.

use crate::dist::MAD_TO_SIGMA;

/// Quantile `p` (0..=1) of ascending values, linear between neighbors (type 7 of Hyndman & Fan
/// 1996, the default of R and NumPy). `None` if empty or `p` is outside.
pub fn quantile_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    if sorted.is_empty() || !(0.0..=1.0).contains(&p) {
        return None;
    }
    let position = p * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let fraction = position - below as f64;
    Some(sorted[below] + fraction * (sorted[above] - sorted[below]))
}

/// [`quantile_sorted`] of values in any order. `None` also where one is NaN.
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    quantile_sorted(&sorted(values)?, p)
}

/// The middle value, or the mean of the two in the middle. `None` if empty or one is NaN.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Ascending copy; `None` where one is NaN, which has no place in an order.
pub(crate) fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

/// Median absolute deviation, scaled to estimate the standard deviation of normal data (Hampel
/// 1974). `None` if empty or one is NaN.
pub fn mad(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let distances: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    Some(MAD_TO_SIGMA * median(&distances)?)
}

/// Which values are farther than 3.5 scaled [`mad`]s from the median (Iglewicz & Hoaglin 1993).
/// None is flagged with fewer than five values, or where more than half are equal, as the spread is
/// then unknown. A flag is a reason to examine a run, not to drop it.
pub fn outliers(values: &[f64]) -> Vec<bool> {
    let flag = |v: &f64| match (median(values), mad(values)) {
        (Some(middle), Some(spread)) if values.len() >= 5 && spread > 0.0 => {
            (v - middle).abs() > 3.5 * spread
        }
        _ => false,
    };
    values.iter().map(flag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_quantiles() {
        let values = [10.0, 20.0, 30.0, 40.0];
        assert_eq!(quantile(&values, 0.0), Some(10.0));
        assert_eq!(quantile(&values, 1.0), Some(40.0));
        // R: quantile(c(10, 20, 30, 40), 0.25) is 17.5.
        assert_eq!(quantile(&values, 0.25), Some(17.5));
        assert_eq!(median(&values), Some(25.0));
        assert_eq!(median(&[]), None);
        assert_eq!(quantile(&values, 1.1), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn one_run_gone_wrong_is_flagged_and_no_other() {
        let values = [11.31, 11.29, 11.35, 11.30, 14.9, 11.33];
        assert_eq!(outliers(&values), [false, false, false, false, true, false]);
        assert_eq!(outliers(&[1.0, 1.0, 9.0]), [false; 3]);
        assert_eq!(outliers(&[1.0, 1.0, 1.0, 1.0, 9.0]), [false; 5]);
        assert!((mad(&[1.0, 2.0, 3.0, 4.0, 100.0]).unwrap() - MAD_TO_SIGMA).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn a_quantile_has_its_share_of_values_on_each_side(
            values in prop::collection::vec(-1e6..1e6f64, 1..50),
            p in 0.0..=1.0f64,
        ) {
            let q = quantile(&values, p).unwrap();
            let last = (values.len() - 1) as f64;
            let below = values.iter().filter(|v| **v < q).count() as f64;
            let above = values.iter().filter(|v| **v > q).count() as f64;
            prop_assert!(below <= (p * last).floor() + 1.0);
            prop_assert!(above <= ((1.0 - p) * last).floor() + 1.0);
        }
    }
}
