//! `pmuscope bench functions`: how far each way of recording is from what each function is alone, and what it
//! takes.

use pmuscope_measure::accuracy::{Accuracy, AccuracyRow, ErrorUnit, accuracy};
use pmuscope_measure::versus::{Arm, versus};
use pmuscope_measure::{Estimated, RunFile};
use serde_json::Value;

use super::{
    ARM, BenchText, bytes, counted, exact, failed, figure, median, name, parameter, rounds,
    three_digits,
};
use crate::number;
use crate::runs::value;

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

/// A table of errors for each metric, of windows, of what recording takes.
pub(super) fn show(file: &RunFile, text: &mut BenchText<'_>) {
    text.lines(&head(file));
    let rounds = rounds(file);
    for (metric, unit, title) in METRICS {
        let table = accuracy(file, metric, unit, (ARM, FUNCTION), PURE);
        if table.arms.is_empty() {
            continue;
        }
        let alone = figure("alone", |row: &AccuracyRow| Some(value(&row.truth?, "")));
        let mut fields = vec![name("function", |row: &AccuracyRow| &row.function), alone];
        fields.extend(table.arms.iter().enumerate().map(|(at, arm)| {
            figure(arm.clone(), move |row: &AccuracyRow| Some(error(&row.errors[at]?, rounds)))
        }));
        text.table(&format!("{metric}: {title}"), fields, &table.rows);
    }
    windows(file, &accuracy(file, "kept", ErrorUnit::Own, (ARM, FUNCTION), PURE), text);
    costs(file, text);
}

fn head(file: &RunFile) -> String {
    format!(
        "function-mix for {} s under each arm, each function alone for {} s; cycles with {}\n\
         {} in {}, {} · {} failed · one window or sample in {} cycles · 95% CI{}",
        parameter(file, "seconds"),
        parameter(file, "alone"),
        parameter(file, "counters"),
        number::counted(file.runs.len(), "run"),
        number::counted(rounds(file), "round"),
        number::duration(file.duration_s),
        failed(file),
        counted(file, "period"),
        if emulator(file).is_some() { " · emulated" } else { "" },
    )
}

/// What ran the instructions, where it was an emulator.
fn emulator(file: &RunFile) -> Option<&str> {
    file.machine.pointer("/surroundings/emulator/name").and_then(Value::as_str)
}

/// `+1.2 ±0.3`; `~` where there is no interval; fewer rounds than others have been measured in.
fn error(error: &Estimated, rounds: usize) -> String {
    let missing = if error.n < rounds { format!(" ({})", error.n) } else { String::new() };
    let text = match error.interval {
        Some(of) if of.high > of.low => {
            let [low, high] = [of.low.min(error.value - 0.001), of.high.max(error.value + 0.001)];
            number::estimate(error.value, low, high)
        }
        Some(_) => number::fixed(error.value, 2),
        None if error.value.abs() < 5e-4 => "~0".to_owned(),
        None if error.value > 0.0 => format!("~+{}", number::significant(error.value, 2)),
        None => format!("~{}", number::significant(error.value, 2)),
    };
    let sign = if error.value > 0.0 && error.interval.is_some() { "+" } else { "" };
    // What is rounded to nothing has no sign.
    let is_zero =
        text.split(' ').next().is_some_and(|n| !n.contains(|c: char| ('1'..='9').contains(&c)));
    if is_zero && error.interval.is_some() {
        return format!("{}{missing}", text.trim_start_matches('-'));
    }
    format!("{sign}{text}{missing}")
}

/// Of each function in each arm: windows that count, of how many.
fn windows(file: &RunFile, kept: &Accuracy, text: &mut BenchText<'_>) {
    if kept.arms.is_empty() {
        return;
    }
    let sum = |metric: &str, arm: &str, function: &str| -> f64 {
        let is_it = |s: &&pmuscope_measure::Series| {
            s.metric == metric
                && s.labels.get(ARM).is_some_and(|of| of == arm)
                && s.labels.get(FUNCTION).is_some_and(|of| of == function)
        };
        file.series.iter().filter(is_it).flat_map(|s| s.numbers()).sum()
    };
    let alone = figure("alone", |row: &AccuracyRow| Some(exact(sum("kept", PURE, &row.function))));
    let mut fields = vec![name("function", |row: &AccuracyRow| &row.function), alone];
    fields.extend(kept.arms.iter().map(|arm| {
        figure(arm.clone(), |row: &AccuracyRow| {
            let (kept, all) = (sum("kept", arm, &row.function), sum("windows", arm, &row.function));
            let whole = if all > kept { format!(" / {}", exact(all)) } else { String::new() };
            Some(exact(kept) + &whole)
        })
    }));
    let title = "windows that count, of all that end in the function; alone, all";
    text.table(title, fields, &kept.rows);
}

