//! `pmuscope numa balance`, `restore` and `simulate`.

use std::path::Path;

use serde_json::Value;

use crate::harness::{Outcome, Scratch, need_full, skip_unless};
use crate::json::is_documented;
use crate::lab::{lab, need_guests, write_script};

#[test]
fn the_simulated_table_is_the_documents() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let text = std::fs::read_to_string(root.join("docs/placement-policies.md")).unwrap();
    let told = text.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let outcome = Scratch::new().pmuscope(["numa", "simulate"]);
    outcome.exits(0);
    assert_eq!(outcome.stdout, told, "docs/placement-policies.md");
}

#[test]
fn fields_of_simulations_are_documented() {
    let outcome = Scratch::new().pmuscope(["numa", "simulate", "--runs", "1", "--json"]);
    is_documented("numa-simulate", &outcome.exits(0).stdout);
}

#[test]
fn what_cannot_be_balanced_is_told_before_anything_is_done() {
    let scratch = Scratch::new();
    scratch
        .pmuscope(["numa", "balance"])
        .exits(2)
        .complains("no target. Try: pmuscope numa balance -- COMMAND, or -p PID");
    let own = std::process::id().to_string();
    scratch.pmuscope(["numa", "balance", "-p", &own, "--budget", "x"]).exits(2).complains("64M");
    let nodes = pmuscope_machine::Machine::host().topology().unwrap().nodes.len();
    if nodes == 1 {
        let alone = scratch.pmuscope(["numa", "balance", "-p", &own]);
        alone.exits(3).complains("one NUMA node").complains("nothing to place");
        scratch.pmuscope(["numa", "balance", "--", "true"]).exits(3).complains("one NUMA node");
    }
}

/// What the guest's shell lacks: programs to wait and to look with.
const SHELL: &str = r#"#!/bin/sh
export PMUSCOPE_STATE=/state
allowed() { while read -r key value; do
  case $key in Cpus_allowed_list:) echo "$1: $value";; esac
done </proc/$2/status; }
work() {
  pmuscope workload memory --access both --init zero --seconds 600 "$@" >/dev/null & parent=$!
  kid=
  while [ -z "$kid" ]; do read -r kid rest </proc/$parent/task/$parent/children; done
  until_touched $kid
}
# Until its memory, 16 MiB or more, is touched.
until_touched() {
  pages=0
  while [ $pages -lt 4096 ]; do read -r size pages rest </proc/$1/statm; done
}
seen() { while read -r line; do case $line in *$2*) return 0;; esac; done <"$1"; return 1; }
# wait_for LOG EVENT: or the end.
wait_for() {
  while ! seen "$1" "$2" && ! seen "$1" '"over"'; do
    pmuscope workload exact-loop --rounds 1000 >/dev/null
  done
}
end_work() { kill -9 $kid $parent; wait $parent; return 0; }
# balance LOG EVENT ARGUMENTS: until it has logged that.
balance() {
  log=$1; event=$2; shift 2
  : >$log.jsonl
  pmuscope numa balance -p $kid -I 200 --log $log.jsonl --json "$@" >$log.json & balance=$!
  wait_for $log.jsonl "$event"
}
"#;

/// Runs this in a guest that has these programs of this machine.
pub(crate) fn guest_with(
    scratch: &Scratch,
    nodes: &str,
    programs: &[&str],
    script: &str,
) -> Outcome {
    write_script(scratch, "job", &format!("{SHELL}{script}"));
    let machine = ["run", "--nodes", nodes, "--cpus", "8", "--memory", "1G", "--timeout", "600"];
    let programs = programs.iter().flat_map(|program| ["--file", program]);
    // The kernel is not to do the same meanwhile.
    let set = ["--set", "kernel.numa_balancing=0", "--file", "job"];
    let job = ["--", "workload", "command", "--", "./job"];
    lab(scratch, machine.into_iter().chain(set).chain(programs).chain(job))
}

pub(crate) fn json(scratch: &Scratch, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(scratch.path(name)).unwrap()).unwrap()
}

