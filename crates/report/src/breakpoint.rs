//! The tables of `pmuscope bench breakpoint`: what breakpoints cost threads that inherit them, whoever
//! switches them, and what a hit costs.

use std::fmt::Write as _;

use pmuscope_events::metrics::Metrics;
use pmuscope_measure::summary::summary;
use pmuscope_measure::versus::versus;
use pmuscope_measure::{Estimated, Labels, RunFile, metric};

use crate::capture::scaled;
use crate::escape::escape;
use crate::number;
use crate::runs::{distinct, runs_per_arm, time_per_unit, value};
use crate::style::Style;
use crate::table::{Cell, Column, Table};

const BREAKPOINTS: &str = "breakpoints";
const RECORD_BYTES: &str = "record_bytes";
/// Ways to treat a hit with what they are.
const WAYS: [(&str, &str); 5] = [
    ("nothing", "no breakpoint: the loop itself"),
    ("count", "counted"),
    ("program", "counted by a program in the kernel"),
    ("record", "a record with place, thread, time and address"),
    ("stack", "a record with the call chain too"),
];

/// Of `bench breakpoint thread`: a row for each number of breakpoints, creators and threads.
#[must_use]
pub fn breakpoint_thread_text(file: &RunFile, style: &Style) -> String {
    let batches = parameter(file, "batches");
    let mut out = format!(
        "threads that inherit breakpoints, created, let go and joined: time for each thread\n\
         {} runs of {batches} batches of threads, by so many creators at once · {}\n\n",
        file.runs.len(),
        head(file),
    );
    let columns = ["breakpoints", "parallelism", "threads", "n", "µs/op ±95 %", "µs/op/cpu"];
    let columns = columns.into_iter().chain(["total, s", "of no breakpoint"]);
    let mut table = Table::new(columns.map(Column::number));
    for (labels, part, ratio) in arms(file, ["parallelism", "threads"]) {
        let label = |key: &str| labels.get(key).map_or("-".into(), |text| escape(text));
        let creators: Option<f64> = labels.get("parallelism").and_then(|text| text.parse().ok());
        let time = time_per_unit(&part);
        table.row([
            Cell::new(label(BREAKPOINTS)),
            Cell::new(label("parallelism")),
            Cell::new(label("threads")),
            count(time),
            micro(time),
            micro(time.zip(creators).map(|(time, creators)| scaled(time, creators))),
            Cell::measured(total(&part), |total| value(&total, "s")),
            Cell::measured(ratio, |ratio| value(&ratio, "")),
        ]);
    }
    out += &table.render(style);
    end(out, file, style)
}

/// Of `bench breakpoint enable`: a row for each number of threads that wait and that run, with a breakpoint and
/// without.
#[must_use]
pub fn breakpoint_enable_text(file: &RunFile, style: &Style) -> String {
    let mut out = format!(
        "a breakpoint that threads have inherited, switched off and on: time for both; 0 is an event that \
         counts nothing\n{} runs of {} times · {}\n\n",
        file.runs.len(),
        parameter(file, "switches"),
        head(file),
    );
    let columns = ["breakpoints", "passive", "active", "n", "µs/op ±95 %", "total, s"];
    let columns = columns.into_iter().chain(["of no breakpoint"]);
    let mut table = Table::new(columns.map(Column::number));
    for (labels, part, ratio) in arms(file, ["passive", "active"]) {
        let label = |key: &str| labels.get(key).map_or("-".into(), |text| escape(text));
        let time = time_per_unit(&part);
        table.row([
            Cell::new(label(BREAKPOINTS)),
            Cell::new(label("passive")),
            Cell::new(label("active")),
            count(time),
            micro(time),
            Cell::measured(total(&part), |total| value(&total, "s")),
            Cell::measured(ratio, |ratio| value(&ratio, "")),
        ]);
    }
    out += &table.render(style);
    end(out, file, style)
}

