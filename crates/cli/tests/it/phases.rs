//! Programs in phases that are too long for the recording: no interval, no claim, and the reason in every form.

use serde_json::Value;

use crate::harness::{Scratch, skip_unless};
use crate::json::is_documented;
use crate::simulated::record;
use pmuscope_testkit::simulator::{Function, PhaseLength, Phases, Run};

const WHY: &str = "the program's phases are too long for this recording";

/// Records a program that runs two functions by turns; each phase takes `milliseconds`.
fn recorded(
    scratch: &Scratch,
    file: &str,
    milliseconds: f64,
    phases: f64,
    seed: u64,
) -> Option<String> {
    let run = Run {
        functions: vec![
            Function::plain("first", 40_000.0, 1.0),
            Function { weight: 0.1, ..Function::plain("second", 40_000.0, 0.5) },
        ],
        phases: Some(Phases {
            mean: milliseconds * 1e6,
            length: PhaseLength::Jittered,
            second: &[(0.1, 1.0), (1.0, 1.0)],
        }),
        cycles: phases * milliseconds * 1e6,
        seed,
        ..Run::default()
    };
    let why = record(scratch, &run);
    std::fs::rename(scratch.path("pmuscope.data"), scratch.path(file)).unwrap();
    why
}

fn json(scratch: &Scratch, kind: &str, args: &[&str]) -> Value {
    let all = args.iter().chain(&["--json", "--symfs", "root"]);
    let outcome = scratch.pmuscope(all);
    outcome.exits(0);
    is_documented(kind, &outcome.stdout);
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[track_caller]
fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value:#}"))
}

/// The rows of functions with a name.
fn named(rows: &Value) -> impl Iterator<Item = &Value> {
    list(rows).iter().filter(|row| row["function"].is_string())
}

#[test]
fn long_phases_leave_no_interval_and_say_so_in_text_and_json() {
    let scratch = Scratch::new();
    skip_unless!(recorded(&scratch, "a.data", 100.0, 5.0, 1));
    skip_unless!(recorded(&scratch, "b.data", 100.0, 5.0, 2));
    let one = " phases of the program in ";

    let report = json(&scratch, "report", &["report", "-i", "a.data"]);
    let event = &report["events"][0];
    assert!(event["phase_s"].as_f64().is_some_and(|long| long > 0.03), "{event:#}");
    assert_eq!(named(&event["functions"]).count(), 2, "{event:#}");
    for row in named(&event["functions"]) {
        assert_eq!((&row["share_low"], row["why"].as_str()), (&Value::Null, Some(WHY)), "{row:#}");
    }
    let text = scratch.pmuscope(["report", "--symfs", "root", "-i", "a.data"]);
    text.exits(0).prints(one).prints("or longer");

    let metrics = json(&scratch, "metrics", &["metrics", "--metrics=CPI", "-i", "a.data"]);
    for row in named(&metrics["rows"]) {
        let cell = &row["metrics"][0];
        assert!(cell["value"].is_f64() && cell["low"].is_null(), "{row:#}");
        assert_eq!(cell["why"], WHY, "{row:#}");
    }
    let text = scratch.pmuscope(["metrics", "--symfs", "root", "-i", "a.data"]);
    text.exits(0).prints(one).prints("or longer");

    let diff = json(&scratch, "diff", &["diff", "a.data", "b.data"]);
    let event = &diff["events"][0];
    assert!(event["phase_s"].is_f64(), "{event:#}");
    for row in named(&event["functions"]) {
        assert!(row["p"].is_null() && row["share_is"].is_null(), "{row:#}");
        assert_eq!(row["share_change"]["why"], WHY, "{row:#}");
    }
    let text = scratch.pmuscope(["diff", "--symfs", "root", "a.data", "b.data"]);
    text.exits(0).prints(one).prints("so no difference is claimed");

    let diff = json(&scratch, "metrics-diff", &["diff", "--metrics=CPI", "a.data", "b.data"]);
    for row in named(&diff["metrics"][0]["rows"]) {
        assert!(row["p"].is_null() && row["is"].is_null(), "{row:#}");
        assert_eq!(row["change"]["why"], WHY, "{row:#}");
    }
    let text = scratch.pmuscope(["diff", "--metrics=CPI", "--symfs", "root", "a.data", "b.data"]);
    text.exits(0).prints(one).prints("so no difference is claimed");
}

#[test]
fn enough_phases_have_intervals_and_no_reason() {
    let scratch = Scratch::new();
    skip_unless!(recorded(&scratch, "a.data", 2.0, 300.0, 1));
    let report = json(&scratch, "report", &["report", "-i", "a.data"]);
    for row in named(&report["events"][0]["functions"]) {
        assert!(row["share_low"].is_f64() && row["why"].is_null(), "{row:#}");
    }
    let metrics = json(&scratch, "metrics", &["metrics", "--metrics=CPI", "-i", "a.data"]);
    for row in named(&metrics["rows"]) {
        let cell = &row["metrics"][0];
        assert!(cell["low"].is_f64() && cell["why"].is_null(), "{row:#}");
    }
    for command in ["report", "metrics"] {
        let text = scratch.pmuscope([command, "--symfs", "root", "-i", "a.data"]);
        assert!(!text.exits(0).stdout.contains("no CI"), "{text}");
    }
}

/// Windows at the borders of functions are discarded, so what happens at an entry is not in those kept.
#[test]
fn a_note_says_that_events_at_an_entry_read_low() {
    let scratch = Scratch::new();
    let function = |name, length| Function { shape: 1, ..Function::plain(name, length, 1.0) };
    let entered = Function { at_entry: 10.0, ..function("entered", 6000.0) };
    let functions = vec![entered, function("long", 60_000.0)];
    skip_unless!(record(&scratch, &Run { functions, ..Run::default() }));
    let metrics = ["metrics", "--metrics=BM/KI", "--symfs", "root"];
    let text = scratch.pmuscope(metrics);
    text.exits(0).prints("of those that end in entered").prints("read low");
    let none = scratch.pmuscope(metrics.iter().chain(&["--attribution", "none"]));
    assert!(!none.exits(0).stdout.contains("read low"), "{none}");
    // The file has no symbol for the first page of the first function.
    let absent = Function { weight: 0.0, ..function("absent", 600_000.0) };
    let long = vec![absent, function("one", 600_000.0), function("two", 600_000.0)];
    skip_unless!(record(&scratch, &Run { functions: long, ..Run::default() }));
    let text = scratch.pmuscope(metrics);
    assert!(!text.exits(0).stdout.contains("read low"), "{text}");
}
