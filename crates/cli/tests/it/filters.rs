//! Filters of `report` and `diff`, held against `script` and against perf.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::{Outcome, Scratch, need_perf, need_perf_record, skip_unless};
use crate::json::is_documented;
use crate::recording::{Recording, busy, need_root_clock, rate};

/// Records the whole machine at work.
#[track_caller]
fn record(scratch: &Scratch) {
    let hz = rate(2000);
    let args = ["record", "-a", "-g", "-e", "cpu-clock", "-F", &hz, "-o", "x.data", "--"];
    scratch.pmuscope(args.iter().chain(&busy("0.5"))).exits(0);
}

/// Records a shell and two programs that it starts. Nothing else: a file that another test removes between two readings
/// of the recording has names in the first one only.
#[track_caller]
fn record_processes(scratch: &Scratch) {
    let hz = rate(2000);
    let script = r#""$@" & "$@" & wait"#;
    let args = ["record", "-g", "-e", "cpu-clock", "-F", &hz, "-o", "x.data", "--"];
    let shell = ["sh", "-c", script, "sh"];
    scratch.pmuscope(args.iter().chain(&shell).chain(&busy("0.5"))).exits(0);
}

fn pmuscope(scratch: &Scratch, args: &[&str], filter: &[&str]) -> Outcome {
    scratch.pmuscope([args, filter].concat())
}

/// The first event of `report --json`, and its head.
#[track_caller]
fn report(scratch: &Scratch, filter: &[&str]) -> Value {
    let outcome = pmuscope(scratch, &["report", "-i", "x.data", "--json"], filter);
    outcome.exits(0).is_silent();
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// Samples by (command, function), as `script` lists them one by one.
#[track_caller]
fn by_script(scratch: &Scratch, filter: &[&str]) -> BTreeMap<(String, String), u64> {
    let script = ["script", "-i", "x.data", "--json", "-G", "-F", "comm,sym"];
    let outcome = pmuscope(scratch, &script, filter);
    outcome.exits(0);
    let mut found = BTreeMap::new();
    for line in outcome.stdout.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["type"] == "sample" {
            let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            *found.entry((word(&line["comm"]), word(&line["sym"]))).or_default() += 1;
        }
    }
    found
}

fn by_report(report: &Value) -> BTreeMap<(String, String), u64> {
    let mut found = BTreeMap::new();
    let rows = report["events"][0]["functions"].as_array().unwrap();
    // Functions that only called others have no samples of their own.
    for row in rows.iter().filter(|row| row["samples"].as_u64() > Some(0)) {
        let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let key = (word(&row["command"]), word(&row["function"]));
        *found.entry(key).or_default() += row["samples"].as_u64().unwrap();
    }
    found
}

/// Flags that leave something of the recording: of a thread that has samples, a CPU, a time.
fn filters(scratch: &Scratch) -> Vec<Vec<String>> {
    let script =
        scratch.pmuscope(["script", "-i", "x.data", "--json", "-F", "comm,pid,tid,cpu,time"]);
    let samples: Vec<Value> =
        script.stdout.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let middle = &samples[samples.len() / 2];
    let (pid, tid) = (middle["pid"].to_string(), middle["tid"].to_string());
    let time = |at: usize| {
        let time = samples[at].get("time").and_then(Value::as_u64).unwrap();
        format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
    };
    let times = format!("{},{}", time(samples.len() / 3), time(samples.len() / 2));
    let cpu = middle["cpu"].to_string();
    let comm = middle["comm"].as_str().unwrap();
    // perf 6.1 rejects a list with a repeated name: no output, but exit status 0.
    let comms = if comm == "swapper" { comm.to_owned() } else { format!("{comm},swapper") };
    let flags = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    vec![
        flags(&["--pid", &pid]),
        flags(&["--tid", &tid]),
        flags(&["--comm", &comms]),
        flags(&["--cpu", &cpu]),
        flags(&["--time", &times]),
        flags(&["--time", "10%-40%"]),
        flags(&["--cpu", &cpu, "--time", &times, "--comm", comm]),
    ]
}

