//! Names of programs whose files are not at their paths: in containers, deleted or replaced while they ran, rebuilt since.

use std::process::Command;

use serde_json::Value;

use crate::harness::{
    Scratch, Started, need_c_compiler, need_mount_namespaces, need_root, skip_unless,
};
use crate::recording::need_clock;

/// Share of samples that a function has at least: on a busy machine the kernel has the others.
pub(crate) const MOSTLY: f64 = 0.8;

/// Runs for as many seconds as asked for.
const SPIN: &str = r#"
#include <stdlib.h>
#include <time.h>
volatile long sum;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
__attribute__((noinline)) void SPIN(void) { for (int i = 0; i < 3000000; i++) sum += i; }
int main(int n, char **args) { for (double end = now() + atof(args[1]); now() < end;) SPIN(); }
"#;

/// Compiles [`SPIN`] with a function of that name.
#[track_caller]
fn compile(scratch: &Scratch, function: &str, flags: &[&str]) {
    std::fs::write(scratch.path("spin.c"), SPIN).unwrap();
    let define = format!("-DSPIN={function}");
    let own = ["-O1", &define, "-o", "spin", "spin.c"];
    scratch.run("cc", own.iter().chain(flags)).exits(0);
}

/// The share of a command's samples that are in a function of this name.
#[track_caller]
pub(crate) fn share(scratch: &Scratch, recording: &str, command: &str, function: &str) -> f64 {
    share_of(scratch, recording, &["--comm", command], function)
}

/// Share of the samples with `function` among those that `filter` keeps, 0 to 1.
#[track_caller]
pub(crate) fn share_of(scratch: &Scratch, recording: &str, filter: &[&str], function: &str) -> f64 {
    let args = [&["report", "-i", recording, "--json"], filter].concat();
    let outcome = scratch.pmuscope(args);
    let report: Value = serde_json::from_str(&outcome.exits(0).stdout).unwrap();
    let event = &report["events"][0];
    let samples = event["samples"].as_f64().unwrap();
    assert!(samples >= 50.0, "{samples} samples\n{outcome}");
    let rows = event["functions"].as_array().unwrap();
    let of_function = rows.iter().filter(|row| row["function"] == function);
    of_function.map(|row| row["samples"].as_f64().unwrap()).sum::<f64>() / samples
}

#[track_caller]
fn is_named(scratch: &Scratch, recording: &str, function: &str) {
    let share = share(scratch, recording, "spin", function);
    assert!(share >= MOSTLY, "{recording}: {share}");
}

/// Puts `files` into a file system that only the mount namespace of the program has, which runs there as `spin`.
fn in_container(scratch: &Scratch, files: &[&str]) -> Started {
    std::fs::create_dir_all(scratch.path("inside")).unwrap();
    let copies: String = files.iter().map(|file| format!("cp -r {file} inside/ && ")).collect();
    let script = format!("mount -t tmpfs container inside && {copies}exec chroot inside /spin 60");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let spin = Started::of(command.current_dir(scratch.path(".")));
    let exe = format!("/proc/{}/exe", spin.pid());
    spin.wait_until(|| std::fs::read_link(&exe).is_ok_and(|exe| exe.ends_with("spin")));
    spin
}

#[test]
fn programs_of_containers_have_names_without_build_ids() {
    skip_unless!(need_root());
    skip_unless!(need_clock());
    skip_unless!(need_mount_namespaces());
    skip_unless!(need_c_compiler());
    let scratch = Scratch::new();
    compile(&scratch, "only_inside", &["-static", "-Wl,--build-id=none"]);
    let spin = in_container(&scratch, &["spin"]);
    std::fs::remove_file(scratch.path("spin")).unwrap();
    let pid = spin.pid().to_string();
    let record = |name: &str, of: &[&str]| {
        let args = [&["record", "-e", "cpu-clock", "-o", name][..], of, &["--", "sleep", "0.3"]];
        scratch.pmuscope(args.concat()).exits(0);
    };
    record("kept.data", &["-p", &pid]);
    record("all.data", &["-a"]);
    record("none.data", &["-p", &pid, "--no-keep"]);
    is_named(&scratch, "none.data", "only_inside");
    drop(spin);
    // The container is gone, and with it its files.
    is_named(&scratch, "kept.data", "only_inside");
    // Copies are no answers of the symbol cache.
    let fresh = ["--comm", "spin", "--no-symbol-cache"];
    let share_of_copy = share_of(&scratch, "kept.data", &fresh, "only_inside");
    assert!(share_of_copy >= MOSTLY, "{share_of_copy}");
    let of_all = share_of(&scratch, "all.data", &["--pid", &pid], "only_inside");
    assert!(of_all >= MOSTLY, "{of_all}");
    assert!(share(&scratch, "none.data", "spin", "only_inside") < 0.05);
}

