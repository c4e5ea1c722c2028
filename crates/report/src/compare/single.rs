//! The figures of one run file as a table for programs: a row per metric, arm and unit of work; of counts in
//! intervals, a row per interval.

use pmuscope_measure::compare::{Column as Measured, FileHead, Options, TOTAL, compare};
use pmuscope_measure::counting::INTERVAL;
use pmuscope_measure::{Estimated, Labels, Origin, Run, RunFile, RunValue, Series};
use pmuscope_stats::Interval;

use super::sheet::word;
use crate::sheet::{Field, Separator, Sheet};

/// A figure.
struct FigureRow {
    interval_s: Option<f64>,
    labels: String,
    metric: String,
    unit: String,
    per: Option<String>,
    origin: Origin,
    value: Option<Estimated>,
    counted: Option<f64>,
    why: Option<String>,
}

/// Comma- or tab-separated values, the names of the columns first.
#[must_use]
pub fn figures_delimited(file: &RunFile, separator: Separator) -> String {
    let is_by_interval = file.runs.iter().any(|run| run.labels.contains_key(INTERVAL));
    let rows = if is_by_interval { of_intervals(file) } else { of_runs(file) };
    Sheet::new(fields(is_by_interval), &rows, rows.len()).delimited(separator)
}

/// The first line of that table.
#[must_use]
pub fn figures_head(is_by_interval: bool, separator: Separator) -> String {
    Sheet::new(fields(is_by_interval), [], 0).delimited(separator)
}

