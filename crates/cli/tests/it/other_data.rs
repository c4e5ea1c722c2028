//! Recordings that hold something else than samples: every command says what, and what reads it.

use std::path::{Path, PathBuf};

use pmuscope_abi::record::RecordBuilder;
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type};
use pmuscope_perfdata::writer::FileEvent;
use pmuscope_testkit::corpus::corpus;

use crate::crafted::{PID, at, begin, sample, write};
use crate::harness::{Scratch, need_perf, skip_unless};

/// Kinds of records of perf's tools: a hardware trace, which has its bytes after the record, and a count.
const AUXTRACE: u32 = 71;
const STAT: u32 = 76;

fn event(name: &str) -> FileEvent {
    let attr = Attr {
        event_type: event_type::HARDWARE,
        sample: 4000,
        sample_type: SampleType::IDENTIFIER | SampleType::IP | SampleType::TID | SampleType::TIME,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    FileEvent { attr, name: name.into(), ids: [1].into() }
}

/// Of a file without samples: each command names what it holds and the command that reads it, and fails.
#[track_caller]
fn says_what_it_holds(scratch: &Scratch, file: &Path, holds: &str, reads: &str) {
    let file = file.to_str().unwrap();
    for (args, status) in [
        (&["report", "-i", file][..], 1),
        (&["report", "-i", file, "--by", "cpu"], 1),
        (&["report", "-i", file, "--by", "data"], 1),
        (&["report", "-i", file, "-o", "x.html"], 1),
        (&["report", "-i", file, "--json"], 1),
        (&["script", "-i", file], 1),
        (&["metrics", "-i", file], 2),
        (&["diff", file, file], 1),
    ] {
        let outcome = scratch.pmuscope(args);
        outcome.exits(status).complains(holds).complains(reads);
    }
}

#[test]
fn a_file_of_perf_stat_record_holds_counts() {
    let scratch = Scratch::new();
    let task = u64::from(PID) << 32 | u64::from(PID);
    let mut data = Vec::new();
    begin(&mut data, &[task, 1, 1]);
    RecordBuilder::new(&mut data, STAT, 0).u64(1).u64(0).u64(2).u64(3).u64(4).finish();
    let path = scratch.path("stat.data");
    write(&path, &[event("cycles")], &data);
    says_what_it_holds(&scratch, &path, "counts of perf stat record", "Try: pmuscope stat");
    skip_unless!(need_perf());
    let args = ["stat", "record", "-e", "task-clock", "-o", "perf.data", "--", "true"];
    scratch.run("perf", args).exits(0);
    let path = scratch.path("perf.data");
    let report = scratch.pmuscope(["report", "-i", "perf.data"]);
    assert_eq!(report.stdout.matches("no samples").count(), 0, "{report}");
    says_what_it_holds(&scratch, &path, "counts of perf stat record", "Try: pmuscope stat");
}

#[test]
fn a_hardware_trace_is_not_decoded() {
    let scratch = Scratch::new();
    let task = u64::from(PID) << 32 | u64::from(PID);
    let mut data = Vec::new();
    begin(&mut data, &[task, 1, 1]);
    let trace = RecordBuilder::new(&mut data, AUXTRACE, 0).u64(4096).u64(0).u64(0);
    trace.u32(0).u32(0).u32(0).u32(0).finish();
    data.extend([0; 4096]);
    let path = scratch.path("trace.data");
    write(&path, &[event("intel_pt//")], &data);
    says_what_it_holds(
        &scratch,
        &path,
        "a hardware trace (4 KiB of AUX data)",
        "perf inject --itrace",
    );
    // With samples in the same file, those are shown and a note names the trace.
    sample(&mut data, true, &[1, 0x10, task, 5]);
    write(&path, &[event("intel_pt//")], &data);
    let report = scratch.pmuscope(["report", "-i", "trace.data"]);
    report.exits(0).prints("1 sample").prints("is not decoded");
    scratch.pmuscope(["script", "-i", "trace.data"]).exits(0).is_silent();
}

/// A trace of 2.89 EiB, and a header that promises as much.
#[test]
fn sizes_beyond_any_file_are_corrupt() {
    let scratch = Scratch::new();
    let task = u64::from(PID) << 32 | u64::from(PID);
    let mut data = Vec::new();
    begin(&mut data, &[task, 1, 1]);
    sample(&mut data, true, &[1, 0x10, task, 5]);
    let trace = RecordBuilder::new(&mut data, AUXTRACE, 0).u64(0x2900_0000_0000_0000);
    trace.u64(0).u64(0).u32(0).u32(0).u32(0).u32(0).finish();
    let path = scratch.path("x.data");
    write(&path, &[event("cycles")], &data);
    let report = scratch.pmuscope(["report", "-i", "x.data"]);
    report.exits(1).prints("corrupt or cut off").prints("1 sample");
    assert!(!report.stdout.contains("AUX data"), "{report}");
    scratch.pmuscope(["script", "-i", "x.data"]).exits(1).complains("corrupt or cut off");
    data.truncate(data.len() - 48);
    write(&path, &[event("cycles")], &data);
    let mut file = std::fs::read(&path).unwrap();
    file[48..56].copy_from_slice(&0x2900_0000_0000_0000_u64.to_ne_bytes()); // data.size
    std::fs::write(&path, file).unwrap();
    let report = scratch.pmuscope(["report", "-i", "x.data"]);
    report.exits(1).prints("corrupt: the header says");
    assert!(!report.stdout.contains("truncated:"), "{report}");
    scratch.pmuscope(["script", "-i", "x.data"]).exits(1).complains("corrupt: the header says");
}

#[test]
fn no_name_at_all_is_for_the_view_of_modules() {
    let scratch = Scratch::new();
    let task = u64::from(PID) << 32 | u64::from(PID);
    let mut data = Vec::new();
    begin(&mut data, &[task, 1, 1]);
    sample(&mut data, false, &[1, at(0, 4), task, 5]);
    write(&scratch.path("x.data"), &[event("cycles")], &data);
    let annotate = scratch.pmuscope(["report", "-i", "x.data", "--annotate", "main"]);
    annotate.exits(2).complains("no sample of this recording has a function's name");
    annotate.complains("pmuscope report --modules");
}

/// Real ones, of Intel PT, in a file and in a stream; both have samples, too.
#[test]
fn real_traces_are_named() {
    let scratch = Scratch::new();
    let traced = |path: &&PathBuf| corpus().row(path)["record_counts"].contains("AUXTRACE=");
    let recordings = corpus().recordings();
    let traced: Vec<&PathBuf> = recordings.iter().filter(traced).collect();
    assert!(!traced.is_empty());
    for path in traced {
        let outcome = scratch.pmuscope(["report", "-i", path.to_str().unwrap()]);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        // Lines of text are wrapped.
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("hardware trace"), "{outcome}");
    }
}
