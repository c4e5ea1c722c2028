//! Stratified estimate of a total over time, of which only parts were observed.
//!
//! Time is divided into strata. In each, a part was observed and the events in it were counted:
//!
//! ```text
//!  time    │███──────│████─────│─────────│██───────│      █ looked at
//!  counted    17          21                 9
//! ```
//!
//! Each is estimated on its own, `counted · length / looked at`: how much is observed may depend on how
//! much happens, as under an overhead limit, and then the ratio of the sums would be biased. A stretch
//! that was not observed belongs to the one before. A stratum with one observation has no variance of
//! its own; it is taken from its neighbors (Cochran 1977, Sampling Techniques, section 5A.12, collapsed
//! strata), with the finite population correction of section 5.3: the observed part is known. Rates of
//! unequal stretches vary by their length, as those of white noise do.

use crate::dist::t_quantile;
use crate::interval::{Estimate, Interval, LEVEL};

/// A stretch of time, all in one unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stratum {
    /// How long it was.
    pub length: f64,
    /// How much of it was observed.
    pub seen: f64,
    /// What was counted there.
    pub count: f64,
}

/// Of a rate of 0, as often as this over the part looked at might have happened with 5 % chance:
/// -ln 0.05 ("rule of three").
const THREE: f64 = 2.995_732_273_553_991;

/// The total over several independent series of stretches, each of which covers the same time: the
/// count if all of the time had been observed. `None` if a series was not observed at all. No
/// interval if it cannot be determined: a series with one stretch that was observed in part.
#[must_use]
pub fn stratified_total(series: &[Vec<Stratum>]) -> Option<Estimate> {
    let mut sum = Total { value: 0.0, seen: 0.0, variance: Some(0.0), squares: 0.0, n: 0 };
    let mut unseen_zero: f64 = 0.0;
    for stretches in series {
        let strata = strata(stretches);
        if strata.is_empty() {
            return None;
        }
        let total = Total::of(&strata);
        if total.seen == 0.0 {
            let (length, seen) = strata
                .iter()
                .fold((0.0, 0.0), |(length, seen), one| (length + one.length, seen + one.seen));
            unseen_zero += THREE * (length / seen) * (1.0 - (seen / length)).max(0.0);
        }
        sum.value += total.value;
        sum.seen += total.seen;
        sum.variance = sum.variance.zip(total.variance).map(|(a, b)| a + b);
        sum.squares += total.squares;
        sum.n += total.n;
    }
    let interval = sum.variance.map(|variance| {
        let freedom = (2.0 / 3.0 * (variance * variance / sum.squares - 1.0)).max(1.0);
        let half = match variance > 0.0 {
            true => t_quantile(0.5 + LEVEL / 2.0, freedom) * variance.sqrt(),
            false => 0.0,
        };
        // What was counted did happen.
        let low = (sum.value - half).max(sum.seen);
        Interval { low, high: sum.value + half.max(unseen_zero), level: LEVEL }
    });
    Some(Estimate { value: sum.value, interval, n: sum.n })
}

struct Total {
    value: f64,
    /// What was counted.
    seen: f64,
    variance: Option<f64>,
    /// Of the variances of strata.
    squares: f64,
    n: usize,
}

impl Total {
    fn of(strata: &[Stratum]) -> Self {
        let value = strata.iter().map(|one| one.count * one.length / one.seen).sum();
        let seen = strata.iter().map(|one| one.count).sum();
        let in_part = strata.iter().any(|one| one.seen < one.length);
        let noise = noise(strata);
        let mut variance = (!in_part).then_some(0.0);
        let mut squares = 0.0;
        if in_part && strata.len() > 1 {
            let each = strata.iter().zip(noise).map(|(one, noise)| {
                let share = (one.seen / one.length).min(1.0);
                one.length * one.length * (1.0 - share) * noise / one.seen
            });
            let each: Vec<f64> = each.collect();
            variance = Some(each.iter().sum());
            squares = each.iter().map(|v| v * v).sum();
        }
        Self { value, seen, variance, squares, n: strata.len() }
    }
}

/// What was looked at, with what follows and was not; what comes before the first belongs to it.
fn strata(stretches: &[Stratum]) -> Vec<Stratum> {
    let mut strata: Vec<Stratum> = Vec::new();
    let mut before = 0.0;
    for one in stretches.iter().filter(|one| one.length > 0.0) {
        match (one.seen > 0.0, strata.last_mut()) {
            (true, _) => {
                let length = one.length + std::mem::take(&mut before);
                strata.push(Stratum { length, seen: one.seen.min(one.length), ..*one });
            }
            (false, Some(last)) => last.length += one.length,
            (false, None) => before += one.length,
        }
    }
    strata
}

