//! When a placement has become as good as the best binding's, and whether it stays so.
//!
//! ```text
//!  share of the best                                     perturbed
//!  1.0 |            ______      ___________________          |        _____________
//!  0.95|-----------/------\----/-------------------\---------v-------/-------------
//!      |     _____/        \__/ <-- held k s: here   \______________/
//!      |____/                                         again after ──►
//!      +-----------|--------|--|---------------------------------------------------> time
//!            not held long enough
//! ```
//!
//! A kernel's own benchmark asks where the threads of each process ran last, once, and not where the memory
//! is; that can be an accident of one moment. Here both must be right, and stay so.

use serde::{Deserialize, Serialize};

use crate::placement::{Placement, evenness};

/// What a workload's placement is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConvergenceRule {
    /// Locality: each process fits a node.
    Locality,
    /// Evenness of pages over nodes: memory that is larger than a node, or whose threads are more than a node's
    /// CPUs. No placement makes all of it local, so the best is that all nodes' memory is used.
    Evenness,
}

impl ConvergenceRule {
    /// The value of a placement, 0 to 1; `None` without pages or threads.
    #[must_use]
    pub fn value(self, placement: &Placement) -> Option<f64> {
        match self {
            Self::Locality => placement.locality(),
            Self::Evenness => evenness(&placement.pages()),
        }
    }
}

/// What counts as converged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Criterion {
    /// By how much less than the best binding's value, as a share of it: 0.05.
    pub within: f64,
    /// For how long without a break, seconds.
    pub hold_s: f64,
}

impl Default for Criterion {
    fn default() -> Self {
        Self { within: 0.05, hold_s: 2.0 }
    }
}

/// An observation of a placement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlacementPoint {
    /// Seconds since the work began.
    pub at_s: f64,
    /// What [`ConvergenceRule::value`] says; `None` where nothing could be seen.
    pub value: Option<f64>,
}

/// Whether, when and for how long a placement was as good as the best.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// Seconds from the start to the beginning of the first stretch that held long enough; `None`: not within
    /// the time that was watched.
    pub after_s: Option<f64>,
    /// It was so at the first observation already: nobody had to move anything.
    pub from_the_start: bool,
    /// How often it was lost again afterwards.
    pub lost: usize,
    /// Share of the observations, 0 to 1, that were good.
    pub share: f64,
    /// Seconds that were watched.
    pub watched_s: f64,
}

/// Judges looks in the order of time against the `best` binding's value. `None` without looks.
#[must_use]
pub fn convergence(
    points: &[PlacementPoint],
    best: f64,
    criterion: &Criterion,
) -> Option<Convergence> {
    let (first, last) = (points.first()?, points.last()?);
    let good =
        |point: &PlacementPoint| point.value.is_some_and(|value| is_good(value, best, criterion));
    let mut held = points
        .chunk_by(|a, b| good(a) == good(b))
        .filter(|stretch| good(&stretch[0]))
        .filter(|stretch| duration(stretch) >= criterion.hold_s - TOLERANCE_S)
        .map(|stretch| (stretch[0].at_s, stretch[stretch.len() - 1].at_s));
    let after = held.next();
    let ends = after.into_iter().chain(held).map(|(_, end)| end);
    Some(Convergence {
        after_s: after.map(|(start, _)| start),
        from_the_start: after.is_some_and(|(start, _)| start <= first.at_s),
        lost: ends.filter(|&end| end < last.at_s).count(),
        share: points.iter().filter(|point| good(point)).count() as f64 / points.len() as f64,
        watched_s: last.at_s,
    })
}

/// Whether an observation is as good as the best, less what the criterion allows.
#[must_use]
pub fn is_good(value: f64, best: f64, criterion: &Criterion) -> bool {
    // A hair, for sums of fractions.
    value >= best * (1.0 - criterion.within) - 1e-9
}

/// Whether the placement is good now and has been for as long as the criterion asks: a run can end.
#[must_use]
pub fn holds(points: &[PlacementPoint], best: f64, criterion: &Criterion) -> bool {
    let good =
        |point: &&PlacementPoint| point.value.is_some_and(|value| is_good(value, best, criterion));
    let length = points.iter().rev().take_while(good).count();
    length > 0 && duration(&points[points.len() - length..]) >= criterion.hold_s - TOLERANCE_S
}

/// Looks come at whole intervals, about: what misses by so much is not shorter.
const TOLERANCE_S: f64 = 0.02;

