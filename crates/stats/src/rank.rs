//! Comparisons by rank: valid for any distribution, and robust to one bad run.

use crate::dist;
use crate::interval::{Estimate, Interval};
use crate::order;

/// Up to this many pairs of values the null distribution is counted out; beyond, it is normal to
/// well below a percentage point.
const EXACT_UP_TO: usize = 2500;

/// Hodges-Lehmann estimate of how far `b` is above `a`: the median of all differences b - a, with
/// the interval that inverts the Mann-Whitney test (Hodges & Lehmann 1963; Hollander & Wolfe 1999,
/// section 4.3). `None` if one is empty or contains NaN; no interval if the samples are too small
/// for `level` (below 4 and 4 at 95%). `n` is the smaller of the two.
pub fn hodges_lehmann_shift(a: &[f64], b: &[f64], level: f64) -> Option<Estimate> {
    let differences: Vec<f64> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
    let differences = order::sorted(&differences)?;
    let value = order::quantile_sorted(&differences, 0.5)?;
    let interval = lowest_kept(a.len(), b.len(), level).map(|rank| Interval {
        low: differences[rank],
        high: differences[differences.len() - 1 - rank],
        level,
    });
    Some(Estimate { value, interval, n: a.len().min(b.len()) })
}

/// [`hodges_lehmann_shift`] of logarithms, as a ratio b / a. `None` also where a value is not
/// positive.
pub fn hodges_lehmann_ratio(a: &[f64], b: &[f64], level: f64) -> Option<Estimate> {
    if !a.iter().chain(b).all(|v| v.is_finite() && *v > 0.0) {
        return None;
    }
    let log = |x: &[f64]| -> Vec<f64> { x.iter().map(|v| v.ln()).collect() };
    Some(exp(&hodges_lehmann_shift(&log(a), &log(b), level)?))
}

fn exp(log: &Estimate) -> Estimate {
    Estimate { value: log.value.exp(), interval: log.interval.map(|i| i.map(f64::exp)), n: log.n }
}

/// Hodges-Lehmann estimate of the center of `differences` (of pairs): the median of the averages of
/// all pairs of them, each with itself too, with the interval that inverts Wilcoxon's signed-rank
/// test (Hollander & Wolfe 1999, section 3.2). Assumes that they are distributed symmetrically.
/// `None` if empty or one is NaN; no interval if they are too few for `level` (below 6 at 95%).
pub fn signed_rank_center(differences: &[f64], level: f64) -> Option<Estimate> {
    let n = differences.len();
    let averages: Vec<f64> =
        (0..n).flat_map(|i| (i..n).map(move |j| 0.5 * (differences[i] + differences[j]))).collect();
    let averages = order::sorted(&averages)?;
    let value = order::quantile_sorted(&averages, 0.5)?;
    let interval = signed_rank_lowest_kept(n, level).map(|rank| Interval {
        low: averages[rank],
        high: averages[averages.len() - 1 - rank],
        level,
    });
    Some(Estimate { value, interval, n })
}

/// The typical ratio second / first of `pairs`: [`signed_rank_center`] of the logarithms. What the
/// two runs of a round share (temperature, neighbors) cancels, and one bad round does not shift it.
/// `None` also where a value is not positive.
pub fn paired_ratio(pairs: &[(f64, f64)], level: f64) -> Option<Estimate> {
    if !pairs.iter().all(|(a, b)| a.is_finite() && b.is_finite() && *a > 0.0 && *b > 0.0) {
        return None;
    }
    let logs: Vec<f64> = pairs.iter().map(|(first, second)| (second / first).ln()).collect();
    Some(exp(&signed_rank_center(&logs, level)?))
}

