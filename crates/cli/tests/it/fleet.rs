//! `pmuscope fleet` runs the program of that name and is its answer.

use std::os::unix::fs::PermissionsExt as _;

use crate::harness::Scratch;

/// The program in a folder that has no other, which cargo's may have.
fn alone(scratch: &Scratch) -> String {
    let own = scratch.path("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_pmuscope"), own.join("pmuscope")).unwrap();
    own.join("pmuscope").to_str().unwrap().to_owned()
}

#[test]
fn the_program_is_found_on_path_and_gets_all_that_follows() {
    let scratch = Scratch::new();
    let script = "#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n";
    let program = scratch.path("pmuscope-fleet");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("PATH={}:/usr/bin:/bin", scratch.path("").display());
    let own = alone(&scratch);
    let ran = scratch.run("env", [&*path, &own, "fleet", "import", "--help", "-v", "a b"]);
    assert_eq!((ran.code(), &*ran.stdout), (7, "import|--help|-v|a b|"), "{ran}");
}

#[test]
fn where_the_program_is_missing_the_answer_says_how_to_get_it() {
    let scratch = Scratch::new();
    let own = alone(&scratch);
    let missing = scratch.run("env", ["PATH=/nonexistent", &own, "fleet", "help"]);
    missing.exits(3).complains("pmuscope-fleet").complains("Try: make fleet");
    scratch.pmuscope(["fleet", "--help"]).exits(0).prints("pmuscope fleet import --to");
}