/// Of `bench breakpoint hit`: a row for each way to treat a hit.
#[must_use]
pub fn breakpoint_hit_text(file: &RunFile, style: &Style) -> String {
    let mut out = format!(
        "a thread that writes a word with a breakpoint on it: time for each write\n\
         {} of {} writes · {}\n\n",
        number::counted(file.runs.len(), "run"),
        parameter(file, "hits"),
        head(file),
    );
    let mut table = Table::new([
        Column::text("hit"),
        Column::number("n"),
        Column::number("µs/hit ±95 %"),
        Column::number("B/record"),
        Column::text("what"),
    ]);
    for (way, what) in WAYS {
        let part = file.part("arm", way);
        if part.runs.is_empty() {
            continue;
        }
        let time = time_per_unit(&part);
        let bytes = figure(&part, RECORD_BYTES);
        table.row([
            Cell::new(way),
            count(time),
            micro(time),
            Cell::measured(bytes, |bytes| number::significant(bytes.value, 3)),
            Cell::new(what),
        ]);
    }
    out += &table.render(style);
    let whys: Vec<&String> = file.runs.iter().filter_map(|run| run.why.as_ref()).collect();
    if let Some(why) = whys.first() {
        let runs = number::counted(whys.len(), "run");
        let _ = write!(out, "\nwithout {runs}: {}\n", escape(why));
    }
    end(out, file, style)
}

fn parameter(file: &RunFile, key: &str) -> String {
    let number = file.parameters.get(key).and_then(|text| text.parse().ok());
    number.map_or("-".to_owned(), number::count)
}

/// `means of n = 5 · 4 slots found`.
fn head(file: &RunFile) -> String {
    let n = runs_per_arm(file);
    match file.parameters.get("slots") {
        Some(slots) => format!("means of n = {n} · {} slots for breakpoints found", escape(slots)),
        None => format!("means of n = {n}"),
    }
}

fn end(mut out: String, file: &RunFile, style: &Style) -> String {
    for note in &file.notices {
        let _ = write!(out, "\n{}\n", escape(note));
    }
    style.text(&out).into_owned()
}

fn count(time: Option<Estimated>) -> Cell {
    Cell::new(time.map_or(0, |time| time.n).to_string())
}

fn micro(time: Option<Estimated>) -> Cell {
    Cell::measured(time, |time| value(&scaled(time, 1e6), "µs"))
}

fn total(part: &RunFile) -> Option<Estimated> {
    figure(part, metric::TIME)
}

fn figure(part: &RunFile, metric: &str) -> Option<Estimated> {
    let rows = summary(part, &Metrics::default()).rows;
    rows.into_iter().find(|row| row.metric == metric)?.per_run
}

