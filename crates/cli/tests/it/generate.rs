//! Manual pages.

use crate::harness::{Outcome, Scratch, need_program, skip_unless};

#[test]
fn manual_pages_are_written_where_asked() {
    let scratch = Scratch::new();
    let out = scratch.path("share/man/man1");
    scratch
        .pmuscope(["generate", "man", "--out", out.to_str().unwrap()])
        .exits(0)
        .prints_nothing()
        .is_silent();
    let record = std::fs::read_to_string(out.join("pmuscope-record.1")).unwrap();
    assert!(record.contains(".TH"), "{record}");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), "").unwrap();
    let refused = scratch.pmuscope(["generate", "man", "--out", "file/man"]);
    refused.exits(2).prints_nothing().complains("file/man");
}

/// man(1) must find no fault with them, where it is installed.
#[test]
fn man_formats_the_pages() {
    skip_unless!(need_program("man", "--version"));
    let scratch = Scratch::new();
    scratch.pmuscope(["generate", "man", "--out", "."]).exits(0);
    let mut man = std::process::Command::new("man");
    let page = scratch.path("pmuscope.1");
    man.args(["--warnings", "-l"]).arg(page).env("MANWIDTH", "100").env("LC_ALL", "C");
    let page = Outcome::of(&mut man);
    page.exits(0).is_silent().prints("record");
}
