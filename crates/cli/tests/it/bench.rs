//! Benchmarks, what they keep, and how it compares.

use serde_json::Value;

use crate::harness::{Scratch, need_perf, need_root, skip_unless};

/// A benchmark of a few short runs.
const SHORT: [&str; 8] =
    ["bench", "capture", "--seconds", "0.05", "--size", "64", "--threads", "1"];

/// Twice each, at a rate that any machine allows.
const TWICE: [&str; 4] = ["-r", "2", "-F", "5000"];

fn json(scratch: &Scratch, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(scratch.path(name)).unwrap()).unwrap()
}

/// Numbers of a figure of an arm, in the order of runs.
fn numbers(file: &Value, arm: &str, metric: &str) -> Vec<f64> {
    let series = file["series"].as_array().unwrap().iter();
    let mut of = series.filter(|s| s["labels"]["arm"] == arm && s["metric"] == metric);
    let values = of.next().unwrap_or_else(|| panic!("no {metric} of {arm}"))["values"].clone();
    assert!(of.next().is_none(), "{metric} of {arm} twice");
    values.as_array().unwrap().iter().filter_map(|value| value["value"].as_f64()).collect()
}

#[test]
fn capture_keeps_every_figure_of_every_run() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let tmp = scratch.path("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let more = ["--arms", "DEFAULT,AIO1-CPU", "--seed", "1", "--json=runs.json", "--tmp", "tmp"];
    let bench = scratch.pmuscope(SHORT.iter().chain(&TWICE).chain(&more));
    bench.exits(0).prints("AIO1-CPU").prints("seconds 0.05, threads 1");
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0, "recordings are left");

    let file = json(&scratch, "runs.json");
    assert_eq!((&file["schema"], &file["status"]), (&"pmuscope/runs/1".into(), &0.into()));
    assert_eq!(file["seed"], "1");
    assert!(file["environment"]["load_average"].is_array());
    let runs = file["runs"].as_array().unwrap();
    let rounds: Vec<u64> = runs.iter().map(|run| run["round"].as_u64().unwrap()).collect();
    assert_eq!(rounds, [0, 0, 0, 1, 1, 1]);
    for arm in ["BASE", "AIO1-CPU", "DEFAULT"] {
        for metric in ["time", "wall", "max_rss", "minor_faults", "mops"] {
            let numbers = numbers(&file, arm, metric);
            assert!(numbers.len() == 2 && numbers.iter().all(|n| *n > 0.0), "{arm} {metric}");
        }
    }
    for arm in ["AIO1-CPU", "DEFAULT"] {
        for metric in ["tool_cpu", "samples", "file_size", "us_per_sample", "bytes_per_sample"] {
            let numbers = numbers(&file, arm, metric);
            assert!(numbers.len() == 2 && numbers.iter().all(|n| *n > 0.0), "{arm} {metric}");
        }
        assert_eq!(numbers(&file, arm, "lost"), [0.0, 0.0]);
    }
    let of = |name: &str| {
        file["series"].as_array().unwrap().iter().position(|s| s["labels"]["arm"] == name)
    };
    assert!(of("BASE") < of("AIO1-CPU") && of("AIO1-CPU") < of("DEFAULT"), "order of the table");
}

#[test]
fn perf_is_measured_by_the_same_measure() {
    skip_unless!(need_root());
    skip_unless!(need_perf());
    let scratch = Scratch::new();
    // Without build ids: perf 6.1 may abort over them (docs/recording.md).
    let more = ["--arms", "PERF-SERIAL-SYS,PERF-THREADS-CPU", "--json=runs.json"];
    let bench = scratch.pmuscope(SHORT.iter().chain(&TWICE).chain(&more));
    assert!(
        [0, 1].contains(&bench.code()) && bench.stdout.contains("PERF-SERIAL-SYS  "),
        "{bench}"
    );
    let file = json(&scratch, "runs.json");
    let samples = numbers(&file, "PERF-SERIAL-SYS", "samples");
    let bytes = numbers(&file, "PERF-SERIAL-SYS", "file_size");
    for (samples, bytes) in samples.iter().zip(&bytes) {
        assert!(*samples > 0.0 && bytes / samples > 40.0, "{samples} samples in {bytes} bytes");
    }
    assert!(numbers(&file, "PERF-SERIAL-SYS", "tool_cpu").iter().all(|s| *s > 0.0));
    // A perf older than 5.17 has no such arm; then the status says that something is missing.
    if bench.code() == 0 {
        assert!(numbers(&file, "PERF-THREADS-CPU", "samples").iter().all(|n| *n > 0.0));
    }
}

#[test]
fn figures_of_any_program_are_found_in_what_it_prints() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let args = [
        "bench",
        "capture",
        "-r",
        "1",
        "-F",
        "1000",
        "--arms",
        "DEFAULT",
        "--json=runs.json",
        "--time-from",
        "Time = ([0-9.]+)",
        "--metric-from",
        "rows=([0-9]+) rows",
        "--",
        "sh",
        "-c",
        "echo 17 rows; echo Time = 2.5 >&2",
    ];
    scratch.pmuscope(args).exits(0).prints("rows");
    let file = json(&scratch, "runs.json");
    assert_eq!(numbers(&file, "DEFAULT", "time"), [2.5]);
    assert_eq!(numbers(&file, "BASE", "rows"), [17.0]);
}

