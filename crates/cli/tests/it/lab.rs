//! Guests: the program in small virtual machines, whole or failed, never in between.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use pmuscope_lab::Kernels;
use pmuscope_machine::user_cache;

use crate::guest_script::{need_script, run_script};
use crate::harness::{Outcome, Scratch, need_full, skip_unless};
use crate::recording::Recording;
use crate::strobe::need_pmu_guest;

/// Why no guest of this kind can run here; `None` if one can. In CI it is a failure.
pub(crate) fn need_guests(arch: &str, kernel: &str) -> Option<String> {
    let why = missing(arch, kernel)?;
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!ci, "no guest of {arch} with Linux {kernel} can run here: {why}");
    Some(why)
}

/// Why a guest of Linux 6.12 cannot run here; `None` if it can. Debian 12 has that kernel in its security archive only,
/// which a bare system does not list.
pub(crate) fn need_newer_kernel() -> Option<String> {
    missing("x86_64", "6.12")
}

fn missing(arch: &str, kernel: &str) -> Option<String> {
    let emulator = format!("qemu-system-{arch}");
    let found = Command::new(&emulator).arg("--version").stdout(Stdio::null()).status();
    if let Err(error) = found {
        return Some(format!("cannot run {emulator}: {error}"));
    }
    // Tests do not fetch: they would depend on the network, and wait for it.
    let cached = Kernels::host(user_cache().as_deref()).cached();
    let is_meant = |release: &str| release.starts_with(&format!("{kernel}."));
    let is_there = cached.iter().any(|k| k.arch == arch && is_meant(&k.release));
    (!is_there).then(|| {
        format!("its kernel is not in the cache. Try: pmuscope lab kernels --arch {arch} --fetch {kernel}")
    })
}

/// Runs `pmuscope lab ARGS` in the folder, with kernels from the user's cache: they are large.
pub(crate) fn lab<A: AsRef<OsStr>>(
    scratch: &Scratch,
    args: impl IntoIterator<Item = A>,
) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.arg("lab").args(args).current_dir(scratch.path(""));
    Outcome::of(&mut command)
}

/// Puts a program into the folder.
pub(crate) fn write_script(scratch: &Scratch, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = scratch.path(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
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
    let script = "#!/bin/sh\ni=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 7\n";
    write_script(&scratch, "load", script);
    let args = ["run", "--cpus", "2", "--nodes", "2", "--set", "kernel.numa_balancing=0"];
    let command = ["--file", "load", "--", "record", "-z", "-e", "cpu-clock", "--", "./load"];
    let outcome = lab(&scratch, args.iter().chain(&command));
    // The program's own status comes through recorder and guest.
    outcome.exits(7).complains("pmuscope.data (");
    assert!(!scratch.path("load.old").exists(), "what was only taken along does not come back");
    let report = scratch.pmuscope(["report", "--no-symbol-cache"]);
    report.exits(0).prints("load").prints("2 CPUs (2 NUMA nodes)");
    let emulated = outcome.stderr.contains("emulated");
    assert_eq!(report.stdout.contains("emulated (QEMU TCG)"), emulated, "{report}");
}

#[test]
fn a_command_that_takes_too_long_leaves_what_it_wrote() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let script =
        "#!/bin/sh\necho kept >results\necho on its way >&2\necho printed\nwhile :; do :; done\n";
    write_script(&scratch, "job", script);
    let args =
        ["run", "--timeout", "3", "--file", "job", "--", "workload", "command", "--", "./job"];
    let outcome = lab(&scratch, args);
    outcome.exits(125).prints("printed\n").complains("did not end within 3 s");
    // Once, though it was shown while the command ran.
    assert_eq!(outcome.stderr.matches("on its way").count(), 1, "{outcome}");
    assert_eq!(std::fs::read_to_string(scratch.path("results")).unwrap(), "kept\n");
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
    let script =
        "#!/bin/sh\ni=0; while [ $i -lt 2000 ]; do printf %01024d 0; i=$((i+1)); done >big\n";
    write_script(&scratch, "make-big", script);
    let large = ["--file", "make-big", "--results", "1M", "--", "workload", "command", "--"];
    fails(&[&large[..], &["./make-big"]].concat(), "Try: --results");
}

/// An emulator that sleeps the first time stands for one that loses its guest, as QEMU 7.2 does now and then.
#[test]
fn full_an_emulated_guest_that_does_not_boot_is_started_once_more() {
    skip_unless!(need_full());
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let script = "#!/bin/sh\nif mkdir started 2>/dev/null; then exec sleep 1000; fi\n\
                  echo \"$@\" >arguments\n\
                  PATH=${PATH#*:} exec qemu-system-x86_64 \"$@\"\n";
    write_script(&scratch, "qemu-system-x86_64", script);
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.args(["lab", "run", "--accel", "tcg", "--", "workload", "command", "--", "true"]);
    command.env("PATH", format!("{}:{path}", scratch.path("").display()));
    let outcome = Outcome::of(command.current_dir(scratch.path("")));
    outcome.complains("at the second start, as the first did not boot");
    let arguments = std::fs::read_to_string(scratch.path("arguments")).unwrap();
    assert!(arguments.contains("thread=single"), "{arguments}");
}

