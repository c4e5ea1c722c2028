//! Breakpoint slots: the benchmark, and the rules against the kernels of guests with other machines.

use std::fs;

use serde_json::Value;

use crate::harness::{Outcome, Scratch, skip_unless};
use crate::lab::{lab, need_guests};
use crate::strobe::{in_guest, need_pmu_guest};

#[test]
fn the_benchmark_has_a_run_for_each_combination() {
    let scratch = Scratch::new();
    let few = ["--cpus", "1,3", "--tasks", "1,2", "--threads", "1,2", "--ms", "1", "-r", "2"];
    let flags = [&["bench", "slots"], &few[..], &["--json=s.json", "-o", "s.svg"]].concat();
    let outcome = scratch.pmuscope(&flags);
    outcome
        .exits(0)
        .prints("a breakpoint of a CPU\n")
        .prints("a breakpoint of a task on one CPU, 2 threads at once\n")
        .prints("CPUs  tasks")
        .prints("from the first row to the last: naive ");
    let file: Value = serde_json::from_slice(&fs::read(scratch.path("s.json")).unwrap()).unwrap();
    let runs = file["runs"].as_array().unwrap();
    // Accounts, cases, CPUs, tasks, threads, rounds.
    assert_eq!(runs.len(), 4 * 3 * 2 * 2 * 2 * 2);
    assert!(runs.iter().all(|run| run["units"]["operation"].as_f64() > Some(1.0)));
    let svg = fs::read_to_string(scratch.path("s.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("<title>constant, 3 CPUs, 2 tasks: "));
    scratch
        .pmuscope(["bench", "slots", "-o", "s.gif"])
        .exits(2)
        .complains("Try: one of .txt, .json, .csv, .tsv, .svg, .html");
    scratch.pmuscope(["bench", "slots", "--cpus", "0"]).exits(2).complains("from 1");
    scratch.pmuscope(["bench", "slots", "--accounts", "none,some"]).exits(2).complains("some");
}

/// The kernel's answers are those of the rules, of which many were refusals.
#[track_caller]
fn agrees(outcome: &Outcome, slots: &str) {
    outcome.exits(0).prints(slots).prints("\n0 answers of the kernel differ from the rules\n");
    let counts = outcome.stdout.lines().nth(1).unwrap();
    let numbers: Vec<u64> = counts.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [opened, closed, refused] = numbers[..] else { panic!("{counts}") };
    assert_eq!(opened + closed + refused, 10_000, "{counts}");
    assert!(refused > 1000, "{counts}");
}

const AGAINST_KERNEL: [&str; 4] = ["bench", "slots", "--against-kernel", "10000"];

#[test]
fn a_kernel_with_16_cpus_lets_in_what_the_rules_do() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let outcome = lab(&scratch, ["run", "--cpus", "16", "--"].iter().chain(&AGAINST_KERNEL));
    agrees(&outcome, "4 slots for any kind on each of 16 possible CPUs, 16 online");
}

#[test]
fn a_kernel_with_slots_of_two_kinds_lets_in_what_the_rules_do() {
    skip_unless!(need_pmu_guest());
    let scratch = Scratch::new();
    let outcome = in_guest(&scratch, 1, &AGAINST_KERNEL);
    agrees(&outcome, " for instructions on each of 1 possible CPUs, 1 online");
}
