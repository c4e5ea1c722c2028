//! Ratios of sums over clusters, such as the hosts of a fleet: what one host does is alike, so the hosts are the
//! unit of variation, not the blocks of time of each.
//!
//! ```text
//!  host      numerator  denominator          all            without host 1   without host 2   …
//!  1         n1         d1                   Σn / Σd        θ₁               θ₂
//!  2         n2         d2            θ = ln(Σn / Σd)   variance = (k - 1)/k · Σ (θᵢ - mean θᵢ)²
//!  …
//! ```
//! The delete-one jackknife of a logarithm, with Student's quantile of `k - 1` degrees of freedom (Efron 1982, The
//! Jackknife, the Bootstrap and Other Resampling Plans, ch. 3).

use crate::dist;
use crate::interval::{Estimate, Interval};

/// Fewer clusters have no interval.
pub const MIN_CLUSTERS: usize = 3;

/// The logarithm of a ratio of sums, or of a ratio of such ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogRatio {
    /// The natural logarithm.
    pub log: f64,
    /// Its variance and degrees of freedom; `None` with fewer than [`MIN_CLUSTERS`], or where all of a sum comes from
    /// one cluster.
    pub error: Option<LogError>,
    /// Clusters; of a comparison those of the smaller side.
    pub n: usize,
}

/// How far a logarithm may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogError {
    /// Variance.
    pub variance: f64,
    /// Degrees of freedom of that variance.
    pub freedom: f64,
}

impl LogRatio {
    /// Of the sums of clusters, each a numerator and a denominator that are not negative. `None` unless both sums are
    /// positive.
    pub fn of(clusters: &[(f64, f64)]) -> Option<Self> {
        let rows: Vec<[f64; 2]> = clusters.iter().map(|&(n, d)| [n, d]).collect();
        delete_one(&rows, &[1.0, -1.0])
    }

    /// Of the change from `a` to `b` where every cluster has both: each is numerator and denominator of `a`, then of
    /// `b`. What a cluster does alike on both sides cancels.
    pub fn paired(clusters: &[[f64; 4]]) -> Option<Self> {
        delete_one(clusters, &[-1.0, 1.0, 1.0, -1.0])
    }

    /// Of any positive statistic that is smooth in the sums of clusters: its value, and that without each cluster. `None`
    /// unless the value is positive; without an error where one of the others is not.
    pub fn of_statistic(value: f64, without: &[f64]) -> Option<Self> {
        let log = |value: f64| (value > 0.0 && value.is_finite()).then(|| value.ln());
        let logs: Option<Vec<f64>> = without.iter().map(|&one| log(one)).collect();
        Some(jackknife(log(value)?, logs, without.len()))
    }

    /// Of the change from `self` to `other`, which have no cluster in common; degrees of freedom after Welch and
    /// Satterthwaite (1946).
    #[must_use]
    pub fn change_to(&self, other: &Self) -> Self {
        let error = self.error.zip(other.error).map(|(a, b)| {
            let variance = a.variance + b.variance;
            let parts = a.variance.powi(2) / a.freedom + b.variance.powi(2) / b.freedom;
            let freedom =
                if parts > 0.0 { variance.powi(2) / parts } else { a.freedom + b.freedom };
            LogError { variance, freedom }
        });
        Self { log: other.log - self.log, error, n: self.n.min(other.n) }
    }

    /// The ratio with its interval.
    #[must_use]
    pub fn estimate(&self, level: f64) -> Estimate {
        let interval = self.error.and_then(|LogError { variance, freedom }| {
            let reach = dist::t_quantile(0.5 + level / 2.0, freedom) * variance.sqrt();
            let (low, high) = ((self.log - reach).exp(), (self.log + reach).exp());
            reach.is_finite().then_some(Interval { low, high, level })
        });
        Estimate { value: self.log.exp(), interval, n: self.n }
    }

    /// Two-sided p-value that the ratio is 1; `None` without an error or without any spread.
    #[must_use]
    pub fn p_of_one(&self) -> Option<f64> {
        let LogError { variance, freedom } = self.error.filter(|error| error.variance > 0.0)?;
        Some(2.0 * dist::t_cdf(-(self.log / variance.sqrt()).abs(), freedom))
    }
}

