//! A run file of one program in short: each figure per run, per unit of work, and what follows from them
//! by formula.
//!
//! Means with Student's interval over runs; of quotients (per unit, formulas) that of each run's own
//! quotient, since what is common to both parts of it (a run that did more) cancels within a run.

use std::collections::BTreeMap;

use pmuscope_events::metrics::{Formula, Metrics};
use pmuscope_stats::{LEVEL, mean_interval};
use serde::Serialize;

use crate::estimate::Estimated;
use crate::run_file::{Labels, Origin, RunFile, Series, metric};
use crate::topdown::is_share;

/// A run file of one program in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    /// Units of work, by name: how many a run did.
    pub units: Vec<Work>,
    /// Figures, in the order of the file: events first, then times.
    pub rows: Vec<SummaryRow>,
    /// What follows from them.
    pub metrics: Vec<SummaryRow>,
    /// Runs that count: not those that failed or were broken off.
    pub runs: usize,
    /// Runs that do not.
    pub failed: usize,
    /// How the only run ended, if not as it should have: it counts all the same.
    pub ended: Option<String>,
}

/// A unit of work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Work {
    /// Its name: `packet`.
    pub name: String,
    /// How many in a run.
    pub per_run: Option<Estimated>,
    /// How many in a second of wall time.
    pub per_second: Option<Estimated>,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SummaryRow {
    /// The part of the machine that it is of.
    pub labels: Labels,
    /// Its name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Where it comes from.
    pub origin: Origin,
    /// In a run.
    pub per_run: Option<Estimated>,
    /// For each unit of [`RunSummary::units`].
    pub per_unit: Vec<Option<Estimated>>,
    /// In a second of wall time; `None` also for what is no count: times, what the program says of itself.
    pub per_second: Option<Estimated>,
    /// Share of the time that it was on a counter while it was enabled, all runs that count together.
    pub measured: Option<f64>,
    /// Why it has no number, or not of all runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl SummaryRow {
    /// Whether it is a time of the process, not an event.
    #[must_use]
    pub fn is_time(&self) -> bool {
        self.labels.is_empty()
            && [metric::WALL, metric::USER, metric::SYSTEM].contains(&&self.metric[..])
    }
}

