//! A machine where nobody has mounted tracefs, as after every boot until the first perf command of root.

use crate::harness::{Outcome, Scratch, need_mount_namespaces, need_root, skip_unless};

/// Runs `script` with the program as `$0`, in a mount namespace without tracefs and debugfs.
fn without_tracefs(script: &str) -> Outcome {
    let bare = format!(
        "for point in /sys/kernel/debug /sys/kernel/tracing; do
             while umount -R -l $point 2>/dev/null; do :; done
         done
         {script}"
    );
    let program = env!("CARGO_BIN_EXE_pmuscope");
    Scratch::new().run("unshare", ["--mount", "sh", "-c", &bare, program])
}

#[test]
fn tracepoints_need_no_mounted_tracefs() {
    skip_unless!(need_root());
    skip_unless!(need_mount_namespaces());
    let before = without_tracefs("cat /proc/self/mounts").stdout;
    assert!(!before.contains(" tracefs "), "{before}");
    let outcome = without_tracefs(
        r#""$0" stat -e sched:sched_switch -- sleep 0.01 || exit
        cat /proc/self/mounts"#,
    );
    outcome.exits(0).prints("sched:sched_switch").complains("note: tracefs is not mounted");
    // perf leaves its mount behind; this one is seen by no other process.
    assert!(!outcome.stdout.contains(" tracefs "), "{outcome}");
    assert_eq!(outcome.stderr.matches("tracefs").count(), 1, "{outcome}");
}

#[test]
fn commands_without_tracepoints_do_not_mention_tracefs() {
    skip_unless!(need_root());
    skip_unless!(need_mount_namespaces());
    let outcome = without_tracefs(r#""$0" stat -e task-clock -- true"#);
    outcome.exits(0).prints("task-clock");
    assert!(!outcome.stderr.contains("tracefs"), "{outcome}");
}

#[test]
fn users_learn_how_to_mount_tracefs() {
    skip_unless!(need_root());
    skip_unless!(need_mount_namespaces());
    let outcome = without_tracefs(
        r#"exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \
            "$0" stat -e sched:sched_switch -- true"#,
    );
    outcome.complains("sudo mount -t tracefs").prints_nothing();
    assert_ne!(outcome.code(), 0, "{outcome}");
}