/// Reports keep names in the symbol cache.
#[test]
fn the_view_of_modules_finds_the_names_that_reports_have_kept() {
    skip_unless!(need_clock());
    skip_unless!(need_c_compiler());
    let scratch = Scratch::new();
    compile(&scratch, "kept_by_report", &["-static", "-Wl,--build-id"]);
    let record = ["record", "-e", "cpu-clock", "-o", "x.data", "--no-keep", "--", "./spin", "0.3"];
    scratch.pmuscope(record).exits(0);
    is_named(&scratch, "x.data", "kept_by_report");
    std::fs::remove_file(scratch.path("spin")).unwrap();
    is_named(&scratch, "x.data", "kept_by_report");
    let modules = scratch.pmuscope(["report", "-i", "x.data", "--modules"]);
    let is_spin = |line: &&str| line.ends_with("/spin");
    let spin = modules.exits(0).stdout.lines().find(is_spin).unwrap_or_default();
    assert!(spin.contains("found") && !spin.contains(" 0%"), "{modules}");
}

#[test]
fn debug_files_of_containers_are_found_there() {
    skip_unless!(need_root());
    skip_unless!(need_clock());
    skip_unless!(need_mount_namespaces());
    skip_unless!(need_c_compiler());
    let scratch = Scratch::new();
    compile(&scratch, "only_in_debug_file", &["-static", "-g", "-Wl,--build-id=none"]);
    let objcopy = |args: &[&str]| scratch.run("objcopy", args).exits(0).is_silent().code();
    objcopy(&["--only-keep-debug", "spin", "spin.debug"]);
    objcopy(&["--strip-all", "spin"]);
    objcopy(&["--add-gnu-debuglink=spin.debug", "spin"]);
    std::fs::create_dir(scratch.path(".debug")).unwrap();
    std::fs::rename(scratch.path("spin.debug"), scratch.path(".debug/spin.debug")).unwrap();
    let spin = in_container(&scratch, &["spin", ".debug"]);
    std::fs::remove_dir_all(scratch.path(".debug")).unwrap();
    let pid = spin.pid().to_string();
    let args = ["record", "-p", &pid, "-e", "cpu-clock", "-o", "x.data", "--", "sleep", "0.3"];
    scratch.pmuscope(args).exits(0);
    is_named(&scratch, "x.data", "only_in_debug_file");
    // The container is gone, and with it both files.
    drop(spin);
    is_named(&scratch, "x.data", "only_in_debug_file");
}

/// Runs `script`, in which `./program` is a copy of `spin`, under `record`.
#[track_caller]
fn record_script(scratch: &Scratch, script: &str) {
    let script = format!("cp spin program && {script}");
    let args = ["record", "-e", "cpu-clock", "-o", "x.data", "--", "sh", "-c", &script];
    scratch.pmuscope(args).exits(0);
}

#[test]
fn programs_that_are_deleted_while_they_run_have_names() {
    skip_unless!(need_clock());
    skip_unless!(need_c_compiler());
    let scratch = Scratch::new();
    for flags in [&["-Wl,--build-id=none"][..], &[]] {
        compile(&scratch, "of_deleted", flags);
        let deleted = "./program 0.9 & sleep 0.5; rm program; wait";
        let replaced = "./program 0.9 & sleep 0.5; cp $(command -v true) new; mv new program; wait";
        for script in [deleted, replaced] {
            record_script(&scratch, script);
            let share = share(&scratch, "x.data", "program", "of_deleted");
            assert!(share >= MOSTLY, "{flags:?}: {script}: {share}");
        }
        std::fs::remove_file(scratch.path("program")).unwrap();
    }
}

