//! Answers of `pmuscope watch --input`, of recordings whose writes are all known.

use pmuscope_perfdata::watch::{ArmedBlock, HitCost, ValueKind, WatchTarget};

use crate::harness::Scratch;
use crate::json::is_documented;
use pmuscope_testkit::hit_file::{CODE, Recording, START, Write};

/// A line of eight words; two threads write one each, a hundred times a second while it is armed.
pub(crate) fn line() -> Recording {
    let write = |at: u64| Write {
        time: at * 1_000_000,
        pid: 100,
        tid: 101 + (at % 2) as u32,
        ip: CODE + 0x10,
        point: 4 * (at % 2) as u32,
        value: at / 2,
        is_kept: !at.is_multiple_of(10),
    };
    let names = [(100, 100, "main"), (100, 101, "one"), (100, 102, "two")];
    let recording = Recording {
        writes: (0..1000).map(write).collect(),
        names: names.map(|(pid, tid, name)| (pid, tid, name.to_owned())).to_vec(),
        scope: "process 100",
        ..Recording::default()
    };
    let mut recording = recording.target(WatchTarget {
        name: "counters".into(),
        type_name: "struct counters".into(),
        value: ValueKind::Other,
        declared: Some(("/src/counters.c".into(), 7)),
        address: 0x7000_0040,
        bytes: 64,
        ..WatchTarget::default()
    });
    recording.info.when = Some("new != 0".into());
    recording.info.lost = vec![0; 8];
    recording.info.hit_cost = Some(HitCost { ns: 2000.0, margin_ns: Some(50.0), n: 20 });
    recording.info.blocks = (0..50)
        .map(|at| ArmedBlock {
            from_ns: START + at * 20_000_000,
            until_ns: START + (at + 1) * 20_000_000,
            armed_ns: 5_000_000,
            hits: vec![10, 0, 0, 0, 10, 0, 0, 0],
            cpu_ns: Some(20_000_000),
            armed_cpu_ns: Some(5_000_000),
            ..ArmedBlock::default()
        })
        .collect();
    recording
}

#[test]
fn a_kept_recording_is_told_again_in_all_forms() {
    let scratch = Scratch::new();
    line().write(&scratch.path("x.data"));
    let text = scratch.pmuscope(["watch", "--input", "x.data"]).exits(0).stdout.clone();
    for expected in [
        "writes of counters, process 100, 1.00 s, 1,000 hits counted, ~4,012 ± 12 in total    x.data",
        "every counted hit with new != 0 recorded",
        "estimate: false sharing",
        "101 one",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let json = scratch.pmuscope(["watch", "--input", "x.data", "--json"]).exits(0).stdout.clone();
    is_documented("watch", &json);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let target = &value["targets"][0];
    assert_eq!(
        (&target["hits"], &target["records"], &target["passed"]),
        (&1000.into(), &900.into(), &900.into())
    );
    assert_eq!(value["cache_lines"][0]["verdict"], "false_sharing");
    for (file, comma) in [("x.csv", ","), ("x.tsv", "\t")] {
        scratch.pmuscope(["watch", "--input", "x.data", "-o", file]).exits(0).is_silent();
        let table = std::fs::read_to_string(scratch.path(file)).unwrap();
        let heads =
            "target,function,file,line,inlined_into,module,address,hits,changed,plus_one,passed";
        let (first, rows) = table.split_once('\n').unwrap();
        assert_eq!(first, heads.replace(',', comma));
        assert_eq!(rows.lines().count(), target["places"].as_array().unwrap().len());
        assert!(rows.starts_with(&format!("counters{comma}")), "{table}");
    }
    let page = ["watch", "--input", "x.data", "-o", "x.html"];
    scratch.pmuscope(page).exits(0).is_silent();
    let old = ["watch", "--input", "x.data", "--report", "old.html", "-o", "again.csv"];
    scratch.pmuscope(old).exits(0).complains("note: --report is now -o").prints_nothing();
    assert!(scratch.path("old.html").exists() && scratch.path("again.csv").exists());
    let recording = scratch.pmuscope(["watch", "--input", "x.data", "-o", "y.data"]);
    recording.exits(2).complains("-i reads a recording and makes none. Try: -o w.html");
    let page = std::fs::read_to_string(scratch.path("x.html")).unwrap();
    assert!(page.contains("struct counters") && page.contains("class=\"bars\""), "{page}");
}

#[test]
fn what_is_kept_takes_no_flags_of_watching() {
    let scratch = Scratch::new();
    line().write(&scratch.path("x.data"));
    for flag in [
        &["--when", "new > 1"][..],
        &["--when-changed"],
        &["--count-only"],
        &["--timeout", "100"],
        &["--max-stack", "32"],
        &["--max-records", "100000"],
        &["--max-slowdown", "10"],
    ] {
        let refused = scratch.pmuscope([&["watch", "-i", "x.data"], flag].concat());
        refused.exits(2).complains("cannot be used with").complains(flag[0]).prints_nothing();
    }
}

#[test]
fn what_is_missing_has_its_status() {
    let scratch = Scratch::new();
    Recording { killed: true, ..line() }.write(&scratch.path("killed.data"));
    let killed = scratch.pmuscope(["watch", "--input", "killed.data"]);
    assert_eq!(killed.code(), 1, "{}", killed.stderr);
    assert!(killed.stdout.contains("≥ 900"), "{}", killed.stdout);
    Recording { foreign: true, ..line() }.write(&scratch.path("foreign.data"));
    let foreign = scratch.pmuscope(["watch", "--input", "foreign.data"]);
    assert_eq!(foreign.code(), 2, "{}", foreign.stdout);
    assert!(foreign.stderr.contains("Try: pmuscope report foreign.data"), "{}", foreign.stderr);
    let name = scratch.pmuscope(["watch", "--input", "killed.data", "--report", "x.pdf"]);
    assert_eq!(name.code(), 2, "{}", name.stdout);
    assert!(name.stderr.contains(".html") && !scratch.path("x.pdf").exists(), "{}", name.stderr);
}
