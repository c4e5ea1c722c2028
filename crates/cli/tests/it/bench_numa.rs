//! `bench numa` on this machine: every workload runs, results are whole, and can be gone on with.

use pmuscope_machine::Machine;
use pmuscope_measure::RunFile;
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::Scratch;

const SHORT: [&str; 8] = ["--seconds", "0.2", "--limit", "0.4", "--hold", "0.2", "-I", "50"];

#[test]
fn small_tests_run_under_every_policy_that_needs_no_right() {
    let scratch = Scratch::new();
    let how =
        ["bench", "numa", "--suite", "guest", "--policies", "best,interleave,as-is", "-r", "1"];
    let outcome = scratch.pmuscope(how.iter().chain(&SHORT).chain(&["--json=numa.json"]));
    outcome.exits(0).prints("converged s").prints("2x3-convergence").prints("PTE updates");
    let text = std::fs::read_to_string(scratch.path("numa.json")).unwrap();
    let file: RunFile = serde_json::from_str(&text).unwrap();
    assert_eq!(file.runs.len(), 8 * 3);
    let numbers = |name: &str| -> Vec<f64> {
        let series = file.series.iter().filter(|series| series.metric == name);
        series.flat_map(pmuscope_measure::Series::numbers).collect()
    };
    assert_eq!(numbers("locality").len(), 24, "{text}");
    assert!(numbers("bytes").iter().all(|&bytes| bytes > 0.0));
    assert!(numbers("user").iter().all(|&seconds| seconds > 0.0));
    if file.parameters["nodes"] == "1" {
        assert!(numbers("locality").iter().all(|&locality| locality == 1.0), "{text}");
    }
    assert_eq!(file.timelines.len(), 24);
    let emulated = !file.machine["surroundings"]["emulator"].is_null();
    for timeline in &file.timelines {
        assert!(!timeline.at_s.is_empty() && timeline.at_s.is_sorted(), "{timeline:?}");
        assert_eq!(timeline.column("speed").len(), if emulated { 0 } else { timeline.at_s.len() });
        let bytes: Vec<f64> = timeline.column("bytes").iter().map(|bytes| bytes.unwrap()).collect();
        assert!(bytes.is_sorted() && bytes.len() == timeline.at_s.len(), "{timeline:?}");
    }
    scratch.pmuscope(["compare", "numa.json", "numa.json"]).exits(0).prints("locality");
}

/// Processes end one after the other once the time is over; a snapshot of those that are left is not the workload's.
#[test]
fn the_last_snapshot_has_all_processes() {
    let scratch = Scratch::new();
    let how = ["bench", "numa", "--suite", "guest", "--policies", "as-is", "-r", "4"];
    let tests = ["--tests", "2x1-bw-process,4x1-convergence", "--json=r.json"];
    let time = ["--seconds", "0.5", "--limit", "0.5", "-I", "10"];
    scratch.pmuscope(how.iter().chain(&tests).chain(&time)).exits(0);
    let text = std::fs::read_to_string(scratch.path("r.json")).unwrap();
    let file: RunFile = serde_json::from_str(&text).unwrap();
    let memory = file.series.iter().filter(|series| series.metric == "memory");
    let memory: Vec<f64> = memory.flat_map(pmuscope_measure::Series::numbers).collect();
    // Two processes with 32 MiB, four with 16 MiB.
    assert_eq!(memory, [67_108_864.0; 8]);
    for timeline in &file.timelines {
        assert!(timeline.column("locality").iter().all(Option::is_some), "{timeline:?}");
    }
}

#[test]
fn what_was_broken_off_is_gone_on_with() {
    let scratch = Scratch::new();
    let how = ["bench", "numa", "--tests", "2x1-bw-process", "--suite", "guest", "-r", "2"];
    let args =
        || how.iter().chain(&["--policies", "as-is"]).chain(&SHORT).chain(&["--json=r.json"]);
    scratch.pmuscope(args()).exits(0);
    let read = || -> RunFile {
        serde_json::from_str(&std::fs::read_to_string(scratch.path("r.json")).unwrap()).unwrap()
    };
    let mut file = read();
    let whole = file.runs.clone();
    // As it was after the first run.
    file.runs.truncate(1);
    file.timelines.truncate(1);
    file.series.iter_mut().for_each(|series| series.values.retain(|value| value.run == 0));
    std::fs::write(scratch.path("r.json"), serde_json::to_string(&file).unwrap()).unwrap();
    scratch.pmuscope(args().chain(&["--resume"])).exits(0);
    let file = read();
    assert_eq!((file.runs.len(), &file.runs[0]), (2, &whole[0]));
    let other = ["bench", "numa", "--tests", "4x1-convergence", "--resume", "--json=r.json"];
    scratch.pmuscope(other).exits(2).complains("it has other tests");
}