/// What the kernel counted of instructions, by a recording of a guest.
fn instructions_of(scratch: &Scratch, file: &str) -> u64 {
    let report = scratch.pmuscope(["report", "-i", file]);
    report.exits(0).prints("cycles:u").prints("exact");
    let info = Recording::at(scratch.path(file)).info();
    let event = info.events.iter().find(|event| event.name == "instructions:u").unwrap();
    assert_eq!(event.origin, "hardware");
    event.counted.unwrap()
}

#[test]
fn full_the_instructions_of_a_known_loop_are_counted() {
    skip_unless!(need_full());
    skip_unless!(need_pmu_guest());
    skip_unless!(need_script());
    const ROUNDS: u64 = 20_000_000;
    let scratch = Scratch::new();
    let record = |rounds: u64| {
        format!(
            "pmuscope record -e cycles:u,instructions:u -o {rounds}.data -- pmuscope workload \
             exact-loop --rounds {rounds}\n"
        )
    };
    let script = run_script(&scratch, &(record(ROUNDS) + &record(2 * ROUNDS)));
    script.exits(0).prints("Instructions = ");
    let [one, two] =
        [ROUNDS, 2 * ROUNDS].map(|rounds| instructions_of(&scratch, &format!("{rounds}.data")));
    // Two instructions a round. The program around it prints a time, whose digits vary.
    let expected = 2 * ROUNDS;
    assert!((two - one).abs_diff(expected) < expected / 10_000, "{one} {two}, expected {expected}");
}

#[test]
fn full_kernels_and_settings_make_a_table() {
    skip_unless!(need_full());
    skip_unless!(need_guests("x86_64", "6.1"));
    skip_unless!(need_newer_kernel());
    let scratch = Scratch::new();
    // A switch that 6.12 has and 6.1 has not: that cell fails, the others do not.
    let args = ["run", "--kernel", "6.1", "--kernel", "6.12", "--set", "kernel.numa_balancing=0,1"];
    let more =
        ["--set", "kernel.io_uring_disabled=0", "-r", "2", "--nodes", "2", "--json=runs.json"];
    let figures = ["--metric-from", "instructions=Instructions = ([0-9]+)", "--"];
    let command = ["workload", "exact-loop", "--rounds", "1000"];
    let outcome = lab(&scratch, args.iter().chain(&more).chain(&figures).chain(&command));
    outcome
        .exits(1)
        .prints("6.12 kernel.numa_balancing=1")
        .prints("2 of 2 runs failed: the guest failed");
    outcome.prints("instructions").prints("2,000").complains("8/8 ");
    let text = std::fs::read(scratch.path("runs.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        (json["guests"].as_array().unwrap().len(), json["runs"].as_array().unwrap().len()),
        (4, 8)
    );
    let newest = &json["guests"][3];
    assert!(newest["kernel"].as_str().unwrap().starts_with("6.12"));
    assert_eq!(newest["config_sha256"].as_str().unwrap().len(), 64);
    assert!(newest["command_line"].as_str().unwrap().contains("console="));
    scratch.pmuscope(["compare", "runs.json", "runs.json"]).exits(0);
}

#[test]
fn bad_input_is_refused_before_a_guest_starts() {
    let scratch = Scratch::new();
    let kernel = scratch.path("kernel");
    std::fs::write(&kernel, "text").unwrap();
    let args = ["run", "--kernel", kernel.to_str().unwrap(), "--", "doctor"];
    lab(&scratch, args).exits(2).complains("it is not a kernel");
    lab(&scratch, ["run", "--distance", "9", "--", "doctor"]).exits(2).complains("11 to 254");
    lab(&scratch, ["run", "--set", "x", "--", "doctor"]).exits(2).complains("NAME=VALUE");
    lab(&scratch, ["run"]).exits(2).complains("ARGS");
    lab(&scratch, ["run", "--nodes", "0", "--", "doctor"]).complains("--nodes 0: ");
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

/// Who has no QEMU yet waits for no download first.
#[test]
fn without_an_emulator_no_kernel_is_looked_for() {
    let scratch = Scratch::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.args(["lab", "run", "--kernel", "6.1", "--", "doctor"]).current_dir(scratch.path(""));
    command.env("PATH", scratch.path("")).env("PMUSCOPE_CACHE", scratch.path("cache"));
    Outcome::of(&mut command).exits(3).complains("cannot find qemu-system-");
}
