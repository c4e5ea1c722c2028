//! `--vs`: commands that are compared by interleaved runs, and files that were not.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::compare::without_estimates;
use crate::harness::{Outcome, Scratch};
use crate::json::is_documented;

/// Starts this many processes, each with page faults of its own.
fn forks(number: usize) -> [String; 3] {
    ["sh".into(), "-c".into(), "/bin/true; ".repeat(number)]
}

/// The same as one word.
fn forks_word(number: usize) -> String {
    format!("sh -c '{}'", "/bin/true; ".repeat(number))
}

fn stat(scratch: &Scratch, flags: &[&str], command: &[String]) -> Outcome {
    let mut args = vec!["stat", "-e", "page-faults,task-clock"];
    args.extend(flags);
    args.push("--");
    args.extend(command.iter().map(String::as_str));
    scratch.pmuscope(args)
}

fn read(scratch: &Scratch, name: &str) -> Value {
    serde_json::from_slice(&fs::read(scratch.path(name)).unwrap()).unwrap()
}

fn compared(scratch: &Scratch, files: &[&str]) -> Value {
    let outcome = scratch.pmuscope([&["compare", "--json"], files].concat());
    let comparison: Value = serde_json::from_str(&outcome.exits(0).stdout).unwrap();
    let mut fields = comparison.clone();
    without_estimates(&mut fields);
    is_documented("compare/2", &fields.to_string());
    comparison
}

fn row<'a>(comparison: &'a Value, metric: &str) -> &'a Value {
    let rows = comparison["rows"].as_array().unwrap();
    rows.iter().find(|row| row["metric"] == metric).unwrap()
}

