//! Where reports take symbols from.

use std::process::Command;

use crate::harness::Scratch;

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