/// Two-sided p-value of the Mann-Whitney test that `a` and `b` come from one distribution (Mann &
/// Whitney 1947): exact up to 2500 pairs of values without ties, else normal with continuity and
/// tie corrections. `None` if one is empty or holds NaN.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    let all = order::sorted(&[a, b].concat())?;
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (m, n) = (a.len(), b.len());
    let mut u = 0.0;
    for y in b {
        for x in a {
            u += if x < y { 1.0 } else { f64::from(u8::from(x == y)) / 2.0 };
        }
    }
    let u = f64::min(u, (m * n) as f64 - u);
    let ties: f64 =
        all.chunk_by(|x, y| x == y).map(|run| (run.len() as f64).powi(3) - run.len() as f64).sum();
    if ties == 0.0 && m * n <= EXACT_UP_TO {
        let tail: f64 = null_distribution(m, n).iter().take(u as usize + 1).sum();
        return Some((2.0 * tail).min(1.0));
    }
    let spread = deviation(m, n, ties);
    if spread == 0.0 {
        return Some(1.0);
    }
    let z = (((m * n) as f64 / 2.0 - u - 0.5) / spread).max(0.0);
    Some(2.0 * dist::normal_cdf(-z))
}

/// How many of the smallest and of the largest differences a `level` interval leaves out; `None`
/// where even leaving out none falls short of it.
fn lowest_kept(m: usize, n: usize, level: f64) -> Option<usize> {
    let tail = (1.0 - level) / 2.0;
    if m * n > EXACT_UP_TO {
        let reach = -dist::normal_quantile(tail) * deviation(m, n, 0.0);
        return Some(((m * n) as f64 / 2.0 - reach).floor().max(0.0) as usize);
    }
    last_within(&null_distribution(m, n), tail)
}

/// The same for the averages that [`signed_rank_center`] makes of `n` differences.
fn signed_rank_lowest_kept(n: usize, level: f64) -> Option<usize> {
    let tail = (1.0 - level) / 2.0;
    if n > 100 {
        let n = n as f64;
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let reach = -dist::normal_quantile(tail) * deviation;
        return Some((n * (n + 1.0) / 4.0 - reach).floor().max(0.0) as usize);
    }
    // Each rank i is added or not with probability 1/2: the coefficients of prod (1 + x^i) / 2.
    let mut distribution = vec![1.0];
    for rank in 1..=n {
        let mut next = vec![0.0; distribution.len() + rank];
        for (sum, p) in distribution.iter().enumerate() {
            next[sum] += p / 2.0;
            next[sum + rank] += p / 2.0;
        }
        distribution = next;
    }
    last_within(&distribution, tail)
}

/// The last index up to which the probabilities add up to at most `tail`.
fn last_within(distribution: &[f64], tail: f64) -> Option<usize> {
    let mut below = 0.0;
    let within = distribution.iter().take_while(|p| {
        below += **p;
        below <= tail
    });
    within.count().checked_sub(1)
}

/// Standard deviation of U if both come from one distribution; `ties` is the sum of t^3 - t.
fn deviation(m: usize, n: usize, ties: f64) -> f64 {
    let (pairs, all) = ((m * n) as f64, (m + n) as f64);
    (pairs / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)).max(1.0))).sqrt()
}