/// What recording the mix takes in each arm, and how much slower the mix is; arms that the kernel had to suspend,
/// which no user could record with for long.
fn costs(file: &RunFile, text: &mut BenchText<'_>) {
    if let Some(name) = emulator(file) {
        text.notes.push(format!(
            "Emulated by {name}: counts are exact; times and overhead are the emulator's."
        ));
    }
    let groups = versus(file, ARM, BASE);
    let arms = groups.iter().filter(|group| group.labels.is_empty()).flat_map(|group| &group.arms);
    let arms: Vec<&Arm> = arms.filter(|arm| arm.name != PURE).collect();
    let slower = |arm: &Arm| {
        let ratio = arm.figure("rounds_per_second")?.ratio.filter(|ratio| ratio.value > 0.0)?;
        Some(three_digits(1.0 / ratio.value))
    };
    let fields = vec![
        name("arm", |arm: &Arm| &arm.name),
        median("samples", "samples", exact),
        median("lost", "lost", exact),
        median("throttled", "throttled", exact),
        median("file", "file_size", bytes),
        median("analysis CPU s", "analysis_cpu", three_digits),
        median("rounds /s", "rounds_per_second", three_digits),
        figure("slower times", slower),
    ];
    let title = format!("overhead: medians of {}", number::counted(rounds(file), "round"));
    text.table(&title, fields, arms.iter().copied());
    for arm in arms {
        let times = arm.figure("throttled").and_then(|figure| figure.median);
        if let Some(times) = times.filter(|times| *times > 0.0) {
            text.notes.push(format!(
                "{} cannot be sustained here: the kernel throttled sampling {} times per run.",
                arm.name,
                exact(times)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BenchKind;
    use super::*;
    use crate::style::Style;
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
        crate::widths::fits("bench-functions", |style| BenchKind::Functions.text(&file(), style));
        insta::assert_snapshot!(BenchKind::Functions.text(&file(), &Style::PLAIN), @r"
        function-mix for 2 s under each arm, each function alone for 0.5 s; cycles with instructions
        5 runs in 1 round, 12.0 s · 0 failed · one window or sample in 1,000,000 cycles · 95% CI · emulated

        CPI: cycles per instruction, error in % of the function alone
        function                   alone  PLAIN-LONG  STROBE-300
        nops           0.25000 ± 0.00025       ~+700   0.0 ± 2.0
        pointer_chase       30.00 ± 0.03     ~+1,900  +1.0 ± 2.0

        windows that count, of all that end in the function; alone, all
        function       alone   PLAIN-LONG   STROBE-300
        nops             500  900 / 1,000  900 / 1,000
        pointer_chase    500  900 / 1,000  900 / 1,000

        overhead: medians of 1 round
        arm         samples  lost  throttled     file  analysis CPU s  rounds /s  slower times
        BASE              -     -          -        -               -      1,000             -
        PLAIN-LONG    4,000     0          7  625 KiB          0.0310        990          1.01
        STROBE-300    4,000     0          0  625 KiB          0.0310        990          1.01

        Emulated by QEMU TCG: counts are exact; times and overhead are the emulator's.
        PLAIN-LONG cannot be sustained here: the kernel throttled sampling 7 times per run.
        ");
    }

    #[test]
    fn a_file_without_runs_is_no_table() {
        let tool = Program { name: "pmuscope".into(), version: "0.1.0".into() };
        let file = RunFile::new(tool, vec![], UNIX_EPOCH);
        let text = BenchKind::Functions.text(&file, &Style::PLAIN);
        assert!(text.ends_with("Some runs are missing: not finished.\n"), "{text}");
    }
}
