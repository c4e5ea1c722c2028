//! The tables of `pmuscope bench functions`: how far each way of recording is from what each function
//! is alone, and what it takes.

use std::fmt::Write as _;

use pmuscope_measure::accuracy::{Accuracy, ErrorUnit, accuracy};
use pmuscope_measure::versus::{Arm, versus};
use pmuscope_measure::{Estimated, RunFile};
use serde_json::Value;

use crate::capture::failures;
use crate::escape::escape;
use crate::number;
use crate::runs::value;
use crate::style::{Paint, Style, wrap};
use crate::table::{Cell, Column, Table};

const ARM: &str = "arm";
const FUNCTION: &str = "function";
/// The arm in which functions run alone.
const PURE: &str = "PURE";
/// The arm without a recorder.
const BASE: &str = "BASE";

/// Metrics, how their errors are told, and what their table is called.
const METRICS: [(&str, ErrorUnit, &str); 8] = [
    ("CPI", ErrorUnit::Relative, "cycles per instruction, error in % of the function alone"),
    ("BM/KI", ErrorUnit::Own, "branch misses per 1000 instructions, error in the same unit"),
    ("CM/KI", ErrorUnit::Own, "cache misses per 1000 instructions, error in the same unit"),
    ("%CM", ErrorUnit::Own, "cache accesses that miss, error in percentage points"),
    ("PF/KI", ErrorUnit::Own, "page faults per 1000 instructions, error in the same unit"),
    ("%CY", ErrorUnit::Own, "share of cycles in windows that count, error in percentage points"),
    (
        "%I",
        ErrorUnit::Own,
        "share of instructions in windows that count, error in percentage points",
    ),
    (
        "%samples",
        ErrorUnit::Own,
        "share of all samples, against that of cycles, error in percentage points",
    ),
];

/// Header, a table of errors for each metric, of windows, of what recording takes; notes.
pub fn functions_text(file: &RunFile, style: &Style) -> String {
    let mut out = head(file);
    let rounds = rounds(file);
    for (metric, unit, title) in METRICS {
        let table = accuracy(file, metric, unit, (ARM, FUNCTION), PURE);
        if table.arms.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{}", style.paint(Paint::Bold, &format!("{metric}: {title}")));
        out += &errors(&table, rounds).render(style);
    }
    let kept = accuracy(file, "kept", ErrorUnit::Own, (ARM, FUNCTION), PURE);
    if !kept.arms.is_empty() {
        let title = "windows that count, of all that end in the function; alone, all";
        let _ = writeln!(out, "\n{}", style.paint(Paint::Bold, title));
        out += &windows(file, &kept).render(style);
    }
    out += &costs(file, style);
    out += &notes(file, style);
    style.text(&out).into_owned()
}

fn rounds(file: &RunFile) -> usize {
    file.runs.iter().filter_map(|run| run.round).max().map_or(0, |last| last + 1)
}

fn head(file: &RunFile) -> String {
    let parameter = |key: &str| file.parameters.get(key).map_or("-".into(), |text| escape(text));
    let count = |key: &str| parameter(key).parse().map_or("-".to_owned(), number::count);
    let failed = file.runs.iter().filter(|run| run.exit != Some(0)).count();
    let emulated = if emulator(file).is_some() { " · emulated" } else { "" };
    let mut out = format!(
        "function-mix for {} s under each arm, each function alone for {} s; cycles with {}\n",
        parameter("seconds"),
        parameter("alone"),
        parameter("counters"),
    );
    let _ = writeln!(
        out,
        "{} in {}, {} · {failed} failed · one window or sample in {} cycles · ±95 %{emulated}",
        number::counted(file.runs.len(), "run"),
        number::counted(rounds(file), "round"),
        number::duration(file.duration_s),
        count("period"),
    );
    out
}

/// What ran the instructions, where it was an emulator.
fn emulator(file: &RunFile) -> Option<&str> {
    file.machine.pointer("/surroundings/emulator/name").and_then(Value::as_str)
}

fn errors(table: &Accuracy, rounds: usize) -> Table {
    let head = [Column::text("function"), Column::number("alone")];
    let arms = table.arms.iter().map(|arm| Column::number(escape(arm)));
    let mut out = Table::new(head.into_iter().chain(arms));
    for row in &table.rows {
        let alone = Cell::measured(row.truth, |truth| value(&truth, ""));
        let mut cells = vec![Cell::new(escape(&row.function)), alone];
        cells.extend(row.errors.iter().map(|e| Cell::measured(*e, |e| error(&e, rounds))));
        out.row(cells);
    }
    out
}

