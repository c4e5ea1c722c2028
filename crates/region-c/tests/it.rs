//! Programs in C and Python that count regions of themselves, as a user builds and runs them.

#![allow(clippy::unwrap_used)] // a helper of a test may fail it

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

// Makes cargo build the library, in all its forms.
use pmuscope_c as _;

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// The library as cargo has just built it, beside this test.
fn library(name: &str) -> PathBuf {
    let path = std::env::current_exe().unwrap().parent().unwrap().join(name);
    assert!(path.exists(), "{} is not built", path.display());
    path
}

/// Why `program` cannot be run here; `None` if it can.
fn need(program: &str) -> Option<String> {
    let found = Command::new(program).arg("--version").output();
    found.err().map(|error| format!("cannot run {program}: {error}"))
}

macro_rules! skip_unless {
    ($need:expr) => {
        if let Some(reason) = $need {
            eprintln!("skipped: {reason}");
            return;
        }
    };
}

/// What a program printed; it ends well, or the test does not.
#[track_caller]
fn runs(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// Compiles a program of this crate with the library in it.
#[track_caller]
fn compile(folder: &Path, source: &str) -> PathBuf {
    let program = folder.join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let mut cc = Command::new("cc");
    cc.args(STRICT).args(["-std=gnu99", "-O1", "-I"]).arg(root().join("include")).arg(source);
    cc.arg(library("libpmuscope_c.a")).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    runs(&mut cc);
    program
}

#[test]
fn the_header_is_strict_c_and_cpp() {
    let header = root().join("include/pmuscope_region.h");
    for (compiler, language, standard) in [("cc", "c", "-std=c99"), ("c++", "c++", "-std=c++11")] {
        if let Some(reason) = need(compiler) {
            eprintln!("skipped: {reason}");
            continue;
        }
        let mut check = Command::new(compiler);
        check.args(STRICT).args([standard, "-fsyntax-only", "-x", language]).arg(&header);
        runs(&mut check);
    }
}

#[test]
fn the_header_declares_what_the_library_has() {
    let header = std::fs::read_to_string(root().join("include/pmuscope_region.h")).unwrap();
    let exported = std::fs::read_to_string(root().join("crates/region-c/src/sys.rs")).unwrap();
    let functions: Vec<&str> = exported
        .split("extern \"C\" fn ")
        .skip(1)
        .map(|rest| rest.split('(').next().unwrap())
        .collect();
    assert!(functions.len() >= 10, "{functions:?}");
    for name in &functions {
        assert!(header.contains(&format!("{name}(")), "the header does not declare {name}");
    }
    let is_one = |line: &&str| line.ends_with(");") && !line.starts_with(" ");
    let declared = header.lines().filter(is_one);
    assert_eq!(declared.count(), functions.len(), "the header declares what is not there");
}

#[test]
fn the_example_in_c_tells_what_a_number_costs() {
    skip_unless!(need("cc"));
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "examples/sort.c");
    let said = runs(&mut Command::new(&program));
    for part in ["2 regions in 2 threads, 400 entries", "/number (95% CI)", "task-clock ns"] {
        assert!(said.contains(part), "{part}:\n{said}");
    }
    // The rows of the events that were counted have numbers: fill and sort, 200 entries each.
    let rows = said.lines().filter(|line| line.starts_with("fill ") || line.starts_with("sort "));
    assert_eq!(rows.filter(|row| row.contains(" 200 ")).count(), 2, "{said}");
    let wrong = Command::new(&program).arg("tusk-clock").output().unwrap();
    assert_eq!(wrong.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("tusk-clock"));
}

#[test]
fn misuse_and_forks_are_errors_and_no_crash() {
    skip_unless!(need("cc"));
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "tests/misuse.c");
    assert!(runs(&mut Command::new(program)).contains("pmuscope/region/1"));
}

/// Runs a Python program over the library.
fn python(script: PathBuf) -> Command {
    let mut python = Command::new("python3");
    python.arg(script).env("PMUSCOPE_LIBRARY", library("libpmuscope_c.so"));
    // Nothing is written beside the sources.
    python.env("PYTHONPATH", root().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

#[test]
fn the_example_in_python_tells_what_a_number_costs() {
    skip_unless!(need("python3"));
    let script = root().join("python/examples/sort.py");
    let said = runs(&mut python(script.clone()));
    for part in ["2 regions in 2 threads, 200 entries", "/number (95% CI)", "task-clock ns"] {
        assert!(said.contains(part), "{part}:\n{said}");
    }
    let wrong = python(script).arg("tusk-clock").output().unwrap();
    assert_eq!(wrong.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("tusk-clock"));
}

#[test]
fn the_python_module_nests_switches_forks_and_fails_in_order() {
    skip_unless!(need("python3"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/region.py");
    assert_eq!(runs(&mut python(script)), "all well\n");
}

#[test]
fn python_says_where_it_looks_for_the_library() {
    skip_unless!(need("python3"));
    let mut python = python(root().join("python/examples/sort.py"));
    let said = python.env("PMUSCOPE_LIBRARY", "/no/such.so").output().unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("cannot load /no/such.so"), "{said:?}");
}
