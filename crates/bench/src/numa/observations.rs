//! What was seen of a run over time, and what follows from it: convergence, speed before and after.

use pmuscope_measure::{Origin, Timeline, TimelineColumn};
use pmuscope_numa::convergence::{
    Convergence, Criterion, PlacementPoint, again_after, convergence, holds,
};

use super::figures::{BYTES, LOCALITY, PLACED, SPEED};

/// Column: perturbations up to then.
const PERTURBATIONS: &str = "perturbations";
const GB: f64 = 1e9;

/// An observation of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Observation {
    /// Seconds since the work began.
    pub(super) at_s: f64,
    /// Locality of all memory with its threads.
    pub(super) locality: Option<f64>,
    /// What it is judged by: that, or evenness.
    pub(super) value: Option<f64>,
    /// Bytes that all threads have gone through, up to then.
    pub(super) bytes: u64,
    /// Perturbations so far.
    pub(super) perturbations: u64,
}

/// Looks in the order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Observations(pub(super) Vec<Observation>);

impl Observations {
    fn points(&self) -> Vec<PlacementPoint> {
        self.0
            .iter()
            .map(|observation| PlacementPoint { at_s: observation.at_s, value: observation.value })
            .collect()
    }

    /// Whether, when and for how long it was as good as the best binding, which has `best`.
    pub(super) fn convergence(&self, best: f64, criterion: &Criterion) -> Option<Convergence> {
        convergence(&self.points(), best, criterion)
    }

    /// Whether it is as good now, and has been for as long as is asked for.
    pub(super) fn holds(&self, best: f64, criterion: &Criterion) -> bool {
        holds(&self.points(), best, criterion)
    }

    /// For each perturbation, how long until it was good again; `None` for one that it never was after.
    pub(super) fn convergence_again(&self, best: f64, criterion: &Criterion) -> Vec<Option<f64>> {
        let points = self.points();
        // It was moved at some time between the two.
        let moved: Vec<(f64, f64)> = self
            .0
            .windows(2)
            .filter(|pair| pair[1].perturbations > pair[0].perturbations)
            .map(|pair| (pair[0].at_s, pair[1].at_s))
            .collect();
        let ends = moved.iter().skip(1).map(|&(_, seen)| seen).chain([f64::INFINITY]);
        let again = |(&(before, seen), end): (&(f64, f64), f64)| {
            Some(again_after(&points, (seen, end), best, criterion)? + seen - before)
        };
        moved.iter().zip(ends).map(again).collect()
    }

    /// Bytes a second before `at_s` and from then on; `None` where that is less than two observations apart.
    pub(super) fn speeds_around(&self, at_s: f64) -> (Option<f64>, Option<f64>) {
        let at = self.0.partition_point(|observation| observation.at_s < at_s);
        let speed = |from: usize, to: usize| bytes_per_s(self.0.get(from)?, self.0.get(to)?);
        (speed(0, at.min(self.0.len().saturating_sub(1))), speed(at, self.0.len().wrapping_sub(1)))
    }

    /// As it is kept. Without speeds where they would be an emulator's.
    pub(super) fn timeline(&self, run: usize, emulated: bool) -> Timeline {
        let column =
            |metric: &str, kind: (&str, Origin), of: &dyn Fn(&Observation) -> Option<f64>| {
                let values = self.0.iter().map(of).collect();
                let (unit, origin) = (kind.0.to_owned(), kind.1);
                TimelineColumn { metric: metric.to_owned(), unit, origin, values }
            };
        let estimate = ("", Origin::Estimate);
        let mut columns = vec![
            column(LOCALITY, estimate, &|observation| observation.locality),
            column(PLACED, estimate, &|observation| observation.value),
            column(BYTES, ("B", Origin::Program), &|observation| Some(observation.bytes as f64)),
        ];
        if !emulated {
            columns.push(self.speed());
        }
        if self.0.iter().any(|observation| observation.perturbations > 0) {
            let count = |observation: &Observation| Some(observation.perturbations as f64);
            columns.push(column(PERTURBATIONS, ("", Origin::Program), &count));
        }
        Timeline { run, at_s: self.0.iter().map(|observation| observation.at_s).collect(), columns }
    }