pub(crate) fn log(scratch: &Scratch, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(scratch.path(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Seconds and bytes of each slice.
fn moved(log: &[Value]) -> Vec<(f64, u64)> {
    let slices = log.iter().filter(|entry| entry["event"] == "moved");
    slices.map(|entry| (entry["t"].as_f64().unwrap(), entry["bytes"].as_u64().unwrap())).collect()
}

/// Bytes in any stretch of a second, at most.
fn most_in_a_second(moved: &[(f64, u64)]) -> u64 {
    let from = |first: usize| {
        let slices = moved[first..].iter();
        slices.take_while(|(t, _)| *t <= moved[first].0 + 1.0).map(|(_, bytes)| bytes).sum()
    };
    (0..moved.len()).map(from).max().unwrap_or(0)
}

/// A guest boots as long as one of these takes: all of them in one.
#[test]
fn memory_comes_to_its_threads_a_killed_balance_is_restored_and_cgroups_are_followed() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let all = [WITHIN_BUDGET, KILLED, CGROUP].concat();
    let outcome = guest_with(&scratch, "2", &["/bin/mkdir"], &all);
    outcome.exits(0);
    memory_comes_to_its_threads_within_the_budget(&scratch, &outcome);
    what_a_killed_balance_pinned_is_restored(&scratch, &outcome);
    a_cgroup_is_balanced_as_its_members_come(&scratch, &outcome);
}

/// It takes a moment until the memory is there.
const WITHIN_BUDGET: &str = r#"
work --threads 3 --process 32M --cpus 0-2 --policy bind:1
: >plan.json
until seen plan.json '"move"'; do
  pmuscope numa balance -p $kid --dry-run -I 200 --json >plan.json
done
allowed planned $kid
balance moved kept --budget 16M
kill $balance; wait $balance
echo moved: $?
allowed unpinned $kid
end_work
"#;

#[track_caller]
fn memory_comes_to_its_threads_within_the_budget(scratch: &Scratch, outcome: &Outcome) {
    outcome.prints("planned: 0\n").prints("moved: 0\n").prints("unpinned: 0\n");
    let plan = json(scratch, "plan.json");
    assert_eq!(plan["ended"], "dry_run", "{plan}");
    let steps: Vec<&Value> = plan["plan"]["steps"].as_array().unwrap().iter().collect();
    assert!(steps.iter().any(|step| step["step"] == "move" && step["to"] == 0), "{plan}");
    let process = &plan["processes"][0];
    assert_eq!((&process["moved"], process["before"].as_f64().unwrap() < 0.1), (&0.into(), true));
    let result = std::fs::read_to_string(scratch.path("moved.json")).unwrap();
    is_documented("numa-balance", &result);
    let result = json(scratch, "moved.json");
    let process = &result["processes"][0];
    assert!(process["before"].as_f64().unwrap() < 0.1, "{result}");
    assert!(process["after"].as_f64().unwrap() >= 0.9, "{result}");
    assert_eq!((&result["judge"], &result["judges_speed"]), (&"locality".into(), &false.into()));
    let log = log(scratch, "moved.jsonl");
    let moved = moved(&log);
    let sum: u64 = moved.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(process["moved"].as_u64(), Some(sum));
    assert!(sum >= 30 << 20, "{sum}");
    assert!(most_in_a_second(&moved) <= 16 << 20, "{moved:?}");
    let events = ["began", "decided", "pinned", "moved", "judged", "kept", "unpinned", "over"];
    for event in events {
        assert!(log.iter().any(|entry| entry["event"] == event), "{event}: {log:?}");
    }
}

const KILLED: &str = r#"
work --threads 2 --process 16M --policy interleave:0-1
allowed before $kid
balance killed '"pinned"'
pmuscope numa restore
echo held: $?
kill -9 $balance; wait $balance
allowed killed $kid
kill -0 $kid && echo it runs
pmuscope numa restore --json >restored.json
echo restored: $?
allowed afterwards $kid
pmuscope numa restore
pmuscope numa balance -p 99999; echo no process: $?
pmuscope numa balance -p $kid --budget 1M; echo small budget: $?
pmuscope numa balance -p $kid --metric-cmd 'echo none'; echo no metric: $?
pmuscope numa balance --cgroup no/such; echo no cgroup: $?
balance ended '"decided"'
end_work
wait $balance; echo ended: $?
"#;

#[track_caller]
fn what_a_killed_balance_pinned_is_restored(scratch: &Scratch, outcome: &Outcome) {
    outcome.prints("before: 0-7\n").prints("held: 1\n").prints("still balances it");
    // Half of its memory is on either: wherever its threads are, something is to be done.
    let is_pinned =
        ["killed: 4-7\n", "killed: 0-3\n"].iter().any(|all| outcome.stdout.contains(all));
    assert!(is_pinned, "{outcome}");
    outcome.prints("it runs\n").prints("restored: 0\n");
    outcome
        .prints("afterwards: 0-7\n")
        .prints("no process is still pinned by a killed numa balance");
    is_documented("numa-restore", &std::fs::read_to_string(scratch.path("restored.json")).unwrap());
    let restored = json(scratch, "restored.json");
    assert_eq!(restored["processes"][0]["outcome"], "threads", "{restored}");
    for (case, status) in [("process", 2), ("metric", 2), ("cgroup", 2)] {
        outcome.prints(&format!("no {case}: {status}\n"));
    }
    outcome.prints("small budget: 2\n").complains("there is no process 99999");
    outcome.complains("a budget of at least 4194304").complains("it printed no number");
    outcome.complains("cannot open cgroup no/such");
    // It ended in the middle: what was seen is told.
    let ended = json(scratch, "ended.json");
    assert!(outcome.stdout.contains("ended: 0\n"), "{outcome}{ended}");
    assert_eq!(ended["ended"], "gone", "{ended}");
    assert!(ended["processes"][0]["before"].as_f64().is_some(), "{ended}");
}

/// Processes that are there, and one that joins later.
const CGROUP: &str = r#"
groups=/sys/fs/cgroup
mkdir $groups/app
pmuscope numa balance --cgroup app; echo empty: $?
work --threads 2 --process 16M --policy interleave:0-1
first=$kid first_parent=$parent
echo $first >$groups/app/cgroup.procs
: >app.jsonl
pmuscope numa balance --cgroup app -I 200 --log app.jsonl --json >app.json & balance=$!
wait_for app.jsonl "pinned*:$first,"
work --threads 2 --process 16M --policy interleave:0-1
echo $kid >$groups/app/cgroup.procs
wait_for app.jsonl "pinned*:$kid,"
kill $balance; wait $balance
echo followed: $?
echo members: $first $kid
allowed first $first
allowed second $kid
kill -9 $first $first_parent; wait $first_parent
end_work
"#;

#[track_caller]
fn a_cgroup_is_balanced_as_its_members_come(scratch: &Scratch, outcome: &Outcome) {
    outcome.prints("empty: 2\n").complains("no process is in cgroup app");
    outcome.prints("followed: 0\n").prints("first: 0-7\n").prints("second: 0-7\n");
    let result = json(scratch, "app.json");
    let known = result["processes"].as_array().unwrap();
    let pids: Vec<String> = known.iter().map(|process| process["pid"].to_string()).collect();
    outcome.prints(&format!("members: {}\n", pids.join(" ")));
    let log = log(scratch, "app.jsonl");
    for process in known {
        let is_let_go = |e: &&Value| e["event"] == "unpinned" && e["pid"] == process["pid"];
        assert!(log.iter().any(|entry| is_let_go(&entry)), "{log:?}");
    }
}

#[test]
fn full_two_processes_get_a_node_each_and_one_that_fits_none_is_no_less_local() {
    skip_unless!(need_full());
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    // Nodes of two CPUs.
    let script = r#"
work --processes 2 --threads 2 --process 16M --first-touch node0
two=
while [ -z "$two" ]; do read -r one two </proc/$parent/task/$parent/children; done
kid=$one,${two% }
until_touched ${two% }
balance pair '"round":2'
kill $balance; wait $balance
kill -9 $one $two $parent; wait $parent
work --threads 3 --process 16M
balance wide '"round":4'
kill $balance; wait $balance
end_work
"#;
    guest_with(&scratch, "4", &[], script).exits(0);
    let share = |process: &Value, name: &str| process[name].as_f64().unwrap();
    let processes = |name: &str| json(&scratch, name)["processes"].as_array().unwrap().clone();
    for name in ["pair", "wide"] {
        // No decision goes back on what an earlier one did.
        assert_eq!(json(&scratch, &format!("{name}.json"))["ended"], "asked", "{name}");
    }
    let pair = processes("pair.json");
    assert_eq!(pair.len(), 2, "{pair:?}");
    for process in &pair {
        assert!(share(process, "after") >= 0.9, "{pair:?}");
    }
    for process in processes("wide.json") {
        // Threads that may wander make it uncertain by so much.
        assert!(share(&process, "after") >= share(&process, "before") - 0.1, "{process}");
    }
}