/// `+1.2 ±0.3`; `~` where there is no interval; fewer rounds than others have been measured in.
fn error(error: &Estimated, rounds: usize) -> String {
    let missing = if error.n < rounds { format!(" ({})", error.n) } else { String::new() };
    let half = error.interval.map(|i| (error.value - i.low).max(i.high - error.value));
    let text = match half {
        Some(half) if half > 0.0 => number::interval(error.value, half.max(0.001)),
        Some(_) => number::fixed(error.value, 2),
        None if error.value.abs() < 5e-4 => "~0".to_owned(),
        None if error.value > 0.0 => format!("~+{}", number::significant(error.value, 2)),
        None => format!("~{}", number::significant(error.value, 2)),
    };
    let sign = if error.value > 0.0 && half.is_some() { "+" } else { "" };
    // What is rounded to nothing has no sign.
    let is_zero =
        text.split(' ').next().is_some_and(|n| !n.contains(|c: char| ('1'..='9').contains(&c)));
    if is_zero && half.is_some() {
        return format!("{}{missing}", text.trim_start_matches('-'));
    }
    format!("{sign}{text}{missing}")
}

/// Of each function in each arm: windows that count, of how many.
fn windows(file: &RunFile, kept: &Accuracy) -> Table {
    let sum = |metric: &str, arm: &str, function: &str| -> f64 {
        let is_it = |s: &&pmuscope_measure::Series| {
            s.metric == metric
                && s.labels.get(ARM).is_some_and(|of| of == arm)
                && s.labels.get(FUNCTION).is_some_and(|of| of == function)
        };
        file.series.iter().filter(is_it).flat_map(|s| s.numbers()).sum()
    };
    let head = [Column::text("function"), Column::number("alone")];
    let arms = kept.arms.iter().map(|arm| Column::number(escape(arm)));
    let mut out = Table::new(head.into_iter().chain(arms));
    for row in &kept.rows {
        let exact = |n: f64| number::fixed(n, 0);
        let mut cells = vec![escape(&row.function).into_owned()];
        cells.push(exact(sum("kept", PURE, &row.function)));
        cells.extend(kept.arms.iter().map(|arm| {
            let (kept, all) = (sum("kept", arm, &row.function), sum("windows", arm, &row.function));
            if all > kept { format!("{} / {}", exact(kept), exact(all)) } else { exact(kept) }
        }));
        out.row(cells);
    }
    out
}

/// What recording the mix takes in each arm, and how much slower the mix is.
fn costs(file: &RunFile, style: &Style) -> String {
    let groups = versus(file, ARM, BASE);
    let Some(group) = groups.iter().find(|group| group.labels.is_empty()) else {
        return String::new();
    };
    let mut table = Table::new([
        Column::text("arm"),
        Column::number("samples"),
        Column::number("lost"),
        Column::number("throttled"),
        Column::number("file"),
        Column::number("analysis").unit("CPU s"),
        Column::number("rounds").unit("/s"),
        Column::number("slower").unit("times"),
    ]);
    let median = |arm: &Arm, metric: &str, format: fn(f64) -> String| {
        Cell::measured(arm.figure(metric).and_then(|figure| figure.median), format)
    };
    let exact = |n: f64| number::fixed(n, 0);
    for arm in group.arms.iter().filter(|arm| arm.name != PURE) {
        let rounds = arm.figure("rounds_per_second");
        let slower = rounds.and_then(|f| f.ratio).filter(|ratio| ratio.value > 0.0);
        table.row([
            Cell::new(escape(&arm.name)),
            median(arm, "samples", exact),
            median(arm, "lost", exact),
            median(arm, "throttled", exact),
            median(arm, "file_size", |b| number::bytes(b.max(0.0).round() as u64)),
            median(arm, "analysis_cpu", |s| number::significant(s, 3)),
            median(arm, "rounds_per_second", |r| number::significant(r, 3)),
            Cell::measured(slower, |ratio| number::significant(1.0 / ratio.value, 3)),
        ]);
    }
    let title = format!("what it takes: medians of {}", number::counted(rounds(file), "round"));
    format!("\n{}\n{}", style.paint(Paint::Bold, &title), table.render(style))
}

fn notes(file: &RunFile, style: &Style) -> String {
    let mut notes: Vec<String> = Vec::new();
    if let Some(name) = emulator(file) {
        notes.push(format!(
            "Emulated by {}: counts are exact, times and what recording takes are the emulator's.",
            escape(name)
        ));
    }
    notes.extend(file.notices.iter().map(|notice| escape(notice).into_owned()));
    notes.extend(failures(file));
    notes.extend(unsustained(file));
    if let Some(why) = &file.why {
        notes.push(format!("Not all runs were made: {}.", escape(why)));
    }
    let mut out = String::new();
    for (i, note) in notes.iter().enumerate() {
        out += if i == 0 { "\n" } else { "" };
        out += &wrap(note, style.width, 2);
        out.push('\n');
    }
    out
}

