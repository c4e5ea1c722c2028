//! Arms of one run file against a base arm, paired by round.

use std::collections::BTreeMap;

use pmuscope_stats::{LEVEL, median, paired_ratio, signed_rank_center};
use serde::Serialize;

use crate::estimate::Estimated;
use crate::run_file::{Labels, Origin, RunFile, Series};

/// All arms under the same conditions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmGroup {
    /// The conditions: all labels but the arm's.
    pub labels: Labels,
    /// In the order in which the file has them.
    pub arms: Vec<Arm>,
}

/// One arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Arm {
    /// Value of the label.
    pub name: String,
    /// In the order in which the file has them.
    pub figures: Vec<Figure>,
}

/// One figure of an arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Where the numbers come from.
    pub origin: Origin,
    /// Median of all runs; `None` where none was measured.
    pub median: Option<f64>,
    /// Runs with a number.
    pub n: usize,
    /// Median of the base arm.
    pub base: Option<f64>,
    /// The typical ratio to the base arm's run of the same round; `None` for the base itself, and
    /// where a number is not above 0.
    pub ratio: Option<Estimated>,
    /// Why there is no median, as the first run without a number has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Arm {
    /// The figure of this name.
    pub fn figure(&self, metric: &str) -> Option<&Figure> {
        self.figures.iter().find(|f| f.metric == metric)
    }
}

impl ArmGroup {
    /// The arm of this name.
    pub fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|a| a.name == name)
    }
}

/// Compares series that differ in the label `by`, each with the one whose label is `base`.
pub fn versus(file: &RunFile, by: &str, base: &str) -> Vec<ArmGroup> {
    let mut groups: Vec<ArmGroup> = Vec::new();
    for series in &file.series {
        let Some((name, labels)) = split(&series.labels, by) else { continue };
        let group = find_or_push(
            &mut groups,
            |g| g.labels == labels,
            || ArmGroup { labels: labels.clone(), arms: Vec::new() },
        );
        let arm = find_or_push(
            &mut group.arms,
            |a| a.name == name,
            || Arm { name: name.to_owned(), figures: Vec::new() },
        );
        let base_series = (name != base).then(|| of_arm(file, series, by, base)).flatten();
        arm.figures.push(figure(file, series, base_series));
    }
    groups
}

/// How much larger the ratio of `arm` to `base` is than that of `other` to `base`, by rounds that
/// have all three: what `arm` costs beyond `other`, as a share of the base. `None` without a
/// common round.
pub fn ratio_difference(
    file: &RunFile,
    (by, conditions): (&str, &Labels),
    metric: &str,
    (arm, other, base): (&str, &str, &str),
) -> Option<Estimated> {
    let rounds = |name: &str| {
        let series = file.series.iter().find(|s| {
            s.metric == metric
                && split(&s.labels, by).is_some_and(|(n, c)| n == name && c == *conditions)
        });
        series.map(|s| by_round(file, s))
    };
    let (arm, other, base) = (rounds(arm)?, rounds(other)?, rounds(base)?);
    let differences: Vec<f64> = arm
        .iter()
        .filter_map(|(round, a)| {
            let (o, b) = (other.get(round)?, base.get(round).filter(|b| **b > 0.0)?);
            Some((a - o) / b)
        })
        .collect();
    signed_rank_center(&differences, LEVEL).map(Estimated::from)
}

/// How much a figure grows per unit of another between the shortest and the longest of several
/// conditions: what a fixed part (the start of a program) cancels out of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slope {
    /// The conditions: all labels but the one they are taken along.
    pub labels: Labels,
    /// The typical slope of a round.
    pub estimate: Estimated,
}

/// Slopes of metric `of` over metric `over` between the smallest and the largest value of the
/// label `along`, a number. Empty where all runs have the same.
pub fn slopes(file: &RunFile, along: &str, of: &str, over: &str) -> Vec<Slope> {
    let mut lengths: Vec<(Labels, Vec<(f64, &Series)>)> = Vec::new();
    for series in file.series.iter().filter(|s| s.metric == of) {
        let Some((value, labels)) = split(&series.labels, along) else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let make = || (labels.clone(), Vec::new());
        find_or_push(&mut lengths, |(known, _)| *known == labels, make).1.push((value, series));
    }
    let slope = |(labels, mut lengths): (Labels, Vec<(f64, &Series)>)| {
        lengths.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ((short, y0), (long, y1)) = (lengths.first()?, lengths.last()?);
        if long <= short {
            return None;
        }
        let x = |y: &Series| file.series.iter().find(|s| s.metric == over && s.labels == y.labels);
        let [x0, y0, x1, y1] = [x(y0)?, y0, x(y1)?, y1].map(|series| by_round(file, series));
        let per_round: Vec<f64> = y0
            .iter()
            .filter_map(|(round, y0)| {
                let run = x1.get(round)? - x0.get(round)?;
                (run > 0.0).then_some((y1.get(round)? - y0) / run)
            })
            .collect();
        let estimate = signed_rank_center(&per_round, LEVEL)?.into();
        Some(Slope { labels, estimate })
    };
    lengths.into_iter().filter_map(slope).collect()
}

fn figure(file: &RunFile, series: &Series, base: Option<&Series>) -> Figure {
    let numbers = series.numbers();
    let ratio = base.and_then(|base| {
        let base = by_round(file, base);
        let pairs: Vec<(f64, f64)> = by_round(file, series)
            .iter()
            .filter_map(|(round, value)| Some((*base.get(round)?, *value)))
            .collect();
        paired_ratio(&pairs, LEVEL).map(Estimated::from)
    });
    Figure {
        metric: series.metric.clone(),
        unit: series.unit.clone(),
        origin: series.origin,
        median: median(&numbers),
        n: numbers.len(),
        base: base.and_then(|base| median(&base.numbers())),
        ratio,
        why: if numbers.is_empty() {
            series.values.iter().find_map(|v| v.why.clone())
        } else {
            None
        },
    }
}

