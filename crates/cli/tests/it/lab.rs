//! Guests: the program in small virtual machines, whole or failed, never in between.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::harness::{Outcome, Scratch, need_full, skip_unless};

/// Why no guest of this kind can run here; `None` if one can. In CI it is a failure.
pub(crate) fn need_guests(arch: &str, kernel: &str) -> Option<String> {
    let why = missing(arch, kernel)?;
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!ci, "no guest of {arch} with Linux {kernel} can run here: {why}");
    Some(why)
}

fn missing(arch: &str, kernel: &str) -> Option<String> {
    let emulator = format!("qemu-system-{arch}");
    let found = Command::new(&emulator).arg("--version").stdout(Stdio::null()).status();
    if let Err(error) = found {
        return Some(format!("cannot run {emulator}: {error}"));
    }
    let fetched = lab(&Scratch::new(), ["kernels", "--arch", arch, "--fetch", kernel]);
    (fetched.code() != 0).then(|| fetched.stderr.trim().to_owned())
}

/// Runs `pmuscope lab ARGS` in the folder. Kernels stay in the user's cache: they are large.
pub(crate) fn lab<A: AsRef<OsStr>>(
    scratch: &Scratch,
    args: impl IntoIterator<Item = A>,
) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.arg("lab").args(args).current_dir(scratch.path("")).env_remove("PMUSCOPE_CACHE");
    Outcome::of(&mut command)
}

#[test]
fn a_guest_has_the_nodes_asked_for() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let machine = ["--nodes", "3", "--cpus", "6", "--memory-nodes", "1", "--distance", "0,2=31"];
    let args = ["run"].iter().chain(&machine).chain(&["--interleave", "--", "doctor", "--json"]);
    let outcome = lab(&scratch, args);
    outcome.exits(0).complains("guest of Linux 6.1").complains("6 CPUs, 4 nodes (1 without CPUs)");
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let nodes = json["machine"]["topology"]["nodes"].as_array().unwrap();
    let cpus: Vec<&str> = nodes.iter().map(|node| node["cpus"].as_str().unwrap()).collect();
    assert_eq!(cpus, ["0,3", "1,4", "2,5", ""]);
    assert_eq!(nodes[0]["distances"], serde_json::json!([10, 20, 31, 20]));
    assert!(nodes.iter().all(|node| node["memory_bytes"].as_u64().unwrap() > 100 << 20));
    // The guest is what the summary says it is.
    let emulator = &json["machine"]["surroundings"]["emulator"]["name"];
    assert_eq!(emulator == "QEMU TCG", outcome.stderr.contains("emulated"), "{outcome}");
}

#[test]
fn a_recording_made_in_a_guest_is_read_outside() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    std::fs::write(
        scratch.path("load"),
        "#!/bin/sh\ni=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 7\n",
    )
    .unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(scratch.path("load"), mode).unwrap();
    let args = ["run", "--cpus", "2", "--nodes", "2", "--set", "kernel.numa_balancing=0"];
    let command = ["--file", "load", "--", "record", "-z", "-e", "cpu-clock", "--", "./load"];
    let outcome = lab(&scratch, args.iter().chain(&command));
    // The program's own status comes through recorder and guest.
    outcome.exits(7).complains("pmuscope.data (");
    assert!(!scratch.path("load.old").exists(), "what was only taken along does not come back");
    let report = scratch.pmuscope(["report", "--no-symbol-cache"]);
    report.exits(0).prints("load").prints("2 CPUs (2 nodes)");
    let emulated = outcome.stderr.contains("emulated");
    assert_eq!(report.stdout.contains("emulated (QEMU TCG)"), emulated, "{report}");
}

#[test]
fn full_a_guest_that_fails_is_an_error_that_says_why() {
    skip_unless!(need_full());
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let fails = |args: &[&str], part: &str| {
        lab(&scratch, ["run"].iter().chain(args)).exits(125).complains(part).prints_nothing();
    };
    fails(&["--set", "kernel.no_such=1", "--", "doctor"], "--set kernel.no_such=1");
    fails(&["--append", "rdinit=/none", "--", "doctor"], "Kernel panic");
    fails(&["--timeout", "1", "--", "workload", "stencil"], "did not end within 1 s");
    fails(&["--boot-timeout", "1", "--accel", "tcg", "--", "doctor"], "did not boot within 1 s");
    // More than the memory for results holds.
    fails(
        &[
            "--results",
            "1M",
            "--",
            "record",
            "-a",
            "-F",
            "20000",
            "-e",
            "cpu-clock",
            "--",
            "pmuscope",
        ],
        "cannot",
    );
}

#[test]
fn bad_input_is_refused_before_a_guest_starts() {
    let scratch = Scratch::new();
    let kernel = scratch.path("kernel");
    std::fs::write(&kernel, "text").unwrap();
    let args = ["run", "--kernel", kernel.to_str().unwrap(), "--", "doctor"];
    lab(&scratch, args).exits(2).complains("it is no kernel");
    lab(&scratch, ["run", "--distance", "9", "--", "doctor"]).exits(2).complains("11 to 254");
    lab(&scratch, ["run", "--set", "x", "--", "doctor"]).exits(2).complains("NAME=VALUE");
    lab(&scratch, ["run"]).exits(2).complains("ARGS");
    lab(&scratch, ["guest"]).exits(2).complains("first process of a guest");
}

#[test]
fn kernels_are_listed() {
    let scratch = Scratch::new();
    let outcome = lab(&scratch, ["kernels", "--json"]);
    outcome.exits(0);
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(json["schema"], "pmuscope/lab-kernels/1");
    assert_eq!(json["kernels"][0]["name"], "host");
}
