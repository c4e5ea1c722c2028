//! docs/json.md against what the commands print.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Scratch, need_sampling, skip_unless};

/// Of the first version, if a kind does not say its own.
fn schema(kind: &str) -> String {
    let version = if kind.contains('/') { "" } else { "/1" };
    format!("pmuscope/{kind}{version}")
}

fn document() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    std::fs::read_to_string(root.join("docs/json.md")).unwrap()
}

/// Full paths of the fields in a row of a table: "`a.b`, `.c`" is a.b and a.c.
fn in_row(row: &str) -> Vec<String> {
    let (mut parent, mut paths) = (String::new(), Vec::new());
    for name in row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2) {
        let path = match name.strip_prefix('.') {
            Some(name) => format!("{parent}.{name}"),
            None => name.to_owned(),
        };
        parent = path.rsplit_once('.').map_or(String::new(), |(parent, _)| parent.into());
        paths.push(path);
    }
    paths
}

/// All fields of docs/json.md, each after its schema: `pmuscope/report/1 events[].name`.
pub(crate) fn documented_by_schema() -> BTreeSet<String> {
    let text = document();
    let sections = text.split("\n## ").skip(1);
    let fields = sections.flat_map(|section| {
        let schema = section.lines().next().unwrap_or_default();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        rows.flat_map(in_row).map(move |path| format!("{schema} {path}")).collect::<Vec<_>>()
    });
    fields.collect()
}

/// Fields by section of docs/json.md: heading, full paths.
fn documented(kind: &str) -> BTreeSet<String> {
    let text = document();
    let sections = ["Every command", &schema(kind)].map(str::to_owned);
    let mut paths = BTreeSet::new();
    for section in text.split("\n## ") {
        // What is known of the machine is told once, and the same everywhere.
        let is_doctors = section.starts_with(&schema("doctor"));
        let is_reports = section.starts_with(&schema("report"));
        let is_own = sections.iter().any(|own| section.starts_with(own));
        let start = match (is_own, is_doctors, is_reports) {
            (true, ..) => "| `",
            (_, true, _) => "| `machine.",
            // So is what a recording is, cost and lost.
            (_, _, true) => "| `recording.",
            _ => continue,
        };
        section
            .lines()
            .filter(|line| line.starts_with(start))
            .for_each(|row| paths.extend(in_row(row)));
    }
    assert!(paths.len() > 10, "docs/json.md has no section for {kind}");
    paths
}

/// Paths of all leaves: `events[].name`. An empty list or object is a leaf.
fn leaves(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(&format!("{path}{dot}{name}"), value, found);
            }
        }
        Value::Array(values) if !values.is_empty() => {
            values.iter().for_each(|value| leaves(&format!("{path}[]"), value, found));
        }
        // What would be in it is not known.
        Value::Array(_) => {}
        _ => {
            found.insert(path.to_owned());
        }
    }
}

#[track_caller]
pub(crate) fn is_documented(kind: &str, text: &str) {
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(value["schema"], schema(kind));
    let mut found = BTreeSet::new();
    leaves("", &value, &mut found);
    let documented = documented(kind);
    // A list that was not measured is null.
    let is_known =
        |path: &&String| documented.contains(*path) || documented.contains(&format!("{path}[]"));
    let missing: Vec<&String> = found.iter().filter(|path| !is_known(path)).collect();
    assert!(missing.is_empty(), "not in docs/json.md, {kind}: {missing:#?}");
}

#[test]
fn fields_of_doctor_are_documented() {
    is_documented("doctor", &Scratch::new().pmuscope(["doctor", "--json"]).stdout);
}

#[test]
fn fields_of_workloads_are_documented() {
    for workload in [
        ["function-mix", "--rounds=2"],
        ["share-mix", "--seconds=0.05"],
        ["stencil", "--steps=2"],
        ["orders", "--seconds=0.05"],
    ] {
        let args = ["workload", workload[0], workload[1], "--threads=1", "--json"];
        is_documented("workload", &Scratch::new().pmuscope(args).stdout);
    }
    let chase = ["--order=chase", "--latency", "--reduce", "--thread=1M", "--rounds=1"];
    let args = [&["workload", "memory", "--json"], &chase[..]].concat();
    is_documented("workload", &Scratch::new().pmuscope(args).stdout);
}

#[test]
fn fields_of_reports_are_documented() {
    skip_unless!(need_sampling());
    let scratch = Scratch::new();
    let work = ["--", "sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"];
    let how = ["record", "-e", "cpu-clock:u", "-F", "2000"];
    scratch.pmuscope(how.iter().chain(&work)).exits(0);
    is_documented("report", &scratch.pmuscope(["report", "--json"]).stdout);
}
