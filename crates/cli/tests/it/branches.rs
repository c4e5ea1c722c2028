//! `report --by branch` and `--by mem`, on recordings of machines that have what it takes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Outcome, Scratch, need_perf, skip_unless};
use crate::json::is_documented;

/// A recording of the corpus; `None`, with the reason printed, where there is none.
fn corpus(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("PMUSCOPE_CORPUS") else {
        eprintln!("skipped: PMUSCOPE_CORPUS names no folder of recordings");
        return None;
    };
    let path = Path::new(&folder).join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

fn report(path: &Path, args: &[&str]) -> Outcome {
    let path = path.to_str().unwrap();
    Scratch::new().pmuscope([&["report", "-i", path], args].concat())
}

/// Branches by their two ends, where both have an address in a program.
type Table = BTreeMap<(String, String), u64>;

fn by_perf(path: &Path) -> (Table, u64) {
    let path = path.to_str().unwrap();
    let args = ["report", "-f", "-i", path, "--stdio", "-n", "--branch-stack", "-t", "|"];
    let sort = ["--sort", "symbol_from,symbol_to"];
    let outcome = Scratch::new().run("perf", args.iter().chain(&sort));
    outcome.exits(0);
    let (mut table, mut all) = (Table::new(), 0);
    for line in outcome.stdout.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, branches, from, to, ..] = fields[..] else { continue };
        let branches: u64 = branches.parse().unwrap();
        all += branches;
        let address = |end: &str| {
            let digits = end.strip_prefix("[.] 0x")?;
            Some(format!("{:#x}", u64::from_str_radix(digits, 16).ok()?))
        };
        if let (Some(from), Some(to)) = (address(from), address(to)) {
            *table.entry((from, to)).or_default() += branches;
        }
    }
    (table, all)
}

#[test]
fn branches_are_perfs() {
    skip_unless!(need_perf());
    for name in ["google_autofdo__testdata_test.lbr", "quipper_perf.data.branch_stack_hw_index"] {
        let Some(path) = corpus(name) else { return };
        let json = report(&path, &["--by", "branch", "--json"]);
        is_documented("branches", &json.exits(0).stdout);
        let json: Value = serde_json::from_str(&json.stdout).unwrap();
        let mut ours = Table::new();
        for row in json["rows"].as_array().unwrap() {
            let address = |end: &str| row[end]["address"].as_str().map(str::to_owned);
            if let (Some(from), Some(to)) = (address("from"), address("to")) {
                *ours.entry((from, to)).or_default() += row["branches"].as_u64().unwrap();
            }
        }
        let (theirs, all) = by_perf(&path);
        assert_eq!(json["branches"], all, "{name}");
        assert!(theirs.len() > 30, "{name}: {}", theirs.len());
        for (ends, branches) in &theirs {
            assert_eq!(ours.get(ends), Some(branches), "{name}: {ends:?}");
        }
    }
}

/// As many of each branch, and of each prediction, as `script` lists one by one.
#[test]
fn branches_are_those_of_each_sample() {
    let Some(path) = corpus("google_autofdo__testdata_test.lbr") else { return };
    let json: Value =
        serde_json::from_str(&report(&path, &["--by", "branch", "--json"]).stdout).unwrap();
    let file = path.to_str().unwrap();
    let listed = Scratch::new().pmuscope(["script", "-i", file, "-F", "brstack"]);
    let branches: Vec<&str> = listed.stdout.split_whitespace().collect();
    let misses = branches.iter().filter(|branch| branch.contains("/M/")).count() as u64;
    let rows = json["rows"].as_array().unwrap();
    let sum = |field: &str| rows.iter().map(|row| row[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("branches"), branches.len() as u64);
    assert_eq!(sum("mispredicted"), misses);
    assert_eq!(sum("predicted") + misses, branches.len() as u64);

    let text = report(&path, &["--by", "branch", "--limit", "1", "--time", "0%-50%"]);
    text.exits(0).prints("mispredicted").prints("--time 0%-50%").prints("more rows: --limit all");
}

#[test]
fn accesses_are_perfs() {
    skip_unless!(need_perf());
    let Some(path) = corpus("quipper_perf.data.weight_struct") else { return };
    let json = report(&path, &["--by", "mem", "--json"]);
    is_documented("memory", &json.exits(0).stdout);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let file = path.to_str().unwrap();
    let script = ["script", "-f", "-i", file, "-F", "data_src,weight"];
    let script = Scratch::new().run("perf", script);
    let lines: Vec<&str> =
        script.exits(0).stdout.lines().filter(|line| line.contains("|OP ")).collect();
    assert_eq!(json["samples_with_source"], lines.len());
    for (level, word) in [("LFB/MAB", "|LVL LFB/MAB"), ("L3", "|LVL L3"), ("L1", "|LVL L1")] {
        let theirs: Vec<&&str> = lines.iter().filter(|line| line.contains(word)).collect();
        let ours = rows.iter().filter(|row| row["level"] == level);
        let (mut samples, mut weight) = (0, 0.0);
        for row in ours {
            let number = row["samples"].as_u64().unwrap();
            samples += number;
            weight += row["weight_mean"].as_f64().unwrap() * number as f64;
        }
        let weights = theirs.iter().map(|line| line.split_whitespace().last().unwrap());
        let theirs_weight: f64 = weights.map(|weight| weight.parse::<f64>().unwrap()).sum();
        assert_eq!((samples, weight.round()), (theirs.len() as u64, theirs_weight), "{level}");
    }
    let text = report(&path, &["--by", "mem"]);
    text.exits(0).prints("mean weight").prints("LFB/MAB hit").prints("HITM").prints("L2 miss");
}

#[test]
fn what_was_not_recorded_is_told() {
    let outcome = Scratch::new().pmuscope(["report", "--by", "branch,cpu", "-i", "x"]);
    outcome.exits(2).complains("stand alone");
    let Some(path) = corpus("quipper_perf.data.weight_struct") else { return };
    report(&path, &["--by", "branch"]).exits(1).prints("pmuscope record -b");
    report(&path, &["--by", "branch", "--focus", "x"]).exits(2).complains("--focus");
    let Some(path) = corpus("google_autofdo__testdata_test.lbr") else { return };
    report(&path, &["--by", "mem"]).exits(1).prints("no sources of data");
}
