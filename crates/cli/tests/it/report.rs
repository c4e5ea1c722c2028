//! `pmuscope report`.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::harness::{Outcome, Scratch, need_kernel_sampling, need_perf_record, skip_unless};

const PMUSCOPE: &str = env!("CARGO_BIN_EXE_pmuscope");
/// Some tenths of a second of work in a shell.
const WORK: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";

/// Records the shell at work.
#[track_caller]
fn record(scratch: &Scratch, file: &str) {
    let outcome = scratch.pmuscope([
        "record",
        "-e",
        "cpu-clock",
        "-F",
        "2000",
        "-o",
        file,
        "--",
        "sh",
        "-c",
        WORK,
    ]);
    outcome.exits(0);
}

fn json(outcome: &Outcome) -> serde_json::Value {
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[test]
fn a_folder_without_a_recording_is_told_what_to_type() {
    let scratch = Scratch::new();
    let outcome = scratch.pmuscope(["report"]);
    outcome.exits(2).prints_nothing().complains("pmuscope record -- CMD");
    fs::write(scratch.path("perf.data"), "what is this?").unwrap();
    scratch.pmuscope(["report"]).exits(2).complains("perf.data is not a perf.data file");
    scratch.pmuscope(["report", "-i", "none"]).exits(2).complains("cannot open none");
    for command in ["report", "script", "bundle"] {
        scratch.pmuscope([command, "none"]).exits(2).complains("cannot open none");
        scratch.pmuscope([command, "-i", "a", "b"]).exits(2).complains("cannot be used with");
    }
    scratch.pmuscope(["report", "--limit", "few"]).exits(2).complains("all");
}

#[test]
fn our_recording_comes_before_perfs_and_the_header_says_which() {
    skip_unless!(need_kernel_sampling());
    let scratch = Scratch::new();
    record(&scratch, "pmuscope.data");
    fs::write(scratch.path("perf.data"), "not looked at").unwrap();
    let outcome = scratch.pmuscope(["report"]);
    outcome.exits(0).is_silent().prints("pmuscope.data").prints("overhead: ").prints("lost 0");
    assert!(outcome.stdout.contains("samples  comm"), "{outcome}");
    scratch.pmuscope(["report", "--modules"]).exits(0).prints("build id");
}

#[test]
fn json_has_all_rows_and_text_as_many_as_asked_for() {
    skip_unless!(need_kernel_sampling());
    let scratch = Scratch::new();
    record(&scratch, "a.data");
    let all = scratch.pmuscope(["report", "-i", "a.data", "--json"]);
    let report = json(all.exits(0));
    assert_eq!(report["schema"], "pmuscope/report/1");
    assert_eq!(report["recording"]["lost_is"], "exact");
    let event = &report["events"][0];
    let rows = event["functions"].as_array().unwrap();
    let shares: f64 = rows.iter().map(|row| row["share"].as_f64().unwrap()).sum();
    let samples: u64 = rows.iter().map(|row| row["samples"].as_u64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    assert_eq!(Some(samples), event["samples"].as_u64());

    // Functions that only called others have a total alone, which text does not show.
    let own = rows.iter().filter(|row| row["samples"].as_u64() > Some(0)).count();
    let one = scratch.pmuscope(["report", "-i", "a.data", "--limit", "1"]);
    if own > 1 {
        one.exits(0).prints(&format!("… {} more: --limit all", own - 1));
    }
}

#[test]
fn json_csv_and_tsv_have_the_same_functions() {
    skip_unless!(need_kernel_sampling());
    let scratch = Scratch::new();
    record(&scratch, "a.data");
    let report = json(scratch.pmuscope(["report", "-i", "a.data", "--json"]).exits(0));
    for (format, separator) in [("csv", ','), ("tsv", '\t')] {
        let table = scratch.pmuscope(["report", "-i", "a.data", "--format", format]);
        let mut lines = table.exits(0).stdout.lines();
        let keys: Vec<&str> = lines.next().unwrap().split(separator).skip(1).collect();
        let rows: Vec<&str> = lines.collect();
        let functions = report["events"][0]["functions"].as_array().unwrap();
        assert_eq!(rows.len(), functions.len(), "{table}");
        for function in functions {
            let fields = function.as_object().unwrap();
            let missing: Vec<_> = keys.iter().filter(|key| !fields.contains_key(**key)).collect();
            assert!(missing.is_empty(), "{missing:?} in {format} only");
        }
        let total = |row: &&str| row.split(separator).nth(7).unwrap().parse::<u64>().unwrap();
        let totals: Vec<u64> = rows.iter().map(total).collect();
        let of_json: Vec<u64> =
            functions.iter().map(|row| row["total_samples"].as_u64().unwrap()).collect();
        assert_eq!(totals, of_json);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    skip_unless!(need_kernel_sampling());
    let scratch = Scratch::new();
    record(&scratch, "a.data");
    let pipe = format!("{PMUSCOPE} report -i a.data --json --limit all | head -c 1 >/dev/null");
    scratch.run("sh", ["-c", &pipe]).exits(0).is_silent();
}

#[test]
fn a_recording_whose_recorder_was_killed_is_read_and_says_so() {
    skip_unless!(need_kernel_sampling());
    let scratch = Scratch::new();
    let mut recorder = Command::new(PMUSCOPE)
        .args(["record", "-e", "cpu-clock", "-F", "2000", "-o"])
        .arg(scratch.path("killed.data"))
        .args(["--", "timeout", "4", "sh", "-c", "while :; do :; done"])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Long enough for a few flushes, of which there is one per second at least.
    thread::sleep(Duration::from_millis(2500));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    // The target goes on without its recorder, and ends by itself.
    let outcome = scratch.pmuscope(["report", "-i", "killed.data"]);
    outcome.exits(1).prints("incomplete");
    let report = json(scratch.pmuscope(["report", "-i", "killed.data", "--json"]).exits(1));
    assert_eq!(report["recording"]["state"], "not_closed");
    assert!(report["events"][0]["samples"].as_u64().unwrap() > 500, "{outcome}");
}

#[test]
fn perfs_recording_has_no_cost() {
    skip_unless!(need_perf_record(false));
    let scratch = Scratch::new();
    let perf = ["record", "-q", "-B", "-N", "-e", "cpu-clock", "--", "sh", "-c", WORK];
    scratch.run("perf", perf).exits(0);
    let outcome = scratch.pmuscope(["report"]);
    outcome.exits(0).prints("perf.data").prints("overhead: - · lost at least 0");
}