#[test]
fn runs_of_commands_are_interleaved_and_compared_in_pairs() {
    let scratch = Scratch::new();
    let vs = forks_word(6);
    let flags = ["-r", "6", "--vs", &vs, "--per", "call=10", "--json=ab.json"];
    let outcome = stat(&scratch, &flags, &forks(2));
    outcome.exits(0).prints("2 commands interleaved in random order: 6 rounds");
    outcome.prints("A: 6 runs").prints("pairs").prints("more");
    let file = read(&scratch, "ab.json");
    assert_eq!(file["arms"][0], json!({"name": "A", "command": forks(2)}));
    assert_eq!(file["arms"][1], json!({"name": "B", "command": forks(6)}));
    let runs = file["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 12);
    let mut firsts: BTreeMap<&str, usize> = BTreeMap::new();
    for (round, two) in runs.chunks(2).enumerate() {
        assert!(two.iter().all(|run| run["round"] == round && run["units"]["call"] == 10.0));
        assert_ne!(two[0]["labels"]["arm"], two[1]["labels"]["arm"]);
        *firsts.entry(two[0]["labels"]["arm"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(firsts, BTreeMap::from([("A", 3), ("B", 3)]), "each goes first equally often");
    let comparison = compared(&scratch, &["ab.json"]);
    assert_eq!(comparison["files"][1]["name"], "B");
    assert_eq!(comparison["not_interleaved"], json!([]));
    let faults = row(&comparison, "page-faults");
    let pair = &faults["pairs"][0];
    assert_eq!((&pair["paired"], &pair["verdict"]), (&json!(true), &json!("more")));
    assert_eq!((&faults["per"], &pair["difference"]["n"]), (&json!("call"), &json!(6)));
    // The text of stat is that of compare.
    let table = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::to_owned);
        lines.skip_while(|line| !line.starts_with("metric")).take(6).collect()
    };
    assert_eq!(table(&outcome.stdout), table(&scratch.pmuscope(["compare", "ab.json"]).stdout));
    scratch.pmuscope(["compare", "ab.json", "--base", "B"]).exits(0).prints("less");
}

#[test]
fn three_commands_have_a_table_for_each_pair() {
    let scratch = Scratch::new();
    let (b, c) = (forks_word(6), forks_word(2));
    let outcome =
        stat(&scratch, &["-r", "6", "--vs", &b, "--vs", &c, "--json=abc.json"], &forks(2));
    outcome.exits(0).prints("3 commands").prints("B vs A").prints("C vs A");
    let comparison = compared(&scratch, &["abc.json"]);
    let pairs = row(&comparison, "page-faults")["pairs"].as_array().unwrap();
    assert_eq!((&comparison["base"], &pairs[0]["verdict"]), (&json!(0), &json!("more")));
    assert_eq!((pairs.len(), &pairs[1]["difference"]["n"]), (2, &json!(6)));
}

#[test]
fn a_command_that_fails_is_counted_and_the_others_are_kept() {
    let scratch = Scratch::new();
    let outcome =
        stat(&scratch, &["-r", "3", "--vs", "sh -c 'exit 3'", "--json=ab.json"], &forks(1));
    outcome.exits(3).prints("B: 3 of 3 runs failed").prints("Differences are of 0 of 3 pairs");
    let comparison = compared(&scratch, &["ab.json"]);
    let faults = row(&comparison, "page-faults");
    assert_eq!(faults["columns"][0]["mean"]["n"], 3);
    assert_eq!(
        (&faults["columns"][1]["mean"], &faults["pairs"][0]["verdict"]),
        (&Value::Null, &json!("unmeasured"))
    );
}

#[test]
fn what_is_no_command_ends_it_before_the_first_run() {
    let scratch = Scratch::new();
    let with = |vs: &str| stat(&scratch, &["--vs", vs, "--json=ab.json"], &forks(1));
    with("./absent -x").exits(127).complains("cannot start ./absent");
    with("cat a | wc").exits(2).complains("Try: sh -c");
    with("LANG=C ls").exits(2).complains("Try: env LANG=C");
    with("echo 'a").exits(2).complains("unclosed quote");
    scratch.pmuscope(["stat", "--vs", "true"]).exits(2).complains("-- CMD A");
    let intervals = ["-I", "100", "--vs", "true"];
    stat(&scratch, &intervals, &forks(1)).exits(2).complains("Try: --json=FILE");
    assert!(!scratch.path("ab.json").exists());
}

#[test]
fn what_was_interrupted_is_compared_by_whole_rounds() {
    let scratch = Scratch::new();
    let file = scratch.path("ab.json");
    let started = scratch.start([
        "stat",
        "-r",
        "500",
        "-e",
        "page-faults",
        "--vs",
        "sleep 0.06",
        "--json=ab.json",
        "--",
        "sleep",
        "0.05",
    ]);
    let runs = || -> Option<usize> {
        let value: Value = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        Some(value["runs"].as_array()?.len())
    };
    started.wait_until(|| runs().is_some_and(|runs| runs >= 8));
    started.signal(Signal::INT);
    let outcome = started.ends();
    outcome.exits(125).prints("The measurement was interrupted");
    let file = read(&scratch, "ab.json");
    let is_whole = |run: &&Value| run["exit"] == 0 && run["why"].is_null();
    let mut rounds: BTreeMap<u64, usize> = BTreeMap::new();
    for run in file["runs"].as_array().unwrap().iter().filter(is_whole) {
        *rounds.entry(run["round"].as_u64().unwrap()).or_default() += 1;
    }
    let whole = rounds.values().filter(|runs| **runs == 2).count();
    assert!(whole >= 3, "{rounds:?}");
    let comparison = compared(&scratch, &["ab.json"]);
    assert_eq!(row(&comparison, "page-faults")["pairs"][0]["difference"]["n"], whole);
    assert_eq!(comparison["files"][0]["finished"], false);
}

#[test]
fn sweeps_are_interleaved_and_go_on_in_the_same_order() {
    let scratch = Scratch::new();
    let vs = forks_word(6);
    let sweep = |rounds: &str, flags: &[&str]| {
        let mut args =
            vec!["sweep", "-e", "page-faults", "-r", rounds, "--vs", &vs, "--json=ab.json"];
        args.extend(flags);
        args.push("--");
        let command = forks(2);
        args.extend(command.iter().map(String::as_str));
        scratch.pmuscope(args)
    };
    sweep("5", &["--seed", "7"]).exits(0).prints("2 commands").prints("more");
    let mut half = read(&scratch, "ab.json");
    assert_eq!(half["runs"].as_array().unwrap().len(), 10);
    let orders = |file: &Value| -> Vec<Value> {
        file["runs"].as_array().unwrap().iter().map(|run| run["labels"]["arm"].clone()).collect()
    };
    let before = orders(&half);
    // As if it had been interrupted after three runs.
    half["runs"].as_array_mut().unwrap().truncate(3);
    for series in half["series"].as_array_mut().unwrap() {
        series["values"].as_array_mut().unwrap().retain(|value| value["run"].as_u64() < Some(3));
    }
    // Its schema is what a run file begins with.
    let schema = half.as_object_mut().unwrap().remove("schema").unwrap();
    let rest = half.to_string();
    fs::write(scratch.path("ab.json"), format!("{{\"schema\":{schema},{}", &rest[1..])).unwrap();
    sweep("5", &["--resume"]).exits(0);
    let file = read(&scratch, "ab.json");
    assert_eq!(orders(&file), before);
    let comparison = compared(&scratch, &["ab.json"]);
    assert_eq!(row(&comparison, "page-faults")["pairs"][0]["difference"]["n"], 5);
    assert_eq!(row(&comparison, "page-faults")["pairs"][0]["verdict"], "more");
}

#[test]
fn files_that_were_not_interleaved_are_said_to_be_so() {
    let scratch = Scratch::new();
    stat(&scratch, &["-r", "3", "--json=a.json"], &forks(1)).exits(0);
    stat(&scratch, &["-r", "3", "--json=b.json"], &forks(2)).exits(0);
    let outcome = scratch.pmuscope(["compare", "a.json", "b.json"]);
    outcome.exits(0).prints("a.json and b.json were measured one after the other");
    let text = outcome.stdout.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(text.contains("Try: pmuscope stat -r 20 --vs 'sh -c"), "{text}");
    let apart = &compared(&scratch, &["a.json", "b.json"])["not_interleaved"][0];
    assert_eq!((&apart["base"], &apart["other"]), (&json!(0), &json!(1)));
    assert!(apart["gap_s"].as_f64().unwrap() >= 0.0, "{apart}");
}
