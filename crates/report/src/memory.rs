//! `pmuscope bench memory`: a row for the CPUs of each node, a column for the memory of each, and latency by
//! load.

use std::fmt::Write as _;

use pmuscope_events::metrics::Metrics;
use pmuscope_measure::summary::summary;
use pmuscope_measure::{Estimated, RunFile};

use crate::escape::escape;
use crate::number;
use crate::runs::{distinct, runs_per_arm, value};
use crate::style::Style;
use crate::table::{Cell, Column, Table};

const BANDWIDTH: &str = "bandwidth";
const LOAD_TIME: &str = "load";

/// What is shown where: label, title, metric, unit.
const MATRICES: [(&str, &str, &str, &str); 8] = [
    ("read", "read", BANDWIDTH, "GB/s"),
    ("write", "write", BANDWIDTH, "GB/s"),
    ("stream", "write past the caches", BANDWIDTH, "GB/s"),
    ("both", "read and write in place", BANDWIDTH, "GB/s"),
    ("zero", "memset", BANDWIDTH, "GB/s"),
    ("copy", "copy", BANDWIDTH, "GB/s"),
    ("copy-stream", "copy past the caches", BANDWIDTH, "GB/s"),
    ("latency", "one thread that waits for each load", LOAD_TIME, "ns/load"),
];

/// Header, a matrix for each figure, latency by load, what was left out.
pub fn memory_text(file: &RunFile, style: &Style) -> String {
    let parameter = |key: &str| file.parameters.get(key).map_or("-".into(), |text| escape(text));
    let bytes = parameter("bytes").parse().map_or("-".to_owned(), number::bytes);
    let mut out = format!(
        "memory from the CPUs of a node to that of each node: {bytes} in each run, huge pages {}\n{} runs of {} \
         s · means of n = {}, ±95 % · GB: 10^9 bytes loaded and stored\n",
        parameter("thp"),
        file.runs.len(),
        parameter("seconds"),
        runs_per_arm(file),
    );
    for (what, title, metric, unit) in MATRICES {
        let part = file.part("what", what);
        if !part.runs.is_empty() {
            let _ = write!(out, "\n{title}, {unit}\n{}", matrix(&part, (metric, unit), style));
        }
    }
    let loaded = file.part("what", "loaded");
    if !loaded.runs.is_empty() {
        out += &by_load(&loaded, style);
    }
    for note in &file.notices {
        let _ = write!(out, "\n{}\n", escape(note));
    }
    style.text(&out).into_owned()
}

fn matrix(file: &RunFile, (metric, unit): (&str, &str), style: &Style) -> String {
    let memories = distinct(file, "memory");
    let heads = memories.iter().map(|node| Column::number(format!("memory {}", escape(node))));
    let mut table = Table::new([Column::text("CPUs of node")].into_iter().chain(heads));
    for cpus in distinct(file, "cpus") {
        let row = file.part("cpus", &cpus);
        let cells = memories.iter().map(|memory| {
            let found = figure(&row.part("memory", memory), metric);
            Cell::measured(found, |found| value(&found, unit))
        });
        table.row([Cell::new(escape(&cpus))].into_iter().chain(cells));
    }
    table.render(style)
}

/// Of one node: latency, by what the others load meanwhile, the least load first.
fn by_load(file: &RunFile, style: &Style) -> String {
    let node = distinct(file, "cpus").join(",");
    let mut out =
        format!("\nnode {}: one thread waits for each load while the others read\n", escape(&node));
    let columns = ["pause, ns per 64 KiB", "others, GB/s", "ns/load"].map(Column::number);
    let mut table = Table::new(columns);
    for pause in distinct(file, "pause_ns").iter().rev() {
        let point = file.part("pause_ns", pause);
        let point =
            distinct(&point, "cpus").first().map_or(point.clone(), |cpus| point.part("cpus", cpus));
        let point = distinct(&point, "memory")
            .first()
            .map_or(point.clone(), |node| point.part("memory", node));
        let cell = |metric: &str, unit: &str| {
            Cell::measured(figure(&point, metric), |found| value(&found, unit))
        };
        let paused = pause.parse().map_or_else(|_| escape(pause).into_owned(), number::count);
        table.row([Cell::new(paused), cell(BANDWIDTH, "GB/s"), cell(LOAD_TIME, "ns")]);
    }
    out += &table.render(style);
    out
}

