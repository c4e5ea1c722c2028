//! Counts for programs, in the forms that scripts around `perf stat` read: `-x SEP` and `-j`; and the
//! lines of `-I`.
//!
//! Fields of a separated line, as perf has them (`perf-stat(1)`, "CSV FORMAT"): time of an interval, part of
//! the machine, value, unit, event, spread over runs in per cent of the mean, nanoseconds on a counter,
//! share of the time on a counter in per cent; then, as perf has its metrics, value and unit for each unit
//! of work, which has a line of its own with its rate. What was not counted is `<not counted>`, what the machine
//! cannot count `<not supported>`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pmuscope_measure::counting::INTERVAL;
use pmuscope_measure::{Origin, Run, RunFile, RunValue, Series};
use pmuscope_stats::{mean, std_dev};
use serde_json::{Map, json};

use crate::escape::escape;
use crate::number;

/// How figures are written for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineFormat {
    /// Fields with this between them.
    Separated(String),
    /// An object on each line.
    Json,
}

/// One figure of one moment, or the mean over runs.
struct CountLine<'a> {
    time: Option<&'a str>,
    part: Option<&'a str>,
    event: &'a str,
    unit: &'a str,
    value: Option<f64>,
    /// It was asked of the kernel, but never on a counter.
    opened: bool,
    /// Standard error of the mean over runs, per cent of it.
    spread: Option<f64>,
    enabled_s: f64,
    running_s: f64,
    /// Further figures with their units: per unit of work; of a unit of work, per second.
    metrics: Vec<(Option<f64>, String)>,
}

/// All counts of a file, a line each: of every interval, or means over runs.
pub fn counts_lines(file: &RunFile, format: &LineFormat) -> String {
    let mut out = String::new();
    for figure in figures(file) {
        match format {
            LineFormat::Separated(separator) => out += &separated(&figure, separator),
            LineFormat::Json => out += &object(&figure),
        }
        out.push('\n');
    }
    out
}

/// The lines of `-I` for people; `begin` with the heads of columns.
pub fn intervals_text(file: &RunFile, begin: bool) -> String {
    let mut out = String::new();
    if begin {
        let _ = writeln!(out, "{:>12} {:>20} {:<6} events", "# time s", "counts", "unit");
    }
    for figure in figures(file) {
        let time = figure.time.and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
        let value = match figure.value {
            Some(value) if value.fract() == 0.0 => number::fixed(value, 0),
            Some(value) => number::fixed(value, 2),
            None => "-".to_owned(),
        };
        let part = figure.part.map_or(String::new(), |part| format!("  {}", escape(part)));
        let share = share(&figure).filter(|share| *share < number::WHOLE);
        let share =
            share.map_or(String::new(), |s| format!("  (enabled {})", number::percent_at_least(s)));
        let _ = writeln!(
            out,
            "{:>12} {value:>20} {:<6} {}{part}{share}",
            number::fixed(time, 6),
            escape(figure.unit),
            escape(figure.event),
        );
    }
    out
}

fn figures(file: &RunFile) -> Vec<CountLine<'_>> {
    let counts = || {
        let is_count = |series: &&Series| {
            matches!(series.origin, Origin::Hardware | Origin::Software | Origin::Emulated)
        };
        file.series.iter().filter(is_count)
    };
    let in_intervals = file.runs.iter().any(|run| run.labels.contains_key(INTERVAL));
    if !in_intervals {
        let good: BTreeSet<usize> = file.counting_runs().map(|run| run.index).collect();
        let of_series = counts().map(move |series| {
            let values = series.values.iter().filter(|value| good.contains(&value.run));
            figure(file, series, None, &values.collect::<Vec<_>>())
        });
        return of_series.chain(work(file, None)).collect();
    }
    let of_run = |run: &'_ pmuscope_measure::Run| run.index;
    file.runs
        .iter()
        .flat_map(|run| {
            let time = run.labels.get(INTERVAL).map(String::as_str);
            let index = of_run(run);
            let of_series = counts().filter_map(move |series| {
                let value = series.values.iter().find(|value| value.run == index)?;
                Some(figure(file, series, time, &[value]))
            });
            of_series.chain(work(file, Some(index)))
        })
        .collect()
}

/// Names of units of work.
fn units(file: &RunFile) -> BTreeSet<&str> {
    file.runs.iter().flat_map(|run| run.units.keys()).map(String::as_str).collect()
}

