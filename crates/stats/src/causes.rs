//! What correlates with a change, ordered by how much of it each could explain.
//!
//! Two configurations differ in a metric (cycles per packet) and in hundreds of counts. Which of
//! these correlate with it? Nothing here shows a cause: that takes an experiment. What can be said:
//!
//! 1. What did not change explains nothing: a metric is a candidate if its own test is significant
//!    at 5%.
//! 2. A count that changed little cannot explain a large change. If time is what n events cost plus
//!    the rest, halving time takes halving n at least; if each event's cost grows with their number,
//!    time grows as a power of n. The power that a count would need ([`Cause::power`]) is the number
//!    of doublings of time per doubling of the count. Up to 3 (each event costs more the more of them
//!    there are, as in queues and shared buses) the count could explain the change alone; beyond that
//!    it explains a part at most.
//! 3. A cause varies from run to run, and time varies with it. Metrics are ordered by their correlation
//!    with time over all runs, within and between the samples. If the correlations of two metrics do not
//!    differ at 1% (Williams' test if they were measured in the same runs, else Fisher's), they form one
//!    group, and no order is claimed between them.

use crate::correlation::{correlation, fisher_test, williams_test};
use crate::dist::t_quantile;
use crate::moderate::Change;
use crate::samples::{Scaled, TwoSamples, shared};

/// A figure whose own change is less sure than this is no candidate.
const CHANGED: f64 = 0.05;
/// Correlations whose difference is less sure than this are not told apart.
const TOLD_APART: f64 = 0.01;
/// The largest power of its number with which an event's cost is taken to grow.
const LARGEST_POWER: f64 = 3.0;

/// A metric that may explain a change of another.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// What it was.
    pub figure: &'a TwoSamples,
    /// Whether it changed; `None` where that could not be tested.
    pub change: Option<Change>,
}

/// How a metric that changed could be related to the change of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bearing {
    /// It changed enough to carry all of it.
    Enough,
    /// It changed too little to carry it alone.
    Part,
    /// It changed the other way: more of it correlates with less time.
    Against,
}

/// A metric that correlates with a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cause {
    /// Which of the candidates.
    pub index: usize,
    /// Counted from 1, the one that could explain most first; the order within a group is
    /// undetermined.
    pub group: usize,
    /// How it bears on the change.
    pub bearing: Bearing,
    /// Correlation over the runs that have both, and how many these are; `None` where too few are
    /// shared or one side does not vary.
    pub correlation: Option<(f64, usize)>,
    /// Time would have to grow with this power of it; `None` where a mean is not above 0.
    pub power: Option<f64>,
    /// The change divided by that of the metric: what each unit of it costs if it alone caused the
    /// change.
    pub needs: f64,
}

/// Candidates that go with a change of `target`, by group, best first.
pub fn rank_causes(target: &TwoSamples, candidates: &[Candidate<'_>]) -> Vec<Cause> {
    let Some(scaled) = target.scaled() else { return Vec::new() };
    // Candidates are not claims: either way of looking will do.
    let least = |change: &Change| change.moderated.map_or(change.own, |p| p.min(change.own));
    let changed = |c: &Candidate<'_>| c.change.is_some_and(|change| least(&change) <= CHANGED);
    let mut left: Vec<(Cause, Scaled)> = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| changed(candidate))
        .filter_map(|(index, c)| cause(index, target, &scaled, c.figure))
        .collect();
    let strength = |cause: &Cause| cause.correlation.map_or(0.0, |(r, _)| r.abs());
    left.sort_by(|(x, _), (y, _)| {
        x.bearing.cmp(&y.bearing).then(strength(y).total_cmp(&strength(x)))
    });
    let mut ranked = Vec::new();
    let mut group = 0;
    while !left.is_empty() {
        group += 1;
        let (mut leader, figure) = left.remove(0);
        leader.group = group;
        ranked.push(leader);
        left.retain_mut(|(cause, scaled)| {
            let joins = cause.bearing == leader.bearing
                && !can_be_told_apart((&leader, &figure), (cause, scaled));
            if joins {
                cause.group = group;
                ranked.push(*cause);
            }
            !joins
        });
    }
    ranked
}

fn cause(
    index: usize,
    target: &TwoSamples,
    target_scaled: &Scaled,
    figure: &TwoSamples,
) -> Option<(Cause, Scaled)> {
    let scaled = figure.scaled()?;
    let shift = |two: &TwoSamples| {
        let (a, b) = two.values();
        Some(crate::mean(&b)? - crate::mean(&a)?)
    };
    let needs = shift(target)? / shift(figure)?;
    if !needs.is_finite() || needs == 0.0 {
        return None;
    }
    let both_log = target_scaled.is_log && scaled.is_log;
    let (of_target, of_figure) = (reach(target_scaled)?, reach(&scaled)?);
    // The doubt is the figure's: the least power that the intervals allow decides.
    let least = ((of_target.0.abs() - of_target.1) / (of_figure.0.abs() + of_figure.1)).max(0.0);
    let bearing = match needs {
        needs if needs < 0.0 => Bearing::Against,
        _ if both_log && least > LARGEST_POWER => Bearing::Part,
        _ => Bearing::Enough,
    };
    let power = both_log.then(|| of_target.0 / of_figure.0).filter(|power| power.is_finite());
    let pairs = shared(target_scaled, &scaled, false);
    let correlation = correlation(&pairs).map(|r| (r, pairs.len()));
    Some((Cause { index, group: 0, bearing, correlation, power, needs }, scaled))
}

