//! `pmuscope report --by`, `--call-tree` and `--peek`.

use serde_json::Value;

use crate::harness::Scratch;
use crate::json::is_documented;

/// Records the function mix with these flags; false, with the reason printed, where this machine cannot.
fn record(scratch: &Scratch, flags: &[&str]) -> bool {
    let record = ["record", "-q", "-e", "cpu-clock:u", "-F", "2000", "-o", "x.data"];
    let mix = ["--", env!("CARGO_BIN_EXE_pmuscope"), "workload", "function-mix", "--threads=1"];
    let args = record.iter().chain(flags).chain(&mix).chain(&["--seconds=0.5"]);
    let outcome = scratch.pmuscope(args);
    let recorded = scratch.path("x.data").exists();
    if !recorded {
        eprintln!("skipped: {}", outcome.stderr);
    }
    recorded
}

fn rows(scratch: &Scratch, by: &str) -> Vec<Value> {
    let outcome = scratch.pmuscope(["report", "-i", "x.data", "--json", "--by", by]);
    outcome.exits(0).is_silent();
    is_documented("rows", &outcome.stdout);
    let value: Value = serde_json::from_str(&outcome.stdout).unwrap();
    value["events"][0]["rows"].as_array().unwrap().clone()
}

#[test]
fn rows_add_up_by_whatever_they_are_told_apart() {
    let scratch = Scratch::new();
    if !record(&scratch, &[]) {
        return;
    }
    let samples =
        |rows: &[Value]| rows.iter().map(|row| row["samples"].as_u64().unwrap()).sum::<u64>();
    let by_module = rows(&scratch, "module");
    assert!(by_module.iter().any(|row| row["module"].as_str().unwrap().ends_with("/pmuscope")));
    for by in ["cpu,node", "command,process,thread", "function", "dso,srcline", "address"] {
        let rows = rows(&scratch, by);
        assert_eq!(samples(&rows), samples(&by_module), "{by}");
        let shares: f64 = rows.iter().map(|row| row["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{by}: {shares}");
    }
    let threads = rows(&scratch, "command,tid");
    assert!(threads.iter().any(|row| row["command"] == "mix-0" && row["thread"].is_u64()));
    let text = scratch.pmuscope(["report", "-i", "x.data", "--by", "cpu,command"]);
    text.exits(0).is_silent().prints("cpu  command").prints("mix-0").prints("lost 0");
}

#[test]
fn calls_are_shown_from_both_ends_and_around_a_function() {
    let scratch = Scratch::new();
    if !record(&scratch, &["-g"]) {
        return;
    }
    let report = |flag: &str| {
        let outcome = scratch.pmuscope(["report", "-i", "x.data", flag]);
        outcome.exits(0).is_silent().prints("integer_division");
        outcome.stdout
    };
    let (callees, callers) = (report("--call-tree"), report("--call-tree=callers"));
    assert!(callees.contains("and below it what it calls"), "{callees}");
    assert!(callers.contains("and below it its callers"), "{callers}");
    let around = report("--peek=integer_division");
    assert!(around.contains("  from ") && around.contains("  to nothing more"), "{around}");
    let rows = rows(&scratch, "function");
    let in_or_under = |row: &Value| row["children_samples"].as_u64().unwrap();
    assert!(rows.iter().all(|row| in_or_under(row) >= row["samples"].as_u64().unwrap()));
    assert!(rows.iter().any(|row| row["samples"] == 0 && in_or_under(row) > 0), "{rows:#?}");
}

#[test]
fn what_cannot_be_shown_is_told() {
    let scratch = Scratch::new();
    scratch.pmuscope(["report", "--by", "colour"]).exits(2).complains("one of command, process");
    if !record(&scratch, &[]) {
        return;
    }
    let report = |flag| scratch.pmuscope(["report", "-i", "x.data", flag]);
    report("--peek=no_such_function").exits(2).complains("--by function --limit all");
    report("--call-tree").exits(0).prints("Record with -g");
}