/// Variance of the rate of each stratum for one unit of time, from its neighbors.
fn noise(strata: &[Stratum]) -> Vec<f64> {
    let rate = |one: &Stratum| one.count / one.seen;
    let between: Vec<f64> = strata
        .windows(2)
        .map(|pair| {
            let difference = rate(&pair[0]) - rate(&pair[1]);
            difference * difference / (1.0 / pair[0].seen + 1.0 / pair[1].seen)
        })
        .collect();
    let of = |at: usize| {
        let left = at.checked_sub(1).map(|left| between[left]);
        match (left, between.get(at)) {
            (Some(left), Some(right)) => (left + right) / 2.0,
            (Some(one), None) => one,
            (None, Some(one)) => *one,
            (None, None) => 0.0,
        }
    };
    (0..strata.len()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn stretch(length: f64, seen: f64, count: f64) -> Stratum {
        Stratum { length, seen, count }
    }

    #[test]
    fn what_was_seen_all_the_time_is_exact() {
        let all = vec![stretch(10.0, 10.0, 3.0), stretch(5.0, 5.0, 40.0)];
        let total = stratified_total(&[all]).unwrap();
        let interval = total.interval.unwrap();
        assert_eq!((total.value, interval.low, interval.high), (43.0, 43.0, 43.0));
    }

    #[test]
    fn what_was_not_seen_belongs_to_its_neighbor() {
        let turns = [stretch(1.0, 0.0, 0.0), stretch(1.0, 1.0, 6.0), stretch(2.0, 0.0, 0.0)];
        let total = stratified_total(&[turns.to_vec()]).unwrap();
        assert_eq!((total.value, total.interval, total.n), (24.0, None, 1));
        assert_eq!(stratified_total(&[turns[..1].to_vec()]), None);
        assert_eq!(stratified_total(&[turns.to_vec(), Vec::new()]), None);
    }

    #[test]
    fn nothing_seen_does_not_say_that_nothing_was() {
        let total = stratified_total(&[vec![stretch(10.0, 5.0, 0.0); 4]]).unwrap();
        let interval = total.interval.unwrap();
        assert_eq!((total.value, interval.low), (0.0, 0.0));
        assert!((interval.high - THREE).abs() < 1e-9, "{interval:?}");
    }

    /// Under a limit the busy stretches are looked at for less: the ratio of sums would be half.
    #[test]
    fn a_limit_that_looks_less_where_more_happens_does_not_bias() {
        let both = [stretch(100.0, 1.0, 1000.0), stretch(100.0, 100.0, 1000.0)];
        let total = stratified_total(&[both.repeat(20)]).unwrap();
        assert!((total.value - 20.0 * 101_000.0).abs() < 1e-6, "{total:?}");
    }

    /// Hits come at a rate that wanders, in clusters; slices are looked at somewhere in each stretch.
    #[test]
    fn the_interval_covers_the_true_number() {
        let mut rng = Rng::with_seed(7);
        let (mut covered, mut width) = (0, 0.0);
        let runs = 400;
        for _ in 0..runs {
            let (mut stretches, mut truth) = (Vec::new(), 0.0);
            let mut level = 4.0;
            for _ in 0..60 {
                level = (level + rng.f64() - 0.5_f64).clamp(1.0, 8.0);
                let share = 0.1 + 0.5 * rng.f64();
                let (mut all, mut seen, mut looked) = (0.0, 0.0, 0.0);
                // 40 moments of the stretch; each is looked at or not.
                for _ in 0..40 {
                    let hits = if rng.f64() < 0.25 { level * 4.0 * -rng.f64().ln() } else { 0.0 };
                    let hits = hits.round();
                    all += hits;
                    if rng.f64() < share {
                        seen += hits;
                        looked += 1.0;
                    }
                }
                truth += all;
                stretches.push(stretch(40.0, looked, seen));
            }
            let total = stratified_total(&[stretches]).unwrap();
            let interval = total.interval.unwrap();
            covered += usize::from(interval.contains(truth));
            width += interval.half_width() / truth;
        }
        let share = covered as f64 / f64::from(runs);
        assert!((0.92..=0.985).contains(&share), "{share}");
        assert!(width / f64::from(runs) < 0.3, "{}", width / f64::from(runs));
    }
}
