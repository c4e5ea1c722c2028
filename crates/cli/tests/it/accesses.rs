//! `report --by mem`, `data` and `field` of simulated recordings: who accessed what, held against `sharing` and perf.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::{Scratch, need_perf, skip_unless};
use crate::json::is_documented;
use crate::sharing::recorded;
use pmuscope_testkit::sharing_file::Pmu;

/// What programs get of `report --by BY`.
fn report(scratch: &Scratch, by: &str, more: &[&str]) -> Value {
    let words = [&["report", "x.data", "--by", by, "--json"], more].concat();
    let said = scratch.pmuscope(words);
    let kind = if by.contains("mem") { "memory" } else { "data" };
    is_documented(kind, &said.exits(0).stdout);
    serde_json::from_str(&said.stdout).unwrap()
}

fn rows(found: &Value) -> &[Value] {
    found["rows"].as_array().unwrap()
}

/// The sum of a field over all rows; `None` where it is null in all of them.
fn sum(found: &Value, field: &str) -> Option<u64> {
    let known: Vec<u64> = rows(found).iter().filter_map(|row| row[field].as_u64()).collect();
    (!known.is_empty()).then(|| known.iter().sum())
}

/// Samples of a class in rows by memory level.
fn of_class(found: &Value, class: &str) -> u64 {
    let of = rows(found).iter().filter(|row| row["class"] == class);
    of.map(|row| row["samples"].as_u64().unwrap()).sum()
}

/// Each keys' rows add up to the same numbers, which are those of `sharing`.
#[test]
fn rows_by_anything_add_up_to_what_sharing_counts() {
    for pmu in [Pmu::Pebs, Pmu::Ibs, Pmu::Spe] {
        let scratch = recorded(pmu);
        let said = scratch.pmuscope(["sharing", "x.data", "--json"]);
        let sharing: Value = serde_json::from_str(&said.exits(0).stdout).unwrap();
        let levels = report(&scratch, "mem", &[]);
        let cases = [
            ("data", 1),
            ("data,function", 12),
            ("data,thread", 3),
            ("data,cpu", 3),
            ("data,node", 2),
            ("symbol_daddr,sym,thread,cpu", 12),
        ];
        for (by, least) in cases {
            let found = report(&scratch, by, &[]);
            assert!(rows(&found).len() >= least, "{pmu:?} {by} {}", rows(&found).len());
            for field in ["loads", "stores"] {
                assert_eq!(sum(&found, field), sharing[field].as_u64(), "{pmu:?} {by} {field}");
            }
            let contended = ["local_hitm", "remote_hitm", "local_peer", "remote_peer"];
            let contended: u64 = contended.iter().filter_map(|class| sum(&found, class)).sum();
            assert_eq!(Some(contended), sharing["contended"].as_u64(), "{pmu:?} {by}");
            for class in ["local_hitm", "remote_hitm", "store_l1_hit", "store_l1_miss"] {
                let expected = of_class(&levels, class);
                assert_eq!(sum(&found, class).unwrap_or(0), expected, "{pmu:?} {by} {class}");
            }
        }
        for by in ["mem,function", "mem,node"] {
            let found = report(&scratch, by, &[]);
            assert_eq!(sum(&found, "samples"), sum(&levels, "samples"), "{by}");
            assert_eq!(of_class(&found, "local_hitm"), of_class(&levels, "local_hitm"), "{by}");
        }
    }
}

/// What was not sampled is not 0.
#[test]
fn loads_alone_have_no_stores() {
    let scratch = recorded(Pmu::Pebs);
    let loads = report(&scratch, "data,thread", &["-e", "mem-loads"]);
    assert_eq!((sum(&loads, "stores"), sum(&loads, "store_l1_hit")), (None, None));
    assert!(sum(&loads, "local_hitm") > Some(0));
    let stores = report(&scratch, "data,thread", &["-e", "mem-stores"]);
    assert_eq!((sum(&stores, "loads"), sum(&stores, "local_hitm")), (None, None));
    assert!(sum(&stores, "store_l1_miss") > Some(0));
    // Arm does not say whether a line was modified; where stores went is in no sample of it.
    let peers = report(&recorded(Pmu::Spe), "data", &[]);
    assert_eq!((sum(&peers, "local_hitm"), sum(&peers, "store_l1_hit")), (Some(0), None));
    assert!(sum(&peers, "local_peer") > Some(0) && sum(&peers, "remote_peer") > Some(0));
}

