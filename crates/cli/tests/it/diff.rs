//! `pmuscope diff`.

use serde_json::Value;

use crate::harness::Scratch;
use crate::json::is_documented;

/// Records a mix whose shares are known; false, with the reason printed, where this machine cannot.
fn record(scratch: &Scratch, file: &str, shares: &str) -> bool {
    let outcome = scratch.pmuscope([
        "record",
        "-q",
        "-e",
        "cpu-clock:u",
        "-F",
        "2000",
        "-o",
        file,
        "--",
        env!("CARGO_BIN_EXE_pmuscope"),
        "workload",
        "function-mix",
        "--threads=1",
        "--seconds=1",
        "--shares",
        shares,
    ]);
    let recorded = scratch.path(file).exists();
    if !recorded {
        eprintln!("skipped: {}", outcome.stderr);
    }
    recorded
}

/// What is said of a function of the mix.
fn function<'a>(diff: &'a Value, name: &str) -> &'a Value {
    let rows = diff["events"][0]["functions"].as_array().unwrap();
    let is_it = |row: &&Value| row["function"].as_str().is_some_and(|full| full.ends_with(name));
    rows.iter().find(is_it).unwrap_or_else(|| panic!("{name} is not in {diff:#}"))
}

#[test]
fn a_function_that_got_more_of_the_time_is_found() {
    let scratch = Scratch::new();
    if !record(&scratch, "a.data", "60,30,10") || !record(&scratch, "b.data", "20,70,10") {
        return;
    }
    let outcome = scratch.pmuscope(["diff", "--json", "--no-inline", "a.data", "b.data"]);
    outcome.exits(0).is_silent();
    let diff: Value = serde_json::from_str(&outcome.stdout).unwrap();
    is_documented("diff", &outcome.stdout);
    // Without optimisation a part of each lies in functions it calls, hence not the whole change.
    for (name, sign, word) in [("integer_division", -1.0, "less"), ("polynomial", 1.0, "more")] {
        let row = function(&diff, name);
        assert_eq!(row["share_is"], word, "{row:#}");
        let measured = row["share_change"]["value"].as_f64().unwrap() * sign;
        assert!((0.1..0.5).contains(&measured), "{row:#}");
    }
    let text = scratch.pmuscope(["diff", "--no-inline", "a.data", "b.data"]);
    text.exits(0).is_silent().prints("polynomial").prints("more").prints("one recording a side");
    let sides = ["diff", "a.data", "a.data", "--", "b.data", "b.data"];
    scratch.pmuscope(sides).exits(0).prints("2 recordings");
}

#[test]
fn sides_that_are_not_two_are_told_what_to_type() {
    let scratch = Scratch::new();
    scratch.pmuscope(["diff", "a.data"]).exits(2).complains("pmuscope diff BEFORE AFTER");
    scratch.pmuscope(["diff", "a", "b", "c"]).exits(2).complains("BEFORE... -- AFTER...");
    scratch.pmuscope(["diff", "none", "none"]).exits(2).complains("cannot open none");
}