#[test]
fn what_cannot_be_run_ends_before_the_first_run() {
    let scratch = Scratch::new();
    let refused = |more: &[&str], code: i32, why: &str| {
        let bench = scratch.pmuscope(SHORT.iter().chain(more));
        bench.exits(code);
        assert!(bench.stderr.contains(why), "{why}\n{bench}");
        assert!(bench.stdout.is_empty(), "{bench}");
    };
    refused(&["--arms", "SIDEWAYS"], 2, "unknown arm SIDEWAYS. Try: BASE, SERIAL-SYS");
    refused(&["-F", "999999999"], 3, "kernel.perf_event_max_sample_rate=999999999");
    refused(&["--json=/nonexistent/runs.json"], 2, "cannot write /nonexistent/runs.json");
    refused(&["--tmp", "/nonexistent"], 2, "Try: --tmp DIR");
    refused(&["--time-from", "seconds"], 2, "Try: parentheses around the number");
    refused(&["-r", "0"], 2, "at least one round");
    if need_root().is_none() {
        let missing = ["--arms", "DEFAULT", "--", "/nonexistent/program"];
        refused(&missing, 2, "cannot start /nonexistent/program");
    }
}

#[test]
fn a_signal_keeps_what_is_done() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let program = env!("CARGO_BIN_EXE_pmuscope");
    let script = format!(
        "{program} bench capture --arms DEFAULT -r 1000 -F 1000 --json=runs.json -- sleep 0.2 &
         until [ \"$(grep -c '\"round\"' runs.json)\" -ge 2 ]; do sleep 0.1; done
         kill -INT $!; wait $!"
    );
    let bench = scratch.run("sh", ["-c", &script]);
    bench.exits(1).prints("interrupted");
    let file = json(&scratch, "runs.json");
    assert_eq!((&file["status"], &file["why"]), (&Value::Null, &"interrupted".into()));
    assert!(file["runs"].as_array().unwrap().len() >= 2);
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("doctor.json"), r#"{"schema": "pmuscope/doctor/1"}"#).unwrap();
    let compare = scratch.pmuscope(["compare", "doctor.json"]);
    compare.exits(2);
    assert!(compare.stderr.contains("Run files are written by bench, stat and sweep"), "{compare}");
}

/// Processes add up, and each has an order of its own.
#[test]
fn the_function_mix_runs_in_several_processes() {
    let scratch = Scratch::new();
    let mix = ["workload", "function-mix", "--memory", "1", "--processes", "3", "--json"];
    let all = scratch.pmuscope(mix.iter().chain(&["--rounds", "4", "--threads", "2"]));
    all.exits(0).is_silent();
    let facts: Value = serde_json::from_str(&all.stdout).unwrap();
    assert_eq!((&facts["threads"], &facts["mix"]["processes"]), (&6.into(), &3.into()));
    assert_eq!((&facts["mix"]["rounds"], &facts["mix"]["deepest"]), (&24.into(), &3.into()));
    let calls = |of: &Value| of["calls"].as_u64().unwrap();
    let functions = facts["mix"]["functions"].as_array().unwrap();
    assert!(functions.len() >= 8 && functions.iter().all(|of| calls(of) % 24 == 0), "{all}");

    let only = scratch.pmuscope(mix.iter().chain(&["--rounds", "1", "--only", "nops"]));
    let facts: Value = serde_json::from_str(&only.exits(0).stdout).unwrap();
    let functions = facts["mix"]["functions"].as_array().unwrap();
    let called: Vec<&Value> = functions.iter().filter(|of| calls(of) > 0).collect();
    assert_eq!((called.len(), &called[0]["name"]), (1, &"nops".into()));

    let refused = |more: [&str; 2], why: &str| {
        let all = scratch.pmuscope(["workload", "function-mix", "--rounds=1"].iter().chain(&more));
        all.exits(2).complains(why).prints_nothing();
    };
    refused(["--only", "nop"], "use 1 to 10, or fp_division, int_division");
    refused(["--processes", "0"], "--processes 0: use 1 to 1024");
    refused(["--length", "1000"], "--length 1000: use a factor up to 100");
}

#[test]
fn a_workload_tells_what_it_did() {
    let scratch = Scratch::new();
    let mix = scratch.pmuscope(["workload", "share-mix", "--seconds", "0.1", "--json"]);
    mix.exits(0).is_silent();
    let facts: Value = serde_json::from_str(&mix.stdout).unwrap();
    let shares: f64 =
        facts["functions"].as_array().unwrap().iter().map(|f| f["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9);
    let stencil = ["workload", "stencil", "--steps", "3", "--size", "8", "--threads", "2"];
    scratch.pmuscope(stencil).exits(0).prints("Steps = 3\n").prints("Time in seconds = ");
}

#[test]
fn the_status_of_a_wrapped_program_is_passed_on() {
    let scratch = Scratch::new();
    let wrap = |words: &[&str]| {
        let args = ["workload", "command", "--json=facts.json", "--"];
        scratch.pmuscope(args.iter().chain(words))
    };
    wrap(&["sh", "-c", "echo hello; exit 7"]).exits(7).prints("hello");
    assert_eq!(json(&scratch, "facts.json")["workload"], "command");
    wrap(&["sh", "-c", "kill -9 $$"]).exits(137);
    wrap(&["/nonexistent/program"]).exits(127);
    wrap(&["/etc/passwd"]).exits(126);
}
