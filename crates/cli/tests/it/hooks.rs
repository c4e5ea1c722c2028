//! What happens around the runs of a command: warm-up, commands before and after, where it prints, and its parameters.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Outcome, Scratch};

/// Each run of the command adds a line to this file.
const LOG: &str = "log";

fn stat(scratch: &Scratch, flags: &[&str], script: &str) -> Outcome {
    let args =
        [&["stat", "-e", "task-clock", "--json=runs.json"], flags, &["--", "sh", "-c", script]];
    scratch.pmuscope(args.concat())
}

fn log(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.path(LOG)).unwrap_or_default()
}

fn runs(scratch: &Scratch) -> usize {
    let file: Value =
        serde_json::from_slice(&fs::read(scratch.path("runs.json")).unwrap()).unwrap();
    file["runs"].as_array().unwrap().len()
}

#[test]
fn warm_up_runs_and_commands_around_are_not_counted() {
    let scratch = Scratch::new();
    let flags =
        ["-r", "2", "--warmup", "1", "--pre", "echo before >> log", "--post", "echo after >> log"];
    stat(&scratch, &flags, "echo run >> log").exits(0);
    assert_eq!(log(&scratch), "before\nrun\nafter\n".repeat(3));
    assert_eq!(runs(&scratch), 2);
    let none = scratch.pmuscope(["stat", "-a", "--warmup", "2", "--timeout", "10"]);
    none.exits(2).complains("--warmup runs a command before, and there is none");
}

#[test]
fn a_failed_pre_command_keeps_the_runs_so_far() {
    let scratch = Scratch::new();
    let outcome = stat(&scratch, &["-r", "5", "--pre", "! test -s log"], "echo run >> log");
    outcome.exits(125).complains("--pre \"! test -s log\": exit status 1").prints("task-clock");
    assert_eq!((log(&scratch).as_str(), runs(&scratch)), ("run\n", 1));
}

#[test]
fn what_the_command_prints_can_be_left_out() {
    let scratch = Scratch::new();
    stat(&scratch, &[], "printf to_be_%s seen").exits(0).prints("to_be_seen");
    let quiet = ["--command-output", "null"];
    let outcome = stat(&scratch, &quiet, "printf to_be_%s seen; printf this_%s too >&2");
    let said = format!("{}{}", outcome.exits(0).stdout, outcome.stderr);
    assert!(!said.contains("to_be_seen") && !said.contains("this_too"), "{said}");
    // What units are read from is read all the same.
    let per = ["--command-output", "null", "--per-from", "thing=([0-9]+) things"];
    let outcome = stat(&scratch, &per, "printf '50 %s' things");
    outcome.exits(0).prints("/thing");
    assert!(!outcome.stdout.contains("50 things"), "{outcome}");
}

#[test]
fn each_value_of_a_parameter_is_a_command_of_its_own() {
    let scratch = Scratch::new();
    let flags = ["-r", "2", "--parameter", "n=1,2,3", "--pre", "echo {n} >> log"];
    let outcome = stat(&scratch, &flags, "i=0; while [ $i -lt {n}000 ]; do i=$((i + 1)); done");
    outcome.exits(0).prints("3 commands interleaved").prints("B vs A").prints("C vs A");
    let file: Value =
        serde_json::from_slice(&fs::read(scratch.path("runs.json")).unwrap()).unwrap();
    let commands: Vec<&Value> =
        file["arms"].as_array().unwrap().iter().map(|arm| &arm["command"][2]).collect();
    assert_eq!(commands[1], &json!("i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done"));
    let mut lines: Vec<String> = log(&scratch).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["1", "1", "2", "2", "3", "3"]);
}

#[test]
fn a_parameter_of_no_use_is_refused_before_the_first_run() {
    let scratch = Scratch::new();
    let with = |text: &str| stat(&scratch, &["--parameter", text], "true {n}");
    with("n").exits(2).complains("not NAME=VALUE");
    with("n=1,2,1").exits(2).complains("the value \"1\" is there twice");
    with("m=1,2").exits(2).complains("no command has {m}");
    stat(&scratch, &["--parameter", "n=1", "--parameter", "n=2"], "true {n}")
        .exits(2)
        .complains("two parameters of the name n");
    scratch.pmuscope(["stat", "--parameter", "n=1,2"]).exits(2).complains("-- CMD {n}");
    let program = scratch.pmuscope(["stat", "--parameter", "p=true,./absent", "--", "{p}"]);
    program.exits(127).complains("cannot start ./absent");
    assert!(!scratch.path("runs.json").exists());
}
