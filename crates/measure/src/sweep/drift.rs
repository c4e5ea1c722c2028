//! How alike the runs of a sweep were, by what was counted in each of them.

use pmuscope_stats::{LEVEL, mean, std_dev, trend};
use serde::Serialize;

use crate::estimate::Estimated;
use crate::run_file::RunFile;

/// How a reference differed between runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drift {
    /// The reference.
    pub event: String,
    /// Standard deviation over runs, as a share of the mean.
    pub spread: f64,
    /// How much it grew from the first run to the last, as a share of the mean.
    pub growth: Option<Estimated>,
}

impl Drift {
    /// Whether the machine or the program changed while it was measured: the growth is not nothing, and
    /// more than a hundredth.
    #[must_use]
    pub fn is_notable(&self) -> bool {
        self.growth.is_some_and(|growth| {
            let sure = growth.interval.is_some_and(|i| i.low > 0.0 || i.high < 0.0);
            sure && growth.value.abs() > 0.01
        })
    }
}

/// The drift of the reference `event`, per unit of work `unit` where runs have it; `None` with fewer than
/// three runs.
#[must_use]
pub fn drift(file: &RunFile, event: &str, unit: Option<&str>) -> Option<Drift> {
    let series =
        file.series.iter().find(|series| series.metric == event && series.labels.is_empty())?;
    let mut points: Vec<(f64, f64)> = series
        .values
        .iter()
        .filter_map(|value| {
            let run = file.runs.iter().find(|run| run.index == value.run)?;
            if run.exit != Some(0) {
                return None;
            }
            let work = unit.map_or(Some(1.0), |unit| run.units.get(unit).copied())?;
            Some((run.order as f64, value.value? / work))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let values: Vec<f64> = points.iter().map(|point| point.1).collect();
    let mean = mean(&values).filter(|mean| *mean > 0.0 && values.len() >= 3)?;
    let length = points.last()?.0 - points.first()?.0;
    let growth = trend(&points, LEVEL).map(|slope| {
        let scale = length / mean;
        let mut growth = slope;
        growth.value *= scale;
        growth.interval = growth.interval.map(|interval| interval.map(|end| end * scale));
        Estimated::from(growth)
    });
    Some(Drift { event: event.to_owned(), spread: std_dev(&values)? / mean, growth })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Labels, Origin, Program, Run};

    fn file(values: &[f64]) -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        for (index, value) in values.iter().enumerate() {
            file.runs.push(Run {
                index,
                order: index,
                round: None,
                labels: Labels::new(),
                started: "0".into(),
                duration_s: 1.0,
                exit: Some(0),
                why: None,
                units: [("packet".to_owned(), 2.0)].into(),
            });
            file.add(index, &Labels::new(), "cycles", ("", Origin::Hardware), Ok(*value));
        }
        file
    }

    #[test]
    fn a_machine_that_gets_slower_is_seen_and_noise_is_not() {
        let slower: Vec<f64> = (0..12).map(|n| 100.0 + f64::from(n) + f64::from(n % 3)).collect();
        let seen = drift(&file(&slower), "cycles", Some("packet")).unwrap();
        assert!(seen.is_notable(), "{seen:?}");
        assert!((seen.growth.unwrap().value - 0.105).abs() < 0.02, "{seen:?}");
        let noise: Vec<f64> = (0..12).map(|n| 100.0 + f64::from(n * 7 % 5)).collect();
        let seen = drift(&file(&noise), "cycles", None).unwrap();
        assert!(!seen.is_notable() && seen.spread > 0.01, "{seen:?}");
        assert_eq!(drift(&file(&[1.0, 2.0]), "cycles", None), None);
        assert_eq!(drift(&file(&noise), "instructions", None), None);
    }
}
