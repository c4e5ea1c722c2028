//! What `pmuscope --version` tells of the build, as environment variables for the compiler: target, profile,
//! compiler, features, and the commit of a release build. Asks nothing but rustc and git, and needs no git.

#![allow(clippy::print_stdout)] // how a build script speaks to cargo

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let mut features: Vec<String> = std::env::vars()
        .filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase()))
        .filter(|name| name != "default")
        .collect();
    features.sort();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    tell("FEATURES", &features.replace('_', "-"));
    tell("TARGET", &variable("TARGET"));
    let profile = variable("PROFILE");
    tell("PROFILE", &format!("{profile}, optimisation level {}", variable("OPT_LEVEL")));
    let rustc = first_line(Command::new(variable("RUSTC")).arg("--version"));
    tell("RUSTC", &rustc.unwrap_or_else(|| "-".to_owned()));
    tell("COMMIT", &commit(&profile));
    println!("cargo::rerun-if-changed=build.rs");
}

/// What cargo promises to set.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|error| format!("- ({name}: {error})"))
}

fn tell(name: &str, value: &str) {
    println!("cargo::rustc-env=PMUSCOPE_BUILD_{name}={value}");
}

/// The first line that a program prints; `None` if it cannot be run, fails, or prints nothing.
fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let line = String::from_utf8(output.stdout).ok()?.lines().next()?.to_owned();
    Some(line).filter(|line| !line.is_empty())
}

/// The commit alone, whatever tags there are.
const DESCRIBE: [&str; 5] =
    ["describe", "--always", "--exclude=*", "--dirty=, with changes", "--abbrev=12"];

/// The commit, and whether the tree was as committed; or why it is not known. A build that is no
/// release would be made anew after each commit, for this line alone.
fn commit(profile: &str) -> String {
    if profile != "release" {
        return "- (recorded in release builds only)".to_owned();
    }
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    let git = |args: &[&str]| first_line(Command::new("git").arg("-C").arg(&root).args(args));
    // Sources unpacked within somebody's repository are not of its commits.
    let top = git(&["rev-parse", "--show-toplevel"]).map(PathBuf::from);
    let is_ours = |top: &Path| top.canonicalize().ok() == root.canonicalize().ok();
    let described = top.filter(|top| is_ours(top)).and_then(|_| git(&DESCRIBE));
    let Some(described) = described else { return "- (git tells none)".to_owned() };
    // A commit, and a change of anything that is built.
    for name in ["HEAD", "logs/HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={}", root.join(path).display());
        }
    }
    for name in ["crates", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(name).display());
    }
    described
}
