//! How far what arms say of functions is from the truth, which a base arm has.
//!
//! Values of a run carry half of their own 95 % interval. The error of an arm is that of its runs
//! against the base's of the same rounds. With six rounds or more its interval is that of the rounds, which holds
//! whatever differs from run to run; with fewer it is put together of the intervals of the runs
//! (independent, so squares add up).

use std::collections::BTreeMap;

use pmuscope_stats::{LEVEL, mean, signed_rank_center};
use serde::Serialize;

use crate::estimate::{Estimated, Limits};
use crate::run_file::{Labels, RunFile, Series};

/// Rounds from which on they tell their own spread.
const ENOUGH_ROUNDS: usize = 6;

/// How an error is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ErrorUnit {
    /// Percent of the truth.
    Relative,
    /// In the metric's own unit: for shares, and rates whose truth may be 0.
    Own,
}

/// Errors of one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Accuracy {
    /// Name of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// How errors are told.
    pub errors_in: ErrorUnit,
    /// Names of arms, in the order of the file, without the base.
    pub arms: Vec<String>,
    /// A row for each function, in the order of the file.
    pub rows: Vec<AccuracyRow>,
}

/// Errors of one metric of one function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccuracyRow {
    /// Its name: the other label of series.
    pub function: String,
    /// What the base has.
    pub truth: Option<Estimated>,
    /// Error of each arm; `None` where it says nothing of this function.
    pub errors: Vec<Option<Estimated>>,
}

/// A value, and half of its interval.
type ValueWithError = (f64, Option<f64>);

/// Errors of `metric` by function, the value of label `of`, and arm, the value of label `by`.
pub fn accuracy(
    file: &RunFile,
    metric: &str,
    errors_in: ErrorUnit,
    (by, of): (&str, &str),
    base: &str,
) -> Accuracy {
    let series: Vec<&Series> = file
        .series
        .iter()
        .filter(|series| series.metric == metric && series.labels.contains_key(of))
        .collect();
    let name = |labels: &Labels, key: &str| labels.get(key).cloned().unwrap_or_default();
    let (mut arms, mut functions): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for one in &series {
        let (arm, function) = (name(&one.labels, by), name(&one.labels, of));
        if arm != base && !arms.contains(&arm) {
            arms.push(arm);
        }
        if !functions.contains(&function) {
            functions.push(function);
        }
    }
    let rounds_of = |arm: &str, function: &str| -> BTreeMap<usize, ValueWithError> {
        let is_it =
            |one: &&&Series| name(&one.labels, by) == arm && name(&one.labels, of) == function;
        series.iter().find(is_it).map_or_else(BTreeMap::new, |one| by_round(file, one))
    };
    let row = |function: String| {
        let truth = rounds_of(base, &function);
        let error = |arm: &String| error(&rounds_of(arm, &function), &truth, errors_in);
        let all: Vec<ValueWithError> = truth.values().copied().collect();
        AccuracyRow { errors: arms.iter().map(error).collect(), truth: together(&all), function }
    };
    let rows = functions.into_iter().map(row).collect();
    let unit = series.first().map_or_else(String::new, |one| one.unit.clone());
    Accuracy { metric: metric.to_owned(), unit, errors_in, rows, arms }
}

fn error(
    arm: &BTreeMap<usize, ValueWithError>,
    truth: &BTreeMap<usize, ValueWithError>,
    errors_in: ErrorUnit,
) -> Option<Estimated> {
    let of_round = |(round, (value, half)): (&usize, &ValueWithError)| {
        let (true_value, true_half) = truth.get(round)?;
        let squares = |a: f64, b: f64| (a * a + b * b).sqrt();
        match errors_in {
            ErrorUnit::Own => {
                let half = half.zip(*true_half).map(|(a, b)| squares(a, b));
                Some((value - true_value, half))
            }
            ErrorUnit::Relative if *true_value == 0.0 => None,
            ErrorUnit::Relative => {
                let ratio = value / true_value;
                let half = half
                    .zip(*true_half)
                    .map(|(a, b)| 100.0 * squares(a / true_value, ratio * b / true_value));
                Some((100.0 * (ratio - 1.0), half))
            }
        }
    };
    let errors: Vec<ValueWithError> = arm.iter().filter_map(of_round).collect();
    together(&errors)
}

