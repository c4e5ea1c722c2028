//! Whether what is said of functions is true: held against a program that knows it, in guests with a PMU.
//!
//! Guests have one CPU, and all instructions take the same number of cycles: what a function takes of the
//! cycles is what it has of the instructions, which are known.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::guest_script::{need_script, run_script};
use crate::harness::{Scratch, need_full, need_perf, skip_unless};
use crate::recording::Recording;
use crate::strobe::{CYCLES, holds, in_guest, need_pmu_guest};
use crate::windows::Windows;

/// 1 in 100,000 is above it: chi-square with 9 degrees of freedom, and with 7. Sampling in step with the
/// program gives hundreds.
const LIMIT_OF_9: f64 = 39.34;
const LIMIT_OF_7: f64 = 35.26;

fn json(scratch: &Scratch, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(scratch.path(name)).unwrap()).unwrap()
}

/// Instructions of each function of the mix, as it says itself.
fn instructions(facts: &Value) -> BTreeMap<String, f64> {
    let of = |function: &Value| {
        let number = |key: &str| function[key].as_f64().unwrap();
        let name = function["name"].as_str().unwrap().to_owned();
        (name, number("calls") * number("instructions_per_call"))
    };
    facts["mix"]["functions"].as_array().unwrap().iter().map(of).collect()
}

/// Samples of functions of the mix, and those of anything else, by a recording's first event.
fn samples(scratch: &Scratch, file: &str, names: &BTreeMap<String, f64>) -> (Vec<f64>, f64) {
    let report = scratch.pmuscope(["report", "-i", file, "--json", "--no-inline"]);
    let report: Value = serde_json::from_str(&report.exits(0).stdout).unwrap();
    let rows = report["events"][0]["functions"].as_array().unwrap();
    let count = |name: &String| -> f64 {
        let end = format!("::{name}");
        let is_it = |row: &&Value| row["function"].as_str().is_some_and(|f| f.ends_with(&end));
        rows.iter().filter(is_it).map(|row| row["samples"].as_f64().unwrap()).sum()
    };
    let of_mix: Vec<f64> = names.keys().map(count).collect();
    let all = report["events"][0]["samples"].as_f64().unwrap();
    let others = all - of_mix.iter().sum::<f64>();
    (of_mix, others)
}

/// Chi-square of two samples of the same shares; of two numbers of samples, the larger one may be any.
fn homogeneity(one: &[f64], other: &[f64]) -> f64 {
    let (sum, other_sum): (f64, f64) = (one.iter().sum(), other.iter().sum());
    let (k, l) = ((other_sum / sum).sqrt(), (sum / other_sum).sqrt());
    let cells = one.iter().zip(other).filter(|(a, b)| **a + **b > 0.0);
    cells.map(|(a, b)| (k * a - l * b).powi(2) / (a + b)).sum()
}

/// Chi-square of a sample against shares that are known: of long functions, as the instructions around the
/// loops of short ones are a quarter of theirs.
fn fit(counts: &[f64], shares: &BTreeMap<String, f64>) -> f64 {
    let long = || counts.iter().zip(shares).filter(|(_, (name, _))| !name.starts_with("short"));
    let (sum, whole): (f64, f64) =
        (long().map(|(n, _)| n).sum(), long().map(|(_, (_, share))| share).sum());
    long().map(|(n, (_, share))| (n, share / whole * sum)).map(|(n, e)| (n - e) * (n - e) / e).sum()
}

#[test]
fn other_shares_are_told_from_equal_ones() {
    let same = homogeneity(&[100.0, 300.0, 600.0], &[205.0, 590.0, 1205.0]);
    // By hand: 12.5 / 305 + 50 / 890 + 12.5 / 1805.
    assert!((same - 0.1041).abs() < 0.001, "{same}");
    let other = homogeneity(&[100.0, 300.0, 600.0], &[300.0, 500.0, 1200.0]);
    assert!(other > 13.8, "{other}");
}

