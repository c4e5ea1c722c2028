//! What breakpoints cost: the benchmarks, as the kernel's own tool has them.

use std::fs;

use serde_json::Value;

use crate::harness::Scratch;

fn runs(scratch: &Scratch, file: &str) -> (Value, Vec<Value>) {
    let text = fs::read(scratch.path(file)).unwrap();
    let mut file: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(file["schema"], "pmuscope/runs/1");
    let runs = file["runs"].as_array_mut().map(std::mem::take).unwrap();
    (file, runs)
}

#[test]
fn threads_are_created_with_each_number_of_breakpoints_beside_none() {
    let scratch = Scratch::new();
    let flags = ["-b", "1,2", "-p", "1,3", "-t", "4", "-r", "5", "--runs", "2", "--json=t.json"];
    let outcome = scratch.pmuscope([&["bench", "breakpoint", "thread"], &flags[..]].concat());
    outcome
        .exits(0)
        .prints("12 runs of 5 batches")
        .prints("debug registers found")
        .prints("breakpoints  parallelism  threads  n  ")
        .prints("µs/op/cpu");
    let (file, runs) = runs(&scratch, "t.json");
    assert_eq!(file["parameters"]["benchmark"], "thread");
    // Breakpoints with none, creators, rounds.
    assert_eq!(runs.len(), 3 * 2 * 2);
    assert!(runs.iter().all(|run| run["units"]["thread"] == 20.0 && run["exit"] == 0));
    let of = |breakpoints: &str| {
        runs.iter().filter(|run| run["labels"]["breakpoints"] == breakpoints).count()
    };
    assert_eq!((of("0"), of("1"), of("2")), (4, 4, 4));
    scratch.pmuscope(["compare", "t.json", "t.json"]).exits(0).prints("breakpoints");
}

#[test]
fn more_breakpoints_than_slots_are_refused_before_anything_runs() {
    let scratch = Scratch::new();
    let flags = ["bench", "breakpoint", "thread", "-b", "65", "--json=t.json"];
    scratch.pmuscope(flags).exits(2).complains("65 breakpoints do not fit; a thread has ");
    assert!(!scratch.path("t.json").exists());
    let threads = ["bench", "breakpoint", "thread", "-b", "0", "-t", "1000000000"];
    scratch.pmuscope(threads).exits(2).complains("cannot run 1000000000 threads at once: ");
    let nothing = ["bench", "breakpoint", "thread", "-r", "0"];
    scratch.pmuscope(nothing).exits(2).complains("--repeat 0: the number must be at least 1");
}

#[test]
fn a_breakpoint_is_switched_in_threads_that_wait_and_that_run() {
    let scratch = Scratch::new();
    let flags = ["-p", "0,3", "-a", "0,1", "-r", "20", "--runs", "2", "--json=e.json"];
    let outcome = scratch.pmuscope([&["bench", "breakpoint", "enable"], &flags[..]].concat());
    outcome.exits(0).prints("16 runs of 20 times").prints("breakpoints  passive  active");
    let (_, runs) = runs(&scratch, "e.json");
    assert_eq!(runs.len(), 2 * 2 * 2 * 2);
    assert!(runs.iter().all(|run| run["units"]["switch"] == 20.0));
}

#[test]
fn a_hit_is_measured_by_what_is_done_with_it() {
    let scratch = Scratch::new();
    let flags = ["-r", "600", "--runs", "2", "--warm-up", "0", "--json=h.json"];
    let outcome = scratch.pmuscope([&["bench", "breakpoint", "hit"], &flags[..]].concat());
    outcome.prints(" runs of 600 writes").prints("µs/hit").prints("B/record");
    let (file, runs) = runs(&scratch, "h.json");
    // Machines that lose a hit say so, and end with 1.
    let has_lost = file["notices"].to_string().contains("SIGTRAP arrived");
    let whole = runs.iter().all(|run| run.get("why").is_none());
    assert!(whole || has_lost, "{runs:?}");
    outcome.exits(if whole { 0 } else { 1 });
    assert_eq!(file["status"], i32::from(!whole));
    assert!(runs.iter().all(|run| run["units"]["hit"] == 600.0));
    // Where programs are not allowed that arm is missing, and it says so.
    let without_program = file["notices"].to_string().contains("cannot run BPF programs at hits");
    assert_eq!(runs.len(), if without_program { 8 } else { 10 });
    let bytes: Vec<&Value> = file["series"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|series| series["metric"] == "record_bytes")
        .collect();
    assert_eq!(bytes.len(), 2, "records with call chain and without");
}
