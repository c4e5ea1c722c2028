//! `pmuscope metrics` on simulated recordings. Their program is no file, so rows are of modules.

use crate::harness::Scratch;
use crate::json::is_documented;
use pmuscope_testkit::simulator::{Form, Function, Run, write};

fn recording(scratch: &Scratch, form: Form) {
    let functions = vec![Function::plain("a", 50_000.0, 0.5), Function::plain("b", 20_000.0, 2.0)];
    let cycles = if form == Form::Strobe { 1e8 } else { 1e6 };
    write(&Run { functions, form, cycles, ..Run::default() }, &scratch.path("pmuscope.data"));
}

#[test]
fn a_strobed_recording_is_a_table_with_intervals() {
    let scratch = Scratch::new();
    recording(&scratch, Form::Strobe);
    let outcome = scratch.pmuscope(["metrics", "--by", "module"]);
    assert_eq!(outcome.code(), 0, "{outcome}");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lines[0].starts_with("windows of 300 cycles, 1 in 200,003 cycles, 1,0"), "{outcome}");
    assert_eq!(
        lines[1],
        "kept 100.0% · offset constant on 2 of 2 CPUs · lost at least 0 · throttled 0"
    );
    assert!(lines[3].trim().starts_with("samples"), "{outcome}");
    assert!(lines[4].contains("±") && lines[4].ends_with("simulated"), "{outcome}");
}

#[test]
fn every_form_is_written_and_every_field_documented() {
    let scratch = Scratch::new();
    recording(&scratch, Form::BackToBack);
    let json =
        scratch.pmuscope(["metrics", "--by", "module", "--needs", "--metrics", "all", "--json"]);
    assert_eq!(json.code(), 0, "{json}");
    is_documented("metrics", &json.stdout);
    for (file, separator) in [("x.csv", ','), ("x.tsv", '\t')] {
        assert_eq!(scratch.pmuscope(["metrics", "--by", "mode", "-o", file]).code(), 0);
        let text = std::fs::read_to_string(scratch.path(file)).unwrap();
        let widths: Vec<usize> = text.lines().map(|line| line.split(separator).count()).collect();
        assert_eq!(widths, [49, 49], "{text}");
    }
}

/// What is taken off is told, and there must be something left.
#[test]
fn the_interrupt_is_taken_off_windows_that_are_longer() {
    let scratch = Scratch::new();
    recording(&scratch, Form::Strobe);
    let cost =
        |cost: &str| scratch.pmuscope(["metrics", "--by", "module", "--interrupt-cost", cost]);
    let some = cost("100");
    some.exits(0).prints("minus 100 each for the interrupt");
    assert!(!cost("0").exits(0).stdout.contains("each for"));
    let refused = cost("310");
    refused.exits(2).prints_nothing().complains("--interrupt-cost 310: windows have 300 cycles");
    refused.complains("Try: a smaller number");
}

#[test]
fn wrong_names_and_other_recordings_are_told() {
    let scratch = Scratch::new();
    recording(&scratch, Form::Strobe);
    let outcome = scratch.pmuscope(["metrics", "--metrics", "CPI,nonsense"]);
    assert_eq!(outcome.code(), 2);
    assert!(
        outcome.stderr.contains("no metric or group \"nonsense\"; groups are basic"),
        "{outcome}"
    );
    std::fs::write(scratch.path("mine.txt"), "[mine]\nX = cycles *\n").unwrap();
    let outcome = scratch.pmuscope(["metrics", "--formulas", "mine.txt"]);
    assert_eq!(outcome.code(), 2);
    assert!(outcome.stderr.contains("mine.txt: line 2: formula of X: it ends where"), "{outcome}");
    std::fs::write(scratch.path("mine.txt"), "[mine]\nX = cycles / 2\n").unwrap();
    let list = scratch.pmuscope(["metrics", "--formulas", "mine.txt", "--list"]);
    assert!(list.stdout.contains("[mine]") && list.stdout.contains("cycles / 2"), "{list}");
}
