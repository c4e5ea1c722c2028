//! The tables of `pmuscope bench slots`: what an operation takes by the way account is kept, and how that
//! grows with CPUs and tasks.

use std::fmt::Write as _;

use pmuscope_measure::{Estimated, RunFile};

use super::{CASES, TITLE, accounts, how};
use crate::capture::scaled;
use crate::escape::escape;
use crate::number;
use crate::runs::{distinct, time_per_unit, value};
use crate::style::Style;
use crate::table::{Cell, Column, Table};

/// For each case and number of threads a table: a row per machine, a column per account.
pub fn slots_text(file: &RunFile, style: &Style) -> String {
    let mut out = format!("{TITLE}\n{}\n", how(file));
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

fn table(file: &RunFile, style: &Style) -> String {
    let accounts = accounts(file);
    let columns = [Column::number("CPUs"), Column::number("tasks")];
    let of_accounts = accounts.iter().map(|name| Column::number(format!("{name}, ns")));
    let mut table = Table::new(columns.into_iter().chain(of_accounts));
    let (mut first, mut last) = (None, None);
    for cpus in distinct(file, "cpus") {
        let of_cpus = file.part("cpus", &cpus);
        for tasks in distinct(&of_cpus, "tasks") {
            let here = of_cpus.part("tasks", &tasks);
            let times: Vec<Option<Estimated>> =
                accounts.iter().map(|name| time_per_unit(&here.part("account", name))).collect();
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
    use super::super::tests::file;
    use super::*;

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
