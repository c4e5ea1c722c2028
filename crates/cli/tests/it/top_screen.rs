//! `pmuscope top` on a terminal of its own.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Scratch, need_program, skip_unless};
use crate::recording::need_root_clock;

/// Why there is no terminal to be had; `None` if there is one.
fn need_terminal() -> Option<String> {
    let python = || need_program("python3", "--version");
    need_root_clock().or_else(python).or_else(need_pseudo_terminal)
}

/// Why no terminal can be made; `None` if one can.
pub(crate) fn need_pseudo_terminal() -> Option<String> {
    let open = Command::new("python3").args(["-c", "import os; os.openpty()"]).output();
    let opens = open.is_ok_and(|outcome| outcome.status.success());
    (!opens).then(|| "no terminal can be opened: /dev/pts is not mounted".to_owned())
}

/// What came of `top` with these flags on a terminal of 24 lines, doing as `steps` say.
#[track_caller]
fn on_terminal(flags: &[&str], steps: &Value) -> Value {
    let scratch = Scratch::new();
    let steps = steps.to_string();
    let driver = ["-c", include_str!("pty.py"), &steps, env!("CARGO_BIN_EXE_pmuscope"), "top"];
    let outcome = scratch.run("python3", driver.iter().chain(flags));
    let ended: Value = serde_json::from_str(&outcome.exits(0).stdout).unwrap();
    assert_eq!(ended["failure"], Value::Null, "{ended:#}");
    ended
}

const FAST: [&str; 4] = ["-e", "cpu-clock", "-d", "0.3"];

#[test]
fn keys_change_what_is_shown_and_q_gives_the_terminal_back() {
    skip_unless!(need_terminal());
    let ended = on_terminal(
        &FAST,
        &json!([
            ["wait", "by function, largest first"],
            ["wait", "software timer"],
            ["send", "u"],
            ["wait", "by cpu, largest first"],
            ["send", "?"],
            ["wait", "half width of the confidence interval"],
            ["send", "x"],
            ["gone", "half width of the confidence interval"],
            ["send", "c"],
            ["wait", "by command"],
            ["send", "/no such program\r"],
            ["wait", "no rows · filter: no such program"],
            ["send", "\u{1b}"],
            ["wait", "rows 1-"],
            ["send", " "],
            ["wait", "paused"],
            ["send", "q"],
        ]),
    );
    assert_eq!((&ended["status"], &ended["restored"]), (&json!(0), &json!(true)), "{ended:#}");
    let first = ended["screens"][1].as_str().unwrap();
    for part in ["samples", "overhead: ", "lost 0", "throttled", "95% CI", "function", "q quit"] {
        assert!(first.contains(part), "{part}\n{first}");
    }
}

#[test]
fn a_terminal_may_change_its_size() {
    skip_unless!(need_terminal());
    let ended = on_terminal(
        &FAST,
        &json!([
            ["wait", "by function"],
            ["resize", 10, 60],
            ["wait", "rows 1-5"],
            ["resize", 2, 8],
            ["resize", 1, 1],
            ["resize", 30, 120],
            ["wait", "? help"],
            ["wait", "by function"],
            ["send", "\u{3}"],
        ]),
    );
    assert_eq!((&ended["status"], &ended["restored"]), (&json!(0), &json!(true)), "{ended:#}");
}

#[test]
fn signals_give_the_terminal_back() {
    skip_unless!(need_terminal());
    for signal in [1, 2, 15] {
        let steps = json!([["wait", "by function"], ["signal", signal]]);
        let ended = on_terminal(&FAST, &steps);
        let how = (&ended["status"], &ended["restored"]);
        assert_eq!(how, (&json!(0), &json!(true)), "signal {signal}: {ended:#}");
    }
}

#[test]
fn a_terminal_that_goes_away_ends_it() {
    skip_unless!(need_terminal());
    let ended = on_terminal(&FAST, &json!([["wait", "by function"], ["close"]]));
    assert_eq!(ended["status"], json!(0), "{ended:#}");
}

#[test]
fn without_a_terminal_it_says_what_to_type() {
    let scratch = Scratch::new();
    scratch.pmuscope(["top"]).exits(2).prints_nothing().complains("Try: pmuscope top --once");
}
