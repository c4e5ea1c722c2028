//! A straight line through points.

use crate::dist::t_quantile;
use crate::interval::{Estimate, Interval};

/// Slope of the least squares line through points (x, y), with Student's interval (for instance Draper
/// and Smith, Applied Regression Analysis, 1.4): noise is taken as independent and of the same size
/// everywhere. `None` with fewer than three points or where all x are the same.
pub fn trend(points: &[(f64, f64)], level: f64) -> Option<Estimate> {
    let n = points.len();
    if n < 3 {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n as f64;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let squares: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    if squares <= 0.0 {
        return None;
    }
    let products: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let value = products / squares;
    let off = |point: &(f64, f64)| (point.1 - y - value * (point.0 - x)).powi(2);
    let df = (n - 2) as f64;
    let error = (points.iter().map(off).sum::<f64>() / df / squares).sqrt();
    let half = t_quantile(0.5 + level / 2.0, df) * error;
    let interval = Interval { low: value - half, high: value + half, level };
    Some(Estimate { value, interval: Some(interval), n })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_and_interval_are_those_of_the_textbook() {
        // scipy.stats.linregress: slope 0.6, stderr 0.28284271, with t(0.975, 3) = 3.18244631.
        let points = [(1.0, 2.0), (2.0, 4.0), (3.0, 5.0), (4.0, 4.0), (5.0, 5.0)];
        let slope = trend(&points, 0.95).unwrap();
        assert!((slope.value - 0.6).abs() < 1e-12);
        let half = slope.interval.unwrap().half_width();
        assert!((half - 3.182_446_31 * 0.282_842_71).abs() < 1e-6, "{half}");
        assert_eq!(trend(&points[..2], 0.95), None);
        assert_eq!(trend(&[(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)], 0.95), None);
    }
}