/// The mean of all runs of a file that has one arm only.
fn figure(file: &RunFile, metric: &str) -> Option<Estimated> {
    let rows = summary(file, &Metrics::default()).rows;
    rows.into_iter().find(|row| row.metric == metric)?.per_run
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_measure::{Labels, Origin, Program, Run};

    /// Labels and figures.
    type Arm<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, f64)]);

    /// Three runs of each arm, slightly different.
    fn file(arms: &[Arm<'_>]) -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        let parameters = [("bytes", "1073741824"), ("seconds", "1"), ("thp", "always")];
        file.parameters.extend(parameters.map(|(key, text)| (key.to_owned(), text.to_owned())));
        for round in 0..3 {
            for (labels, figures) in arms {
                let labels: Labels = labels
                    .iter()
                    .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
                    .collect();
                let index = file.runs.len();
                for (metric, figure) in *figures {
                    let unit = if *metric == LOAD_TIME { "ns" } else { "GB/s" };
                    let figure = figure * (1.0 + round as f64 / 100.0);
                    file.add(index, &labels, metric, (unit, Origin::Program), Ok(figure));
                }
                file.runs.push(Run {
                    index,
                    order: index,
                    round: Some(round),
                    labels,
                    started: "0".into(),
                    duration_s: 1.0,
                    exit: Some(0),
                    why: None,
                    units: Default::default(),
                });
            }
        }
        file
    }

    #[test]
    fn nodes_are_rows_and_columns_and_load_grows_downward() {
        let mut file = file(&[
            (&[("what", "read"), ("cpus", "0"), ("memory", "0")], &[(BANDWIDTH, 50.0)]),
            (&[("what", "read"), ("cpus", "0"), ("memory", "10")], &[(BANDWIDTH, 20.0)]),
            (&[("what", "read"), ("cpus", "10"), ("memory", "0")], &[(BANDWIDTH, 21.0)]),
            (&[("what", "latency"), ("cpus", "0"), ("memory", "0")], &[(LOAD_TIME, 90.0)]),
            (
                &[("what", "loaded"), ("cpus", "0"), ("memory", "0"), ("pause_ns", "0")],
                &[(BANDWIDTH, 45.0), (LOAD_TIME, 180.0)],
            ),
            (
                &[("what", "loaded"), ("cpus", "0"), ("memory", "0"), ("pause_ns", "100000")],
                &[(BANDWIDTH, 2.0), (LOAD_TIME, 91.0)],
            ),
        ]);
        file.notices.push("node 2 has no CPU that this process may use".into());
        insta::assert_snapshot!(memory_text(&file, &Style::PLAIN), @r"
        memory from the CPUs of a node to that of each node: 1 GiB in each run, huge pages always
        18 runs of 1 s · means of n = 3, ±95 % · GB: 10^9 bytes loaded and stored

        read, GB/s
        CPUs of node   memory 0  memory 10
        0             50.5 ±1.2  20.2 ±0.5
        10            21.2 ±0.5          -

        one thread that waits for each load, ns/load
        CPUs of node   memory 0
        0             90.9 ±2.2

        node 0: one thread waits for each load while the others read
        pause, ns per 64 KiB  others, GB/s    ns/load
                     100,000    2.02 ±0.05  91.9 ±2.3
                           0     45.4 ±1.1     182 ±4

        node 2 has no CPU that this process may use
        ");
    }
}