    /// Since the observation before.
    fn speed(&self) -> TimelineColumn {
        let since = |pair: &[Observation]| bytes_per_s(&pair[0], &pair[1]).map(|speed| speed / GB);
        let first = self.0.first().map(|_| None);
        let values = first.into_iter().chain(self.0.windows(2).map(since)).collect();
        let (metric, unit) = (SPEED.to_owned(), "GB/s".to_owned());
        TimelineColumn { metric, unit, origin: Origin::Program, values }
    }
}

fn bytes_per_s(from: &Observation, to: &Observation) -> Option<f64> {
    let seconds = to.at_s - from.at_s;
    (seconds > 0.0).then(|| to.bytes.saturating_sub(from.bytes) as f64 / seconds)
}

impl From<&Timeline> for Observations {
    fn from(timeline: &Timeline) -> Self {
        let at = |metric: &str, i: usize| timeline.column(metric).get(i).copied().flatten();
        let count = |metric: &str, i: usize| at(metric, i).unwrap_or(0.0) as u64;
        let observation = |(i, &at_s): (usize, &f64)| Observation {
            at_s,
            locality: at(LOCALITY, i),
            value: at(PLACED, i),
            bytes: count(BYTES, i),
            perturbations: count(PERTURBATIONS, i),
        };
        Self(timeline.at_s.iter().enumerate().map(observation).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD_1_S: Criterion = Criterion { within: 0.05, hold_s: 1.0 };

    fn observations(values: &[(f64, u64, u64)]) -> Observations {
        let observation =
            |(i, &(value, bytes, perturbations)): (usize, &(f64, u64, u64))| Observation {
                at_s: i as f64,
                locality: Some(value),
                value: Some(value),
                bytes,
                perturbations,
            };
        Observations(values.iter().enumerate().map(observation).collect())
    }

    #[test]
    fn speed_is_told_before_and_after() {
        let run =
            observations(&[(0.0, 0, 0), (0.5, 10, 0), (1.0, 20, 0), (1.0, 120, 0), (1.0, 220, 0)]);
        assert_eq!(run.speeds_around(2.0), (Some(10.0), Some(100.0)));
        assert_eq!(run.speeds_around(0.0), (None, Some(55.0)));
        assert_eq!(run.speeds_around(9.0), (Some(55.0), None));
        assert_eq!(Observations::default().speeds_around(1.0), (None, None));
        assert_eq!(run.convergence(1.0, &HOLD_1_S).unwrap().after_s, Some(2.0));
        // Where no binding does better than one half, one half is as good as can be.
        assert_eq!(run.convergence(0.5, &HOLD_1_S).unwrap().after_s, Some(1.0));
    }

    #[test]
    fn each_perturbation_has_its_time() {
        let good = (1.0, 0, 0);
        let run = observations(&[
            good,
            good,
            (0.2, 0, 1),
            (0.5, 0, 1),
            (1.0, 0, 1),
            (1.0, 0, 1),
            (0.1, 0, 2),
            (0.1, 0, 2),
        ]);
        assert_eq!(run.convergence_again(1.0, &HOLD_1_S), [Some(3.0), None]);
        assert!(observations(&[good, good]).convergence_again(1.0, &HOLD_1_S).is_empty());
    }

    #[test]
    fn what_is_kept_is_what_was_seen() {
        let mut run =
            observations(&[(0.5, 0, 0), (0.75, 2_000_000_000, 0), (1.0, 3_000_000_000, 1)]);
        run.0[1].value = None;
        let kept = run.timeline(3, false);
        assert_eq!((kept.run, Observations::from(&kept)), (3, run.clone()));
        assert_eq!(kept.column(SPEED), [None, Some(2.0), Some(1.0)]);
        assert!(kept.columns.iter().all(|column| column.values.len() == 3));
        assert!(run.timeline(3, true).column(SPEED).is_empty(), "an emulator's");
        assert_eq!(
            Observations::from(&Observations::default().timeline(0, false)),
            Observations::default()
        );
    }
}