#[test]
fn people_see_who_accessed() {
    let scratch = recorded(Pmu::Pebs);
    let said = scratch.pmuscope(["report", "x.data", "--by", "data,node", "--wide"]);
    let said = said.exits(0).prints("local HITM").prints("remote HITM").prints("store L1 miss");
    said.prints("node").prints("[heap]");
    let said = scratch.pmuscope(["report", "x.data", "--by", "mem,thread", "--wide"]);
    said.exits(0).prints("worker-1").prints("remote").prints("local");
    for (by, why) in [
        ("branch,cpu", "does not combine with others"),
        ("mem,data", "--by data,function, or mem,function"),
        ("data,srcline", "combine with function, command, process, thread, cpu and node only"),
        ("data,wait", "each alone"),
    ] {
        scratch.pmuscope(["report", "x.data", "--by", by]).exits(2).complains(why);
    }
}

/// Numbers of `perf c2c report`'s head, by name.
fn perf_totals(scratch: &Scratch) -> BTreeMap<String, u64> {
    let said = scratch.run("perf", ["c2c", "report", "--stdio", "--no-source", "-i", "x.data"]);
    let text = said.exits(0).stdout.split_once("Trace Event Information").unwrap().1;
    let (text, _) = text.split_once("Global Shared Cache Line Event Information").unwrap();
    let number = |line: &str| {
        let (name, number) = line.split_once(':')?;
        Some((name.trim().to_owned(), number.trim().parse().ok()?))
    };
    text.lines().filter_map(number).collect()
}

#[test]
fn totals_are_those_of_perf_c2c() {
    skip_unless!(need_perf());
    let scratch = recorded(Pmu::Pebs);
    let perf = perf_totals(&scratch);
    let found = report(&scratch, "data", &[]);
    for (name, field) in [
        ("Load Operations", "loads"),
        ("Store Operations", "stores"),
        ("Load Local HITM", "local_hitm"),
        ("Load Remote HITM", "remote_hitm"),
        ("Store L1D Hit", "store_l1_hit"),
        ("Store L1D Miss", "store_l1_miss"),
    ] {
        assert_eq!(sum(&found, field), Some(perf[name]), "{name} {perf:?}");
    }
}

/// Samples by thread and state in other caches, as perf has them with `-s pid,snoop`, which is by thread.
#[test]
fn threads_have_the_hitm_loads_that_perf_mem_gives_them() {
    skip_unless!(need_perf());
    let scratch = recorded(Pmu::Pebs);
    let sort = ["--mem-mode", "-n", "-s", "pid,snoop", "--stdio", "-t", "|", "-i", "x.data"];
    let said = scratch.run("perf", [&["report"][..], &sort].concat());
    let mut theirs: BTreeMap<i64, u64> = BTreeMap::new();
    for line in said.exits(0).stdout.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, samples, thread, "HitM"] = cells[..] else { continue };
        let tid = thread.split([' ', ':']).filter_map(|word| word.parse().ok()).next_back();
        *theirs.entry(tid.unwrap()).or_default() += samples.parse::<u64>().unwrap();
    }
    let found = report(&scratch, "data,thread", &[]);
    let hitm =
        |row: &Value| row["local_hitm"].as_u64().unwrap() + row["remote_hitm"].as_u64().unwrap();
    let ours = rows(&found).iter().map(|row| (row["tid"].as_i64().unwrap(), hitm(row)));
    assert_eq!(ours.collect::<BTreeMap<_, _>>(), theirs, "{said}");
    assert_eq!(theirs.len(), 3, "{said}");
}
