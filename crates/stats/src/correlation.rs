//! Correlations, and a test whether two of them differ.

use crate::dist::{normal_cdf, t_two_sided};

/// Pearson's r of pairs; `None` with fewer than three or where one side does not vary.
pub fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (x, y) = pairs.iter().fold((0.0, 0.0), |s, p| (s.0 + p.0 / n, s.1 + p.1 / n));
    let (xx, yy, xy) = pairs.iter().fold((0.0, 0.0, 0.0), |s, p| {
        let (dx, dy) = (p.0 - x, p.1 - y);
        (s.0 + dx * dx, s.1 + dy * dy, s.2 + dx * dy)
    });
    let r = xy / (xx * yy).sqrt();
    (pairs.len() >= 3 && r.is_finite()).then_some(r.clamp(-1.0, 1.0))
}

/// Two-sided p-value that one variable correlates with two others equally well: r(1,2) = r(1,3), all
/// three measured in the same `n` runs. Williams' test (1959, Journal of the Royal Statistical Society
/// B 21), which Steiger (1980, Psychological Bulletin 87) found the best of its kind. `None` below four
/// runs.
pub fn williams_test(r12: f64, r13: f64, r23: f64, n: usize) -> Option<f64> {
    let freedom = n.checked_sub(3).filter(|&left| left > 0)? as f64;
    let determinant = 1.0 - r12 * r12 - r13 * r13 - r23 * r23 + 2.0 * r12 * r13 * r23;
    let middle = (r12 + r13) / 2.0;
    let n = n as f64;
    let below =
        2.0 * (n - 1.0) / freedom * determinant.max(0.0) + middle * middle * (1.0 - r23).powi(3);
    if r12 == r13 {
        return Some(1.0);
    }
    let t = (r12 - r13) * ((n - 1.0) * (1.0 + r23) / below).sqrt();
    Some(t_two_sided(t, freedom))
}

/// The same for correlations that were measured in different runs, `n` and `m` of them: by Fisher's z
/// (1921). `None` below four runs of either.
pub fn fisher_test((r, n): (f64, usize), (s, m): (f64, usize)) -> Option<f64> {
    let z = |r: f64| r.clamp(-1.0 + 1e-12, 1.0 - 1e-12).atanh();
    let weight = |n: usize| n.checked_sub(3).filter(|&left| left > 0).map(|left| 1.0 / left as f64);
    let error = (weight(n)? + weight(m)?).sqrt();
    Some(2.0 * normal_cdf(-((z(r) - z(s)) / error).abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_the_range() {
        assert_eq!(correlation(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]), Some(1.0));
        assert_eq!(correlation(&[(1.0, 6.0), (2.0, 4.0), (3.0, 2.0)]), Some(-1.0));
        assert_eq!(correlation(&[(1.0, 2.0), (2.0, 4.0)]), None);
        assert_eq!(correlation(&[(1.0, 2.0), (1.0, 4.0), (1.0, 5.0)]), None);
    }

    #[test]
    fn equal_correlations_cannot_be_told_apart() {
        assert_eq!(williams_test(0.9, 0.9, 0.5, 10), Some(1.0));
        assert!(williams_test(0.99, 0.2, 0.1, 10).unwrap() < 0.01);
        assert_eq!(williams_test(0.9, 0.1, 0.5, 3), None);
        assert!(fisher_test((1.0, 10), (0.2, 10)).unwrap() < 1e-6);
        assert_eq!(fisher_test((0.5, 3), (0.2, 10)), None);
    }
}
