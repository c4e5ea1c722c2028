//! `pmuscope numa advise`: of what is well placed, badly placed, and unknown.

use serde_json::Value;

use crate::harness::{Scratch, need_full, skip_unless};
use crate::json::is_documented;
use crate::lab::{lab, need_guests, write_script};

/// Runs the workload with each line's arguments, and asks about its first process for as long as the line says; the
/// status goes to stdout, the answer into a file. Of private memory it asks again where the guest was too slow to use
/// enough of it twice.
const SCRIPT: &str = r#"#!/bin/sh
ask() { pmuscope numa advise -p "$asked" --seconds "$seconds" --json >"$name.json"; }
knows_sharing() {
    while read -r line; do case $line in '"shared_share": '[0-9]*) return 0 ;; esac; done <"$name.json"
    return 1
}
while read -r name seconds arguments; do
    pmuscope workload memory --seconds 600 --thp never --init zero $arguments >/dev/null &
    parent=$!
    child=
    while [ -z "$child" ]; do read -r child others </proc/$parent/task/$parent/children; done
    # Memory is set up, and threads are where they will be.
    pmuscope numa show -p "$child" --seconds 1.5 -I 1500 >/dev/null
    [ "$name" = idle ] && asked=$parent || asked=$child
    ask
    status=$?
    if [ "$name" = private ]; then
        for more in 1 2 3 4; do knows_sharing || ask; done
    fi
    echo "$name $status"
    [ "$name" = apart ] && pmuscope numa advise -p "$asked" --seconds 0.5 >apart.txt
    kill "$child" $others "$parent"
    wait "$parent"
done <cases
exit 0
"#;

/// A guest where uses of memory fault several times a second.
fn advised(nodes: &str, cpus: &str, cases: &[(&str, &str)]) -> Scratch {
    let scratch = Scratch::new();
    write_script(&scratch, "ask", SCRIPT);
    let lines: Vec<String> = cases.iter().map(|(name, args)| format!("{name} {args}\n")).collect();
    std::fs::write(scratch.path("cases"), lines.concat()).unwrap();
    let mut args: Vec<String> =
        ["run", "--nodes", nodes, "--cpus", cpus, "--memory", "2G"].map(String::from).into();
    let scan = "/sys/kernel/debug/sched/numa_balancing/scan";
    for (name, value) in [("delay_ms", 100), ("period_min_ms", 100), ("period_max_ms", 100)] {
        args.extend(["--set".to_owned(), format!("{scan}_{name}={value}")]);
    }
    let rest = ["--set", "kernel.numa_balancing=1", "--file", "ask", "--file", "cases"];
    let command = ["--", "workload", "command", "--", "./ask"];
    args.extend(rest.into_iter().chain(command).map(String::from));
    let outcome = lab(&scratch, args);
    outcome.exits(0);
    for (name, _) in cases {
        let status = u8::from(*name == "idle");
        outcome.prints(&format!("{name} {status}"));
    }
    scratch
}

#[track_caller]
fn answer(scratch: &Scratch, name: &str) -> Value {
    let text = std::fs::read_to_string(scratch.path(&format!("{name}.json"))).unwrap();
    is_documented("numa-advice", &text);
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
fn is(answer: &Value, verdict: &str, more: &[(&str, Value)]) {
    assert_eq!(answer["verdict"], verdict, "{answer:#}");
    for (name, value) in more {
        assert_eq!(&answer[*name], value, "{name} of {answer:#}");
    }
}

fn commands(answer: &Value) -> Vec<&str> {
    let all = answer["commands"].as_array().unwrap();
    all.iter().map(|command| command["type_this"].as_str().unwrap()).collect()
}

#[test]
fn on_two_nodes_what_is_well_is_left_alone_and_what_is_not_is_named() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let cases = [
        // The program's own pages, 2 MB that are wherever its file was read, are to be below a tenth.
        ("right", "2 --threads 2 --process 32M --cpus 0-1 --policy bind:0"),
        ("apart", "2 --threads 2 --process 16M --cpus 0-1 --policy bind:1"),
        ("crowd", "2 --processes 2 --process 32M --cpus 0-1 --policy bind:0"),
        ("idle", "2 --process 16M"),
    ];
    let scratch = advised("2", "8", &cases);
    let of = |name: &str| answer(&scratch, name);
    let right = of("right");
    is(&right, "leave_alone", &[]);
    // The program's own data and stack are not bound, and a tenth of what is would be enough to move them.
    assert!(right["locality"].as_f64().unwrap() > 0.9 && commands(&right).is_empty(), "{right:#}");
    let apart = of("apart");
    // Its threads are pinned to a CPU each, and stay there: memory comes to them.
    let how = [("node", 0.into()), ("move_threads", false.into()), ("move_pages", true.into())];
    is(&apart, "compact", &how);
    assert!(apart["locality"].as_f64().unwrap() < 0.15, "{apart:#}");
    let pid = apart["pid"].as_u64().unwrap();
    assert_eq!(commands(&apart)[0], format!("migratepages {pid} 1 0"));
    assert_eq!(apart["evidence"]["pinned_apart"], true, "{apart:#}");
    is(&of("crowd"), "leave_alone", &[]);
    is(&of("idle"), "unknown", &[("lacks", serde_json::json!(["work"]))]);
    let text = std::fs::read_to_string(scratch.path("apart.txt")).unwrap();
    assert!(text.contains("overhead: ") && text.contains("bandwidth"), "{text}");
}

