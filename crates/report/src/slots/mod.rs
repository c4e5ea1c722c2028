//! `pmuscope bench slots`: what an operation takes by the way account is kept, and how that grows with CPUs
//! and tasks; as tables and as a picture.

mod plot;
mod text;

use pmuscope_measure::RunFile;

use crate::escape::escape;
use crate::runs::{distinct, runs_per_arm};

pub use plot::{slots_page, slots_svg};
pub use text::slots_text;

/// Cases with what they are.
const CASES: [(&str, &str); 3] = [
    ("cpu", "a breakpoint of a CPU"),
    ("task-on-cpu", "a breakpoint of a task on one CPU"),
    ("task", "a breakpoint of a task on all CPUs"),
];

const TITLE: &str = "giving a breakpoint its slots, or taking them back: time of one operation";

/// How it was measured, in a line.
fn how(file: &RunFile) -> String {
    let parameter = |key: &str| file.parameters.get(key).map_or("-".into(), |text| escape(text));
    format!(
        "{} runs of {} s · {} slots per CPU, of which every task has one · means of n = {}, ±95 %",
        file.runs.len(),
        parameter("seconds"),
        parameter("slots"),
        runs_per_arm(file),
    )
}

/// Names of the accounts, in the order in which they are known.
fn accounts(file: &RunFile) -> Vec<String> {
    let mut accounts = distinct(file, "account");
    let known = ["naive", "cached", "constant", "none"];
    accounts.sort_by_key(|name| known.iter().position(|one| one == name));
    accounts
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_measure::{Labels, Plan, Program};

    /// Three runs of each arm, of which the last may be missing.
    pub(super) fn file(missing: usize) -> RunFile {
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
        file
    }
}
