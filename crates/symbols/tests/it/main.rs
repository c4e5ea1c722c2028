//! Symbols of programs that the tests compile.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy takes helpers of a test binary for no tests

mod accesses;
mod cached;
mod definitions;
mod hostile;
mod layouts;
mod parallel;
mod peers;
mod programs;
mod sectionless;
mod sources;
mod split;

use pmuscope_symbols::{Module, Options, State, Symbolizer, read_build_id};

use programs::{compile, file_offset, resolve};

#[test]
fn inlined_functions_are_found_inside_their_caller() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &[]) else { return };
    let Some(offset) = file_offset(&program, "outer") else {
        eprintln!("skipped: no nm or readelf");
        return;
    };
    let id = read_build_id(&program).unwrap();
    let (state, names) = resolve(&program, id.as_ref(), offset, true);
    assert_eq!(
        (state, &names[..]),
        (State::Found, &["outer", "middle", "inner"].map(String::from)[..])
    );
    let (_, names) = resolve(&program, id.as_ref(), offset, false);
    assert_eq!(names, ["outer"]);
}

#[test]
fn a_stripped_or_different_or_missing_file_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &[]) else { return };
    let Some(offset) = file_offset(&program, "outer") else { return };
    let id = read_build_id(&program).unwrap();

    let other = compile(dir.path(), "other", &["-O1"]).unwrap();
    std::fs::copy(&other, &program).unwrap();
    let (state, names) = resolve(&program, id.as_ref(), offset, true);
    assert!(names.is_empty());
    assert_eq!(
        state,
        State::BuildIdDiffers {
            recorded: id.clone().unwrap(),
            file: read_build_id(&other).unwrap()
        }
    );

    let stripped = compile(dir.path(), "stripped", &["-s"]).unwrap();
    let (state, names) = resolve(&stripped, None, offset, true);
    assert_eq!((state, names.len()), (State::NoSymbols, 0));

    std::fs::remove_file(&program).unwrap();
    assert_eq!(resolve(&program, id.as_ref(), offset, true).0, State::FileMissing);
    let (state, _) = resolve(dir.path(), None, 0, true);
    assert!(matches!(state, State::Unreadable(_)), "{state:?}");
    let (state, _) = resolve(&dir.path().join("program.c"), None, 0, true);
    assert_eq!(state, State::NotElf);
}

#[test]
fn our_own_vdso_has_a_clock() {
    let mut symbolizer = Symbolizer::new(Options { inlined: false });
    // All of the first pages: at least one address lies in a function.
    let addresses: Vec<u64> = (0..0x2000).step_by(16).collect();
    let found = symbolizer.resolve(&Module::Vdso, &addresses);
    if found.state == State::FileMissing {
        eprintln!("skipped: no vdso in this process");
        return;
    }
    let names: Vec<&str> = found.symbols.iter().flatten().map(|symbol| &*symbol.name).collect();
    assert!(names.iter().any(|name| name.contains("clock_gettime")), "{names:?}");
}
