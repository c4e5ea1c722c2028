//! Recordings of other machines, and files made to do harm, through the program as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmuscope_testkit::corpus::{IndexRow, corpus};

use crate::harness::Outcome;

/// Most memory, KiB: private and writable, which is what files that are read do not count as.
const MEMORY_KIB: u32 = 256 << 10;
/// Most CPU time, seconds. A program that hangs takes more.
const CPU_S: u32 = 10;

/// `pmuscope ARGS -i FILE` with bounded memory and time.
#[track_caller]
fn pmuscope(args: &[&str], file: &Path) -> Outcome {
    let limited = format!("ulimit -d {MEMORY_KIB}; ulimit -t {CPU_S}; exec \"$@\"");
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_pmuscope")]).args(args);
    command.arg("-i").arg(file).env("HOME", dir.path()).env_remove("XDG_CACHE_HOME");
    let outcome = Outcome::of(&mut command);
    assert!(outcome.code() <= 2 && !outcome.stderr.contains("panicked"), "{outcome}");
    outcome
}

/// Samples of each event that has any, in the order of the file, as far as the index goes.
fn counts(row: &IndexRow) -> Vec<u64> {
    // Where the other parser cannot tell events apart it counts all.
    let parts = row["events:samples"].split(' ').filter(|part| !part.starts_with("all:"));
    let counts = parts.map_while(|part| part.rsplit(':').next()?.parse::<u64>().ok());
    counts.filter(|&samples| samples > 0).collect()
}

#[test]
fn reports_of_real_recordings_have_the_samples_that_the_index_counts() {
    for path in corpus().recordings() {
        let row = corpus().row(&path);
        let outcome = pmuscope(&["report", "--json"], &path);
        assert!(outcome.code() <= 1, "{outcome}");
        let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        let events = report["events"].as_array().unwrap();
        let found: Vec<u64> =
            events.iter().map(|event| event["samples"].as_u64().unwrap()).collect();
        let found: Vec<u64> = found.into_iter().filter(|&samples| samples > 0).collect();
        if !row["record_counts"].contains("COMPRESSED") {
            let expected = counts(row);
            assert_eq!(found[..expected.len()], expected, "{}", path.display());
            assert_eq!(
                found.iter().sum::<u64>().to_string(),
                row["n_samples"],
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn scripts_of_real_recordings_have_a_line_for_each_sample() {
    for path in corpus().recordings() {
        let row = corpus().row(&path);
        let outcome = pmuscope(&["script", "-F", "tid,event"], &path);
        assert!(outcome.code() <= 1, "{outcome}");
        let lines = outcome.stdout.lines().count();
        if !row["record_counts"].contains("COMPRESSED") {
            assert_eq!(lines.to_string(), row["n_samples"], "{}", path.display());
        }
    }
}

/// Everything there is to print, of each that is not large, in each form.
#[test]
fn every_field_of_real_recordings_can_be_printed() {
    let fields = "+misc,+id,+stream_id,+read,+addr,+data_src,+weight,+ins_lat,+retire_lat,+iregs,\
                  +uregs,+ustack,+brstack,+brstacksym,+raw,+transaction,+phys_addr,+cgroup,\
                  +data_page_size,+code_page_size,+pid";
    let small = |path: &PathBuf| fs::metadata(path).unwrap().len() < 250_000;
    for path in corpus().recordings().into_iter().filter(small) {
        let text = pmuscope(&["script", "--show-all", "-F", fields], &path);
        assert!(text.code() <= 1 && !text.stdout.is_empty(), "{text}");
        let json = pmuscope(&["script", "--show-all", "--json", "-F", fields], &path);
        for line in json.stdout.lines() {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(object["type"].is_string(), "{line}");
        }
        let csv = pmuscope(&["script", "--csv"], &path);
        assert!(csv.stdout.starts_with("comm,tid,cpu,time,"), "{csv}");
        let dump = pmuscope(&["script", "-D"], &path);
        assert!(dump.code() <= 1 && dump.stdout.contains("# event 0: "), "{dump}");
    }
}

#[test]
fn malformed_files_end_in_an_error_or_a_partial_result() {
    for path in corpus().malformed() {
        for args in [
            &["report"][..],
            &["report", "--json"],
            &["script", "--show-all", "-F", "+raw,+uregs,+ustack,+brstack"],
            &["script", "-D"],
        ] {
            let outcome = pmuscope(args, &path);
            if outcome.code() == 2 {
                let name = path.file_name().unwrap().to_str().unwrap();
                outcome.prints_nothing().complains("error: ").complains(name);
            }
        }
    }
}
