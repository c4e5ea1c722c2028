//! What runs now, once.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::{Outcome, Scratch, Started, need_program, skip_unless, wait_for};
use crate::json::is_documented;
use crate::recording::{need_clock, need_root_clock, rate};

/// A program that knows the shares of its functions; `None` where there is no compiler.
fn mix(scratch: &Scratch, seconds: &str) -> Started {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mix.c");
    let program = scratch.path("mix");
    let program = program.to_str().unwrap();
    scratch.run("cc", ["-O1", "-g0", "-o", program, source]).exits(0);
    Started::of(std::process::Command::new(program).arg(seconds).stdin(std::process::Stdio::null()))
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// Rows of the first event.
fn rows<'a>(top: &'a Value, what: &str) -> &'a [Value] {
    top["events"][0][what].as_array().unwrap()
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} of {row}"))
}

#[test]
fn shares_are_those_that_the_program_knows() {
    skip_unless!(need_clock());
    skip_unless!(need_program("cc", "--version"));
    let scratch = Scratch::new();
    let program = mix(&scratch, "4");
    let (pid, rate) = (program.pid().to_string(), rate(2000));
    let how = ["top", "--once", "--json", "-d", "3", "-e", "cpu-clock:u", "-F", &rate, "-p", &pid];
    let outcome = scratch.pmuscope(how);
    let truth = program.ends();
    let top = json(outcome.exits(0));
    let words: Vec<&str> = truth.exits(0).stdout.split_whitespace().collect();
    let truth: BTreeMap<&str, f64> =
        words.chunks(2).map(|pair| (pair[0], pair[1].parse().unwrap())).collect();
    let is_one = |row: &&Value| row["function"].as_str().is_some_and(|f| truth.contains_key(f));
    let found: Vec<&Value> = rows(&top, "functions").iter().filter(is_one).collect();
    assert_eq!(found.len(), 3, "{top:#}");
    // What the loop around them and the start took is none of theirs.
    let all: f64 = found.iter().map(|row| number(row, "share")).sum();
    assert!(all > 0.95, "{found:#?}");
    for row in found {
        let name = row["function"].as_str().unwrap();
        let half = (number(row, "share_high") - number(row, "share_low")) / 2.0 / all;
        let off = (number(row, "share") / all - truth[name]).abs();
        // Twice the interval: 1 in 10,000 runs would be beyond it by chance.
        assert!(off <= 2.0 * half, "{name}: {off} from {}, ±{half}: {row}", truth[name]);
        assert!(half < 0.2 && row["command"] == "mix", "{row}");
    }
    let samples = top["events"][0]["samples"].as_u64().unwrap();
    for what in ["functions", "commands", "processes", "cpus", "nodes"] {
        let sum: u64 = rows(&top, what).iter().map(|row| row["samples"].as_u64().unwrap()).sum();
        assert_eq!(sum, samples, "{what}");
    }
    assert_eq!(rows(&top, "processes")[0]["process"].to_string(), pid);
    assert_eq!(number(&top["interval"], "duration_s"), 3.0);
    assert!(number(&top["interval"]["cost"], "machine_share") > 0.0);
}

#[test]
fn the_whole_machine_has_cpus_and_nodes() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    let rate = rate(500);
    // A CPU that is idle all the time may have no sample.
    let busy: Vec<Started> = crate::recording::online().iter().map(busy_on).collect();
    let how = ["top", "--once", "-e", "cpu-clock", "-F", &rate, "-d", "0.5"];
    let with_json = scratch.pmuscope(how.iter().chain(&["--json"]));
    is_documented("top", &with_json.exits(0).stdout);
    let top = json(&with_json);
    let shares = |what| rows(&top, what).iter().map(|row| number(row, "share")).sum::<f64>();
    for what in ["cpus", "nodes", "commands"] {
        assert!((shares(what) - 1.0).abs() < 1e-9, "{what}: {top:#}");
    }
    assert_eq!(rows(&top, "cpus").len(), crate::recording::online().iter().count());
    let text = scratch.pmuscope(how.iter().chain(&["--by", "cpu"]));
    text.exits(0).prints("NUMA node  CPU\n").prints("overhead: ").prints("lost 0");
    drop(busy);
}

/// A loop that runs on this CPU only.
fn busy_on(cpu: u32) -> Started {
    let (cpu, endless) = (cpu.to_string(), "while :; do :; done");
    let mut command = std::process::Command::new("taskset");
    Started::of(command.args(["-c", &cpu, "sh", "-c", endless]).stdin(std::process::Stdio::null()))
}

#[test]
fn a_process_that_ends_ends_the_interval() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let mut command = std::process::Command::new("sh");
    let program = Started::of(command.args(["-c", busy]).stdin(std::process::Stdio::null()));
    let pid = program.pid().to_string();
    let how = ["top", "--once", "-e", "cpu-clock:u", "-d", "600", "-p", &pid];
    let top = scratch.start(how);
    program.ends().exits(0);
    top.ends().exits(0).complains("the interval ended after").prints("of process ");
}

#[test]
fn a_hostile_name_does_nothing_to_the_terminal() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    // The name of a thread is whatever it likes, 15 bytes of it.
    let busy = r"printf '\033[2J\033]0;x\a\n' > /proc/$$/comm; : > named; while :; do :; done";
    let mut command = std::process::Command::new("sh");
    let command = command.args(["-c", busy]).current_dir(scratch.path("."));
    let program = Started::of(command.stdin(std::process::Stdio::null()));
    wait_for("the name", || scratch.path("named").exists());
    let pid = program.pid().to_string();
    for form in [&["--by", "command"][..], &["--json"]] {
        let how = ["top", "--once", "-e", "cpu-clock:u", "-d", "0.5", "-p", &pid];
        // On a busy machine it may not run for a while.
        wait_for("samples of it", || {
            let outcome = scratch.pmuscope(how.iter().chain(form));
            let harmless = |c: char| c == '\n' || !c.is_control();
            assert!(outcome.exits(0).stdout.chars().all(harmless), "{outcome}");
            outcome.stdout.contains("[2J")
        });
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let scratch = Scratch::new();
    let refused = |words: &str, why: &str| {
        let how = ["top", "--once", "-e", "cpu-clock:u"];
        scratch.pmuscope(how.iter().copied().chain(words.split(' '))).exits(2).complains(why);
    };
    refused("-d 0.01", "0.1 to 3600 seconds");
    refused("-d NaN", "500ms, 2s or 1m");
    refused("-d 50ms", "0.1 to 3600 seconds");
    refused("--by color", "function, command, process, cpu, node");
    refused("-a -p 1", "Try: one");
    refused("-C 0-", "-C 0-");
    refused("-p 4194304", "4194304");
}