/// A figure for each unit of work: how many in a run, or in one of them, and in a second.
fn work(file: &RunFile, of: Option<usize>) -> impl Iterator<Item = CountLine<'_>> {
    units(file).into_iter().map(move |name| {
        let runs = || {
            let told = file.counting_runs().filter(move |_| of.is_none());
            told.chain(file.runs.iter().filter(move |run| of == Some(run.index)))
        };
        let done: Vec<f64> = runs().filter_map(|run| run.units.get(name).copied()).collect();
        let rate =
            |run: &Run| Some(run.units.get(name)? / Some(run.duration_s).filter(|s| *s > 0.0)?);
        let rates: Vec<f64> = runs().filter_map(rate).collect();
        let label = of.and_then(|_| runs().next()?.labels.get(INTERVAL));
        CountLine {
            time: label.map(String::as_str),
            part: None,
            event: name,
            unit: "",
            value: mean(&done),
            opened: false,
            spread: spread(&done),
            enabled_s: 0.0,
            running_s: 0.0,
            metrics: vec![(mean(&rates), "/s".to_owned())],
        }
    })
}

/// Standard error of the mean, per cent of it.
fn spread(numbers: &[f64]) -> Option<f64> {
    let error = std_dev(numbers)? / (numbers.len() as f64).sqrt();
    mean(numbers).filter(|mean| *mean != 0.0).map(|mean| 100.0 * error / mean)
}

fn figure<'a>(
    file: &'a RunFile,
    series: &'a Series,
    time: Option<&'a str>,
    values: &[&RunValue],
) -> CountLine<'a> {
    let numbers: Vec<f64> = values.iter().filter_map(|value| value.value).collect();
    let value = mean(&numbers);
    let per = |name: &str| {
        let quotient = |value: &&RunValue| {
            let run = file.runs.iter().find(|run| run.index == value.run)?;
            Some(value.value? / run.units.get(name).filter(|units| **units > 0.0)?)
        };
        mean(&values.iter().filter_map(quotient).collect::<Vec<f64>>())
    };
    // As the value, of a run: that of nothing is 0.
    let time_of = |of: fn(&RunValue) -> Option<f64>| {
        mean(&values.iter().filter_map(|value| of(value)).collect::<Vec<f64>>()).unwrap_or(0.0)
    };
    CountLine {
        time,
        part: series.labels.values().next().map(String::as_str),
        event: &series.metric,
        unit: &series.unit,
        value,
        opened: values.iter().any(|value| value.enabled_s.is_some()),
        spread: spread(&numbers),
        enabled_s: time_of(|value| value.enabled_s),
        running_s: time_of(|value| value.running_s),
        metrics: units(file)
            .into_iter()
            .map(|name| (per(name), format!("{}/{name}", series.unit)))
            .collect(),
    }
}

fn share(figure: &CountLine<'_>) -> Option<f64> {
    (figure.enabled_s > 0.0).then(|| figure.running_s / figure.enabled_s)
}