/// P(U = u) for u = 0..=m n: the coefficients of the Gaussian binomial, by Mann & Whitney's
/// recurrence. The largest observation comes from either sample; taking it away leaves a smaller
/// case.
fn null_distribution(m: usize, n: usize) -> Vec<f64> {
    // row[j] is the distribution for (i, j), built up over i.
    let mut row: Vec<Vec<f64>> = vec![vec![1.0]; n + 1];
    for i in 1..=m {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=n {
            let (take_i, take_j) = (i as f64 / (i + j) as f64, j as f64 / (i + j) as f64);
            let mut here = vec![0.0; i * j + 1];
            // The largest is of the second sample: it lies above all i of the first.
            for (u, p) in next[j - 1].iter().enumerate() {
                here[u + i] += take_j * p;
            }
            for (u, p) in row[j].iter().enumerate() {
                here[u] += take_i * p;
            }
            next.push(here);
        }
        row = next;
    }
    row.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::LEVEL;
    use proptest::prelude::*;

    #[test]
    fn the_null_distribution_matches_counting_all_orders() {
        for (m, n) in [(1, 1), (2, 3), (4, 4), (3, 5)] {
            let mut counts = vec![0.0; m * n + 1];
            let mut orders = 0.0;
            // Every choice of which of m + n ranks belong to the first sample.
            for choice in 0u32..1 << (m + n) {
                if choice.count_ones() as usize != m {
                    continue;
                }
                let u: u32 = (0..m + n)
                    .filter(|r| choice >> r & 1 == 0)
                    .map(|r| (choice & ((1 << r) - 1)).count_ones())
                    .sum();
                counts[u as usize] += 1.0;
                orders += 1.0;
            }
            for (got, count) in null_distribution(m, n).iter().zip(&counts) {
                assert!((got - count / orders).abs() < 1e-12, "{m} {n}");
            }
        }
    }

    #[test]
    fn smallest_samples_with_an_interval() {
        // 2 / C(8, 4) = 2.9 %; 2 / C(6, 3) = 10 %.
        assert_eq!(lowest_kept(4, 4, 0.95), Some(0));
        assert_eq!(lowest_kept(3, 3, 0.95), None);
        // Critical value 2 of U at 5 % two-sided, from the published table.
        assert_eq!(lowest_kept(5, 5, 0.95), Some(2));
        assert_eq!(lowest_kept(10, 10, 0.95), Some(23));
    }

    #[test]
    fn signed_rank_critical_values_match_the_published_table() {
        // Two-sided 5 % critical values of Wilcoxon's T: none, 0, 2, 8, 25, 52, 137.
        for (n, want) in [
            (5, None),
            (6, Some(0)),
            (7, Some(2)),
            (10, Some(8)),
            (15, Some(25)),
            (20, Some(52)),
            (30, Some(137)),
        ] {
            assert_eq!(signed_rank_lowest_kept(n, 0.95), want, "{n}");
        }
        // Exact and normal meet.
        let exact = signed_rank_lowest_kept(100, 0.95).unwrap();
        let normal = signed_rank_lowest_kept(101, 0.95).unwrap();
        assert!(normal > exact && normal - exact < 50, "{exact} {normal}");
    }

    #[test]
    fn what_rounds_share_cancels_in_a_paired_ratio() {
        let pairs: Vec<_> = (1..=8).map(|i| (f64::from(i), 1.25 * f64::from(i))).collect();
        let ratio = paired_ratio(&pairs, LEVEL).unwrap();
        assert!((ratio.value - 1.25).abs() < 1e-12 && ratio.interval.unwrap().half_width() < 1e-12);
        assert_eq!(paired_ratio(&[(0.0, 1.0)], LEVEL), None);
        assert_eq!(paired_ratio(&[], LEVEL), None);
    }

    #[test]
    fn complete_separation_has_the_smallest_p() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
        assert!((mann_whitney(&a, &b).unwrap() - 2.0 / 70.0).abs() < 1e-12);
        assert_eq!(mann_whitney(&a, &a), Some(1.0));
        assert_eq!(mann_whitney(&[1.0; 4], &[1.0; 4]), Some(1.0));
        assert_eq!(mann_whitney(&[], &a), None);
    }

    #[test]
    fn exact_and_normal_agree_where_they_meet() {
        let exact: f64 = null_distribution(50, 50).iter().take(965).sum();
        let z = (1250.0 - 964.0 - 0.5) / deviation(50, 50, 0.0);
        assert!((exact - dist::normal_cdf(-z)).abs() < 5e-4);
    }

    proptest! {
        #[test]
        fn a_shift_is_found_and_turns_over(
            a in prop::collection::vec(-10.0..10.0f64, 4..15),
            b in prop::collection::vec(-10.0..10.0f64, 4..15),
            shift in -5.0..5.0f64,
        ) {
            let plain = hodges_lehmann_shift(&a, &b, LEVEL).unwrap();
            let moved: Vec<f64> = b.iter().map(|v| v + shift).collect();
            let after = hodges_lehmann_shift(&a, &moved, LEVEL).unwrap();
            prop_assert!((after.value - plain.value - shift).abs() < 1e-9);
            let back = hodges_lehmann_shift(&b, &a, LEVEL).unwrap();
            prop_assert!((back.value + plain.value).abs() < 1e-9);
            let (i, j) = (plain.interval.unwrap(), back.interval.unwrap());
            prop_assert!((i.low + j.high).abs() < 1e-9 && i.contains(plain.value));
        }
    }
}