fn fields<'a>(is_by_interval: bool) -> Vec<Field<'a, FigureRow>> {
    let interval = |of: Estimated| {
        of.interval.map(|of| Interval { low: of.low, high: of.high, level: of.level })
    };
    let first =
        is_by_interval.then(|| Field::seconds("interval_s", |row: &FigureRow| row.interval_s));
    first
        .into_iter()
        .chain([
            Field::text("metric", |row: &'a FigureRow| Some(&*row.metric)),
            Field::text("labels", |row: &'a FigureRow| Some(&*row.labels)),
            Field::text("unit", |row: &'a FigureRow| Some(&*row.unit)),
            Field::text("per", |row: &'a FigureRow| row.per.as_deref()),
            Field::text("origin", |row: &FigureRow| Some(word(&row.origin))),
            Field::estimate("value", move |row: &FigureRow| {
                row.value.map(|of| (of.value, interval(of)))
            }),
            Field::count("n", |row: &FigureRow| row.value.map_or(0, |of| of.n as u64)),
            Field::number("counted", |row: &FigureRow| row.counted),
            Field::text("why", |row: &'a FigureRow| row.why.as_deref()),
        ])
        .collect()
}

/// Means over runs: of whole runs, and for each unit of work that all of them have.
fn of_runs(file: &RunFile) -> Vec<FigureRow> {
    let units = FileHead::new("", file).units.into_keys();
    let per = std::iter::once(TOTAL.to_owned()).chain(units).collect();
    let options = Options { per, ..Options::default() };
    // Only units are asked for that every run has.
    let Ok(comparison) = compare(&[(String::new(), file.clone())], &options) else {
        return Vec::new();
    };
    let arms = comparison.files.len() > 1;
    let mut rows = Vec::new();
    for row in &comparison.rows {
        let columns = comparison.files.iter().zip(&row.columns);
        for (arm, column) in columns.filter_map(|(arm, column)| Some((arm, column.as_ref()?))) {
            let arm = arms.then(|| ("arm".to_owned(), arm.name.clone()));
            let labels = row.labels.clone().into_iter().chain(arm).collect();
            rows.push(FigureRow {
                interval_s: None,
                labels: joined(&labels),
                metric: row.metric.clone(),
                unit: row.unit.clone(),
                per: row.per.clone(),
                origin: column.origin,
                value: column.mean,
                counted: column.counted,
                why: why(column),
            });
        }
    }
    rows
}

/// Why there is no mean.
fn why(column: &Measured) -> Option<String> {
    let beyond = column.beyond.map(|beyond| {
        let all = column.reached + beyond.runs;
        format!("above {} in {} of {all} runs", beyond.above, beyond.runs)
    });
    column.why.clone().or(beyond)
}

/// What was counted in each interval: of a whole one, and for each unit of work.
fn of_intervals(file: &RunFile) -> Vec<FigureRow> {
    file.runs
        .iter()
        .flat_map(|run| {
            let values = file.series.iter().filter_map(|series| {
                let value = series.values.iter().find(|value| value.run == run.index)?;
                Some(of_interval(run, series, value))
            });
            values.flatten()
        })
        .collect()
}

fn of_interval(run: &Run, series: &Series, value: &RunValue) -> Vec<FigureRow> {
    let per = run.units.iter().filter(|_| series.origin != Origin::Program);
    let bases = per.map(|(name, units)| (Some(name), *units)).filter(|(_, units)| *units > 0.0);
    let row = |(name, units): (Option<&String>, f64)| FigureRow {
        interval_s: run.labels.get(INTERVAL).and_then(|text| text.parse().ok()),
        labels: joined(&series.labels),
        metric: series.metric.clone(),
        unit: series.unit.clone(),
        per: name.cloned(),
        origin: series.origin,
        value: value.value.map(|value| Estimated {
            value: value / units,
            interval: None,
            n: 1,
            why: None,
        }),
        counted: value
            .enabled_s
            .zip(value.running_s)
            .and_then(|(enabled, running)| (enabled > 0.0).then(|| (running / enabled).min(1.0))),
        why: value.why.clone(),
    };
    std::iter::once((None, 1.0)).chain(bases).map(row).collect()
}

/// `cpu=3;node=1`.
fn joined(labels: &Labels) -> String {
    let labels: Vec<String> = labels
        .iter()
        .filter(|(key, _)| *key != INTERVAL)
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_runs::{empty_file, sample_run};

    /// Two runs, or two intervals of one; one event has no counter.
    fn file(by_interval: bool, units: &[(&str, f64)]) -> RunFile {
        let mut file = empty_file();
        for index in 0..2 {
            let until = by_interval.then_some(0.5 + 0.5 * index as f64);
            let units = units.iter().map(|(name, units)| ((*name).to_owned(), *units)).collect();
            file.runs.push(Run { units, ..sample_run(index, until) });
            let node = Labels::from([("node".to_owned(), "1".to_owned())]);
            let value = RunValue {
                enabled_s: Some(0.5),
                running_s: Some(0.25),
                ..RunValue::new(index, Ok(100.0 + 4.0 * index as f64))
            };
            file.add_value(&node, "cycles", ("", Origin::Hardware), value);
            let why = Err("no such counter, here".into());
            file.add(index, &Labels::new(), "LLC-loads", ("", Origin::Hardware), why);
        }
        file
    }

    #[test]
    fn rows_are_of_metrics_and_units_of_work_and_say_why_there_is_no_value() {
        let text = figures_delimited(&file(false, &[("packet", 50.0)]), Separator::Comma);
        let has = |start: &str| text.lines().any(|line| line.starts_with(start));
        assert!(has("cycles,node=1,,,hardware,102,"), "{text}");
        assert!(has("cycles,node=1,,packet,hardware,2.04,"), "{text}");
        for per in ["", "packet"] {
            let missing = format!("LLC-loads,,,{per},hardware,,,,0,,\"no such counter, here\"");
            assert!(has(&missing), "{text}");
        }
    }

    #[test]
    fn rows_of_intervals_begin_with_their_end() {
        let text = figures_delimited(&file(true, &[("packet", 50.0)]), Separator::Comma);
        insta::assert_snapshot!(text, @r#"
        interval_s,metric,labels,unit,per,origin,value,value_low,value_high,n,counted,why
        0.5,cycles,node=1,,,hardware,100,,,1,0.5,
        0.5,cycles,node=1,,packet,hardware,2,,,1,0.5,
        0.5,LLC-loads,,,,hardware,,,,0,,"no such counter, here"
        0.5,LLC-loads,,,packet,hardware,,,,0,,"no such counter, here"
        1,cycles,node=1,,,hardware,104,,,1,0.5,
        1,cycles,node=1,,packet,hardware,2.08,,,1,0.5,
        1,LLC-loads,,,,hardware,,,,0,,"no such counter, here"
        1,LLC-loads,,,packet,hardware,,,,0,,"no such counter, here"
        "#);
    }

    #[test]
    fn the_head_is_the_first_line() {
        for by_interval in [false, true] {
            for separator in [Separator::Comma, Separator::Tab] {
                let text = figures_delimited(&file(by_interval, &[]), separator);
                assert!(text.starts_with(&figures_head(by_interval, separator)), "{text}");
                assert!(text.starts_with(if by_interval { "interval_s" } else { "metric" }));
            }
        }
    }
}
