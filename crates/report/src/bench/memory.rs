//! `pmuscope bench memory`: a row for the CPUs of each node, a column for the memory of each, and latency by
//! load.

use pmuscope_measure::RunFile;

use super::{BenchArm, BenchText, across, arms, label, matrix, mean, name, parameter};
use crate::number;
use crate::runs::{distinct, runs_per_arm, value};

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
    ("latency", "dependent loads, one thread", LOAD_TIME, "ns/load"),
];

/// A matrix for each figure, latency by load.
pub(super) fn show(file: &RunFile, text: &mut BenchText<'_>) {
    let bytes = parameter(file, "bytes").parse().map_or("-".to_owned(), number::bytes);
    text.lines(&format!(
        "memory access from CPUs of one NUMA node to memory of each: {bytes} per run, huge pages {}\n{} runs of {} \
         s · means of n = {}, 95% CI · GB: 10^9 bytes loaded and stored",
        parameter(file, "thp"),
        file.runs.len(),
        parameter(file, "seconds"),
        runs_per_arm(file),
    ));
    for (what, title, metric, unit) in MATRICES {
        let part = file.part("what", what);
        let memories = distinct(&part, "memory");
        let rows = matrix(&part, &["cpus"], ("memory", &memories));
        let heads = memories.iter().map(|node| format!("memory {node}"));
        let mut fields = vec![name("CPUs of node", |row: &BenchArm| row.label("cpus"))];
        fields.extend(across(heads, move |cell| Some(value(&cell.mean(metric)?, unit))));
        text.table(&format!("{title}, {unit}"), fields, &rows);
    }
    // Of one node; the least load first.
    let loaded = file.part("what", "loaded");
    let mut points = arms(&loaded, &["pause_ns", "cpus", "memory"]);
    points.reverse();
    let node = distinct(&loaded, "cpus").join(",");
    let title = format!("node {node}: dependent loads in one thread while the others read");
    let fields = vec![
        label("pause, ns per 64 KiB", "pause_ns"),
        mean("others, GB/s", BANDWIDTH),
        mean("ns/load", LOAD_TIME),
    ];
    text.table(&title, fields, &points);
}

#[cfg(test)]
mod tests {
    use super::super::BenchKind;
    use super::*;
    use crate::style::Style;
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
        file.finish(0);
        crate::widths::fits("bench-memory", |style| BenchKind::Memory.text(&file, style));
        insta::assert_snapshot!(BenchKind::Memory.text(&file, &Style::PLAIN), @r"
        memory access from CPUs of one NUMA node to memory of each: 1 GiB per run, huge pages always
        18 runs of 1 s · means of n = 3, 95% CI · GB: 10^9 bytes loaded and stored

        read, GB/s
        CPUs of node    memory 0   memory 10
        0             50.5 ± 1.2  20.2 ± 0.5
        10            21.2 ± 0.5           -

        dependent loads, one thread, ns/load
        CPUs of node    memory 0
        0             90.9 ± 2.2

        node 0: dependent loads in one thread while the others read
        pause, ns per 64 KiB  others, GB/s     ns/load
                     100,000   2.02 ± 0.05  91.9 ± 2.3
                           0    45.4 ± 1.1     182 ± 4

        node 2 has no CPU that this process may use
        ");
    }
}
