//! `pmuscope bench slots`: what an operation takes by the way account is kept, and how that grows with CPUs
//! and tasks.

use pmuscope_measure::RunFile;

use super::{BenchArm, BenchText, across, label, matrix, parameter};
use crate::escape::escape;
use crate::number;
use crate::runs::{distinct, runs_per_arm, scaled, value};

/// Cases with what they are.
pub(super) const CASES: [(&str, &str); 3] = [
    ("cpu", "a breakpoint of a CPU"),
    ("task-on-cpu", "a breakpoint of a task on one CPU"),
    ("task", "a breakpoint of a task on all CPUs"),
];

pub(super) const TITLE: &str =
    "allocating or freeing the slots of a breakpoint: time per operation";

/// How it was measured, in a line.
pub(super) fn how(file: &RunFile) -> String {
    format!(
        "{} runs of {} s · {} slots per CPU, one used by every task · means of n = {}, 95% CI",
        file.runs.len(),
        parameter(file, "seconds"),
        parameter(file, "slots"),
        runs_per_arm(file),
    )
}

/// Names of the accounts, in the order in which they are known.
pub(super) fn accounts(file: &RunFile) -> Vec<String> {
    let mut accounts = distinct(file, "account");
    let known = ["naive", "cached", "constant", "none"];
    accounts.sort_by_key(|name| known.iter().position(|one| one == name));
    accounts
}

/// `a breakpoint of a CPU, 2 threads at once`.
pub(super) fn case_title(what: &str, threads: &str) -> String {
    match threads {
        "1" => what.to_owned(),
        _ => format!("{what}, {threads} threads at once"),
    }
}

/// For each case and number of threads a table: a row per machine, a column per account.
pub(super) fn show(file: &RunFile, text: &mut BenchText<'_>) {
    text.lines(&format!("{TITLE}\n{}", how(file)));
    for threads in distinct(file, "threads") {
        let of_threads = file.part("threads", &threads);
        for (case, what) in CASES {
            let of_case = of_threads.part("case", case);
            let accounts = accounts(&of_case);
            let rows = matrix(&of_case, &["cpus", "tasks"], ("account", &accounts));
            let heads = accounts.iter().map(|name| format!("{name}, ns"));
            let mut fields = vec![label("CPUs", "cpus"), label("tasks", "tasks")];
            fields.extend(across(heads, |cell| Some(value(&scaled(cell.per_unit()?, 1e9), "ns"))));
            text.table(&case_title(what, &threads), fields, &rows);
            if let Some(grown) = grown(&rows) {
                text.lines(&format!("from the first row to the last: {grown}"));
            }
        }
    }
}

/// How many times as long an operation takes in the last row as in the first, of each account.
fn grown(rows: &[BenchArm]) -> Option<String> {
    let (first, last) = (rows.first()?, rows.last()?);
    let times = first.cells.iter().zip(&last.cells).filter_map(|(first, last)| {
        let times = last.per_unit()?.value / first.per_unit()?.value;
        let account = escape(first.label("account"));
        Some(format!("{account} {} times", number::significant(times, 2)))
    });
    Some(times.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::BenchKind;
    use super::*;
    use crate::style::Style;
    use pmuscope_measure::{Labels, Plan, Program};

    /// Three runs of each arm, of which the last may be missing.
    pub(in crate::bench) fn file(missing: usize) -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        let parameters = [("slots", "4"), ("seconds", "0.02")];
        file.parameters.extend(parameters.map(|(key, text)| (key.to_owned(), text.to_owned())));
        let arms = [
            ("naive", "1", 2e-8),
            ("naive", "256", 2e-6),
            ("none", "1", 4e-9),
            ("none", "256", 4e-9),
        ];
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
        file.finish(0);
        file
    }

    #[test]
    fn each_table_tells_how_times_grow_and_of_how_many_runs_they_are_means() {
        crate::widths::fits("bench-slots", |style| BenchKind::Slots.text(&file(0), style));
        insta::assert_snapshot!(BenchKind::Slots.text(&file(0), &Style::PLAIN), @r"
        allocating or freeing the slots of a breakpoint: time per operation
        12 runs of 0.02 s · 4 slots per CPU, one used by every task · means of n = 3, 95% CI

        a breakpoint of a task on all CPUs
        CPUs  tasks   naive, ns     none, ns
           1      1  20.2 ± 0.5  4.04 ± 0.10
         256      1  2,020 ± 50  4.04 ± 0.10
        from the first row to the last: naive 100 times, none 1.0 times
        ");
        let missing = BenchKind::Slots.text(&file(1), &Style::PLAIN);
        assert!(missing.contains("means of n = 2 to 3, 95% CI"), "{missing}");
    }
}