/// The value of label `by`, and the other labels.
fn split<'a>(labels: &'a Labels, by: &str) -> Option<(&'a str, Labels)> {
    let name = labels.get(by)?;
    let others = labels.iter().filter(|(key, _)| *key != by);
    Some((name, others.map(|(k, v)| (k.clone(), v.clone())).collect()))
}

/// The series of another arm under the same conditions.
fn of_arm<'a>(file: &'a RunFile, like: &Series, by: &str, name: &str) -> Option<&'a Series> {
    let mut labels = like.labels.clone();
    labels.insert(by.to_owned(), name.to_owned());
    file.series.iter().find(|s| s.metric == like.metric && s.labels == labels)
}

/// What was measured in each round.
fn by_round(file: &RunFile, series: &Series) -> BTreeMap<usize, f64> {
    let rounds: BTreeMap<usize, usize> =
        file.runs.iter().filter_map(|run| Some((run.index, run.round?))).collect();
    let pair = |v: &crate::run_file::RunValue| Some((*rounds.get(&v.run)?, v.value?));
    series.values.iter().filter_map(pair).collect()
}

fn find_or_push<T>(
    list: &mut Vec<T>,
    is_it: impl FnMut(&T) -> bool,
    make: impl FnOnce() -> T,
) -> &mut T {
    let at = list.iter().position(is_it).unwrap_or_else(|| {
        list.push(make());
        list.len() - 1
    });
    &mut list[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_file::{Program, Run};
    use std::time::UNIX_EPOCH;

    /// Eight rounds that get slower and slower; A takes 10 % more than the base, B 5 %. The last
    /// round of A is missing.
    fn drifting() -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], UNIX_EPOCH);
        for round in 0..8 {
            let base = 10.0 * 1.5f64.powi(round);
            for (arm, factor) in [("BASE", 1.0), ("A", 1.1), ("B", 1.05)] {
                let index = file.runs.len();
                let labels: Labels =
                    [("arm", arm), ("threads", "2")].map(|(k, v)| (k.into(), v.into())).into();
                let missing = arm == "A" && round == 7;
                file.runs.push(Run {
                    index,
                    order: index,
                    round: Some(round as usize),
                    labels: labels.clone(),
                    started: String::new(),
                    duration_s: 0.0,
                    exit: Some(i32::from(missing)),
                    why: None,
                    units: BTreeMap::new(),
                });
                let value = if missing { Err("failed".to_owned()) } else { Ok(base * factor) };
                file.add(index, &labels, "time", ("s", Origin::Program), value);
            }
        }
        file
    }

    #[test]
    fn a_drift_that_rounds_share_does_not_blur_the_ratio() {
        let groups = versus(&drifting(), "arm", "BASE");
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].labels, Labels::from([("threads".into(), "2".into())]));
        let names: Vec<&str> = groups[0].arms.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["BASE", "A", "B"]);
        let base = groups[0].arm("BASE").unwrap().figure("time").unwrap();
        assert_eq!((base.ratio, base.base, base.n), (None, None, 8));
        let a = groups[0].arm("A").unwrap().figure("time").unwrap();
        let ratio = a.ratio.unwrap();
        assert_eq!((a.n, ratio.n), (7, 7));
        assert!((ratio.value - 1.1).abs() < 1e-9);
        assert!(ratio.interval.unwrap().high - ratio.interval.unwrap().low < 1e-9);
    }

    #[test]
    fn a_fixed_part_does_not_count_in_a_slope() {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], UNIX_EPOCH);
        for round in 0..7 {
            for seconds in [60.0, 10.0] {
                let index = file.runs.len();
                let text = |s: &str| s.to_owned();
                let labels: Labels =
                    [(text("arm"), text("A")), (text("seconds"), seconds.to_string())].into();
                file.runs.push(Run {
                    index,
                    order: index,
                    round: Some(round),
                    labels: labels.clone(),
                    started: String::new(),
                    duration_s: seconds,
                    exit: Some(0),
                    why: None,
                    units: BTreeMap::new(),
                });
                let samples = 50_000.0 * seconds;
                let cpu = 0.25 + samples * 0.5e-6;
                file.add(index, &labels, "samples", ("", Origin::Recording), Ok(samples));
                file.add(index, &labels, "tool_cpu", ("s", Origin::Derived), Ok(cpu));
            }
        }
        let got = slopes(&file, "seconds", "tool_cpu", "samples");
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].labels, Labels::from([("arm".into(), "A".into())]));
        assert!((got[0].estimate.value - 0.5e-6).abs() < 1e-12 && got[0].estimate.n == 7);
        file.series.retain(|s| s.labels["seconds"] == "10");
        assert_eq!(slopes(&file, "seconds", "tool_cpu", "samples"), []);
    }

    #[test]
    fn differences_of_ratios_use_rounds_that_have_all() {
        let conditions = Labels::from([("threads".into(), "2".into())]);
        let by = ("arm", &conditions);
        let got = ratio_difference(&drifting(), by, "time", ("A", "B", "BASE")).unwrap();
        assert!((got.value - 0.05).abs() < 1e-9 && got.n == 7);
        assert_eq!(ratio_difference(&drifting(), by, "time", ("A", "C", "BASE")), None);
        let none = Labels::new();
        assert_eq!(ratio_difference(&drifting(), ("arm", &none), "time", ("A", "B", "BASE")), None);
    }
}
