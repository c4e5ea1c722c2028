//! `report --by branch`, `--by mem` and `--by data`, on recordings of machines that have what it takes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pmuscope_testkit::corpus::corpus;
use serde_json::Value;

use crate::harness::{Outcome, Scratch, need_c_compiler, need_perf, need_sampling, skip_unless};
use crate::json::is_documented;

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
        let path = corpus().recording(name);
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
    let path = corpus().recording("google_autofdo__testdata_test.lbr");
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
    text.exits(0).prints("mispredicted").prints("--time 0%-50%").prints("more: --limit all");
}

#[test]
fn accesses_are_perfs() {
    skip_unless!(need_perf());
    let path = corpus().recording("quipper_perf.data.weight_struct");
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

/// Writes to each of 64 pages of a variable that its file holds, and of memory from the kernel.
const TOUCH: &str = r"
#include <stdlib.h>
#include <sys/mman.h>
enum { PAGES = 64, PAGE = 4096 };
char table[PAGES * PAGE] = {1};
int main(void) {
    char *memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE);
    for (int page = 0; page < PAGES; page++) {
        table[page * PAGE + 64] = 2;
        memory[page * PAGE] = 3;
    }
    return 0;
}
";

#[test]
fn data_lie_in_the_variables_that_were_touched() {
    skip_unless!(need_c_compiler());
    skip_unless!(need_sampling());
    let scratch = Scratch::new();
    std::fs::write(scratch.path("touch.c"), TOUCH).unwrap();
    scratch.run("cc", ["-O1", "-o", "touch", "touch.c"]).exits(0);
    let how =
        ["record", "-q", "-d", "-e", "page-faults:u", "-c", "1", "-o", "x.data", "--", "./touch"];
    scratch.pmuscope(how).exits(0);
    let json = scratch.pmuscope(["report", "x.data", "--by", "data", "--json"]);
    is_documented("data", &json.exits(0).is_silent().stdout);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let table = rows.iter().find(|row| row["object"] == "table").unwrap();
    assert!(table["module"].as_str().unwrap().ends_with("/touch"), "{table}");
    // The page of its end is shared with what lies behind it.
    assert!((62..=65).contains(&table["samples"].as_u64().unwrap()), "{table}");
    assert!(table["weight_mean"].is_null() && table["hitm"].is_null(), "{table}");
    let anonymous = rows.iter().find(|row| row["module"] == "//anon").unwrap();
    assert!(anonymous["samples"].as_u64() >= Some(64), "{anonymous}");
    let all: u64 = rows.iter().map(|row| row["samples"].as_u64().unwrap()).sum();
    assert_eq!(json["samples_with_address"], all);
    let listed = scratch.pmuscope(["script", "x.data", "-F", "addr"]);
    assert_eq!(listed.stdout.split_whitespace().filter(|word| *word != "0").count() as u64, all);
    scratch.pmuscope(["report", "x.data", "--by", "data"]).exits(0).prints("touch").prints("table");
    every_form_has_the_same_columns(&scratch, &json["rows"]);
}

/// CSV and TSV have a column for each field of the JSON, with the same values; the page shows the rows.
fn every_form_has_the_same_columns(scratch: &Scratch, rows: &Value) {
    let rows = rows.as_array().unwrap();
    for (file, separator) in [("x.csv", ','), ("x.tsv", '\t')] {
        scratch.pmuscope(["report", "x.data", "--by", "data", "-o", file]).exits(0);
        let table = std::fs::read_to_string(scratch.path(file)).unwrap();
        let mut lines = table.lines().map(|line| line.split(separator).collect::<Vec<_>>());
        let head = lines.next().unwrap();
        let fields = rows[0].as_object().unwrap().keys().filter(|key| *key != "why");
        assert_eq!(BTreeSet::from_iter(head.iter().copied()), fields.map(|key| &**key).collect());
        for (line, row) in lines.zip(rows) {
            for (name, value) in head.iter().zip(line) {
                let expected = match &row[*name] {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    number => number.as_f64().unwrap().to_string(),
                };
                assert_eq!(value, expected, "{name} in {file}");
            }
        }
        assert_eq!(table.lines().count(), 1 + rows.len());
    }
    scratch.pmuscope(["report", "x.data", "--by", "data", "-o", "x.html"]).exits(0);
    let page = std::fs::read_to_string(scratch.path("x.html")).unwrap();
    assert!(page.contains(">Data addresses</h2>") && page.contains(">table</td>"), "{page}");
}