/// The sum of the logarithms of the columns' sums, each times its sign, and how much that differs without each row.
fn delete_one<const N: usize>(rows: &[[f64; N]], signs: &[f64; N]) -> Option<LogRatio> {
    let sums: [f64; N] = std::array::from_fn(|at| rows.iter().map(|row| row[at]).sum());
    let log_of = |sums: &[f64; N]| -> Option<f64> {
        let is_there = sums.iter().all(|&sum| sum > 0.0 && sum.is_finite());
        is_there.then(|| sums.iter().zip(signs).map(|(sum, sign)| sign * sum.ln()).sum())
    };
    let log = log_of(&sums)?;
    let without: Option<Vec<f64>> =
        rows.iter().map(|row| log_of(&std::array::from_fn(|at| rest(sums[at], row[at])))).collect();
    Some(jackknife(log, without, rows.len()))
}

/// Of a logarithm and those without each of `n` clusters, if all of these are known.
fn jackknife(log: f64, without: Option<Vec<f64>>, n: usize) -> LogRatio {
    let k = n as f64;
    let error = without.filter(|_| n >= MIN_CLUSTERS).map(|without| {
        let mean = without.iter().sum::<f64>() / k;
        let squares: f64 = without.iter().map(|one| (one - mean).powi(2)).sum();
        LogError { variance: (k - 1.0) / k * squares, freedom: k - 1.0 }
    });
    LogRatio { log, error, n }
}