#[test]
fn what_is_left_is_what_script_lists() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    record_processes(&scratch);
    let all = report(&scratch, &["--no-inline"])["events"][0]["samples"].as_u64().unwrap();
    for filter in filters(&scratch) {
        let filter: Vec<&str> = filter.iter().map(String::as_str).collect();
        let found = report(&scratch, &[&["--no-inline"], &filter[..]].concat());
        assert_eq!(by_report(&found), by_script(&scratch, &filter), "{filter:?}");
        let kept = &found["recording"]["filter"];
        assert_eq!(kept["samples_kept"], found["events"][0]["samples"], "{filter:?}");
        assert_eq!(kept["samples_read"].as_u64(), Some(all), "{filter:?}");
        assert_eq!(kept["by"].as_array().unwrap().len(), filter.len() / 2, "{filter:?}");
        let rows = found["events"][0]["functions"].as_array().unwrap();
        let shares: f64 = rows.iter().map(|row| row["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{filter:?}: {shares}");
    }
    // Neighboring parts have no sample in common, and together all.
    let parts = ["0%-30%", "30%-60%", "60%-100%", "50%/1", "50%/2"]
        .map(|part| report(&scratch, &["--time", part])["events"][0]["samples"].as_u64().unwrap());
    assert_eq!((parts[..3].iter().sum::<u64>(), parts[3] + parts[4]), (all, all));
    let start = report(&scratch, &["--time", "+0,+0.1"]);
    let duration = start["recording"]["duration_s"].as_f64().unwrap();
    assert!((duration - 0.1).abs() < 1e-6, "{duration}");
}

#[test]
fn perf_leaves_as_much_of_its_recording() {
    skip_unless!(need_perf_record(true));
    let scratch = Scratch::new();
    let hz = rate(2000);
    let args = ["record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", &hz, "-o", "x.data", "--"];
    // It has the times of its first and last sample from its pass for build ids. In that pass perf 6.1 aborts where
    // another recording, as of a test that runs at the same time, has the kernel put ids into all mappings.
    let abort = 128 + rustix::process::Signal::ABORT.as_raw();
    let recorded = |_: &u32| match scratch.run("perf", args.iter().chain(&busy("0.5"))) {
        outcome if outcome.code() == abort => false,
        outcome => outcome.exits(0).code() == 0,
    };
    if (0..5).find(recorded).is_none() {
        return eprintln!("skipped: perf record aborted five times");
    }
    perf_leaves_as_much(&scratch);
}

/// Parts of the time perf knows by the header's first and last sample.
#[test]
fn perf_leaves_as_much_of_our_recording() {
    skip_unless!(need_perf());
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    record(&scratch);
    perf_leaves_as_much(&scratch);
    let recording = Recording::at(scratch.path("x.data"));
    recording
        .perf(&["report", "--stdio", "--no-children", "-g", "none", "--time", "10%-20%"])
        .exits(0);
}

#[track_caller]
fn perf_leaves_as_much(scratch: &Scratch) {
    let recording = Recording::at(scratch.path("x.data"));
    for filter in filters(scratch) {
        let filter: Vec<&str> = filter.iter().map(String::as_str).collect();
        // perf report filters rows, which have samples of several processes; perf script filters samples.
        let args = ["script", "-G", "-F", "tid,time"];
        let mut theirs_args = args.to_vec();
        let comms: Vec<&str> =
            filter.iter().map(|&word| if word == "--comm" { "--comms" } else { word }).collect();
        theirs_args.extend(&comms);
        let theirs = recording.perf(&theirs_args);
        theirs.exits(0);
        let theirs = theirs.stdout.lines().filter(|line| !line.trim().is_empty()).count() as u64;
        let ours = report(scratch, &filter)["events"][0]["samples"].as_u64().unwrap();
        let ours = ours - of_ended_threads(scratch, &filter);
        // perf includes both ends of a slice, we only the one in front.
        let slack = if filter.iter().any(|word| word.contains('%')) { 1 } else { 0 };
        assert!(ours <= theirs && theirs <= ours + slack, "{filter:?}: {ours}, perf {theirs}");
    }
}

/// Samples that a thread had when it had given up its number already: the kernel says -1, and of which
/// process. We name them by the process, perf does not, so `--comms` leaves them out.
#[track_caller]
fn of_ended_threads(scratch: &Scratch, filter: &[&str]) -> u64 {
    if !filter.contains(&"--comm") {
        return 0;
    }
    let listed =
        pmuscope(scratch, &["script", "-i", "x.data", "--json", "-G", "-F", "tid"], filter);
    listed.exits(0);
    let lines = listed.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["type"] == "sample" && line["tid"] == -1).count() as u64
}

