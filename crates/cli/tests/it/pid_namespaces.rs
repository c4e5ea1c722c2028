//! A recorder that sees only the processes of its own PID namespace, as in a container.

use crate::harness::{Scratch, Started, need_root, skip_unless};
use crate::recording::{busy, need_root_clock};

/// Starts programs one after the other until it is stopped.
const OUTSIDE: &str = r#"while :; do "$@"; done"#;

#[test]
fn tasks_outside_are_not_one_process_with_the_last_ones_name() {
    skip_unless!(need_root());
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    let mut outside = std::process::Command::new("sh");
    outside.args(["-c", OUTSIDE, "sh"]).args(busy("0.1"));
    let outside = Started::of(&mut outside);
    let inside = ["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_pmuscope")];
    let record = ["record", "-a", "-e", "cpu-clock", "-o", "x.data", "--", "sleep", "1"];
    scratch.run("unshare", inside.iter().chain(&record)).exits(0);
    drop(outside);
    let report = scratch.pmuscope(["report", "-i", "x.data", "--by", "comm"]);
    report.exits(0).prints("[other PID namespaces]");
    assert!(!report.stdout.contains("mix-0"), "{report}");
    let whole = scratch.pmuscope(["report", "-i", "x.data"]);
    whole.exits(0).prints("process 0 stands for all tasks of other PID namespaces");
}