/// Sums up a file. Of `metrics` those are computed whose events were all counted.
#[must_use]
pub fn summary(file: &RunFile, metrics: &Metrics) -> RunSummary {
    let good: Vec<usize> = file.counting_runs().map(|run| run.index).collect();
    let mut names: Vec<&String> = Vec::new();
    for name in file.runs.iter().flat_map(|run| run.units.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let run_of = |index: usize| file.runs.iter().find(|run| run.index == index);
    let units_of =
        |run: usize, name: &str| run_of(run)?.units.get(name).copied().filter(|units| *units > 0.0);
    let seconds_of = |run: usize| Some(run_of(run)?.duration_s).filter(|seconds| *seconds > 0.0);
    let work = |name: &String| {
        let done: Vec<f64> = good.iter().filter_map(|&run| units_of(run, name)).collect();
        let rate = |&run: &usize| Some(units_of(run, name)? / seconds_of(run)?);
        let rates: Vec<f64> = good.iter().filter_map(rate).collect();
        Work { name: name.clone(), per_run: estimate(&done), per_second: estimate(&rates) }
    };
    let row = |series: &Series| {
        let values = by_run(series, &good);
        let per_unit = |name: &&String| {
            let quotient = |(run, value): (&usize, &f64)| Some(value / units_of(*run, name)?);
            estimate(&values.iter().filter_map(quotient).collect::<Vec<f64>>())
        };
        let per_second = |(run, value): (&usize, &f64)| Some(value / seconds_of(*run)?);
        SummaryRow {
            labels: series.labels.clone(),
            metric: series.metric.clone(),
            unit: series.unit.clone(),
            origin: series.origin,
            per_run: estimate(&values.values().copied().collect::<Vec<f64>>()),
            // What the program says of itself (Mpps) is no count of anything.
            per_unit: match series.origin {
                Origin::Program => vec![None; names.len()],
                _ => names.iter().map(per_unit).collect(),
            },
            per_second: match is_count(series) {
                true => estimate(&values.iter().filter_map(per_second).collect::<Vec<f64>>()),
                false => None,
            },
            measured: measured(series, &good),
            why: series.values.iter().find_map(|value| value.why.clone()),
        }
    };
    // Shares of top-down analysis are no events: `topdown` tells them.
    let figures = file.series.iter().filter(|series| !is_share(&series.metric));
    let mut rows: Vec<SummaryRow> = figures.map(row).collect();
    rows.sort_by_key(SummaryRow::is_time);
    RunSummary {
        units: names.iter().map(|name| work(name)).collect(),
        rows,
        metrics: by_formula(file, metrics, &good),
        runs: good.len(),
        failed: file.runs.len() - good.len(),
        ended: file.ended(),
    }
}

/// Whether it counts something other than time.
fn is_count(series: &Series) -> bool {
    let counted = matches!(series.origin, Origin::Hardware | Origin::Software | Origin::Emulated);
    counted && series.unit != "ms"
}

fn estimate(values: &[f64]) -> Option<Estimated> {
    mean_interval(values, LEVEL).map(Estimated::from)
}

/// Values of the runs that count.
fn by_run(series: &Series, good: &[usize]) -> BTreeMap<usize, f64> {
    let value = |value: &crate::RunValue| Some((value.run, value.value?));
    series.values.iter().filter(|value| good.contains(&value.run)).filter_map(value).collect()
}

fn measured(series: &Series, good: &[usize]) -> Option<f64> {
    let sum = |of: fn(&crate::RunValue) -> Option<f64>| {
        series
            .values
            .iter()
            .filter(|value| good.contains(&value.run))
            .map(of)
            .collect::<Option<Vec<f64>>>()
            .map(|all| all.iter().sum::<f64>())
    };
    let (enabled, running) = (sum(|value| value.enabled_s)?, sum(|value| value.running_s)?);
    (enabled > 0.0).then(|| running / enabled)
}

/// Metrics of the whole target, where all their events were counted in the same runs, of the same modes and the
/// same kind of core.
fn by_formula(file: &RunFile, metrics: &Metrics, good: &[usize]) -> Vec<SummaryRow> {
    let events: Vec<Input<'_>> = file
        .series
        .iter()
        .filter(|series| series.labels.is_empty())
        .map(|series| Input {
            event: metrics.canonical(&series.metric),
            domain: domain(&series.metric),
            series,
        })
        .collect();
    let mut domains: Vec<&str> = Vec::new();
    for input in &events {
        if !domains.contains(&&*input.domain) {
            domains.push(&input.domain);
        }
    }
    let evaluated = |formula: &Formula, domain: &str| {
        let series = formula.variables().iter().map(|variable| {
            let event = metrics.canonical(&variable.event);
            let is_it = |input: &&Input<'_>| input.event == event && input.domain == domain;
            // A share of the total of all functions is 1 for the whole.
            if variable.total { None } else { events.iter().find(is_it).map(|of| of.series) }
        });
        let series = series.collect::<Option<Vec<&Series>>>()?;
        let values: Vec<BTreeMap<usize, f64>> =
            series.iter().map(|series| by_run(series, good)).collect();
        let of_run = |run: &usize| {
            let inputs = values.iter().map(|of| of.get(run).copied()).collect::<Option<Vec<f64>>>();
            formula.value(&inputs?)
        };
        let numbers: Vec<f64> = good.iter().filter_map(of_run).collect();
        Some((estimate(&numbers)?, series.first().map_or(Origin::Derived, |first| first.origin)))
    };
    let row = |one: &pmuscope_events::metrics::Metric, domain: &str| {
        let (per_run, origin) =
            one.formulas.iter().find_map(|formula| evaluated(formula, domain))?;
        Some(SummaryRow {
            labels: Labels::new(),
            metric: format!("{}{domain}", one.name),
            unit: one.unit.clone(),
            origin,
            per_run: Some(per_run),
            per_unit: Vec::new(),
            per_second: None,
            measured: None,
            why: None,
        })
    };
    let rows = |one| domains.iter().filter_map(move |domain| row(one, domain));
    metrics.list.iter().flat_map(rows).collect()
}

/// What a formula can take.
struct Input<'a> {
    event: String,
    domain: String,
    series: &'a Series,
}

