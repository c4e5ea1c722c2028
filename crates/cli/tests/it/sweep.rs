//! `pmuscope sweep`: any number of events, none of them taking turns.

use std::fs;
use std::path::Path;

use serde_json::Value;

use rustix::process::Signal;

use crate::guest_script::{need_script, run_script};
use crate::harness::{Outcome, Scratch, need_root, skip_unless};
use crate::strobe::{in_guest, need_pmu_guest};

fn file(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[track_caller]
fn sweep(scratch: &Scratch, flags: &[&str], command: &[&str]) -> Outcome {
    scratch.pmuscope([&["sweep"], flags, &["--"], command].concat())
}

const DD: [&str; 5] = ["dd", "if=/dev/zero", "of=/dev/null", "bs=4k", "count=3000"];

#[test]
fn every_call_of_a_program_is_counted_per_unit_that_it_prints() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let flags = [
        "-e",
        "syscalls:sys_enter_(read|write)$",
        "-e",
        "page-faults",
        "-r",
        "3",
        "--per-from",
        "block=([0-9]+)\\+0 records out",
        "--metric-from",
        "seconds=copied, ([0-9.e-]+) s",
        "--json=a.json",
    ];
    let outcome = sweep(&scratch, &flags, &DD);
    outcome.exits(0);
    let file = file(&scratch.path("a.json"));
    let runs = file["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    assert!(
        runs.iter().all(|run| run["units"]["block"] == 3000.0 && run["labels"]["group"] == "1")
    );
    let series = file["series"].as_array().unwrap();
    let of = |name: &str| series.iter().find(|one| one["metric"] == name).unwrap();
    for value in of("syscalls:sys_enter_write")["values"].as_array().unwrap() {
        // Each block, and three lines at the end.
        assert_eq!(value["value"], 3003.0);
        assert_eq!(value["enabled_s"], value["running_s"]);
    }
    assert_eq!(of("task-clock")["values"].as_array().unwrap().len(), 3, "the reference");
    assert!(of("seconds")["values"][0]["value"].as_f64().unwrap() > 0.0);
    outcome.prints("/block").prints("Runs differ by");
}

#[test]
fn a_running_program_is_counted_in_slices() {
    let scratch = Scratch::new();
    let script = "while :; do /bin/true; done";
    let mut program = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
    let pid = program.id().to_string();
    let flags = ["-e", "faults$", "-p", &pid, "--slice", "0.2", "-r", "4", "--json=a.json"];
    let outcome = scratch.pmuscope([&["sweep"], &flags[..]].concat());
    program.kill().unwrap();
    program.wait().unwrap();
    outcome.exits(0);
    let file = file(&scratch.path("a.json"));
    let runs = file["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    for run in runs {
        let seconds = run["duration_s"].as_f64().unwrap();
        assert!((0.2..2.0).contains(&seconds), "{run}");
    }
    let faults = file["series"].as_array().unwrap();
    let faults = faults.iter().find(|one| one["metric"] == "page-faults").unwrap();
    assert!(
        faults["values"].as_array().unwrap().iter().all(|v| v["value"].as_f64().unwrap() > 0.0)
    );
}