fn absent(figure: &CountLine<'_>) -> &'static str {
    if figure.opened { "<not counted>" } else { "<not supported>" }
}

fn written(figure: &CountLine<'_>) -> String {
    match figure.value {
        None => absent(figure).to_owned(),
        Some(value) if value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn separated(figure: &CountLine<'_>, separator: &str) -> String {
    let mut fields: Vec<String> = Vec::new();
    fields.extend(figure.time.map(str::to_owned));
    fields.extend(figure.part.map(|part| escape(part).into_owned()));
    fields.push(written(figure));
    fields.push(escape(figure.unit).into_owned());
    fields.push(escape(figure.event).into_owned());
    fields.extend(figure.spread.map(|spread| format!("{spread:.2}%")));
    fields.push(format!("{:.0}", figure.running_s * 1e9));
    fields.push(share(figure).map_or(String::new(), |share| format!("{:.2}", 100.0 * share)));
    for (value, unit) in &figure.metrics {
        fields.push(value.map_or(String::new(), |value| number::plain(value, 6)));
        fields.push(escape(unit).into_owned());
    }
    fields.join(separator)
}

/// perf's names; numbers that it quotes are quoted.
fn object(figure: &CountLine<'_>) -> String {
    let mut map = Map::new();
    let mut set = |name: &str, value| map.insert(name.to_owned(), value);
    if let Some(time) = figure.time.and_then(|text| text.parse::<f64>().ok()) {
        set("interval", json!(time));
    }
    if let Some(part) = figure.part {
        set("part", json!(part));
    }
    let value = match figure.value {
        Some(value) => format!("{value:.6}"),
        None => absent(figure).to_owned(),
    };
    set("counter-value", json!(value));
    set("unit", json!(figure.unit));
    set("event", json!(figure.event));
    if let Some(spread) = figure.spread {
        set("variance", json!(spread));
    }
    set("event-runtime", json!((figure.running_s * 1e9).round() as u64));
    if let Some(share) = share(figure) {
        set("pcnt-running", json!((share * 1e4).round() / 100.0));
    }
    // perf has one of them on the line of the event, and each further one on a line of its own.
    let mut lines = Vec::new();
    let metric = |map: &mut Map<String, serde_json::Value>,
                  (value, unit): &(Option<f64>, String)| {
        map.insert("metric-value".to_owned(), json!(value.map(|value| number::plain(value, 6))));
        map.insert("metric-unit".to_owned(), json!(unit));
    };
    let mut further = figure.metrics.iter();
    if let Some(first) = further.next() {
        metric(&mut map, first);
    }
    lines.push(serde_json::Value::Object(map).to_string());
    for one in further {
        let mut map = Map::from_iter([("event".to_owned(), json!(figure.event))]);
        metric(&mut map, one);
        lines.push(serde_json::Value::Object(map).to_string());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_runs::{empty_file, sample_run};
    use pmuscope_measure::Labels;

    fn file(intervals: bool) -> RunFile {
        let mut file = empty_file();
        for index in 0..2 {
            file.runs.push(sample_run(index, intervals.then_some(0.5 + 0.5 * index as f64)));
            let node = Labels::from([("node".to_owned(), "1".to_owned())]);
            let value = RunValue {
                enabled_s: Some(0.5),
                running_s: Some(0.25),
                ..RunValue::new(index, Ok(100.0 + 4.0 * index as f64))
            };
            file.add_value(&node, "power/energy-pkg/", ("Joules", Origin::Hardware), value);
            let never = RunValue {
                enabled_s: Some(0.5),
                running_s: Some(0.0),
                ..RunValue::new(index, Err("never".into()))
            };
            file.add_value(&Labels::new(), "cycles", ("", Origin::Hardware), never);
            file.add(index, &Labels::new(), "LLC-loads", ("", Origin::Hardware), Err("no".into()));
            file.add(index, &Labels::new(), "wall", ("s", Origin::Clock), Ok(0.5));
        }
        file
    }

    #[test]
    fn fields_are_in_perfs_order() {
        let lines = counts_lines(&file(false), &LineFormat::Separated(",".into()));
        insta::assert_snapshot!(lines, @r"
        1,102,Joules,power/energy-pkg/,1.96%,250000000,50.00
        <not counted>,,cycles,0,0.00
        <not supported>,,LLC-loads,0,
        ");
        let lines = counts_lines(&file(true), &LineFormat::Separated(";".into()));
        insta::assert_snapshot!(lines, @r"
        0.500000000;1;100;Joules;power/energy-pkg/;250000000;50.00
        0.500000000;<not counted>;;cycles;0;0.00
        0.500000000;<not supported>;;LLC-loads;0;
        1.000000000;1;104;Joules;power/energy-pkg/;250000000;50.00
        1.000000000;<not counted>;;cycles;0;0.00
        1.000000000;<not supported>;;LLC-loads;0;
        ");
    }

    #[test]
    fn units_of_work_are_metrics_of_each_line_and_lines_of_their_own() {
        let mut file = file(false);
        for run in &mut file.runs {
            run.units = [("packet".to_owned(), 200.0), ("row".to_owned(), 1e7)].into();
        }
        file.series.remove(1);
        let lines = counts_lines(&file, &LineFormat::Separated(";".into()));
        insta::assert_snapshot!(lines, @r"
        1;102;Joules;power/energy-pkg/;1.96%;250000000;50.00;0.51;Joules/packet;0.0000102;Joules/row
        <not supported>;;LLC-loads;0;;;/packet;;/row
        200;;packet;0.00%;0;;400;/s
        10000000;;row;0.00%;0;;20000000;/s
        ");
        let lines = counts_lines(&file, &LineFormat::Json);
        insta::assert_snapshot!(lines.lines().take(2).collect::<Vec<_>>().join("\n"), @r#"
        {"counter-value":"102.000000","event":"power/energy-pkg/","event-runtime":250000000,"metric-unit":"Joules/packet","metric-value":"0.51","part":"1","pcnt-running":50.0,"unit":"Joules","variance":1.9607843137254901}
        {"event":"power/energy-pkg/","metric-unit":"Joules/row","metric-value":"0.0000102"}
        "#);
    }

    #[test]
    fn objects_have_perfs_names() {
        insta::assert_snapshot!(counts_lines(&file(false), &LineFormat::Json), @r#"
        {"counter-value":"102.000000","event":"power/energy-pkg/","event-runtime":250000000,"part":"1","pcnt-running":50.0,"unit":"Joules","variance":1.9607843137254901}
        {"counter-value":"<not counted>","event":"cycles","event-runtime":0,"pcnt-running":0.0,"unit":""}
        {"counter-value":"<not supported>","event":"LLC-loads","event-runtime":0,"unit":""}
        "#);
    }

    #[test]
    fn intervals_say_what_was_not_counted_all_the_time() {
        insta::assert_snapshot!(intervals_text(&file(true), true), @r"
        # time s               counts unit   events
        0.500000                  100 Joules power/energy-pkg/  1  (enabled 50.0%)
        0.500000                    -        cycles  (enabled 0%)
        0.500000                    -        LLC-loads
        1.000000                  104 Joules power/energy-pkg/  1  (enabled 50.0%)
        1.000000                    -        cycles  (enabled 0%)
        1.000000                    -        LLC-loads
        ");
    }
}
