//! `pmuscope script`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use pmuscope_abi::record::{RecordBuilder, kind};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type};
use pmuscope_perfdata::ClockData;
use pmuscope_perfdata::writer::{Features, FileEvent};

use crate::crafted::{self, PID};
use crate::harness::{Outcome, Scratch, need_perf, skip_unless};
use crate::recording::{busy, need_root_clock, rate};

const PMUSCOPE: &str = env!("CARGO_BIN_EXE_pmuscope");
/// Fields that perf and we print alike, but for spaces.
const FIELDS: &str = "comm,tid,pid,cpu,time,event,ip";

/// Records the whole machine at work with pmuscope.
#[track_caller]
fn record(scratch: &Scratch, flags: &[&str]) {
    let hz = rate(2000);
    let args = ["record", "-a", "-e", "cpu-clock", "-F", &hz, "-o", "x.data"];
    scratch.pmuscope([&args[..], flags, &["--"], &busy("0.4")].concat()).exits(0);
}

/// `perf script ARGS` of a file; `None`, with the reason printed, where perf cannot read it: beside a
/// recording with build ids perf 6.1 dies of its own files.
fn by_perf(file: &Path, args: &[&str]) -> Option<String> {
    let mut command = pmuscope_testkit::perf();
    command.args(["script", "-f", "--ns", "-F", FIELDS]).args(args).arg("-i").arg(file);
    let outcome = Outcome::of(command.env("HOME", "/nonexistent"));
    if outcome.code() != 0 {
        eprintln!("skipped: perf script: {outcome}");
        return None;
    }
    Some(outcome.stdout)
}

/// Samples without regard to spaces and to the order of those of one moment: each a line, with its
/// callers behind. Three things differ on purpose. A thread that has just ended has the id -1; perf calls
/// it so, we by its process: those are left out, and so are names that could drive a terminal, which perf prints as
/// they are: other tests make some. Of callers in programs perf prints offsets in their
/// files, we addresses as recorded: there only their number is compared.
fn normal(text: &str, chains: bool) -> Vec<String> {
    let word = |word: &str| match u64::from_str_radix(word, 16) {
        Ok(address) if chains && word.len() > 2 && address >> 63 == 0 => "user".to_owned(),
        _ => word.to_owned(),
    };
    let words = |text: &str| text.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    let mut samples: Vec<String> = if chains {
        text.split("\n\n").map(words).collect()
    } else {
        text.lines().map(words).collect()
    };
    let is_hostile = |sample: &str| sample.contains(char::is_control) || sample.contains("\\x");
    samples.retain(|sample| !sample.is_empty() && !sample.contains("/-1 ") && !is_hostile(sample));
    samples.sort();
    samples
}

#[track_caller]
fn equal(file: &Path, chains: bool) {
    let perf_args: &[&str] = if chains { &["--no-inline"] } else { &["-G"] };
    let Some(theirs) = by_perf(file, perf_args) else { return };
    let mut command = Command::new(PMUSCOPE);
    command.args(["script", "--ns", "-F", FIELDS]).args(if chains { &[][..] } else { &["-G"] });
    let ours = Outcome::of(command.arg("-i").arg(file));
    ours.exits(0);
    let (mut theirs, mut ours) = (normal(&theirs, chains), normal(&ours.stdout, chains));
    // perf drops a whole chain for one entry that cannot be, as garbage on a stack gives it.
    let dropped: Vec<String> =
        theirs.extract_if(.., |sample| chains && sample.ends_with(':')).collect();
    ours.retain(|sample| !dropped.iter().any(|front| sample.starts_with(front)));
    assert!(theirs.len() > 100, "{}", theirs.len());
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!(theirs, ours);
    }
    assert_eq!(theirs.len(), ours.len());
}

#[test]
fn lines_are_perfs_for_our_recordings() {
    skip_unless!(need_perf());
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    record(&scratch, &[]);
    equal(&scratch.path("x.data"), false);
    record(&scratch, &["-g"]);
    equal(&scratch.path("x.data"), true);
}

