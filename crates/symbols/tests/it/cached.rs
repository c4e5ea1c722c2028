//! What is kept from one run to the next.

use std::fs;
use std::path::{Path, PathBuf};

use pmuscope_symbols::{
    BuildId, Module, Options, Request, Resolved, Sources, State, Symbolizer, read_build_id,
};

use crate::programs::{compile, file_offset, tool};

const OPTIONS: Options = Options { inlined: true };

fn sources(dir: &Path) -> Sources {
    Sources {
        cache: Some(dir.join("cache")),
        debug_dirs: vec![dir.join("debug")],
        ..Sources::default()
    }
}

fn reading(sources: &Sources, path: &Path, id: &BuildId, addresses: &[u64]) -> Resolved {
    let module = Module::file(path, Some(id));
    Symbolizer::with_sources(OPTIONS, sources.clone()).resolve(&module, addresses)
}

fn cache_files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("cache")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_second_run_needs_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &[]) else { return };
    let Some(offset) = file_offset(&program, "outer") else { return };
    let id = read_build_id(&program).unwrap().unwrap();
    let sources = sources(dir.path());
    let cold = reading(&sources, &program, &id, &[offset, offset + 1, 1]);
    assert_eq!(cold.state, State::Found);
    assert_eq!(cold.symbols[2], None);
    assert_eq!(cache_files(dir.path()).len(), 1);

    fs::remove_file(&program).unwrap();
    let warm = reading(&sources, &program, &id, &[offset, offset + 1, 1]);
    assert_eq!(warm, cold);
    // In another order, and fewer.
    let some = reading(&sources, &program, &id, &[1, offset]);
    assert_eq!(some.symbols, [None, cold.symbols[0].clone()]);
    // What was not asked before needs the file.
    let more = reading(&sources, &program, &id, &[offset + 2, offset + 3, offset + 4]);
    assert_eq!(more.state, State::FileMissing);
}

#[test]
fn later_questions_add_to_what_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &[]) else { return };
    let Some(outer) = file_offset(&program, "outer") else { return };
    let Some(main) = file_offset(&program, "main") else { return };
    let id = read_build_id(&program).unwrap().unwrap();
    let sources = sources(dir.path());
    reading(&sources, &program, &id, &[outer]);
    reading(&sources, &program, &id, &[main]);
    fs::remove_file(&program).unwrap();
    let both = reading(&sources, &program, &id, &[outer, main]);
    let names: Vec<&str> = both.symbols.iter().flatten().map(|symbol| &*symbol.name).collect();
    assert_eq!(names, ["outer", "main"]);
}

#[test]
fn a_debug_file_that_is_installed_later_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &[]) else { return };
    let Some(offset) = file_offset(&program, "outer") else { return };
    let id = read_build_id(&program).unwrap().unwrap();
    let whole = dir.path().join("whole");
    fs::copy(&program, &whole).unwrap();
    if !tool("strip", &[program.as_ref()]) {
        return;
    }
    let sources = sources(dir.path());
    assert_eq!(reading(&sources, &program, &id, &[offset]).state, State::NoSymbols);
    assert_eq!(cache_files(dir.path()).len(), 1, "that there is nothing is kept too");
    let hex = id.to_string();
    let folder = dir.path().join("debug/.build-id").join(&hex[..2]);
    fs::create_dir_all(&folder).unwrap();
    fs::rename(&whole, folder.join(format!("{}.debug", &hex[2..]))).unwrap();
    let found = reading(&sources, &program, &id, &[offset]);
    assert_eq!(found.symbols[0].as_ref().unwrap().inlined.len(), 2);
}