/// What an event was counted of, as behind a metric's name: modes (`:u`) and the kind of core of a hybrid processor
/// (` [cpu_atom]`); empty for all of it.
fn domain(metric: &str) -> String {
    let (unit, modifiers) = match metric.split_once('/') {
        Some((unit, rest)) => (unit, rest.rsplit('/').next().unwrap_or_default()),
        None => ("", metric.split_once(':').map_or("", |(_, modifiers)| modifiers)),
    };
    let modes: String = modifiers.chars().filter(|letter| "ukhHG".contains(*letter)).collect();
    // Of a tracepoint (sched:sched_switch) it is no modifier.
    let is_modifiers = modifiers.chars().all(|letter| "ukhIHGpPSDeW".contains(letter));
    let modes = if is_modifiers && !modes.is_empty() { format!(":{modes}") } else { String::new() };
    let unit = if unit.starts_with("cpu_") { format!(" [{unit}]") } else { String::new() };
    modes + &unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Program, Run, RunValue};

    /// Five runs of which the fourth failed; run n has n + 1 times so many events and units.
    fn file() -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        for index in 0..5 {
            let times = index as f64 + 1.0;
            file.runs.push(Run {
                index,
                order: index,
                round: None,
                labels: Labels::new(),
                started: "0".into(),
                duration_s: 2.0 * times,
                exit: Some(i32::from(index == 3)),
                why: None,
                units: [("packet".to_owned(), 100.0 * times)].into(),
            });
            for (name, count) in [("cycles:u", 1000.0), ("cpu/instructions/u", 500.0)] {
                let kind = ("", Origin::Hardware);
                let value = RunValue {
                    enabled_s: Some(1.0),
                    running_s: Some(if index == 0 { 0.5 } else { 1.0 }),
                    ..RunValue::new(index, Ok(count * times))
                };
                file.add_value(&Labels::new(), name, kind, value);
            }
            file.add(index, &Labels::new(), "wall", ("s", Origin::Clock), Ok(times));
            file.add(index, &Labels::new(), "LLC-loads", ("", Origin::Hardware), Err("no".into()));
        }
        file
    }

    #[test]
    fn quotients_are_of_each_run() {
        let summary = summary(&file(), &Metrics::builtin());
        assert_eq!((summary.runs, summary.failed), (4, 1));
        let [cycles, .., wall] = &summary.rows[..] else { panic!("{summary:?}") };
        let per_packet = cycles.per_unit[0].unwrap();
        // However different the runs are, each needs ten cycles for a packet.
        assert_eq!((per_packet.value, per_packet.n), (10.0, 4));
        assert!(per_packet.interval.unwrap().high - 10.0 < 1e-9);
        assert_eq!(cycles.per_run.unwrap().value, 2750.0);
        assert_eq!(cycles.per_second.unwrap().value, 500.0);
        assert_eq!(wall.per_second, None);
        assert_eq!(cycles.measured, Some(0.875));
        assert_eq!(wall.metric, "wall");
        assert_eq!(summary.units[0].per_second.unwrap().value, 50.0);
    }

    #[test]
    fn formulas_take_events_by_any_of_their_names_and_leave_out_what_was_not_counted() {
        let summary = summary(&file(), &Metrics::builtin());
        let named = |name: &str| summary.metrics.iter().find(|row| row.metric == name);
        assert_eq!(named("CPI:u").unwrap().per_run.unwrap().value, 2.0);
        assert_eq!(named("IPC:u").unwrap().per_run.unwrap().value, 0.5);
        assert!(named("BM/KI").is_none() && named("%CY").is_none());
        let loads = summary.rows.iter().find(|row| row.metric == "LLC-loads").unwrap();
        assert_eq!((loads.per_run, loads.why.as_deref()), (None, Some("no")));
    }

    #[test]
    fn formulas_do_not_mix_what_was_counted_of_different_modes() {
        let mut file = file();
        for (name, count) in [("instructions:k", 250.0), ("cycles:k", 1000.0), ("cycles", 2000.0)] {
            file.add(0, &Labels::new(), name, ("", Origin::Hardware), Ok(count));
        }
        let summary = summary(&file, &Metrics::builtin());
        let cpi: Vec<(&str, f64)> = summary
            .metrics
            .iter()
            .filter(|row| row.metric.starts_with("CPI"))
            .map(|row| (&*row.metric, row.per_run.unwrap().value))
            .collect();
        assert_eq!(cpi, [("CPI:u", 2.0), ("CPI:k", 4.0)]);
    }

    #[test]
    fn a_domain_is_of_modes_and_of_a_hybrids_cores() {
        let names =
            ["cycles", "cycles:upp", "cpu/cycles/k", "cpu_atom/cycles/u", "sched:sched_switch"];
        assert_eq!(names.map(domain), ["", ":u", ":k", ":u [cpu_atom]", ""]);
    }
}