#[test]
fn lines_are_perfs_for_perfs_recordings() {
    skip_unless!(need_perf());
    skip_unless!(need_root_clock());
    for (chains, flags) in [(false, &["-e", "cpu-clock,page-faults"][..]), (true, &["-g"])] {
        let scratch = Scratch::new();
        let hz = rate(2000);
        let mut args = vec!["record", "-q", "-B", "-N", "-a", "-e", "cpu-clock", "-F", &hz];
        args.extend(flags);
        args.extend(["-o", "x.data", "--"]);
        args.extend(busy("0.4"));
        scratch.run("perf", args).exits(0);
        equal(&scratch.path("x.data"), chains);
    }
}

#[test]
fn filters_fields_and_forms() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    record(&scratch, &["-g"]);
    let script = |args: &[&str]| scratch.pmuscope([&["script", "-i", "x.data"], args].concat());
    let all = script(&["--json", "--ns"]);
    let lines: Vec<serde_json::Value> =
        all.exits(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["schema"], "pmuscope/script/1");
    assert_eq!(lines[0]["type"], "recording");
    let samples: Vec<&serde_json::Value> =
        lines.iter().filter(|line| line["type"] == "sample").collect();
    assert!(samples.len() > 100);
    let named = samples.iter().filter(|sample| sample["sym"].is_string()).count();
    assert!(named * 2 > samples.len(), "{named} of {}", samples.len());
    assert!(samples.iter().any(|sample| sample["callchain"][1]["ip"].is_string()));

    // Each value that occurs, alone, adds up to all.
    let cpus: BTreeSet<u64> =
        samples.iter().map(|sample| sample["cpu"].as_u64().unwrap()).collect();
    let lines_of = |args: &[&str]| {
        let args = [&["-G", "-F", "comm,pid,tid,cpu,time"], args].concat();
        script(&args).exits(0).stdout.lines().count()
    };
    let by_cpu: usize = cpus.iter().map(|cpu| lines_of(&["-C", &cpu.to_string()])).sum();
    assert_eq!(by_cpu, samples.len());
    // The kernel gives -1 for a thread that is ending.
    let tid = samples.iter().find_map(|sample| sample["tid"].as_i64().filter(|tid| *tid >= 0));
    let tid = tid.unwrap();
    let expected = samples.iter().filter(|sample| sample["tid"].as_i64() == Some(tid)).count();
    assert_eq!(lines_of(&["--tid", &tid.to_string()]), expected);
    let comm = samples[0]["comm"].as_str().unwrap();
    let expected = samples.iter().filter(|sample| sample["comm"] == comm).count();
    assert_eq!(lines_of(&["--comm", comm]), expected);
    let middle = samples[samples.len() / 2]["time"].as_u64().unwrap();
    let time = format!("{}.{:09},", middle / 1_000_000_000, middle % 1_000_000_000);
    let after = samples.iter().filter(|sample| sample["time"].as_u64() >= Some(middle)).count();
    assert_eq!(lines_of(&["--time", &time]), after);
    assert_eq!(lines_of(&["-e", "cpu-clock"]), samples.len());

    let csv = script(&["--csv", "-F", "comm,tid,ip,sym"]);
    csv.exits(0).prints("comm,tid,ip,sym,callchain\n");
    assert_eq!(csv.stdout.lines().count(), samples.len() + 1);
    let form = |file: &str| script(&["-F", "comm,tid,ip,sym", "-o", file]);
    form("x.csv").exits(0).is_silent();
    assert_eq!(std::fs::read_to_string(scratch.path("x.csv")).unwrap(), csv.stdout);
    if cfg!(feature = "parquet") {
        form("x.parquet").exits(0).is_silent();
        let bytes = std::fs::read(scratch.path("x.parquet")).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    } else {
        form("x.parquet").exits(3).complains("built without Parquet");
        assert!(!scratch.path("x.parquet").exists());
    }
    form("x.docx").exits(2).complains("Try: one of .txt, .json, .jsonl, .csv, .parquet");
    script(&["--show-task-events"]).exits(0).prints("PERF_RECORD_COMM").prints("PERF_RECORD_FORK");
    script(&["--show-all"]).exits(0).prints("PERF_RECORD_MMAP2");
    let dump = script(&["-D"]);
    dump.exits(0).prints("# event 1: cpu-clock").prints("sample_type ").prints("SAMPLE (9) misc");
    dump.prints("HEADER_EVENT_TYPE (65)").prints("FINISHED_ROUND (68)");
}

