//! Where reports take symbols from.

use std::process::Command;

use pmuscope_testkit::corpus::corpus;

use crate::harness::{
    Outcome, Scratch, Started, need_c_compiler, need_mount_namespaces, need_root, skip_unless,
};
use crate::lab::write_script;

#[test]
fn sources_that_are_not_there_are_refused() {
    let scratch = Scratch::new();
    let outcome = scratch.pmuscope(["report", "-i", "a.data", "--symfs", "none"]);
    outcome.exits(2).complains("--symfs none: there is no such folder");

    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.args(["report", "-i", "a.data", "--debuginfod"]).current_dir(scratch.path("."));
    let output = command.env_remove("DEBUGINFOD_URLS").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("export DEBUGINFOD_URLS"), "{said}");
}

const SPIN: &str = r#"
volatile long sum;
__attribute__((noinline)) void spin_inside(void) { for (int i = 0; i < 1000; i++) sum += i; }
int main(void) { for (;;) spin_inside(); }
"#;

/// A container's root as a folder of a file system that only its own mount namespace has: the kernel shows its files
/// with the path of that folder.
#[test]
fn a_program_in_another_root_of_another_mount_namespace_has_names() {
    skip_unless!(need_root());
    skip_unless!(need_mount_namespaces());
    skip_unless!(need_c_compiler());
    let scratch = Scratch::new();
    std::fs::write(scratch.path("spin.c"), SPIN).unwrap();
    scratch.run("cc", ["-O1", "-static", "-o", "spin", "spin.c"]).exits(0);
    std::fs::create_dir(scratch.path("mounted")).unwrap();
    let script = "mount -t tmpfs container mounted && mkdir mounted/root && cp spin mounted/root/ && \
                  exec chroot mounted/root /spin";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    let spin = Started::of(command.current_dir(scratch.path(".")));
    let exe = format!("/proc/{}/exe", spin.pid());
    spin.wait_until(|| {
        std::fs::read_link(&exe).is_ok_and(|exe| exe.ends_with("mounted/root/spin"))
    });
    let pid = spin.pid().to_string();
    let recorded = |name: &str, more: &[&str]| {
        let record = ["record", "-p", &pid, "-e", "cpu-clock", "-o", name];
        let args = [&record[..], more, &["--", "sleep", "0.3"]].concat();
        scratch.pmuscope(args).exits(0);
    };
    let report = |name: &str| scratch.pmuscope(["report", "-i", name, "--no-symbol-cache"]);
    let report_without_copies = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
        command.args(["report", "-i", name, "--no-symbol-cache"]);
        command.env("PMUSCOPE_CACHE", scratch.path("empty")).current_dir(scratch.path("."));
        Outcome::of(&mut command)
    };
    recorded("none.data", &["-N"]);
    report("none.data").exits(0).prints("spin_inside");
    recorded("copied.data", &[]);
    drop(spin);
    // The container is gone, and with it its files; what was copied for one recording serves all of the same files.
    let without = report_without_copies("none.data");
    assert!(!without.exits(0).stdout.contains("spin_inside"), "{without}");
    report("none.data").exits(0).prints("spin_inside");
    report("copied.data").exits(0).prints("spin_inside");
}

/// A file that no server has is nothing to speak of: most have no debug information anywhere.
#[test]
fn a_server_that_cannot_be_asked_is_told() {
    let scratch = Scratch::new();
    let path = corpus().recording("linux-perf-data_sleep.data");
    let said = |answer: &str| {
        let program = format!("#!/bin/sh\necho 'Server query failed: {answer}' >&2\nexit 1\n");
        write_script(&scratch, "debuginfod-find", &program);
        let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
        command.args(["report", "--debuginfod", "--no-symbol-cache", "-i"]).arg(&path);
        let folders = format!("{}:/usr/bin:/bin", scratch.path(".").display());
        command.env("PATH", folders).env("DEBUGINFOD_URLS", "http://localhost:1/");
        Outcome::of(&mut command)
    };
    said("Connection refused").complains(
        "warning: --debuginfod: a server in DEBUGINFOD_URLS could not be asked: Connection refused",
    );
    let outcome = said("No such file or directory");
    assert!(!outcome.stderr.contains("debuginfod"), "{outcome}");
}
