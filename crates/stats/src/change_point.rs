//! Change points: where a series of measurements changed its level.
//!
//! Binary segmentation (Sen & Srivastava 1975, Annals of Statistics 3): the split with the largest t
//! statistic of the means before and after it is a change point if that is significant; then both parts
//! are examined in the same way. The p-value of the largest of k - 1 statistics is bounded by k - 1
//! times that of one (Bonferroni; Worsley 1979 for the exact one). The spread within a segment is what
//! differs from one day to the next, not only from run to run: a level has to change by more than that.
//! Values that depend on earlier ones (a machine that warms up over days) produce too many change
//! points.

use crate::dist::t_two_sided;
use crate::mean::mean;

/// Fewer values have no spread to stand out from.
const MIN_VALUES: usize = 4;

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after it.
    pub at: usize,
    /// That there is none within its segment.
    pub p: f64,
    /// Mean between the change point before and this one.
    pub before: f64,
    /// Mean between this change point and the next.
    pub after: f64,
}

/// Change points of `values`, in order, each with a p-value of at most `level`. A value is known to no better than
/// `resolution`: values without any spread are given that of rounding, resolution²/12.
pub fn change_points(values: &[f64], resolution: f64, level: f64) -> Vec<ChangePoint> {
    let mut found = Vec::new();
    let floor = resolution * resolution / 12.0;
    search(values, 0, (level, floor), &mut found);
    found.sort_by_key(|&(at, _)| at);
    let ends: Vec<usize> = std::iter::once(0)
        .chain(found.iter().map(|&(at, _)| at))
        .chain(std::iter::once(values.len()))
        .collect();
    let level_of = |i: usize| mean(&values[ends[i]..ends[i + 1]]);
    let point = |(i, &(at, p)): (usize, &(usize, f64))| {
        Some(ChangePoint { at, p, before: level_of(i)?, after: level_of(i + 1)? })
    };
    found.iter().enumerate().filter_map(point).collect()
}

fn search(values: &[f64], from: usize, (level, floor): (f64, f64), found: &mut Vec<(usize, f64)>) {
    let Some((at, p)) = best_split(values, floor).filter(|&(_, p)| p <= level) else { return };
    found.push((from + at, p));
    search(&values[..at], from, (level, floor), found);
    search(&values[at..], from + at, (level, floor), found);
}

/// The split with the largest difference beside the spread, and its p-value.
fn best_split(values: &[f64], floor: f64) -> Option<(usize, f64)> {
    let n = values.len();
    if n < MIN_VALUES || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let freedom = (n - 2) as f64;
    let t = |at: usize| -> Option<f64> {
        let (before, after) = values.split_at(at);
        let (x, y) = (mean(before)?, mean(after)?);
        let squares = |part: &[f64], center: f64| -> f64 {
            part.iter().map(|value| (value - center).powi(2)).sum()
        };
        let variance = ((squares(before, x) + squares(after, y)) / freedom).max(floor);
        let error = (variance * (1.0 / at as f64 + 1.0 / (n - at) as f64)).sqrt();
        // Without any spread a difference is as sure as it can be.
        Some(if x == y { 0.0 } else { ((y - x) / error).abs() })
    };
    let (at, t) =
        (1..n).filter_map(|at| Some((at, t(at)?))).max_by(|(_, x), (_, y)| x.total_cmp(y))?;
    Some((at, (t_two_sided(t, freedom) * (n - 1) as f64).min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_found_where_it_is() {
        let steady = [10.0, 10.1, 9.9, 10.0, 10.05, 9.95, 10.0, 10.1];
        assert_eq!(change_points(&steady, 0.0, 0.01), []);
        let stepped: Vec<f64> =
            steady.iter().enumerate().map(|(i, v)| if i < 5 { *v } else { v + 3.0 }).collect();
        let found = change_points(&stepped, 0.0, 0.01);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].at, 5);
        assert!((found[0].before - 10.01).abs() < 1e-9 && found[0].after > 12.9);
        assert_eq!(change_points(&stepped[..3], 0.0, 0.01), []);
    }

    #[test]
    fn a_step_of_less_than_values_are_known_to_is_none() {
        let counts = [100.0, 100.0, 100.0, 101.0];
        assert_eq!(change_points(&counts, 0.0, 0.01).len(), 1, "as sure as it can be");
        assert_eq!(change_points(&counts, 1.0, 0.01), []);
        let far = [100.0, 100.0, 100.0, 100.0, 200.0, 200.0, 200.0, 200.0];
        assert_eq!(change_points(&far, 1.0, 0.01).len(), 1);
    }

    #[test]
    fn several_steps_are_found_in_order() {
        let level = |i: usize| [10.0, 20.0, 5.0][i / 8] + 0.1 * ((i * 7 % 5) as f64);
        let values: Vec<f64> = (0..24).map(level).collect();
        let at: Vec<usize> =
            change_points(&values, 0.0, 0.01).iter().map(|point| point.at).collect();
        assert_eq!(at, [8, 16]);
    }

    #[test]
    fn where_nothing_changes_nothing_is_found() {
        let mut rng = fastrand::Rng::with_seed(11);
        let mut false_alarms = 0;
        const SERIES: usize = 2000;
        for _ in 0..SERIES {
            let values: Vec<f64> =
                (0..20).map(|_| (0..12).map(|_| rng.f64()).sum::<f64>()).collect();
            false_alarms += usize::from(!change_points(&values, 0.0, 0.01).is_empty());
        }
        assert!(false_alarms <= SERIES / 100 + 14, "{false_alarms}"); // three standard deviations
    }
}
