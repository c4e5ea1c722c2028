//! `record --open`: the recording in a viewer, once it ends.

use std::fs;
use std::process::Command;

use crate::harness::{Outcome, Scratch, need_sampling, skip_unless};
use crate::lab::write_script;

/// What the browser was given is kept by a script in its place.
#[test]
fn open_shows_the_page_and_keeps_the_exit_status() {
    skip_unless!(need_sampling());
    let scratch = Scratch::new();
    write_script(&scratch, "browser", "#!/bin/sh\necho \"$1\" > opened\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    let script = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; exit 3";
    command.args(["record", "-e", "cpu-clock:u", "--open", "--", "sh", "-c", script]);
    command.env("BROWSER", scratch.path("browser")).env("PMUSCOPE_CACHE", scratch.path("cache"));
    let outcome = Outcome::of(command.current_dir(scratch.path(".")));
    outcome.exits(3);
    let opened = fs::read_to_string(scratch.path("opened")).unwrap();
    let page = fs::read_to_string(opened.trim()).unwrap();
    assert!(page.contains("pmuscope.data") && page.contains("cpu-clock:u"), "{opened}");
}