#[test]
fn what_is_wrong_with_the_arguments_is_told() {
    let scratch = Scratch::new();
    let wrong = |args: &[&str]| scratch.pmuscope([&["script"], args].concat());
    wrong(&["-F", "color"]).exits(2).complains("no field \"color\"; fields are comm, pid, tid");
    wrong(&["--time", "noon"]).exits(2).complains("START,STOP in seconds");
    wrong(&["--json", "--csv"]).exits(2);
    wrong(&[]).exits(2).complains("no recording here");
    wrong(&["-i", "none"]).exits(2).complains("cannot open none");
}

/// A sample of a cgroup with a path and one of a cgroup without, at 5 and 6 µs.
fn write_cgroups(scratch: &Scratch, clock: Option<ClockData>) {
    let fields = SampleType::IDENTIFIER | SampleType::IP | SampleType::TID | SampleType::TIME;
    let attr = Attr {
        event_type: event_type::SOFTWARE,
        sample: 1_000,
        sample_type: fields | SampleType::CGROUP,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let event = FileEvent { attr, name: "cpu-clock".into(), ids: vec![1] };
    let task = u64::from(PID) << 32 | u64::from(PID);
    let mut data = Vec::new();
    crafted::begin(&mut data, &[task, 1, 1]);
    let cgroup = RecordBuilder::new(&mut data, kind::CGROUP, 0).u64(77).name(b"/a.slice/\x1bb");
    cgroup.u64(task).u64(2).u64(1).finish();
    for (cgroup, time) in [(77, 5_000), (78, 6_000)] {
        crafted::sample(&mut data, false, &[1, crafted::at(0, 4), task, time, cgroup]);
    }
    let features = Features { clock, ..Features::default() };
    crafted::write_with(&scratch.path("x.data"), &[event], &data, &features);
}

#[test]
fn cgroups_have_paths_and_time_stamps_a_time_of_day() {
    let scratch = Scratch::new();
    let script =
        |args: &[&str]| scratch.pmuscope([&["script", "-i", "x.data", "-F"], args].concat());
    write_cgroups(&scratch, None);
    script(&["comm,cgroup"]).exits(0).prints(" /a.slice/\\x1bb\n").prints(" unknown\n");
    let rows = script(&["cgroup,cgroup_path", "--json"]);
    rows.exits(0).prints("\"cgroup\":77,\"cgroup_path\":\"/a.slice/\\u001bb\"");
    script(&["tod"])
        .exits(2)
        .complains("no clock data")
        .complains("perf record -k CLOCK_MONOTONIC");
    let clock = ClockData { clockid: 1, wall_ns: 1_700_000_000_000_000_000, clock_ns: 0 };
    write_cgroups(&scratch, Some(clock));
    let day = script(&["tod,time"]);
    day.exits(0).prints("2023-11-1").prints(":20.000005     0.000005:");
    script(&["tod", "--ns"]).exits(0).prints(":20.000005000 ");
    script(&["tod", "--csv"]).exits(0).prints("tod\n1700000000000005000\n");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    record(&scratch, &[]);
    for form in ["", "--json", "--csv", "-D"] {
        let pipe = format!("{PMUSCOPE} script {form} -i x.data | head -c 1 >/dev/null");
        scratch.run("sh", ["-c", &pipe]).exits(0).is_silent();
    }
    let missing = format!("{PMUSCOPE} script -i x.data -e cycles");
    scratch
        .run("sh", ["-c", &missing])
        .exits(2)
        .complains("no event \"cycles\"; it has dummy:u, cpu-clock");
    let piped = format!("{PMUSCOPE} script -i - < x.data | wc -l");
    let lines = scratch.run("sh", ["-c", &piped]);
    let direct = scratch.pmuscope(["script", "-i", "x.data"]).stdout.lines().count();
    assert_eq!(lines.stdout.trim(), direct.to_string());
}