/// Arms that the kernel had to suspend, which no user could record with for long.
fn unsustained(file: &RunFile) -> Vec<String> {
    let groups = versus(file, ARM, BASE);
    let arms = groups.iter().filter(|group| group.labels.is_empty()).flat_map(|group| &group.arms);
    let note = |arm: &Arm| {
        let median = |metric: &str| arm.figure(metric).and_then(|figure| figure.median);
        let times = median("throttled").filter(|n| *n > 0.0 && arm.name != PURE)?;
        Some(format!(
            "{} cannot be sustained here: the kernel suspended sampling {} times in a run.",
            escape(&arm.name),
            number::fixed(times, 0)
        ))
    };
    arms.filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_measure::{Labels, Origin, Program, Run};
    use std::time::UNIX_EPOCH;

    fn add_run(file: &mut RunFile, labels: &[(&str, &str)]) -> (usize, Labels) {
        let labels: Labels = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let index = file.runs.len();
        file.runs.push(Run {
            index,
            order: index,
            round: Some(0),
            labels: labels.clone(),
            started: String::new(),
            duration_s: 2.0,
            exit: Some(0),
            why: None,
            units: Default::default(),
        });
        (index, labels)
    }

    /// One round: two functions alone, the mix without a recorder, under strobe and plain sampling.
    fn file() -> RunFile {
        let tool = Program { name: "pmuscope".into(), version: "0.1.0".into() };
        let mut file = RunFile::new(tool, vec![], UNIX_EPOCH);
        let parameters = [
            ("seconds", "2"),
            ("alone", "0.5"),
            ("counters", "instructions"),
            ("period", "1000000"),
        ];
        for (key, value) in parameters {
            file.parameters.insert(key.into(), value.into());
        }
        file.machine = serde_json::json!({"surroundings": {"emulator": {"name": "QEMU TCG"}}});
        file.duration_s = 12.0;
        let own = ("cycles/instruction", Origin::Derived);
        let functions = [("nops", 0.25), ("pointer_chase", 30.0)];
        for (function, cpi) in functions {
            let (run, labels) = add_run(&mut file, &[(ARM, PURE), (FUNCTION, function)]);
            file.add_estimate(run, &labels, "CPI", own, Ok((cpi, Some(cpi / 1000.0))));
            file.add(run, &labels, "kept", ("", Origin::Recording), Ok(500.0));
        }
        let arms = [("PLAIN-LONG", 8.0, 20.0, None), ("STROBE-300", 1.0, 1.01, Some(0.02))];
        let (run, labels) = add_run(&mut file, &[(ARM, BASE)]);
        file.add(run, &labels, "rounds_per_second", ("/s", Origin::Program), Ok(1000.0));
        for (arm, nops, chase, half) in arms {
            let (run, labels) = add_run(&mut file, &[(ARM, arm)]);
            let mut add = |m, unit, v| file.add(run, &labels, m, (unit, Origin::Recording), Ok(v));
            add("rounds_per_second", "/s", 990.0);
            add("samples", "", 4000.0);
            add("lost", "", 0.0);
            add("throttled", "", if half.is_none() { 7.0 } else { 0.0 });
            add("file_size", "B", 640_000.0);
            add("analysis_cpu", "s", 0.031);
            for ((function, cpi), factor) in functions.into_iter().zip([nops, chase]) {
                let mut labels = labels.clone();
                labels.insert(FUNCTION.into(), function.into());
                let estimate = (cpi * factor, half.map(|half| half * cpi));
                file.add_estimate(run, &labels, "CPI", own, Ok(estimate));
                file.add(run, &labels, "kept", ("", Origin::Recording), Ok(900.0));
                file.add(run, &labels, "windows", ("", Origin::Recording), Ok(1000.0));
            }
        }
        file.finish(0);
        file
    }

    #[test]
    fn errors_are_told_by_metric_function_and_arm() {
        insta::assert_snapshot!(functions_text(&file(), &Style::PLAIN), @r"
        function-mix for 2 s under each arm, each function alone for 0.5 s; cycles with instructions
        5 runs in 1 round, 12.0 s · 0 failed · one window or sample in 1,000,000 cycles · ±95 % · emulated

        CPI: cycles per instruction, error in % of the function alone
        function                  alone  PLAIN-LONG  STROBE-300
        nops           0.25000 ±0.00025       ~+700    0.0 ±2.0
        pointer_chase       30.00 ±0.03     ~+1,900   +1.0 ±2.0

        windows that count, of all that end in the function; alone, all
        function       alone   PLAIN-LONG   STROBE-300
        nops             500  900 / 1,000  900 / 1,000
        pointer_chase    500  900 / 1,000  900 / 1,000

        what it takes: medians of 1 round
        arm         samples  lost  throttled     file  analysis CPU s  rounds /s  slower times
        BASE              -     -          -        -               -      1,000             -
        PLAIN-LONG    4,000     0          7  625 KiB          0.0310        990          1.01
        STROBE-300    4,000     0          0  625 KiB          0.0310        990          1.01

        Emulated by QEMU TCG: counts are exact, times and what recording takes are the emulator's.
        PLAIN-LONG cannot be sustained here: the kernel suspended sampling 7 times in a run.
        ");
    }

    #[test]
    fn a_file_without_runs_is_no_table() {
        let tool = Program { name: "pmuscope".into(), version: "0.1.0".into() };
        let file = RunFile::new(tool, vec![], UNIX_EPOCH);
        let text = functions_text(&file, &Style::PLAIN);
        assert!(text.ends_with("Not all runs were made: not finished.\n"), "{text}");
    }
}