/// One estimate of what several runs have measured.
fn together(rounds: &[ValueWithError]) -> Option<Estimated> {
    let values: Vec<f64> = rounds.iter().map(|(value, _)| *value).collect();
    if values.len() >= ENOUGH_ROUNDS {
        return signed_rank_center(&values, LEVEL).map(Estimated::from);
    }
    let n = values.len();
    let value = mean(&values)?;
    let halves: Option<f64> = rounds.iter().map(|(_, half)| half.map(|half| half * half)).sum();
    let interval = halves.map(|squares| {
        let half = squares.sqrt() / n as f64;
        Limits { low: value - half, high: value + half, level: LEVEL }
    });
    let why = interval.is_none().then_some("a run has no confidence interval");
    Some(Estimated { value, interval, n, why })
}

/// What was measured in each round.
fn by_round(file: &RunFile, series: &Series) -> BTreeMap<usize, ValueWithError> {
    let rounds: BTreeMap<usize, usize> =
        file.runs.iter().filter_map(|run| Some((run.index, run.round?))).collect();
    let of = |value: &crate::run_file::RunValue| {
        Some((*rounds.get(&value.run)?, (value.value?, value.half)))
    };
    series.values.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_file::{Origin, Program, Run};
    use std::time::UNIX_EPOCH;

    /// `rounds` rounds in which the truth is 2 ±0.01 and the arm says 2.1 ±0.04.
    fn file(rounds: usize) -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], UNIX_EPOCH);
        for round in 0..rounds {
            for (arm, value, half) in [("PURE", 2.0, 0.01), ("STROBE", 2.1, 0.04)] {
                let index = file.runs.len();
                let labels: Labels =
                    [("arm", arm), ("function", "f")].map(|(k, v)| (k.into(), v.into())).into();
                file.runs.push(Run {
                    index,
                    order: index,
                    round: Some(round),
                    labels: labels.clone(),
                    started: String::new(),
                    duration_s: 0.0,
                    exit: Some(0),
                    why: None,
                    units: BTreeMap::new(),
                });
                let kind = ("cycles/instruction", Origin::Derived);
                file.add_estimate(index, &labels, "CPI", kind, Ok((value, Some(half))));
            }
        }
        file
    }

    fn errors(file: &RunFile, unit: ErrorUnit) -> Accuracy {
        accuracy(file, "CPI", unit, ("arm", "function"), "PURE")
    }

    #[test]
    fn few_rounds_have_the_intervals_of_their_runs() {
        let got = errors(&file(1), ErrorUnit::Relative);
        assert_eq!((got.arms.as_slice(), got.rows.len()), (&["STROBE".to_owned()][..], 1));
        let error = got.rows[0].errors[0].unwrap();
        assert!((error.value - 5.0).abs() < 1e-9 && error.n == 1);
        // 0.04 of 2 is 2 %, 0.01 of 2 is 0.5 %, of which 1.05 counts.
        let half = error.interval.unwrap().high - error.value;
        assert!((half - (4.0f64 + 0.525 * 0.525).sqrt()).abs() < 1e-9, "{half}");
        let four = errors(&file(4), ErrorUnit::Relative).rows[0].errors[0].unwrap();
        let quarter = four.interval.unwrap().high - four.value;
        assert!((quarter * 2.0 - half).abs() < 1e-9 && four.n == 4);
        let own = errors(&file(1), ErrorUnit::Own).rows[0].errors[0].unwrap();
        assert!((own.value - 0.1).abs() < 1e-9);
    }

    #[test]
    fn many_rounds_tell_their_own_spread() {
        let error = errors(&file(6), ErrorUnit::Relative).rows[0].errors[0].unwrap();
        let interval = error.interval.unwrap();
        assert!(interval.high - interval.low < 1e-9 && error.n == 6);
    }

    #[test]
    fn what_was_not_measured_has_no_error() {
        let mut file = file(1);
        file.series[1].values[0].value = None;
        assert_eq!(errors(&file, ErrorUnit::Own).rows[0].errors, [None]);
        file.series[1].values[0].value = Some(1.0);
        file.series[0].values[0].value = Some(0.0);
        assert_eq!(errors(&file, ErrorUnit::Relative).rows[0].errors, [None]);
        assert_eq!(accuracy(&file, "BM/KI", ErrorUnit::Own, ("arm", "function"), "PURE").rows, []);
        file.series[0].values[0].half = None;
        let error = errors(&file, ErrorUnit::Own).rows[0].errors[0].unwrap();
        assert_eq!((error.interval, error.why), (None, Some("a run has no confidence interval")));
    }
}