/// Two recordings of the same program: A samples of windows, and plain samples. Both have its shares.
#[test]
fn strobe_and_plain_sampling_have_the_same_shares() {
    skip_unless!(need_pmu_guest());
    skip_unless!(need_script());
    let scratch = Scratch::new();
    let mix = "pmuscope workload function-mix --memory 1 --seconds 3";
    let script = format!(
        "pmuscope record -o plain.data -e cycles:u -c 500000 -- {mix} --json=plain.json\n\
         pmuscope record -o strobe.data --strobe=300,period=500000 -- {mix} --json=strobe.json\n"
    );
    run_script(&scratch, &script).exits(0);
    let windows = holds(&Recording::at(scratch.path("strobe.data")));
    let truth = instructions(&json(&scratch, "strobe.json"));
    let (plain, plain_others) = samples(&scratch, "plain.data", &truth);
    let (strobe, others) = samples(&scratch, "strobe.data", &truth);
    assert!(plain.iter().sum::<f64>() > 2000.0, "{plain:?}");
    let sum = strobe.iter().sum::<f64>();
    eprintln!("{sum} and {others} others of {}; plain {plain_others} others", windows.opened());
    assert_eq!(sum + others, windows.opened() as f64, "each window that is opened is a sample");
    // The program's start and end, however many seconds of the guest its host has time for.
    assert!(others < 1.5 * plain_others + 30.0, "{others} others, plain {plain_others}");
    let distance = homogeneity(&plain, &strobe);
    eprintln!("chi-square {distance} of two samples, 9 degrees of freedom");
    assert!(distance < LIMIT_OF_9, "chi-square {distance}: plain {plain:?}, strobe {strobe:?}");
    for (what, counts) in [("plain", &plain), ("strobe", &strobe)] {
        let distance = fit(counts, &truth);
        eprintln!("chi-square {distance} of {what} samples and the truth, 7 degrees of freedom");
        assert!(distance < LIMIT_OF_7, "chi-square {distance}: {what} {counts:?} of {truth:?}");
    }
}

/// Windows of a program of several processes on one CPU: of the length asked for; what is not kept has a
/// cause, which is a switch.
fn windows_of_processes(processes: usize, threads: &str, seconds: &str) -> Windows {
    let scratch = Scratch::new();
    let number = processes.to_string();
    let record = ["record", "--strobe", "-o", "strobed.data", "--", "pmuscope", "workload"];
    let mix = ["function-mix", "--memory", "1", "--seconds", seconds, "--threads", threads];
    let guest = in_guest(&scratch, 1, &[&record[..], &mix, &["--processes", &number]].concat());
    guest.exits(0).prints(&format!("Processes = {processes}\n"));
    let recording = Recording::at(scratch.path("strobed.data"));
    let windows = holds(&recording);
    let pids: BTreeSet<i32> = windows.opened_by.keys().map(|(pid, _)| *pid).collect();
    assert!(pids.len() >= processes, "windows of {} processes", pids.len());

    // perf shows a sample once for each member of the group whose count has grown, and is content.
    if need_perf().is_none() {
        let by_perf = recording.by_perf().times.len() as u64;
        assert!(by_perf >= recording.info().samples(), "{by_perf} by perf");
    }

    // The analysis says the same of each window as the rules of the format, taken by themselves.
    let how = ["metrics", "-i", "strobed.data", "--attribution", "none", "--json"];
    let metrics = scratch.pmuscope(how);
    let total = serde_json::from_str::<Value>(&metrics.exits(0).stdout).unwrap()["total"].clone();
    let number = |value: &Value| value.as_u64().unwrap();
    let rejected: BTreeMap<String, u64> = total["rejected"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(k, v)| (k.clone(), number(v)))
        .collect();
    let all: u64 = rejected.values().sum();
    assert_eq!(number(&total["windows"]) - number(&total["kept"]), all, "each has a cause");
    // What has no name (the vdso, whose file is the guest's) was recorded well.
    let of_names = rejected["no_symbol"] + rejected["other_symbol"] + rejected["return"];
    assert!(rejected["context_switch"] * 100 >= (all - of_names) * 95, "{rejected:?}");
    assert!(number(&total["kept"]) * 100 >= number(&total["windows"]) * 97, "{total}");
    eprintln!(
        "{processes} processes: {} windows kept, {} switched, {rejected:?}, {} epochs",
        windows.accepted, windows.switched, windows.epochs
    );
    windows
}