#[test]
fn what_was_begun_is_gone_on_with() {
    let scratch = Scratch::new();
    let flags = ["-e", "faults$", "--seed", "7", "--json=a.json"];
    sweep(&scratch, &[&flags[..], &["-r", "2"]].concat(), &DD).exits(0);
    let before = file(&scratch.path("a.json"));
    let again = sweep(&scratch, &[&flags[..], &["-r", "5", "--resume"]].concat(), &DD);
    again.exits(0);
    let after = file(&scratch.path("a.json"));
    let runs = after["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &after["seed"]), (5, &Value::from("7")));
    assert_eq!(runs[..2], before["runs"].as_array().unwrap()[..]);
    let other = ["-e", "switches$", "--json=a.json", "--resume"];
    sweep(&scratch, &other, &DD).exits(2).complains("is of another sweep");
    assert_eq!(file(&scratch.path("a.json")), after, "nothing measured is lost");
}

#[test]
fn an_interrupted_sweep_keeps_what_is_done_and_is_gone_on_with() {
    let scratch = Scratch::new();
    let flags = ["sweep", "-e", "faults$", "--json=a.json", "--seed", "3", "-r"];
    let rest = ["--", "sleep", "0.2"];
    let begun = scratch.start([&flags[..], &["500"], &rest].concat());
    let path = scratch.path("a.json");
    let runs = |file: &Value| file["runs"].as_array().unwrap().len();
    begun.wait_until(|| path.exists() && runs(&file(&path)) >= 2);
    begun.signal(Signal::INT);
    begun.ends().exits(1);
    let kept = file(&path);
    assert_eq!((&kept["status"], &kept["why"]), (&Value::Null, &Value::from("interrupted")));
    assert!(kept["runs"].as_array().unwrap().iter().all(|run| run["exit"] == 0), "{kept}");
    let more = (runs(&kept) + 1).to_string();
    let resumed = scratch.pmuscope([&flags[..], &[&more, "--resume"], &rest].concat());
    resumed.exits(0).complains(&format!("1 run of 1 × {more}, about "));
    let whole = file(&path);
    assert_eq!((runs(&whole), &whole["status"]), (runs(&kept) + 1, &Value::from(0)));
}

#[test]
fn a_program_is_pinned_where_asked_and_the_first_cpu_is_warned_about() {
    let scratch = Scratch::new();
    let of_status = "cpus=Cpus_allowed_list:\\s+([0-9]+)$";
    let flags = ["-e", "page-faults", "-r", "1", "--cpu", "0", "--metric-from", of_status];
    let program = ["grep", "Cpus_allowed_list", "/proc/self/status"];
    let outcome = sweep(&scratch, &[&flags[..], &["--json=a.json"]].concat(), &program);
    outcome.exits(0).complains("CPU 0 serves most interrupts");
    let file = file(&scratch.path("a.json"));
    let series = file["series"].as_array().unwrap();
    let cpus = series.iter().find(|one| one["metric"] == "cpus").unwrap();
    assert_eq!(cpus["values"][0]["value"], 0.0, "{cpus}");
    let concerns = file["concerns"].as_array().unwrap();
    let said = |concern: &Value| concern["why"].as_str().unwrap().starts_with("CPU 0 serves");
    assert!(concerns.iter().any(said), "{concerns:?}");
    let looked_at = file["environment"]["activity"]["cpus"].as_array().unwrap();
    assert_eq!((looked_at.len(), &looked_at[0]["cpu"]), (1, &Value::from(0)));
    let absent = ["-e", "page-faults", "--cpu", "0,4000"];
    sweep(&scratch, &absent, &program).exits(3).complains("only 0 may be used");
}

#[test]
fn slots_are_refused_in_one_sentence_where_the_pmu_does_not_count_them() {
    let scratch = Scratch::new();
    let machine = pmuscope_machine::Machine::host();
    if machine.pmus().unwrap().iter().any(|pmu| pmu.is_core()) {
        eprintln!("skipped: this machine has a PMU");
    } else {
        let refused = sweep(&scratch, &["--topdown"], &["true"]);
        refused.exits(3).prints_nothing().complains("--topdown: no hardware PMU");
        assert_eq!(refused.stderr.lines().count(), 1, "{refused}");
    }
    sweep(&scratch, &["--topdown", "-e", "cycles"], &["true"]).exits(2);
    skip_unless!(need_pmu_guest());
    let refused = in_guest(&scratch, 1, &["sweep", "--topdown", "--", "pmuscope", "--version"]);
    let sentence = " lacks op_retired, op_spec, slots-per-cycle \
                    (caps/slots in sysfs), stall_slot";
    refused.exits(3).complains(sentence);
}

#[test]
fn a_plan_is_shown_without_running_anything() {
    let scratch = Scratch::new();
    let outcome = scratch.pmuscope(["sweep", "-e", "faults|task-clock", "--dry-run"]);
    outcome.exits(0).prints("1 run, 1 at least").prints("page-faults, minor-faults, major-faults");
    let wrong = scratch.pmuscope(["sweep", "-e", "no_such_thing", "--", "true"]);
    wrong.exits(2).complains("no event of this machine has such a name");
    scratch.pmuscope(["sweep", "-e", "(", "--", "true"]).exits(2).complains("regular expression");
}

/// Sweeps everything over loops of so many rounds in a guest whose PMU counts exactly; the results.
#[track_caller]
fn sweeps_in_guest<const N: usize>(scratch: &Scratch, rounds: [u64; N]) -> [Value; N] {
    let name = |rounds: u64| format!("{rounds}.json");
    let sweep = |rounds: u64| {
        format!(
            "pmuscope sweep -e .* -e instructions:u -r 2 --per loop={rounds} --json={} -- pmuscope \
             workload exact-loop --rounds {rounds}\n",
            name(rounds)
        )
    };
    let outcome = run_script(scratch, &rounds.map(sweep).concat());
    // What the PMU does not have was asked for, too.
    assert_eq!(outcome.exits(0).stdout.matches("exit 1: pmuscope sweep").count(), N, "{outcome}");
    rounds.map(|rounds| file(&scratch.path(&name(rounds))))
}

/// The number of every run of an event, none of which took turns.
#[track_caller]
fn counts(file: &Value, event: &str) -> Vec<f64> {
    let series = file["series"].as_array().unwrap();
    let series = series.iter().find(|one| one["metric"] == event).unwrap();
    let values = series["values"].as_array().unwrap().iter();
    values
        .map(|value| {
            assert_eq!(value["enabled_s"], value["running_s"], "{event}: {value}");
            value["value"].as_f64().unwrap()
        })
        .collect()
}

#[test]
fn a_pmu_counts_a_known_loop_to_the_instruction_and_every_event_or_why_not() {
    skip_unless!(need_pmu_guest());
    skip_unless!(need_script());
    let scratch = Scratch::new();
    let (few, many) = (20_000_000, 60_000_000);
    let files = sweeps_in_guest(&scratch, [few, many]);
    let [of_few, of_many] = [0, 1].map(|i: usize| counts(&files[i], "instructions:u"));
    assert_eq!((of_few.len(), of_many.len()), (2, 2));
    // What is around the loop is in both.
    let per_round = (of_many[0] - of_few[0]) / (many - few) as f64;
    assert!((per_round / 2.0 - 1.0).abs() < 1e-3, "{per_round}");
    let runs = files[0]["runs"].as_array().unwrap().len();
    assert!(runs >= 4, "two rounds of two groups at least: {runs}");
    for reference in ["cycles", "instructions"] {
        assert_eq!(counts(&files[0], reference).len(), runs, "{reference} is in every run");
    }
    let (mut counted, mut refused) = (0, 0);
    for series in files[0]["series"].as_array().unwrap() {
        for value in series["values"].as_array().unwrap() {
            if value["value"].is_null() {
                assert!(!value["why"].as_str().unwrap().is_empty(), "{series}");
                refused += 1;
            } else if !value["readings"].is_null() {
                assert_eq!(value["enabled_s"], value["running_s"], "{series}");
                assert_eq!(value["readings"].as_array().unwrap().len(), 1, "{series}");
                counted += 1;
            }
        }
    }
    // Eight events of the emulated PMU and nine of the kernel; caches and branches it does not have.
    assert!(counted >= 2 * 17 && refused >= 20, "{counted} {refused}");
}