/// A sum without one of its parts; nothing where what remains is only the error of rounding.
fn rest(sum: f64, part: f64) -> f64 {
    let rest = sum - part;
    if rest > sum * 1e-12 { rest } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LEVEL;
    use proptest::prelude::*;

    fn ratio(clusters: &[(f64, f64)]) -> Option<Estimate> {
        LogRatio::of(clusters).map(|ratio| ratio.estimate(LEVEL))
    }

    #[test]
    fn what_cannot_be_estimated_is_none() {
        assert_eq!(ratio(&[]), None);
        assert_eq!(ratio(&[(0.0, 5.0), (0.0, 2.0)]), None);
        let two = ratio(&[(1.0, 2.0), (2.0, 3.0)]).unwrap();
        assert!((two.value - 3.0 / 5.0).abs() < 1e-12);
        assert_eq!((two.interval, two.n), (None, 2));
        // All of it comes from one of three: nothing says how the others may differ.
        assert_eq!(ratio(&[(1.0, 2.0), (0.0, 3.0), (0.0, 4.0)]).unwrap().interval, None);
        assert_eq!(LogRatio::of(&[(1.0, 2.0), (0.0, 3.0)]).unwrap().p_of_one(), None);
    }

    #[test]
    fn equal_hosts_have_an_interval_without_width_and_no_p_value() {
        let equal = ratio(&[(1.0, 4.0); 5]).unwrap();
        let interval = equal.interval.unwrap();
        assert!((interval.high - interval.low).abs() < 1e-9 && (equal.value - 0.25).abs() < 1e-12);
        assert_eq!(LogRatio::of(&[(1.0, 4.0); 4]).unwrap().p_of_one(), None);
    }

    proptest! {
        /// Against sums made anew without each cluster.
        #[test]
        fn the_variance_is_that_of_ratios_made_without_each(
            clusters in prop::collection::vec((0.1..10.0_f64, 0.1..10.0_f64), 3..9),
            scale in 1e-6..1e6_f64,
        ) {
            let found = LogRatio::of(&clusters).unwrap();
            let without = |left: usize| {
                let rest = || clusters.iter().enumerate().filter(move |(at, _)| *at != left);
                let n: f64 = rest().map(|(_, one)| one.0).sum();
                let d: f64 = rest().map(|(_, one)| one.1).sum();
                (n / d).ln()
            };
            let k = clusters.len() as f64;
            let logs: Vec<f64> = (0..clusters.len()).map(without).collect();
            // The same as of any other statistic.
            let values: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
            let same = LogRatio::of_statistic(found.log.exp(), &values).unwrap();
            prop_assert!((same.log - found.log).abs() < 1e-9);
            prop_assert_eq!(LogRatio::of_statistic(-1.0, &values), None);
            let mean = logs.iter().sum::<f64>() / k;
            let expected = (k - 1.0) / k * logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            let error = found.error.unwrap();
            prop_assert!((error.variance - expected).abs() <= 1e-9 * expected.max(1e-9));
            // Units do not matter.
            let scaled: Vec<(f64, f64)> = clusters.iter().map(|&(n, d)| (n * scale, d)).collect();
            let scaled = LogRatio::of(&scaled).unwrap();
            prop_assert!((scaled.log - found.log - scale.ln()).abs() < 1e-9);
            prop_assert!((scaled.error.unwrap().variance - error.variance).abs() <= 1e-9);
        }

        /// The other direction is the reciprocal, as likely.
        #[test]
        fn changes_are_the_same_seen_from_either_side(
            rows in prop::collection::vec(prop::array::uniform4(0.1..10.0_f64), 3..9),
        ) {
            let side = |n: usize, d: usize| {
                LogRatio::of(&rows.iter().map(|row| (row[n], row[d])).collect::<Vec<_>>()).unwrap()
            };
            let (a, b) = (side(0, 1), side(2, 3));
            let (there, back) = (a.change_to(&b), b.change_to(&a));
            prop_assert!((there.log + back.log).abs() < 1e-12);
            prop_assert_eq!(there.p_of_one(), back.p_of_one());
            let paired = LogRatio::paired(&rows).unwrap();
            prop_assert!((paired.log - there.log).abs() < 1e-9);
        }
    }

    /// A fleet without any change: hosts differ by 5%, blocks of a host by 20%; shares by blocks are summed per host.
    fn host(rng: &mut fastrand::Rng) -> (f64, f64) {
        let normal = |rng: &mut fastrand::Rng| {
            let sum: f64 = (0..12).map(|_| rng.f64()).sum();
            sum - 6.0
        };
        let own = 0.1 * (0.05 * normal(rng)).exp();
        let load = (0.5 * normal(rng)).exp();
        let blocks = (0..24).map(|_| {
            let all = load * (0.2 * normal(rng)).exp();
            (all * own * (0.2 * normal(rng)).exp(), all)
        });
        blocks.fold((0.0, 0.0), |(n, d), (own, all)| (n + own, d + all))
    }

    /// Claims at a level of 5%, and intervals that hold the true share, of 1,000 pairs of fleets each.
    #[test]
    fn fleets_without_a_change_are_claimed_to_differ_at_the_nominal_rate() {
        for hosts in [3, 5, 10, 50] {
            let mut rng = fastrand::Rng::with_seed(hosts as u64);
            let (mut claims, mut held) = (0, 0);
            // What a fleet of any number of hosts tends to.
            let many: Vec<(f64, f64)> = (0..20_000).map(|_| host(&mut rng)).collect();
            let truth = LogRatio::of(&many).unwrap().log.exp();
            for _ in 0..1000 {
                let mut fleet = || (0..hosts).map(|_| host(&mut rng)).collect::<Vec<_>>();
                let (a, b) = (LogRatio::of(&fleet()).unwrap(), LogRatio::of(&fleet()).unwrap());
                claims += u32::from(a.change_to(&b).p_of_one().unwrap() < 0.05);
                held += u32::from(a.estimate(LEVEL).interval.unwrap().contains(truth));
            }
            println!(
                "{hosts} hosts: {claims} of 1000 claimed, {held} of 1000 intervals hold the share"
            );
            // Four standard errors around 5% (2.2% to 7.8%); of the interval 93% to 97% is asked for.
            assert!((22..=78).contains(&claims), "{hosts} hosts: {claims} of 1000 claimed");
            assert!((922..=978).contains(&held), "{hosts} hosts: {held} of 1000 held");
        }
    }
}