/// Eight threads on the four CPUs of a node, each with memory of its own there.
#[test]
fn full_threads_that_fault_on_their_own_memory_only_are_seen_as_such() {
    skip_unless!(need_full());
    skip_unless!(need_guests("x86_64", "6.1"));
    let cases = [("private", "25 --threads 8 --thread 2M --cpus 0x2,1x2,2x2,3x2")];
    let scratch = advised("2", "8", &cases);
    let private = answer(&scratch, "private");
    is(&private, "leave_alone", &[]);
    assert!(private["shared_share"].as_f64().unwrap() < 0.2, "{private:#}");
}

#[test]
fn on_four_nodes_the_node_is_named() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let cases = [
        // The pages of the debug program itself, 2 MB on the first node, are to be below a tenth.
        ("right", "2 --process 32M --cpus 4 --policy bind:2"),
        ("scattered", "3 --process 32M --cpus 4 --policy interleave:0-3"),
        ("apart", "2 --process 16M --cpus 0 --policy bind:3"),
    ];
    let scratch = advised("4", "8", &cases);
    is(&answer(&scratch, "right"), "leave_alone", &[]);
    let scattered = answer(&scratch, "scattered");
    let own: Vec<f64> = scattered["evidence"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["own_bytes"].as_f64().unwrap())
        .collect();
    let all: f64 = own.iter().sum();
    // Beside the 32 MiB it has some of its own, wherever its threads began: 2.6 MB of a debug program.
    assert!(own.iter().all(|bytes| (bytes / all - 0.25).abs() < 0.1), "{own:?}");
    is(
        &scattered,
        "compact",
        &[("node", 2.into()), ("move_threads", false.into()), ("move_pages", true.into())],
    );
    assert!((scattered["locality"].as_f64().unwrap() - 0.25).abs() < 0.1, "{scattered:#}");
    let apart = answer(&scratch, "apart");
    is(&apart, "compact", &[("node", 0.into()), ("move_threads", false.into())]);
}

#[test]
fn what_cannot_be_looked_at_is_named() {
    let scratch = Scratch::new();
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleeper.id().to_string();
    let advice = scratch.pmuscope(["numa", "advise", "-p", &pid, "--seconds", "0.4", "--json"]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    is_documented("numa-advice", &advice.stdout);
    let json: Value = serde_json::from_str(&advice.stdout).unwrap();
    match json["evidence"]["nodes"].as_array().unwrap().len() {
        1 => assert_eq!((&json["verdict"], advice.code()), (&"leave_alone".into(), 0), "{advice}"),
        _ => assert_eq!((&json["verdict"], advice.code()), (&"unknown".into(), 1), "{advice}"),
    }
    let gone = scratch.pmuscope(["numa", "advise", "-p", &pid]);
    gone.exits(2).complains(&format!("there is no process {pid}"));
    scratch.pmuscope(["numa", "advise", "-p", "0"]).exits(2);
    scratch.pmuscope(["numa", "advise", "-p", "1", "--seconds", "-1"]).exits(2);
    scratch
        .pmuscope(["numa", "advise"])
        .exits(2)
        .complains("Try: pmuscope numa advise -- COMMAND, or -p PID");
}

/// A shell that is busy for longer than it takes to choose a process, and then waits for what works: 4 s of CPU time,
/// however long a busy machine takes for them.
#[test]
fn a_process_that_works_later_than_the_choice_is_named() {
    let scratch = Scratch::new();
    let busy = "(sleep 1.3; : > ready) & while [ ! -e ready ]; do :; done";
    let script = format!(
        "{busy}; (ulimit -t 4; \"$0\" workload memory --seconds 100 --process 4M) >&2; true"
    );
    let own = env!("CARGO_BIN_EXE_pmuscope");
    let advice = scratch.pmuscope(["numa", "advise", "--", "sh", "-c", &script, own]);
    advice
        .complains(" (sh), which used the most CPU time of ")
        .complains("far more than the observed one");
    assert!(advice.stderr.contains("Try: pmuscope numa advise -p PID"), "{advice}");
}

/// Two processes: a shell, and what it starts, which works.
#[test]
fn a_command_is_looked_at_until_it_ends() {
    let scratch = Scratch::new();
    let script = "\"$0\" workload memory --seconds 2.5 --process 4M >&2; exit 7";
    let own = env!("CARGO_BIN_EXE_pmuscope");
    let advice = scratch.pmuscope(["numa", "advise", "--json", "--", "sh", "-c", script, own]);
    assert_eq!(advice.code(), 7, "{advice}");
    is_documented("numa-advice", &advice.stdout);
    let json: Value = serde_json::from_str(&advice.stdout).unwrap();
    assert!(json["name"] != "sh" && json["cost"]["looks"].as_u64() > Some(1), "{json:#}");
    assert!(!advice.stderr.contains("far more"), "{advice}");
    let short = scratch.pmuscope(["numa", "advise", "--", "true"]);
    assert_eq!(short.code(), 125, "{short}");
    short.complains("within a second");
    scratch.pmuscope(["numa", "advise", "-p", "1", "--", "true"]).exits(2);
    scratch.pmuscope(["numa", "advise", "--", "/nonexistent"]).exits(127);
}
