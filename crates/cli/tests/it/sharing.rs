//! `pmuscope sharing` of simulated recordings: what it prints, and that stock perf counts the same.

use serde_json::Value;

use crate::harness::{Scratch, need_perf, skip_unless};
use crate::json::is_documented;
use crate::sharing_file::{Pmu, example};
use crate::simulator::{Function, Run, write};

/// A folder with the example as `x.data`.
fn recorded(pmu: Pmu) -> Scratch {
    let scratch = Scratch::new();
    let program = example(pmu);
    program.run().write(&program, &scratch.path("x.data"));
    scratch
}

fn json(scratch: &Scratch, more: &[&str]) -> Value {
    let said = scratch.pmuscope([&["sharing", "x.data", "--json"][..], more].concat());
    serde_json::from_str(&said.exits(0).stdout).unwrap()
}

#[test]
fn a_terminal_shows_lines_then_each_by_offset() {
    let scratch = recorded(Pmu::Pebs);
    let said = scratch.pmuscope(["sharing", "x.data", "--details", "2"]);
    let (_, text) = said.exits(0).stdout.split_once("throttled 0\n").unwrap();
    insta::assert_snapshot!(text.trim_end());
}

#[test]
fn every_form_has_the_lines() {
    let scratch = recorded(Pmu::Pebs);
    let found = scratch.pmuscope(["sharing", "x.data", "--json"]);
    is_documented("sharing", &found.exits(0).stdout);
    let csv = scratch.pmuscope(["sharing", "x.data", "--csv"]);
    let csv = &csv.exits(0).stdout;
    assert!(csv.starts_with("line,offset,object,contended,"), "{csv}");
    assert_eq!(csv.lines().filter(|line| line.starts_with("0x555500000040,")).count(), 6);
    scratch.pmuscope(["sharing", "x.data", "-o", "x.html"]).exits(0);
    let page = std::fs::read_to_string(scratch.path("x.html")).unwrap();
    for part in ["cache line 0x555500000040 of process 4000", "false sharing", "Upper bound"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn lines_may_be_larger() {
    let scratch = recorded(Pmu::Pebs);
    let of = |value: &Value| value["lines"].as_array().unwrap().len();
    assert_eq!(of(&json(&scratch, &[])), 3);
    let pairs = json(&scratch, &["--line-size", "128"]);
    assert_eq!((of(&pairs), pairs["line_bytes"].as_u64()), (2, Some(128)));
    let refused = scratch.pmuscope(["sharing", "x.data", "--line-size", "96"]);
    refused.exits(2).complains("no power of two").complains("Try: 64 or 128");
}

#[test]
fn what_has_no_data_sources_is_refused() {
    let scratch = Scratch::new();
    let functions = vec![Function::plain("a", 50_000.0, 0.5)];
    write(&Run { functions, cycles: 1e6, ..Run::default() }, &scratch.path("w.data"));
    let refused = scratch.pmuscope(["sharing", "w.data"]);
    refused.exits(2).complains("no data addresses with data sources").complains("perf c2c record");
}

/// Rows of perf's table of shared lines: address, then numbers by their column.
fn perf_lines(scratch: &Scratch, more: &[&str]) -> Vec<(u64, Vec<u64>)> {
    let args = [&["c2c", "report", "--stdio", "--no-source", "-i", "x.data"][..], more].concat();
    let said = scratch.run("perf", args);
    let table = said.exits(0).stdout.split_once("Shared Data Cache Line Table").unwrap().1;
    let table = table.split_once("Cache Line Distribution Pareto").unwrap().0;
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let address = u64::from_str_radix(cells.get(1)?.strip_prefix("0x")?, 16).ok()?;
        // Behind index, address, node, changes of the physical address and a percentage.
        let numbers = cells[5..].iter().map(|cell| cell.parse().unwrap()).collect();
        Some((address, numbers))
    };
    table.lines().filter_map(row).collect()
}

/// Columns of that table, and fields that count the same. Total records, total loads and remote memory are not among
/// them: where a load is of another node's cache, perf counts it as one of that node's memory, too.
const SAME: [(usize, &str); 10] = [
    (0, "contended"),
    (5, "stores"),
    (6, "store_l1_hit"),
    (7, "store_l1_miss"),
    (9, "load_fill_buffer"),
    (10, "load_l1"),
    (11, "load_l2"),
    (12, "load_l3"),
    (15, "remote_hitm"),
    (13, "local_hitm"),
];

#[test]
fn perf_c2c_counts_the_same() {
    skip_unless!(need_perf());
    let scratch = recorded(Pmu::Pebs);
    let found = json(&scratch, &[]);
    let perf = perf_lines(&scratch, &[]);
    assert_eq!(perf.len(), 3);
    for (address, numbers) in perf {
        let lines = found["lines"].as_array().unwrap();
        let line = lines.iter().find(|line| line["address"] == format!("{address:#x}")).unwrap();
        for (column, field) in SAME {
            assert_eq!(line[field], numbers[column], "{address:#x} {field}");
        }
    }
}

/// IBS says that a line came from another core by the bits of a remote cache, and that it was of the same node by another
/// field, which perf does not read: all HITM are remote ones there.
#[test]
fn perf_c2c_finds_the_same_lines_of_ibs() {
    skip_unless!(need_perf());
    let scratch = recorded(Pmu::Ibs);
    let found = json(&scratch, &[]);
    let perf = perf_lines(&scratch, &[]);
    assert_eq!(perf.len(), 3);
    for (address, numbers) in perf {
        let lines = found["lines"].as_array().unwrap();
        let line = lines.iter().find(|line| line["address"] == format!("{address:#x}")).unwrap();
        assert_eq!(line["contended"], numbers[0], "{address:#x}");
        assert_eq!(line["stores"], numbers[5], "{address:#x}");
        let (local, remote) = (&line["local_hitm"], &line["remote_hitm"]);
        assert_eq!(local.as_u64().unwrap() + remote.as_u64().unwrap(), numbers[15]);
        assert!(local.as_u64() > Some(0), "{address:#x}");
    }
}
