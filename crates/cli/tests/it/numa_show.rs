//! `pmuscope numa show` of processes.

use std::process::Command;

use serde_json::Value;

use crate::harness::Scratch;
use crate::json::is_documented;

#[test]
fn a_command_is_followed_to_its_end_and_its_status_kept() {
    let scratch = Scratch::new();
    let script = "sleep 0.5 & wait; exit 7";
    let args = ["numa", "show", "-I", "50", "--json", "--", "sh", "-c", script];
    let shown = scratch.pmuscope(args);
    is_documented("numa-show", &shown.exits(7).stdout);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let looks = shown["looks"].as_array().unwrap();
    assert!(looks.len() > 2, "{shown}");
    let names = |look: &Value| -> Vec<String> {
        let processes = look["processes"].as_array().unwrap();
        processes.iter().map(|process| process["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(looks.iter().any(|look| names(look).contains(&"sleep".to_owned())), "{shown}");
    if shown["nodes"].as_array().unwrap().len() == 1 {
        assert_eq!(looks[1]["locality"]["value"], 1.0, "{shown}");
    }
}

#[test]
fn a_process_is_followed_for_as_long_as_asked_or_until_it_ends() {
    let scratch = Scratch::new();
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleeper.id().to_string();
    let args = ["numa", "show", "-p", &pid, "--seconds", "0.3", "-I", "100", "-o", "x.html"];
    let shown = scratch.pmuscope(args);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    shown.exits(0);
    let page = std::fs::read_to_string(scratch.path("x.html")).unwrap();
    assert!(
        page.contains(&format!("sleep ({pid})")) && page.contains("Threads by NUMA node"),
        "{page}"
    );
    scratch.pmuscope(["numa", "show", "-p", &pid]).exits(2).complains("there is no process");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scratch = Scratch::new();
    let alone = scratch.pmuscope(["numa", "show", "--seconds", "1"]);
    alone.exits(2).complains("--seconds is of processes");
    scratch.pmuscope(["numa", "show", "-o", "x.pdf", "-p", "1"]).exits(2).complains("x.pdf");
    let missing = scratch.pmuscope(["numa", "show", "--", "/nonexistent"]);
    missing.exits(127).complains("/nonexistent");
    scratch.pmuscope(["numa", "show", "-p", "1", "-I", "1"]).exits(2).complains("10");
}
