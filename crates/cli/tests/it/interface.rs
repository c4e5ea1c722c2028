//! What other programs depend on is held to lists in `tests/interface`: fields of JSON, columns of CSV and TSV. The
//! flags of all commands are held to one by the program itself (`src/interface.rs`).
//!
//! Where a change is meant, say it in CHANGELOG.md and run these tests with PMUSCOPE_WRITE_LISTS=1.

use std::collections::BTreeSet;
use std::path::Path;

use crate::harness::{Scratch, need_root, skip_unless};
use crate::json::documented_by_schema;

/// Fails for lines that the list lacks, and for those that it has beyond `found`.
#[track_caller]
fn is_the_list(file: &str, found: &BTreeSet<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interface").join(file);
    if std::env::var_os("PMUSCOPE_WRITE_LISTS").is_some() {
        let lines: Vec<&str> = found.iter().map(String::as_str).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    }
    let list = std::fs::read_to_string(&path).unwrap();
    let list: BTreeSet<String> = list.lines().map(str::to_owned).collect();
    let lost: Vec<&String> = list.difference(found).collect();
    let new: Vec<&String> = found.difference(&list).collect();
    assert!(
        lost.is_empty() && new.is_empty(),
        "{file}: lost {lost:#?}, new {new:#?}. Say it in CHANGELOG.md, then run this test with \
         PMUSCOPE_WRITE_LISTS=1"
    );
}

#[test]
fn fields_of_json_are_those_of_the_list() {
    is_the_list("json.txt", &documented_by_schema());
}

/// Columns of a table as CSV and as TSV have them: the same.
#[track_caller]
fn columns(scratch: &Scratch, args: &[&str]) -> String {
    let first = |format: &str| {
        let outcome = scratch.pmuscope(args.iter().copied().chain(format.split(' ')));
        assert!(matches!(outcome.code(), 0 | 1), "{outcome}");
        outcome.stdout.lines().next().unwrap_or_default().to_owned()
    };
    if args[0] == "script" {
        return format!("{}: {}", args.join(" "), first("--csv"));
    }
    let (csv, tsv) = if args[0] == "compare" {
        (first("--csv"), first("--tsv"))
    } else {
        (first("--format csv"), first("--format tsv"))
    };
    assert_eq!(tsv.replace('\t', ","), csv, "{args:?}");
    format!("{}: {csv}", args.join(" "))
}

#[test]
fn columns_of_csv_are_those_of_the_list() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let record = |file: &str, flags: &[&str]| {
        let work =
            ["--", env!("CARGO_BIN_EXE_pmuscope"), "workload", "share-mix", "--seconds", "0.3"];
        let flags = [&["record", "-o", file, "-F", "2000"], flags, &work].concat();
        scratch.pmuscope(flags).exits(0);
    };
    record("a.data", &["-e", "cpu-clock", "-g"]);
    record("b.data", &["-e", "cpu-clock"]);
    for file in ["a.json", "b.json"] {
        let json = format!("--json={file}");
        scratch.pmuscope(["stat", &json, "-r", "2", "-e", "page-faults", "--", "true"]).exits(0);
    }
    let waits = ["record", "--off-cpu", "-o", "waits.data", "--", "sleep", "0.1"];
    scratch.pmuscope(waits).exits(0);
    record("group.data", &["-e", "{cpu-clock,page-faults}:S"]);

    let tables: &[&[&str]] = &[
        &["list", "software"],
        &["numa", "show"],
        &["numa", "simulate", "--runs", "1"],
        &["top", "--once", "-e", "cpu-clock", "-d", "200ms"],
        &["top", "--once", "-e", "cpu-clock", "-d", "200ms", "--by", "cpu"],
        &["report", "-i", "a.data"],
        &["report", "-i", "a.data", "--by", "command,cpu"],
        &["report", "-i", "a.data", "--by", "module", "--group"],
        &["report", "-i", "waits.data", "--by", "wait"],
        &["script", "-i", "a.data"],
        &["metrics", "-i", "group.data"],
        &["compare", "a.json", "b.json"],
        &["stat", "-a", "-e", "page-faults", "--timeout", "100ms"],
        &["stat", "-a", "-e", "page-faults", "-I", "50ms", "--interval-count", "1"],
        &["sweep", "-a", "-e", "^page-faults$", "--slice", "0.1s", "-r", "1"],
        &["bench", "region", "--entries", "10", "-r", "2", "-e", "page-faults"],
    ];
    let found = tables.iter().map(|args| columns(&scratch, args)).collect();
    is_the_list("csv.txt", &found);
}
