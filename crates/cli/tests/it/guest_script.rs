//! Several commands in one aarch64 guest: booting takes as long as a recording. A guest has no shell, so
//! a program of the tests runs them ([`crate::guest_shell`]).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::harness::{Outcome, Scratch, compiled};
use crate::lab::lab;
use crate::strobe::pmu_guest;

/// Static, as nothing else of its kind is in a guest.
const TARGET: &str = "aarch64-unknown-linux-musl";

/// The program, compiled once.
fn shell() -> Result<&'static Path, &'static str> {
    static SHELL: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    SHELL.get_or_init(compile).as_deref().map_err(String::as_str)
}

fn compile() -> Result<PathBuf, String> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/guest_shell.rs");
    let flags = ["--edition", "2024", "-O", "--target", TARGET, "-C", "linker=rust-lld", "-o"];
    compiled("guest_shell", Command::new("rustc").args(flags), source)
        .map_err(|error| format!("rustc does not compile for {TARGET}: {error}"))
}

/// Why no script can run in a guest.
pub(crate) fn need_script() -> Option<String> {
    shell().err().map(str::to_owned)
}

/// Runs the script in a guest of one CPU with a PMU. Files that it makes come back.
#[track_caller]
pub(crate) fn run_script(scratch: &Scratch, script: &str) -> Outcome {
    let shell = shell().unwrap().to_str().unwrap();
    std::fs::write(scratch.path("commands"), script).unwrap();
    let files = ["--file", shell, "--file", "commands"];
    let command = ["--", "workload", "command", "--", shell, "commands"];
    let words = files.into_iter().chain(command).map(String::from);
    lab(scratch, pmu_guest(1).into_iter().chain(words))
}

/// The process id of the program that a script started as number `number`.
#[track_caller]
pub(crate) fn started(script: &Outcome, number: u32) -> i32 {
    let head = format!("started {number}: ");
    let line = script.stdout.lines().find_map(|line| line.strip_prefix(&head));
    line.and_then(|pid| pid.parse().ok()).unwrap_or_else(|| panic!("{head}\n{script}"))
}
