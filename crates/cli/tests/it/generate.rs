//! Manual pages, and completions of shells.

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

/// A checker of manual pages must find no fault with any of them, where it is installed.
#[track_caller]
fn finds_no_fault(mut checker: std::process::Command) {
    let scratch = Scratch::new();
    scratch.pmuscope(["generate", "man", "--out", ".", "--date", "2026-11-22"]).exits(0);
    let pages = std::fs::read_dir(scratch.path("")).unwrap().map(|page| page.unwrap().path());
    let pages: Vec<_> = pages.filter(|page| page.extension().is_some_and(|e| e == "1")).collect();
    assert!(pages.len() > 20, "{pages:?}");
    checker.args(pages).env("MANWIDTH", "100").env("LC_ALL", "C.UTF-8");
    Outcome::of(&mut checker).exits(0).is_silent();
}

#[test]
fn man_formats_the_pages() {
    skip_unless!(need_program("man", "--version"));
    let mut man = std::process::Command::new("man");
    man.args(["--warnings", "-l"]);
    finds_no_fault(man);
}

#[test]
fn mandoc_finds_no_fault_with_the_pages() {
    skip_unless!(need_program("mandoc", "/dev/null"));
    let mut mandoc = std::process::Command::new("mandoc");
    mandoc.args(["-T", "lint", "-W", "warning"]);
    finds_no_fault(mandoc);
}

/// Words that bash offers where `words` are typed and the last of them is to be completed.
fn offered(scratch: &Scratch, words: &[&str]) -> Vec<String> {
    // What bash does when the key is pressed: sets the words, calls the function with three of them.
    let ask = r#"source ./pmuscope
complete -p pmuscope >&2
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_pmuscope "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}""#;
    let outcome = scratch.run("bash", ["--norc", "-c", ask, "bash"].iter().chain(words));
    outcome.exits(0).complains("-F _pmuscope pmuscope");
    outcome.stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    skip_unless!(need_program("bash", "--version"));
    let scratch = Scratch::new();
    let write = ["generate", "completions", "--shell", "bash", "--out", "."];
    scratch.pmuscope(write).exits(0).prints_nothing().is_silent();
    let help = scratch.pmuscope(["--help"]);
    let listed = help.stdout.split_once("Profile:\n").unwrap().1;
    let listed = listed.split_once("Options:\n").unwrap().0;
    let commands: Vec<&str> =
        listed.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    let commands: Vec<&str> = commands.into_iter().filter(|name| !name.is_empty()).collect();
    assert!(commands.len() > 10, "{commands:?}");
    let first = offered(&scratch, &["pmuscope", ""]);
    for command in &commands {
        assert!(first.iter().any(|word| word == command), "{command} in {first:?}");
    }
    assert!(!first.iter().any(|word| word == "generate"), "{first:?}");
    assert_eq!(offered(&scratch, &["pmuscope", "rep"]), ["report"]);
    assert_eq!(offered(&scratch, &["pmuscope", "numa", "ad"]), ["advise"]);
    assert_eq!(offered(&scratch, &["pmuscope", "record", "--switch-output"]), ["--switch-output"]);
    assert_eq!(offered(&scratch, &["pmuscope", "lab", "run", "--accel", "tc"]), ["tcg"]);
    assert!(offered(&scratch, &["pmuscope", "report", "perf.da"]).is_empty(), "files are bash's");
}

/// Shells that are installed here read their own completions.
#[test]
fn zsh_and_fish_read_theirs() {
    for (shell, file) in [("zsh", "_pmuscope"), ("fish", "pmuscope.fish")] {
        let scratch = Scratch::new();
        let write = ["generate", "completions", "--shell", shell, "--out", "."];
        scratch.pmuscope(write).exits(0);
        assert!(scratch.path(file).exists(), "{file}");
        if let Some(reason) = need_program(shell, "--version") {
            eprintln!("skipped: {reason}");
            continue;
        }
        scratch.run(shell, ["-n", file]).exits(0).is_silent();
    }
    Scratch::new()
        .pmuscope(["generate", "completions", "--shell", "tcsh", "--out", "."])
        .exits(2)
        .complains("bash, zsh, fish");
}
