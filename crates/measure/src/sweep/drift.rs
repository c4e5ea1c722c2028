//! How alike the runs of a sweep were, by what was counted in each of them.

use pmuscope_stats::{LEVEL, mean, std_dev, trend};

use crate::run_file::{Drift, RunFile};

/// The drift of each of these events that every run counted, per unit of work where runs have one.
#[must_use]
pub fn drifts(file: &RunFile, events: &[String]) -> Vec<Drift> {
    let unit = file.runs.iter().find_map(|run| run.units.keys().next().cloned());
    events.iter().filter_map(|event| drift(file, event, unit.as_deref())).collect()
}

/// The drift of the reference `event`, per unit of work `unit` where runs have it; `None` with fewer than
/// three runs.
fn drift(file: &RunFile, event: &str, unit: Option<&str>) -> Option<Drift> {
    let series =
        file.series.iter().find(|series| series.metric == event && series.labels.is_empty())?;
    let mut points: Vec<(f64, f64)> = series
        .values
        .iter()
        .filter_map(|value| {
            let run = file.runs.iter().find(|run| run.index == value.run)?;
            if !run.is_good() {
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
    let growth = trend(&points, LEVEL);
    let scale = length / mean;
    Some(Drift {
        event: event.to_owned(),
        per: unit.map(str::to_owned),
        spread: std_dev(&values)? / mean,
        growth: growth.as_ref().map(|slope| slope.value * scale),
        growth_half: growth.and_then(|slope| Some(slope.interval?.half_width() * scale)),
        n: values.len(),
    })
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
        assert_eq!((seen.per.as_deref(), seen.n), (Some("packet"), 12));
        assert!((seen.growth.unwrap() - 0.105).abs() < 0.02, "{seen:?}");
        let noise: Vec<f64> = (0..12).map(|n| 100.0 + f64::from(n * 7 % 5)).collect();
        let seen = drift(&file(&noise), "cycles", None).unwrap();
        assert!(!seen.is_notable() && seen.spread > 0.01, "{seen:?}");
        let all = drifts(&file(&noise), &["none".into(), "cycles".into()]);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(drift(&file(&[1.0, 2.0]), "cycles", None), None);
        assert_eq!(drift(&file(&noise), "instructions", None), None);
    }
}
