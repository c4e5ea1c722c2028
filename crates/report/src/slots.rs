//! The tables of `pmuscope bench slots`: what an operation takes by the way account is kept, and how that
//! grows with CPUs and tasks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pmuscope_events::metrics::Metrics;
use pmuscope_measure::summary::summary;
use pmuscope_measure::{Estimated, RunFile, metric};

use crate::capture::scaled;
use crate::escape::escape;
use crate::number;
use crate::runs::value;
use crate::style::Style;
use crate::table::{Cell, Column, Table};

/// Cases with what they are.
const CASES: [(&str, &str); 3] = [
    ("cpu", "a breakpoint of a CPU"),
    ("task-on-cpu", "a breakpoint of a task on one CPU"),
    ("task", "a breakpoint of a task on all CPUs"),
];

/// For each case and number of threads a table: a row per machine, a column per account.
pub fn slots_text(file: &RunFile, style: &Style) -> String {
    let parameter = |key: &str| file.parameters.get(key).map_or("-".into(), |text| escape(text));
    let mut out = format!(
        "giving a breakpoint its slots, or taking them back: time of one operation\n\
         {} runs of {} s · {} slots per CPU, of which every task has one · means of n = {}, ±95 %\n",
        file.runs.len(),
        parameter("seconds"),
        parameter("slots"),
        runs_per_arm(file),
    );
    for threads in distinct(file, "threads") {
        let of_threads = file.part("threads", &threads);
        for (case, what) in CASES {
            let of_case = of_threads.part("case", case);
            if !of_case.runs.is_empty() {
                let at_once =
                    if threads == "1" { "" } else { &format!(", {threads} threads at once") };
                let _ = write!(out, "\n{what}{}\n", escape(at_once));
                out += &table(&of_case, style);
            }
        }
    }
    for note in &file.notices {
        let _ = write!(out, "\n{}\n", escape(note));
    }
    style.text(&out).into_owned()
}

/// Runs of each arm: `5`, or `4 to 5` where some are missing.
fn runs_per_arm(file: &RunFile) -> String {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for run in &file.runs {
        *counts.entry(&run.labels).or_default() += 1;
    }
    match (counts.values().min(), counts.values().max()) {
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "0".to_owned(),
    }
}

/// Values of a label, numbers by size, names as they came.
fn distinct(file: &RunFile, key: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut runs: Vec<_> = file.runs.iter().collect();
    runs.sort_by_key(|run| run.order);
    for value in runs.iter().filter_map(|run| run.labels.get(key)) {
        if !found.contains(value) {
            found.push(value.clone());
        }
    }
    found.sort_by_key(|value| value.parse::<u64>().unwrap_or(0));
    found
}

fn time(file: &RunFile) -> Option<Estimated> {
    let rows = summary(file, &Metrics::default()).rows;
    let of_time = rows.into_iter().find(|row| row.metric == metric::TIME)?;
    *of_time.per_unit.first()?
}

fn table(file: &RunFile, style: &Style) -> String {
    let mut accounts = distinct(file, "account");
    let known = ["naive", "cached", "constant", "none"];
    accounts.sort_by_key(|name| known.iter().position(|one| one == name));
    let columns = [Column::number("CPUs"), Column::number("tasks")];
    let of_accounts = accounts.iter().map(|name| Column::number(format!("{name}, ns")));
    let mut table = Table::new(columns.into_iter().chain(of_accounts));
    let (mut first, mut last) = (None, None);
    for cpus in distinct(file, "cpus") {
        let of_cpus = file.part("cpus", &cpus);
        for tasks in distinct(&of_cpus, "tasks") {
            let here = of_cpus.part("tasks", &tasks);
            let times: Vec<Option<Estimated>> =
                accounts.iter().map(|name| time(&here.part("account", name))).collect();
            let count =
                |text: &str| text.parse().map_or_else(|_| escape(text).into(), number::count);
            let machine = [Cell::new(count(&cpus)), Cell::new(count(&tasks))];
            let cells = times
                .iter()
                .map(|time| Cell::measured(*time, |time| value(&scaled(time, 1e9), "ns")));
            table.row(machine.into_iter().chain(cells));
            first.get_or_insert_with(|| times.clone());
            last = Some(times);
        }
    }
    let mut out = table.render(style);
    let grown = first.into_iter().zip(last).flat_map(|(first, last)| {
        accounts.clone().into_iter().zip(first.into_iter().zip(last)).collect::<Vec<_>>()
    });
    let grown: Vec<String> = grown
        .filter_map(|(name, (first, last))| {
            let times = last?.value / first?.value;
            Some(format!("{} {} times", escape(&name), number::significant(times, 2)))
        })
        .collect();
    let _ = writeln!(out, "from the first row to the last: {}", grown.join(", "));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_measure::{Labels, Plan, Program};

    /// Three runs of each arm, of which the last may be missing.
    fn file(missing: usize) -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        let parameters = [("slots", "4"), ("seconds", "0.02")];
        file.parameters.extend(parameters.map(|(key, text)| (key.to_owned(), text.to_owned())));
        let arms = [("naive", "1", 2e-8), ("naive", "256", 2e-6), ("none", "1", 4e-9)];
        let arms = [&arms[..], &[("none", "256", 4e-9)]].concat();
        let mut runs = Plan::new(arms.len(), 3, 1).runs;
        runs.truncate(runs.len() - missing);
        for planned in runs {
            let (account, cpus, time) = arms[planned.arm];
            let labels = [
                ("account", account),
                ("case", "task"),
                ("cpus", cpus),
                ("tasks", "1"),
                ("threads", "1"),
            ];
            let labels: Labels = labels.map(|(key, text)| (key.to_owned(), text.to_owned())).into();
            let seconds = 1e6 * time * (1.0 + planned.round as f64 / 100.0);
            let took = (std::time::UNIX_EPOCH, seconds);
            file.add_timed(&planned, labels, took, ("operation", 1e6));
        }
        file
    }

    #[test]
    fn each_table_tells_how_times_grow_and_of_how_many_runs_they_are_means() {
        insta::assert_snapshot!(slots_text(&file(0), &Style::PLAIN), @r"
        giving a breakpoint its slots, or taking them back: time of one operation
        12 runs of 0.02 s · 4 slots per CPU, of which every task has one · means of n = 3, ±95 %

        a breakpoint of a task on all CPUs
        CPUs  tasks  naive, ns    none, ns
           1      1  20.2 ±0.5  4.04 ±0.10
         256      1  2,020 ±50  4.04 ±0.10
        from the first row to the last: naive 100 times, none 1.0 times
        ");
        let missing = slots_text(&file(1), &Style::PLAIN);
        assert!(missing.contains("means of n = 2 to 3, ±95 %"), "{missing}");
    }
}