/// The shift between the samples, and half of its 95 % interval.
fn reach(scaled: &Scaled) -> Option<(f64, f64)> {
    let moments = scaled.moments(0.0)?;
    let (error, freedom) = moments.error();
    if error == 0.0 {
        return Some((moments.shift, 0.0));
    }
    Some((moments.shift, t_quantile(0.5 + crate::LEVEL / 2.0, freedom) * error))
}

/// Whether the leader goes with the target better than `other` does, beyond what chance makes.
fn can_be_told_apart(leader: (&Cause, &Scaled), other: (&Cause, &Scaled)) -> bool {
    let (Some((r, n)), Some((s, m))) = (leader.0.correlation, other.0.correlation) else {
        return false;
    };
    let pairs = shared(leader.1, other.1, false);
    let p = match correlation(&pairs).filter(|_| pairs.len() == n.min(m)) {
        // Signs are those of the group's bearing.
        Some(between) => williams_test(r.abs(), s.abs(), between * (r * s).signum(), pairs.len()),
        None => fisher_test((r.abs(), n), (s.abs(), m)),
    };
    p.is_some_and(|p| p <= TOLD_APART)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moderate::change_tests;

    fn two(a: &[f64], b: &[f64]) -> TwoSamples {
        let number = |values: &[f64]| values.iter().copied().enumerate().collect();
        TwoSamples { a: number(a), b: number(b), resolution: 0.0 }
    }

    fn ranked(target: &TwoSamples, figures: &[TwoSamples]) -> Vec<Cause> {
        let tested = change_tests(figures);
        let candidates: Vec<Candidate<'_>> = figures
            .iter()
            .zip(tested)
            .map(|(figure, change)| Candidate { figure, change })
            .collect();
        rank_causes(target, &candidates)
    }

    #[test]
    fn what_carries_stands_before_what_changed_little_or_the_other_way() {
        let time = two(&[600.0, 603.0, 598.0, 601.0], &[400.0, 402.0, 399.0, 398.0]);
        let little = two(&[0.94, 0.941, 0.939, 0.94], &[0.88, 0.881, 0.879, 0.88]);
        let hits = two(&[3.0, 3.01, 2.99, 3.0], &[9.0, 9.03, 9.02, 8.97]);
        let same = two(&[5.0, 5.1, 4.9, 5.0], &[5.0, 5.1, 5.0, 4.9]);
        let misses = two(&[6.0, 6.03, 5.97, 6.02], &[2.0, 2.01, 2.0, 1.99]);
        let got = ranked(&time, &[little, hits, same, misses]);
        let order: Vec<_> = got.iter().map(|c| (c.index, c.group, c.bearing)).collect();
        assert_eq!(
            order,
            [(3, 1, Bearing::Enough), (0, 2, Bearing::Part), (1, 3, Bearing::Against)]
        );
        assert!((got[0].needs - 50.0).abs() < 0.5 && got[1].power.unwrap() > 6.0);
    }

    #[test]
    fn what_came_from_nothing_could_carry_it() {
        let time = two(&[50.0, 50.1, 49.9], &[665.0, 666.0, 664.0]);
        let from_nothing = two(&[0.0, 0.0, 0.0], &[0.941, 0.942, 0.94]);
        let got = ranked(&time, &[from_nothing]);
        assert_eq!((got[0].bearing, got[0].power), (Bearing::Enough, None));
        assert!((got[0].needs - 653.6).abs() < 0.1);
    }

    /// Runs that no other figure was measured in cannot order figures by how they go with time.
    #[test]
    fn figures_of_different_runs_are_told_apart_by_many_runs_only() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut noise = |runs: std::ops::Range<usize>, level: f64, spread: f64| {
            runs.map(|run| (run, level + spread * (rng.f64() - 0.5))).collect::<Vec<_>>()
        };
        let mut figure = |runs: std::ops::Range<usize>| TwoSamples {
            a: noise(runs.clone(), 10.0, 1.0),
            b: noise(runs, 20.0, 1.0),
            resolution: 0.0,
        };
        let (time, figures) = (figure(0..10), [figure(0..5), figure(5..10)]);
        let mut got = ranked(&time, &figures);
        got.sort_by_key(|cause| cause.index);
        let groups: Vec<(usize, usize)> = got.iter().map(|c| (c.index, c.group)).collect();
        assert_eq!(groups, [(0, 1), (1, 1)]);
    }
}
