//! Help, version, and what is no command line.

use crate::harness::Scratch;

/// Commands that `--help` lists.
const COMMANDS: [&str; 6] = ["doctor", "record", "report", "bench", "compare", "workload"];

#[test]
fn help_lists_the_commands() {
    let help = Scratch::new().pmuscope(["--help"]);
    help.exits(0).is_silent().prints("Usage: pmuscope");
    for command in COMMANDS {
        help.prints(command);
    }
    assert!(!help.stdout.contains("generate"), "hidden commands are listed\n{help}");
}

#[test]
fn every_command_has_help() {
    for command in COMMANDS {
        let usage = format!("Usage: pmuscope {command}");
        Scratch::new().pmuscope([command, "--help"]).exits(0).is_silent().prints(&usage);
        Scratch::new().pmuscope(["help", command]).exits(0).is_silent().prints(&usage);
    }
}

#[test]
fn version_is_that_of_the_crate() {
    let short = concat!("pmuscope ", env!("CARGO_PKG_VERSION"), "\n");
    let version = Scratch::new().pmuscope(["-V"]);
    version.exits(0).is_silent();
    assert_eq!(version.stdout, short, "{version}");
    Scratch::new().pmuscope(["record", "--version"]).exits(0).prints(env!("CARGO_PKG_VERSION"));
}

/// The parts of `--version`, from the build that tests are of.
#[test]
fn version_tells_which_build_it_is() {
    let version = Scratch::new().pmuscope(["--version"]);
    version.exits(0).is_silent();
    let value = |name: &str| {
        let mut lines = version.stdout.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().unwrap_or_else(|| panic!("no {name}\n{version}")).to_owned()
    };
    assert_eq!(value("pmuscope "), env!("CARGO_PKG_VERSION"));
    assert!(value("target: ").starts_with(std::env::consts::ARCH), "{version}");
    let profile = if cfg!(debug_assertions) { "debug, " } else { "release, " };
    assert!(value("profile: ").starts_with(profile), "{version}");
    assert!(value("compiler: ").starts_with("rustc 1."), "{version}");
    let all = [
        ("parquet", cfg!(feature = "parquet")),
        ("screen", cfg!(feature = "screen")),
        ("serve", cfg!(feature = "serve")),
    ];
    let features: Vec<&str> = all.iter().filter(|one| one.1).map(|one| one.0).collect();
    let none = if features.is_empty() { "none" } else { "" };
    assert_eq!(value("features: "), features.join(", ") + none);
    // A commit of 12 digits, or why there is none.
    let commit = value("commit: ");
    let id = commit.trim_end_matches(", with changes");
    let is_commit = id.len() >= 12 && id.chars().all(|digit| digit.is_ascii_hexdigit());
    assert!(is_commit || commit.starts_with("- ("), "{version}");
}

#[test]
fn nothing_asked_is_a_usage_error() {
    let empty: [&str; 0] = [];
    Scratch::new().pmuscope(empty).exits(2).prints_nothing().complains("Usage: pmuscope");
}

#[test]
fn unknown_commands_and_flags_are_usage_errors() {
    let unknown = Scratch::new().pmuscope(["recrod"]);
    unknown.exits(2).prints_nothing().complains("'recrod'").complains("record");
    for args in [vec!["--no-such-flag"], vec!["record", "--no-such-flag"], vec!["generate", "man"]]
    {
        Scratch::new().pmuscope(args).exits(2).prints_nothing().complains("error:");
    }
}

/// Arguments come from anywhere: bytes that are no text, and text that would drive a terminal.
#[test]
fn foreign_arguments_are_usage_errors() {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    Scratch::new().pmuscope([bytes]).exits(2).prints_nothing();
}

/// A dash is standard output where there can be one, and nowhere the name of a file.
#[test]
fn a_dash_is_no_file() {
    let scratch = Scratch::new();
    let refused = scratch.pmuscope(["record", "-o", "-", "--", "true"]);
    refused.exits(2).prints_nothing().complains("Try: -o FILE");
    let counted = scratch.pmuscope(["stat", "-o", "-", "-x,", "-e", "page-faults:u", "--", "true"]);
    counted.exits(0).prints(",page-faults:u,");
    assert!(!scratch.path("-").exists());
}