/// Windows of as many seconds: hundreds in each, and an epoch a second.
#[track_caller]
fn several_processes_for(seconds: u64) {
    let windows = windows_of_processes(4, "2", &seconds.to_string());
    let (all, epochs) = (windows.all(), windows.epochs);
    assert!(all > 500 * seconds && epochs >= seconds, "{all} {epochs}");
}

#[test]
fn windows_of_several_processes_are_as_asked() {
    skip_unless!(need_pmu_guest());
    several_processes_for(6);
}

#[test]
fn full_windows_of_several_processes_for_half_a_minute() {
    skip_unless!(need_full());
    skip_unless!(need_pmu_guest());
    several_processes_for(30);
}

/// Values of a figure of a function, with half of their interval.
fn value(file: &Value, arm: &str, function: &str, metric: &str) -> (f64, Option<f64>) {
    let series = file["series"].as_array().unwrap().iter();
    let is_it = |s: &&Value| {
        s["labels"]["arm"] == arm && s["labels"]["function"] == function && s["metric"] == metric
    };
    let series = series.clone().find(is_it);
    let value = &series.unwrap_or_else(|| panic!("{metric} of {function} in {arm}"))["values"][0];
    (value["value"].as_f64().unwrap(), value["half"].as_f64())
}

/// A counter whose rate differs by function is true in windows, and an average in plain sampling.
#[test]
fn full_windows_tell_of_each_function_what_it_is_alone() {
    skip_unless!(need_full());
    skip_unless!(need_pmu_guest());
    let scratch = Scratch::new();
    let short = ["--quick", "--memory", "1", "--seconds", "4", "--alone", "0.4"];
    let arms = ["--arms", "PLAIN-LONG,STROBE-600", "--period", "1000000", "--windows", "600"];
    let words = [&["bench", "functions", "--json=f.json"][..], &short, &arms].concat();
    let bench = in_guest(&scratch, 1, &words);
    bench.exits(0).prints("PF/KI: page faults per 1000 instructions").prints("emulated");
    let file = json(&scratch, "f.json");
    for function in ["fp_division", "int_division", "nops", "pointer_chase", "fresh_pages"] {
        let (cpi, _) = value(&file, "STROBE-600", function, "CPI");
        assert!(
            (cpi / CYCLES as f64 - 1.0).abs() < 0.01,
            "{function}: {cpi} cycles per instruction"
        );
    }
    // 10 pages for 5050 instructions.
    let by_hand = 1000.0 / 505.0;
    let (alone, _) = value(&file, "PURE", "fresh_pages", "PF/KI");
    assert!((alone / by_hand - 1.0).abs() < 0.05, "{alone} of {by_hand}");
    // Some 50 faults are in windows: half as many, or half as many again, is beyond three deviations.
    let (strobe, _) = value(&file, "STROBE-600", "fresh_pages", "PF/KI");
    assert!((strobe / by_hand - 1.0).abs() < 0.5, "{strobe} of {by_hand}");
    assert_eq!(value(&file, "STROBE-600", "nops", "PF/KI").0, 0.0);
    // With a sample in each million cycles, every function has the faults of one.
    let (plain, _) = value(&file, "PLAIN-LONG", "fresh_pages", "PF/KI");
    let (others, _) = value(&file, "PLAIN-LONG", "nops", "PF/KI");
    assert!(plain < by_hand / 4.0 && others > 0.0, "{plain} {others}");
}
