//! Order statistics: quantiles, median, spread that outliers do not move.

use crate::dist::MAD_TO_SIGMA;

/// Quantile `p` (0..=1) of ascending values, linear between neighbours (type 7 of Hyndman & Fan
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

/// Which values lie further than 3.5 scaled [`mad`]s from the median (Iglewicz & Hoaglin 1993).
/// None is flagged with fewer than five values, or where more than half are equal, as the spread
/// is then unknown. A flag is a reason to look at a run, not to drop it.
pub fn outliers(values: &[f64]) -> Vec<bool> {
    let flag = |v: &f64| match (median(values), mad(values)) {
        (Some(middle), Some(spread)) if values.len() >= 5 && spread > 0.0 => {
            (v - middle).abs() > 3.5 * spread
        }
        _ => false,
    };
    values.iter().map(flag).collect()
}