#[test]
fn functions_are_chosen_by_a_part_of_their_names() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    record(&scratch);
    let named = |found: &BTreeMap<(String, String), u64>, part: &str| -> u64 {
        found.iter().filter(|((_, name), _)| name.contains(part)).map(|(_, samples)| samples).sum()
    };
    let all = report(&scratch, &["--no-inline"]);
    let some = report(&scratch, &["--no-inline", "--symbol-filter", "division"]);
    let (all_rows, rows) = (by_report(&all), by_report(&some));
    assert!(rows.keys().all(|(_, name)| name.contains("division")), "{rows:?}");
    assert_eq!(named(&rows, "division"), named(&all_rows, "division"));
    assert_eq!(some["recording"]["filter"]["samples_read"], all["events"][0]["samples"]);

    // Under a function is at least what is in it.
    let under = report(&scratch, &["--focus", "division"])["events"][0]["samples"].as_u64();
    assert!(
        under >= Some(named(&rows, "division")) && under < all["events"][0]["samples"].as_u64()
    );
}

#[test]
fn every_form_says_what_was_left_out() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    record(&scratch);
    let asked = "--comm mix-0 --time 0%-100%";
    let filter: Vec<&str> = asked.split(' ').collect();
    let report = |args: &[&str]| {
        let outcome = pmuscope(&scratch, &[&["report", "-i", "x.data"], args].concat(), &filter);
        outcome.exits(0);
        outcome
    };
    report(&[]).is_silent().prints("kept ").prints(asked).prints("mix-0");
    report(&["--call-tree"]).is_silent().prints(asked);
    report(&["--by", "comm,cpu"]).is_silent().prints(asked);
    for args in [&["--json"][..], &["--json", "--by", "cpu"]] {
        let kind = if args.len() == 1 { "report" } else { "rows" };
        is_documented(kind, &report(args).is_silent().stdout);
    }
    report(&["--format", "html"]).is_silent().prints(asked).prints("<dt>Filter</dt>");
    report(&["--format", "svg"]).is_silent().prints(asked);
    for format in ["csv", "folded"] {
        report(&["--format", format]).complains("note: kept ").complains(asked);
    }
    let path = scratch.path("x.pb");
    report(&["--format", "pprof", "-o", path.to_str().unwrap()]);
    let unpacked = scratch.run("sh", ["-c", "gzip -dc < x.pb | grep -ac -e '--comm mix-0'"]);
    unpacked.exits(0).prints("1");

    let diff = |args: &[&str]| {
        let args = [&["diff", "x.data", "x.data"], args].concat();
        let outcome = pmuscope(&scratch, &args, &filter);
        outcome.exits(0).is_silent();
        outcome
    };
    diff(&[]).prints(asked).prints("mix-0");
    is_documented("diff", &diff(&["--json"]).stdout);
}

#[test]
fn a_filter_that_leaves_nothing_says_why_and_what_there_is() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    record(&scratch);
    let report = |filter: &[&str]| {
        let outcome = pmuscope(&scratch, &["report", "-i", "x.data"], filter);
        outcome.exits(1).prints("no samples");
        outcome
    };
    report(&["--comm", "nobody"]).complains("--comm nobody: found: ").complains("), ");
    let both = report(&["--comm", "mix-0", "--time", "0,0.5"]);
    both.complains("--comm mix-0: alone leaves").complains("--time 0,0.5: the samples are of ");
    report(&["--symbol-filter", "no_such_function"]).complains("--by function --limit all");
    let json = scratch.pmuscope(["report", "-i", "x.data", "--json", "--pid", "-7"]);
    assert_eq!(json.code(), 2, "{json}");
    let wrong = |args: &[&str], why| {
        pmuscope(&scratch, &["report", "-i", "x.data"], args).exits(2).complains(why);
    };
    wrong(&["--time", "5"], "START,STOP in seconds");
    wrong(&["--time", "40%-10%"], "10%-40%");
    wrong(&["--node", "77"], "has no node 77; it has 0");
    wrong(&["-e", "cycles"], "the recording has no event \"cycles\"");
}