#[test]
fn a_run_whose_process_is_killed_is_missing_and_the_others_are_made() {
    let scratch = Scratch::new();
    let how = ["bench", "numa", "--suite", "guest", "--tests", "2x1-bw-process", "-r", "2"];
    let more = ["--policies", "as-is", "--seconds", "2", "--json=r.json"];
    let started = scratch.start(how.iter().chain(&more));
    let machine = Machine::host();
    let mut worker = None;
    started.wait_until(|| {
        worker = machine.children(started.pid()).unwrap_or_default().first().copied();
        worker.is_some()
    });
    let worker = Pid::from_raw(worker.unwrap().cast_signed()).unwrap();
    kill_process(worker, Signal::KILL).unwrap();
    let outcome = started.ends();
    outcome.exits(1).prints("2x1-bw-process under as-is failed: ").prints("SIGKILL");
    let text = std::fs::read_to_string(scratch.path("r.json")).unwrap();
    let file: RunFile = serde_json::from_str(&text).unwrap();
    let made: Vec<bool> = file.runs.iter().map(|run| run.exit == Some(0)).collect();
    assert_eq!(made, [false, true], "{text}");
    assert_eq!(file.timelines.iter().map(|timeline| timeline.run).collect::<Vec<_>>(), [1]);
}

#[test]
fn an_own_suite_is_run_and_what_makes_no_sense_refused() {
    let scratch = Scratch::new();
    let suite = "seconds = 0.2\n[[test]]\nname = \"mine\"\nkind = \"bandwidth\"\nthread = \"1M\"\n";
    std::fs::write(scratch.path("mine.toml"), suite).unwrap();
    let run = ["bench", "numa", "--suite", "mine.toml", "--policies", "as-is", "-r", "1"];
    scratch.pmuscope(run).exits(0).prints("mine");
    std::fs::write(scratch.path("bad.toml"), "color = 1\n").unwrap();
    let of = |args: &[&str]| scratch.pmuscope(["bench", "numa"].iter().chain(args));
    of(&["--suite", "bad.toml"]).exits(2).complains("color");
    of(&["--suite", "none.toml"]).exits(2).complains("quick, standard, full, guest");
    of(&["--tests", "9x9"]).exits(2).complains("there is no test 9x9");
    of(&["--policies", "bind"]).exits(2).complains("weighted-interleave");
    of(&["-r", "0"]).exits(2).complains("-r from 1");
    of(&["--resume"]).exits(2).complains("--json=FILE");
    of(&["--list"]).exits(0).prints("RAM-bw-local");
}

#[test]
fn any_program_is_run_under_policies() {
    let scratch = Scratch::new();
    let script = "sleep 0.3; echo rate 17; echo rate 42";
    let how = ["bench", "numa", "-r", "2", "--policies", "as-is,interleave", "-I", "50"];
    let run = ["--metric-from", "rate=rate ([0-9]+)", "--json=p.json", "--", "sh", "-c", script];
    let shown = scratch.pmuscope(how.iter().chain(&run));
    shown.exits(0).prints("rate").prints("Wall seconds");
    let text = std::fs::read_to_string(scratch.path("p.json")).unwrap();
    let file: RunFile = serde_json::from_str(&text).unwrap();
    let rates = file.series.iter().filter(|series| series.metric == "rate");
    let rates: Vec<f64> = rates.flat_map(pmuscope_measure::Series::numbers).collect();
    assert_eq!(rates, [42.0; 4]);
    let of = |args: &[&str]| scratch.pmuscope(["bench", "numa", "-r", "1"].iter().chain(args));
    let nodes = pmuscope_machine::Machine::host().topology().unwrap().nodes.len();
    of(&["--policies", "best", "--", "true"]).exits(0).prints("best");
    match nodes {
        1 => of(&["--policies", "worst", "--", "true"]).exits(2).complains("needs two NUMA nodes"),
        _ => of(&["--policies", "worst", "--", "true"]).exits(0),
    };
    of(&["--policies", "as-is", "--", "/nonexistent"]).exits(127).complains("/nonexistent");
    of(&["--policies", "as-is", "--", "false"]).exits(1);
    of(&["--metric-from", "x=(.)"]).exits(2);
}

#[test]
fn what_is_to_be_known_is_said_before_it_starts() {
    let scratch = Scratch::new();
    let of = |args: &[&str]| scratch.pmuscope(["bench", "numa"].iter().chain(args));
    let run = ["--policies", "as-is", "-r", "1", "--seconds", "0.2"];
    let noted = of(&[&["--tests", "1x4-bw-thread"][..], &run].concat());
    noted.exits(0);
    if Machine::host().topology().unwrap().nodes.len() == 1 {
        let at = |part: &str| noted.stderr.find(part).unwrap_or_else(|| panic!("{part}: {noted}"));
        assert!(at("there is nothing to place") < at("Ctrl-C keeps what is done"), "{noted}");
    }
    let old = of(&[&["--tests", "4x1-bw-thread"][..], &run].concat());
    old.exits(0).complains("4x1-bw-thread is the name of 2012 for 1x4-bw-thread");
    of(&["mem", "-a"]).exits(2).complains("--suite full");
    of(&["-p", "2", "-t", "3"]).exits(2).complains("workload memory --processes");
}