fn duration(stretch: &[PlacementPoint]) -> f64 {
    stretch[stretch.len() - 1].at_s - stretch[0].at_s
}

/// Seconds from a disturbance at `at_s` until the placement is good again and holds. `None`: not within the
/// time that was watched, or until `until_s`, when the next disturbance came.
#[must_use]
pub fn again_after(
    points: &[PlacementPoint],
    (at_s, until_s): (f64, f64),
    best: f64,
    criterion: &Criterion,
) -> Option<f64> {
    let from = points.partition_point(|point| point.at_s < at_s);
    let to = points.partition_point(|point| point.at_s < until_s);
    let found = convergence(points.get(from..to)?, best, criterion)?;
    found.after_s.map(|after| after - at_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Area;
    use proptest::prelude::*;

    const STRICT: Criterion = Criterion { within: 0.05, hold_s: 1.0 };

    fn points(values: &[f64]) -> Vec<PlacementPoint> {
        let point =
            |(i, &value)| PlacementPoint { at_s: 0.25 * (i + 1) as f64, value: Some(value) };
        values.iter().enumerate().map(point).collect()
    }

    /// The drawing above: a short good stretch, one that holds, one more after a disturbance.
    #[test]
    fn the_drawing_is_right() {
        let values = [
            0.2, 0.5, 0.96, 0.96, 0.7, 0.96, 1.0, 1.0, 0.97, 0.96, 0.4, 0.5, 1.0, 1.0, 1.0, 1.0,
            1.0,
        ];
        let points = points(&values);
        let found = convergence(&points, 1.0, &STRICT).unwrap();
        assert_eq!(found.after_s, Some(1.5));
        assert_eq!((found.lost, found.from_the_start, found.watched_s), (1, false, 4.25));
        assert_eq!(found.share, 12.0 / 17.0);
        assert_eq!(again_after(&points, (2.5, 4.25), 1.0, &STRICT), None);
        assert_eq!(again_after(&points, (2.5, 9.0), 1.0, &STRICT), Some(0.75));
        let holds_at = |n: usize| holds(&points[..n], 1.0, &STRICT);
        assert_eq!([9, 10, 11, 16, 17].map(holds_at), [false, true, false, false, true]);
    }

    #[test]
    fn what_the_best_binding_reaches_is_enough() {
        let quarter = points(&[0.25; 8]);
        assert_eq!(convergence(&quarter, 1.0, &STRICT).unwrap().after_s, None);
        let found = convergence(&quarter, 0.25, &STRICT).unwrap();
        assert_eq!((found.after_s, found.from_the_start, found.lost), (Some(0.25), true, 0));
        assert_eq!(convergence(&[], 1.0, &STRICT), None);
        let blind = [PlacementPoint { at_s: 1.0, value: None }; 3];
        assert_eq!(convergence(&blind, 0.0, &STRICT).unwrap().share, 0.0);
    }

    #[test]
    fn shared_memory_is_judged_by_how_even_it_is() {
        let area = Area { pages: vec![50.0, 50.0], threads: vec![2.0, 2.0] };
        let placement = Placement { areas: vec![area] };
        assert_eq!(ConvergenceRule::Evenness.value(&placement), Some(1.0));
        assert_eq!(ConvergenceRule::Locality.value(&placement), Some(0.5));
        assert_eq!(ConvergenceRule::Evenness.value(&Placement::default()), None);
    }

    proptest! {
        /// Against going through all pairs of observations.
        #[test]
        fn it_is_the_first_stretch_that_is_good_throughout(
            values in prop::collection::vec(prop::option::of(0.0..1.2f64), 1..40),
            best in 0.1..1.0f64,
            hold in 0..6usize,
        ) {
            let points: Vec<PlacementPoint> = values
                .iter()
                .enumerate()
                .map(|(i, &value)| PlacementPoint { at_s: i as f64, value })
                .collect();
            let criterion = Criterion { within: 0.1, hold_s: hold as f64 };
            let good = |i: usize| values[i].is_some_and(|value| value >= best * 0.9 - 1e-9);
            let naive = (0..values.len())
                .find(|&i| i + hold < values.len() && (i..=i + hold).all(good));
            let found = convergence(&points, best, &criterion).unwrap();
            prop_assert_eq!(found.after_s, naive.map(|i| i as f64));
            let n = values.len();
            let held = n > hold && (n - 1 - hold..n).all(good);
            prop_assert_eq!(holds(&points, best, &criterion), held);
        }
    }
}
