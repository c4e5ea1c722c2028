//! The programs of docs/library.md: they are the examples of the crates, and they do what they say.

use std::fs;
use std::path::Path;
use std::process::Command;

use pmuscope_testkit::need;

use crate::docs::root;
use crate::harness::{Scratch, Started, skip_unless};

#[path = "../../../region/examples/block.rs"]
mod block;
#[path = "../../../recorder/examples/record_process.rs"]
mod record_process;
#[path = "../../../profile/examples/top_functions.rs"]
mod top_functions;

#[test]
fn the_document_has_the_examples_as_they_are() {
    let document = fs::read_to_string(root().join("docs/library.md")).unwrap();
    let blocks: Vec<&str> = document.split("```rust\n").skip(1).collect();
    let programs = [
        "profile/examples/top_functions.rs",
        "region/examples/block.rs",
        "recorder/examples/record_process.rs",
    ];
    assert_eq!(blocks.len(), programs.len());
    for (block, program) in blocks.iter().zip(programs) {
        let source = fs::read_to_string(root().join("crates").join(program)).unwrap();
        // The head of the file and what only tests need stay out of the document.
        let code = source.split_once("\n\n").unwrap().1;
        let is_for_tests = |line: &&str| line.starts_with("#[allow(");
        let code: Vec<&str> = code.lines().filter(|line| !is_for_tests(line)).collect();
        let shown: Vec<&str> = block.split("```").next().unwrap().lines().collect();
        assert_eq!(shown, code, "{program}");
    }
}

#[test]
fn a_process_is_recorded_and_its_functions_are_printed() {
    skip_unless!(need::sampling());
    let scratch = Scratch::new();
    let mut work = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    let started = Started::of(work.args(["workload", "share-mix", "--seconds", "60"]));
    let file = scratch.path("perf.data");
    let summary = record_process::run(started.pid(), &file).unwrap();
    assert!(summary.info.samples() > 100, "{:?}", summary.info);
    let mut text = Vec::new();
    top_functions::run(&file, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("cpu-clock:u: ") && text.contains("integer_division"), "{text}");
}

#[test]
fn what_is_no_recording_is_refused() {
    let error = top_functions::run(Path::new("/dev/null"), &mut Vec::new()).unwrap_err();
    assert!(!error.to_string().is_empty());
    let error = record_process::run(u32::MAX / 4, Path::new("/dev/null")).unwrap_err();
    assert!(!error.to_string().is_empty());
}

#[test]
fn events_around_a_block_are_counted() {
    let (sum, report) = block::run().unwrap();
    assert_eq!(sum, 499_999_500_000);
    let region = report.region("measure").unwrap();
    let clock = region.row("task-clock").unwrap().total.unwrap();
    assert!(region.entries == 1 && clock > 0.0, "{report}");
}