/// Stripping keeps the build ID, so the cache knows both files under one.
#[test]
fn a_stripped_file_hides_no_names_of_the_whole_one() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &[]) else { return };
    let Some(outer) = file_offset(&program, "outer") else { return };
    let Some(main) = file_offset(&program, "main") else { return };
    let id = read_build_id(&program).unwrap().unwrap();
    let (whole, stripped) = (dir.path().join("whole"), dir.path().join("stripped"));
    fs::copy(&program, &whole).unwrap();
    if !tool("strip", &[program.as_ref()]) {
        return;
    }
    fs::copy(&program, &stripped).unwrap();
    let sources = sources(dir.path());
    let named = |addresses: &[u64]| -> Vec<bool> {
        let resolved = reading(&sources, &program, &id, addresses);
        resolved.symbols.iter().map(Option::is_some).collect()
    };
    assert_eq!(named(&[outer, main]), [false, false]);
    fs::rename(&whole, &program).unwrap();
    assert_eq!(named(&[outer]), [true]);
    // Names stay, as the code is the same; what is not known yet is asked of the stripped file again.
    fs::rename(&stripped, &program).unwrap();
    assert_eq!(named(&[outer, main]), [true, false]);
    fs::remove_file(&program).unwrap();
    let resolved = reading(&sources, &program, &id, &[outer, main]);
    assert_eq!(resolved.symbols[0].as_ref().unwrap().name, "outer".into());
    assert_eq!((resolved.symbols[1].as_ref(), resolved.state), (None, State::Found));
}

#[test]
fn damaged_and_foreign_cache_files_are_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &[]) else { return };
    let Some(offset) = file_offset(&program, "outer") else { return };
    let id = read_build_id(&program).unwrap().unwrap();
    let sources = sources(dir.path());
    let good = reading(&sources, &program, &id, &[offset]);
    let file = cache_files(dir.path()).pop().unwrap();
    let kept = fs::read(&file).unwrap();
    for length in [0, 1, 11, 40, kept.len() / 2, kept.len() - 1] {
        fs::write(&file, &kept[..length]).unwrap();
        assert_eq!(reading(&sources, &program, &id, &[offset]), good, "cut at {length}");
        assert_eq!(fs::read(&file).unwrap(), kept, "cut at {length}");
    }
    let mut flipped = kept.clone();
    flipped[60] ^= 1;
    fs::write(&file, &flipped).unwrap();
    assert_eq!(reading(&sources, &program, &id, &[offset]), good);
    assert_eq!(fs::read(&file).unwrap(), kept);
}

#[test]
fn what_has_no_build_id_is_kept_until_the_file_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &[]) else { return };
    let Some(offset) = file_offset(&program, "outer") else { return };
    let sources = sources(dir.path());
    let ask = || {
        let module = Module::file(&program, None);
        Symbolizer::with_sources(OPTIONS, sources.clone()).resolve(&module, &[offset])
    };
    let found = ask();
    assert_eq!(found.state, State::Found);
    let written = || {
        let file = cache_files(dir.path()).pop().unwrap();
        fs::metadata(file).unwrap().modified().unwrap()
    };
    let first = written();
    assert_eq!(ask(), found);
    assert_eq!(written(), first, "the second answer is the first one's");
    if tool("strip", &[program.as_ref()]) {
        assert_eq!(ask().state, State::NoSymbols);
        assert_eq!(cache_files(dir.path()).len(), 1);
    }
    fs::remove_file(&program).unwrap();
    assert_eq!(ask().state, State::FileMissing);
}

#[test]
fn the_kernels_functions_are_kept_for_this_boot() {
    let dir = tempfile::tempdir().unwrap();
    let machine = pmuscope_machine::Machine::host();
    let (Some(text), Some(_)) = (machine.kernel_text(), machine.kernel_build_id()) else {
        eprintln!("skipped: the kernel hides its addresses, or has no build id");
        return;
    };
    let addresses: Vec<u64> = (text.start..text.start + 0x10_0000).step_by(0x800).collect();
    let requests = [
        Request { module: Module::Kernel, addresses: &addresses[..10] },
        Request { module: Module::Kernel, addresses: &addresses[10..] },
    ];
    let ask = || Symbolizer::with_sources(OPTIONS, sources(dir.path())).resolve_all(&requests);
    let cold = ask();
    assert!(cold.iter().all(|found| found.state == State::Found));
    let file = cache_files(dir.path()).pop().unwrap();
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(ask(), cold);
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), written, "nothing was missing");
}
