//! What cpusets and users forbid: placement stays within it, and what is refused says which right is missing.

use serde_json::Value;

use crate::harness::{Outcome, Scratch, need_program, skip_unless};
use crate::lab::need_guests;
use crate::numa_balance::{guest_with, json, log};

/// `inside GROUP COMMAND…`: runs it with that cpuset. Node 1 has CPUs 4 to 7.
const CPUSETS: &str = r#"
groups=/sys/fs/cgroup
echo +cpuset >$groups/cgroup.subtree_control
# group NAME CPUS MEMORY-NODES
group() { mkdir $groups/$1; echo $2 >$groups/$1/cpuset.cpus; echo $3 >$groups/$1/cpuset.mems; }
inside() { group=$groups/$1; shift; sh -c "echo \$\$ >$group/cgroup.procs; exec $*"; }
"#;

/// A guest boots as long as one of these takes: both of them in one.
#[test]
fn cpusets_that_exclude_nodes_hold_and_another_users_process_is_left_alone() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let no_other_user = need_program("setpriv", "--version");
    let (programs, other_user) = match no_other_user {
        None => (&["/bin/mkdir", "/usr/bin/setpriv"][..], OTHER_USER),
        Some(_) => (&["/bin/mkdir"][..], ""),
    };
    let all = [CPUSETS, EXCLUDED, other_user].concat();
    let outcome = guest_with(&scratch, "2", programs, &all);
    outcome.exits(0);
    cpusets_that_exclude_nodes_hold(&scratch, &outcome);
    skip_unless!(no_other_user);
    another_users_process_is_left_alone_and_the_right_named(&outcome);
}

const EXCLUDED: &str = r#"
group one 4-7 1
bench="pmuscope bench numa --suite guest --tests 2x1-bw-process -r 1 --seconds 1"
inside one $bench --policies best,worst,as-is --json >bench.json
inside one pmuscope workload memory --cpus 0 --thread 1M --rounds 1; echo cpu outside: $?
inside one pmuscope workload memory --policy bind:0 --thread 1M --rounds 1; echo node outside: $?
# A node has 512 MiB.
pmuscope workload memory --first-touch node0 --process 560M --init zero --rounds 1 >/dev/null; echo more than a node: $?
# Threads on node 1, and memory that may lie on node 0 only.
group apart 4-7 0
work --threads 2 --process 16M
echo $kid >$groups/apart/cgroup.procs
balance apart '"round":3'
kill $balance; wait $balance
allowed cpuset $kid
end_work
"#;

#[track_caller]
fn cpusets_that_exclude_nodes_hold(scratch: &Scratch, outcome: &Outcome) {
    let bench = json(scratch, "bench.json");
    assert_eq!(bench["parameters"]["nodes"], "1", "{bench}");
    let policies: Vec<&Value> =
        bench["runs"].as_array().unwrap().iter().map(|run| &run["labels"]["policy"]).collect();
    assert!(policies.len() == 2 && !policies.contains(&&"worst".into()), "{policies:?}");
    let told = bench["notices"].to_string();
    assert!(told.contains("no worst binding"), "{told}");
    outcome.prints("cpu outside: 2\n").prints("node outside: 2\n").prints("more than a node: 0\n");
    let log = log(scratch, "apart.jsonl");
    let acts = ["pinned", "moved"];
    assert!(!log.iter().any(|entry| acts.iter().any(|act| entry["event"] == *act)), "{log:?}");
    outcome.prints("cpuset: 4-7\n");
    let plan = json(scratch, "apart.json");
    let step = &plan["plan"]["steps"][0];
    let reason = step["reason"].as_str().unwrap_or_default();
    assert!(step["step"] == "leave" && !reason.is_empty(), "{}", plan["plan"]);
}

const OTHER_USER: &str = r#"
work --threads 2 --process 16M --policy bind:1
other="setpriv --reuid 1000 --regid 1000 --clear-groups"
export PMUSCOPE_STATE=/dev/shm/other
for what in balance advise show; do
  $other pmuscope numa $what -p $kid --seconds 20; echo $what: $?
done
allowed other $kid
end_work
"#;

#[track_caller]
fn another_users_process_is_left_alone_and_the_right_named(outcome: &Outcome) {
    outcome.prints("other: 0-7\n");
    for what in ["balance", "advise", "show"] {
        outcome.prints(&format!("{what}: 3\n"));
    }
    outcome.complains("belongs to another user").complains("CAP_SYS_PTRACE");
    outcome.complains("sudo pmuscope");
}