#[test]
fn programs_deleted_before_recording_keep_their_names() {
    skip_unless!(need_clock());
    skip_unless!(need_c_compiler());
    let scratch = Scratch::new();
    compile(&scratch, "of_deleted", &["-Wl,--build-id=none"]);
    let mut command = Command::new("./spin");
    let spin = Started::of(command.arg("60").current_dir(scratch.path(".")));
    let exe = format!("/proc/{}/exe", spin.pid());
    spin.wait_until(|| std::fs::read_link(&exe).is_ok_and(|exe| exe.ends_with("spin")));
    std::fs::remove_file(scratch.path("spin")).unwrap();
    let pid = spin.pid().to_string();
    for (name, keep) in [("kept.data", &[][..]), ("none.data", &["-N"])] {
        let record = ["record", "-p", &pid, "-e", "cpu-clock", "-o", name];
        scratch.pmuscope([&record[..], keep, &["--", "sleep", "0.3"]].concat()).exits(0);
    }
    is_named(&scratch, "none.data", "of_deleted");
    drop(spin);
    is_named(&scratch, "kept.data", "of_deleted");
}

#[test]
fn a_rebuilt_program_has_no_names_and_a_reason() {
    skip_unless!(need_clock());
    skip_unless!(need_c_compiler());
    let scratch = Scratch::new();
    compile(&scratch, "first_build", &["-Wl,--build-id=none"]);
    let record = ["record", "-e", "cpu-clock", "-o", "x.data", "./spin", "0.3"];
    scratch.pmuscope(record).exits(0);
    is_named(&scratch, "x.data", "first_build");
    let rebuilt = |scratch: &Scratch| {
        for name in ["first_build", "second_build"] {
            assert_eq!(share(scratch, "x.data", "spin", name), 0.0, "{name}");
        }
        let outcome = scratch.pmuscope(["report", "-i", "x.data", "--modules"]);
        outcome.exits(0).prints("file changed").prints("changed after the recording");
    };
    // As linkers do: the file anew, perhaps with the number of the old one.
    std::fs::remove_file(scratch.path("spin")).unwrap();
    compile(&scratch, "second_build", &["-Wl,--build-id=none"]);
    rebuilt(&scratch);
    // The very same file, written over.
    let bytes = std::fs::read(scratch.path("spin")).unwrap();
    std::fs::write(scratch.path("spin"), bytes).unwrap();
    rebuilt(&scratch);
}

/// Copies the page of a function over itself, as programs do to have their text in huge pages.
const MOVED: &str = r#"
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
volatile long sum;
__attribute__((noinline, aligned(4096), section("moved"))) void moved_text(void)
{
	for (int i = 0; i < 3000000; i++) sum += i;
}
__attribute__((aligned(4096), section("moved"))) void end_of_moved(void) {}
int main(int n, char **args)
{
	char copy[4096], *page = (char *)moved_text;
	memcpy(copy, page, sizeof copy);
	mmap(page, sizeof copy, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memcpy(page, copy, sizeof copy);
	for (clock_t end = clock() + atof(args[1]) * CLOCKS_PER_SEC; clock() < end;) moved_text();
}
"#;

#[test]
fn text_that_was_moved_to_other_pages_keeps_its_names() {
    skip_unless!(need_clock());
    skip_unless!(need_c_compiler());
    let scratch = Scratch::new();
    std::fs::write(scratch.path("moved.c"), MOVED).unwrap();
    scratch.run("cc", ["-O1", "-o", "moved", "moved.c"]).exits(0);
    let record = ["record", "-e", "cpu-clock", "-o", "x.data", "./moved", "0.3"];
    scratch.pmuscope(record).exits(0);
    let from_the_start = share(&scratch, "x.data", "moved", "moved_text");
    assert!(from_the_start >= MOSTLY, "{from_the_start}");
    // The same when it was moved before the recording began.
    let moved = Started::of(Command::new(scratch.path("moved")).arg("60"));
    let maps = format!("/proc/{}/maps", moved.pid());
    moved.wait_until(|| std::fs::read_to_string(&maps).unwrap().lines().any(is_executable_memory));
    let pid = moved.pid().to_string();
    let record = ["record", "-e", "cpu-clock", "-o", "y.data", "-p", &pid, "--", "sleep", "0.3"];
    scratch.pmuscope(record).exits(0);
    let attached = share(&scratch, "y.data", "moved", "moved_text");
    assert!(attached >= MOSTLY, "{attached}");
}

/// Whether a line of `/proc/PID/maps` is of executable memory without a file.
fn is_executable_memory(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.len() == 5 && words[1].contains('x')
}