/// Arms by these labels and then by breakpoints: all their labels, their runs, and how many times as long as
/// without a breakpoint they take, by rounds.
fn arms(file: &RunFile, keys: [&str; 2]) -> Vec<(Labels, RunFile, Option<Estimated>)> {
    let groups = versus(file, BREAKPOINTS, "0");
    let ratio = |conditions: &Labels, breakpoints: &str| {
        let group = groups.iter().find(|group| group.labels == *conditions)?;
        group.arm(breakpoints)?.figure(metric::TIME)?.ratio
    };
    let mut arms = Vec::new();
    for first in distinct(file, keys[0]) {
        let of_first = file.part(keys[0], &first);
        for second in distinct(&of_first, keys[1]) {
            let of_second = of_first.part(keys[1], &second);
            let pairs = [(keys[0], first.clone()), (keys[1], second)];
            let conditions: Labels = pairs.map(|(key, text)| (key.to_owned(), text)).into();
            for breakpoints in distinct(&of_second, BREAKPOINTS) {
                let part = of_second.part(BREAKPOINTS, &breakpoints);
                let ratio = ratio(&conditions, &breakpoints);
                let mut labels = conditions.clone();
                labels.insert(BREAKPOINTS.to_owned(), breakpoints);
                arms.push((labels, part, ratio));
            }
        }
    }
    arms
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_measure::{Origin, Plan, Program};

    /// Three rounds of arms with these labels, which take so many seconds for 1000 units.
    fn file(arms: &[(&[(&str, &str)], f64)], parameters: &[(&str, &str)]) -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        let owned = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
        file.parameters.extend(parameters.iter().map(owned));
        for planned in Plan::new(arms.len(), 3, 1).runs {
            let (labels, seconds) = arms[planned.arm];
            let labels: Labels = labels.iter().map(owned).collect();
            let seconds = seconds * (1.0 + planned.round as f64 / 100.0);
            if seconds > 2e-3 && labels.contains_key("arm") {
                let kind = ("B", Origin::Recording);
                file.add(file.runs.len(), &labels, RECORD_BYTES, kind, Ok(48.0));
            }
            let took = (std::time::UNIX_EPOCH, seconds);
            file.add_timed(&planned, labels, took, ("thread", 1000.0));
        }
        file
    }

    #[test]
    fn threads_have_a_row_for_each_combination_beside_that_without_breakpoints() {
        let labels = |breakpoints, parallelism, threads| {
            [("breakpoints", breakpoints), ("parallelism", parallelism), ("threads", threads)]
        };
        let arms = [
            (&labels("4", "2", "16")[..], 0.083),
            (&labels("0", "2", "16")[..], 0.055),
            (&labels("4", "64", "512")[..], 0.09),
            (&labels("0", "64", "512")[..], 0.06),
            (&labels("0", "64", "64")[..], 0.06),
        ];
        let mut file = file(&arms, &[("batches", "1000"), ("slots", "4")]);
        file.notices.push("-p 64 -t 512: at most 57 of 64 batches at the same time".into());
        insta::assert_snapshot!(breakpoint_thread_text(&file, &Style::PLAIN), @r"
        threads that inherit breakpoints, created, let go and joined: time for each thread
        15 runs of 1,000 batches of threads, by so many creators at once · means of n = 3 · 4 slots for breakpoints found

        breakpoints  parallelism  threads  n  µs/op ±95 %   µs/op/cpu        total, s  of no breakpoint
                  0            2       16  3    55.6 ±1.4  111.1 ±2.7  0.0556 ±0.0014                 -
                  4            2       16  3    83.8 ±2.1      168 ±4  0.0838 ±0.0021              1.51
                  0           64       64  3    60.6 ±1.5   3,878 ±95  0.0606 ±0.0015                 -
                  0           64      512  3    60.6 ±1.5   3,878 ±95  0.0606 ±0.0015                 -
                  4           64      512  3    90.9 ±2.2  5,818 ±143  0.0909 ±0.0022              1.50

        -p 64 -t 512: at most 57 of 64 batches at the same time
        ");
    }

    #[test]
    fn switching_has_a_row_with_a_breakpoint_and_one_without() {
        let labels =
            |breakpoints| [("breakpoints", breakpoints), ("passive", "8"), ("active", "1")];
        let arms = [(&labels("1")[..], 0.2), (&labels("0")[..], 0.15)];
        let file = file(&arms, &[("switches", "1000"), ("slots", "4")]);
        insta::assert_snapshot!(breakpoint_enable_text(&file, &Style::PLAIN), @r"
        a breakpoint that threads have inherited, switched off and on: time for both; 0 is an event that counts nothing
        6 runs of 1,000 times · means of n = 3 · 4 slots for breakpoints found

        breakpoints  passive  active  n  µs/op ±95 %      total, s  of no breakpoint
                  0        8       1  3       152 ±4  0.151 ±0.004                 -
                  1        8       1  3       202 ±5  0.202 ±0.005              1.33
        ");
    }

    #[test]
    fn hits_have_a_row_for_each_way_and_runs_with_missing_hits_do_not_count() {
        let arm = |arm| [("arm", arm)];
        let arms = [
            (&arm("nothing")[..], 1e-6),
            (&arm("count")[..], 1.2e-3),
            (&arm("program")[..], 1.4e-3),
            (&arm("record")[..], 2.5e-3),
            (&arm("stack")[..], 3.5e-3),
        ];
        let mut file = file(&arms, &[("hits", "1000"), ("slots", "4")]);
        let counted = file.runs.iter_mut().find(|run| run.labels["arm"] == "count").unwrap();
        counted.why = Some("the breakpoint counted 999 of 1000 hits".into());
        insta::assert_snapshot!(breakpoint_hit_text(&file, &Style::PLAIN), @r"
        a thread that writes a word with a breakpoint on it: time for each write
        15 runs of 1,000 writes · means of n = 3 · 4 slots for breakpoints found

        hit      n        µs/hit ±95 %  B/record  what
        nothing  3  0.001010 ±0.000025         -  no breakpoint: the loop itself
        count    2          1.22 ±0.08         -  counted
        program  3          1.41 ±0.03         -  counted by a program in the kernel
        record   3          2.52 ±0.06      48.0  a record with place, thread, time and address
        stack    3          3.53 ±0.09      48.0  a record with the call chain too

        without 1 run: the breakpoint counted 999 of 1000 hits
        ");
    }
}
