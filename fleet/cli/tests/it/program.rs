//! The program as users run it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pmuscope_testkit::corpus::corpus;

fn fleet(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pmuscope-fleet")).args(args).output().unwrap()
}

#[track_caller]
fn succeeds(args: &[&str]) -> String {
    let output = fleet(args);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {printed}");
    printed
}

#[track_caller]
fn fails(args: &[&str], with: &str) {
    let output = fleet(args);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {printed}");
    assert!(printed.starts_with("error: ") && printed.contains(with), "{args:?}: {printed}");
}

/// Files below a folder, as paths within it.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn a_recording_imported_twice_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_str().unwrap();
    let recording = corpus().recording("converter_with-callchain.perf.data");
    let recording = recording.to_str().unwrap();
    let args =
        ["import", "--to", to, "--host", "web-1", "--started", "2026-11-25T23:59:59Z", recording];
    let printed = succeeds(&args);
    assert!(printed.contains(" samples, ") && printed.contains(" stacks, "), "{printed}");
    let first = files(folder.path());
    let tables: BTreeSet<&str> =
        first.iter().map(|path| path.iter().nth(1).unwrap().to_str().unwrap()).collect();
    assert_eq!(tables, ["frames", "hosts", "intervals", "samples", "services", "stacks"].into());
    let is_named = |path: &PathBuf| {
        let text = path.display().to_string();
        let in_days = ["25", "26"].map(|day| text.contains(&format!("/date=2026-11-{day}/web-1-")));
        in_days.contains(&true) && text.ends_with(".parquet")
    };
    // It goes past midnight: both days have what they need, and the host is where it begins.
    assert!(first.len() == 11 && first.iter().all(is_named), "{first:?}");
    succeeds(&args);
    assert_eq!(files(folder.path()), first);
    // Another service is another import.
    succeeds(&[&args[..], &["--service", "checkout"]].concat());
    assert_eq!(files(folder.path()).len(), 22);
}

#[test]
fn what_cannot_be_imported_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_str().unwrap();
    fails(&["import", "--to", to, "/nonexistent.data"], "/nonexistent.data");
    fails(&["import", "--to", to, "/etc/hostname"], "/etc/hostname");
    let recording = corpus().recording("converter_with-callchain.perf.data");
    fails(&["import", "--to", to, recording.to_str().unwrap()], "Try: --started TIME");
    fails(&["import", "--to", to, "--started", "now", "x.data"], "Try: 2026-11-25T12:00:00Z");
    assert!(files(folder.path()).is_empty());
}

/// Words as a shell has them, up to a comment, a pipe, or another file.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    let end = words.iter().position(|word| ["#", "|", ">"].contains(&&**word));
    words.truncate(end.unwrap_or(words.len()));
    words
}

/// With `--help` at the end, flags and values before it were good when the help is shown.
#[test]
fn every_command_line_of_the_fleet_in_the_documents_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut checked = 0;
    let pages = ["dataset", "fleet", "fleet-agent", "fleet-questions", "cookbook"]
        .map(|page| format!("docs/{page}.md"));
    for page in pages.iter().map(String::as_str).chain(["README.md"]) {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("pmuscope fleet ")) {
            let words = words(line);
            let words = words.iter().map(String::as_str);
            succeeds(&words.chain(["--help"]).collect::<Vec<_>>());
            checked += 1;
        }
    }
    assert!(checked > 0, "no command lines found");
}