/// Variables that start as zero: partly in the last page that is mapped from the file, mostly in memory without a
/// file after it.
const ZEROED: &str = r"
char zeroed[64 * 4096];
char far_away[64 * 4096];
int main(void) {
    for (int page = 0; page < 64; page++) zeroed[page * 4096 + 100] = far_away[page * 4096] = 1;
    return 0;
}
";

#[test]
fn variables_that_start_as_zero_have_their_names() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("zeroed.c"), ZEROED).unwrap();
    for flag in ["-no-pie", "-pie"] {
        let build = format!("cc -O1 {flag} -o zeroed zeroed.c");
        if scratch.run("sh", ["-c", &build]).code() != 0 {
            return eprintln!("skipped: no C compiler");
        }
        let record = "record -q -d -e page-faults:u -c 1 -o z.data -- ./zeroed";
        scratch.pmuscope(record.split(' ')).exits(0);
        let json = scratch.pmuscope(["report", "z.data", "--by", "data", "--json"]);
        let json: Value = serde_json::from_str(&json.exits(0).stdout).unwrap();
        let rows = json["rows"].as_array().unwrap();
        for name in ["zeroed", "far_away"] {
            let row = rows.iter().find(|row| row["object"] == name);
            let row = row.unwrap_or_else(|| panic!("{flag}: no {name} in {rows:#?}"));
            assert!(row["module"].as_str().unwrap().ends_with("/zeroed"), "{row}");
            // Large pages take fewer faults; neighbors share the pages at the ends.
            assert!((1..=66).contains(&row["samples"].as_u64().unwrap()), "{row}");
        }
    }
}

#[test]
fn latencies_of_data_are_those_of_each_sample() {
    let path = corpus().recording("quipper_perf.data.weight_struct");
    let json = report(&path, &["--by", "data", "--json"]);
    is_documented("data", &json.exits(0).stdout);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let file = path.to_str().unwrap();
    let listed = Scratch::new().pmuscope(["script", "-i", file, "-F", "weight"]);
    let weights: Vec<f64> =
        listed.stdout.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let largest = rows.iter().filter_map(|row| row["weight_max"].as_f64()).fold(0.0, f64::max);
    assert_eq!(largest, weights.iter().copied().fold(0.0, f64::max));
    let sum = |row: &Value| {
        row["weight_mean"].as_f64().unwrap() * row["weight_of"].as_u64().unwrap() as f64
    };
    let all: f64 = rows.iter().map(sum).sum();
    assert!((all - weights.iter().sum::<f64>()).abs() < 1e-6, "{all}");
    let loads: u64 = rows.iter().map(|row| row["loads"].as_u64().unwrap()).sum();
    assert_eq!(json["samples_with_address"], loads, "they are all loads");
    report(&path, &["--by", "data"]).exits(0).prints("max weight").prints("HITM");
}

#[test]
fn what_was_not_recorded_is_told() {
    let outcome = Scratch::new().pmuscope(["report", "--by", "branch,cpu", "-i", "x"]);
    outcome.exits(2).complains("does not combine with others");
    let path = corpus().recording("quipper_perf.data.weight_struct");
    report(&path, &["--by", "branch"]).exits(1).prints("pmuscope record -b");
    report(&path, &["--by", "branch", "--focus", "x"]).exits(2).complains("--focus");
    let path = corpus().recording("google_autofdo__testdata_test.lbr");
    report(&path, &["--by", "mem"]).exits(1).prints("no data sources");
    report(&path, &["--by", "data"]).exits(1).prints("pmuscope record -d");
}
