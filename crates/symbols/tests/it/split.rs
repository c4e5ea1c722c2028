//! Split debug information, by the compilers that are here.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use pmuscope_symbols::{MissingSplit, Module, Options, Sources, State, Symbol, Symbolizer};

use crate::programs::{compile, file_offset, resolve, resolve_from, tool};

const ALL: [&str; 3] = ["outer", "middle", "inner"];

const RUST: &str = "
#[inline(always)]
fn inner(p: &u64) -> u64 { std::hint::black_box(*p) * 3 + 1 }
#[inline(always)]
fn middle(p: &u64) -> u64 { inner(p) + std::hint::black_box(2) }
#[inline(never)]
#[unsafe(no_mangle)]
fn outer(p: &u64) -> u64 { middle(p) }
fn main() { println!(\"{}\", outer(&std::hint::black_box(4))); }
";

/// A program whose unit is in a file of its own.
struct Split {
    dir: tempfile::TempDir,
    program: PathBuf,
    unit: PathBuf,
    offset: u64,
}

impl Split {
    /// `None`, with the reason printed, where a tool is missing.
    fn new(version: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), "program", &["-gsplit-dwarf", &dwarf(version)])?;
        let offset = file_offset(&program, "outer")?;
        let unit = with_end(dir.path(), "dwo").remove(0);
        Some(Self { dir, program, unit, offset })
    }

    fn names(&self) -> (State, Vec<String>) {
        resolve(&self.program, None, self.offset, true)
    }

    /// Asserts that inlined functions are there.
    fn is_whole(&self, what: &str) {
        let (state, names) = self.names();
        assert_eq!((state, &names[..]), (State::Found, &ALL.map(String::from)[..]), "{what}");
    }

    /// Asserts that only the symbol table has a name; what is missing.
    fn missing(&self) -> MissingSplit {
        let (state, names) = self.names();
        assert_eq!(names, ["outer"]);
        let State::SplitMissing(missing) = state else { panic!("{state:?}") };
        missing
    }
}

fn dwarf(version: u32) -> String {
    format!("-gdwarf-{version}")
}

fn with_end(dir: &Path, end: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension() == Some(OsStr::new(end))).collect()
}

/// Symbols of `bytes` from an offset on, with lines.
fn symbols(program: &Path, offset: u64, bytes: u64) -> (State, Vec<Option<Arc<Symbol>>>) {
    let offsets: Vec<u64> = (offset..offset + bytes).collect();
    let mut symbolizer = Symbolizer::new(Options { inlined: true });
    let found = symbolizer.resolve(&Module::file(program, None), &offsets);
    (found.state, found.symbols)
}

#[test]
fn lines_and_inlined_functions_are_those_of_a_program_that_is_not_split() {
    for version in [4, 5] {
        let Some(split) = Split::new(version) else { return };
        let whole = compile(split.dir.path(), "whole", &[&dwarf(version)]).unwrap();
        let (state, found) = symbols(&split.program, split.offset, 10);
        assert_eq!(state, State::Found);
        let expected = symbols(&whole, file_offset(&whole, "outer").unwrap(), 10).1;
        assert_eq!(found, expected, "DWARF {version}");
        let symbol = found[0].as_ref().unwrap();
        let lines = symbol.inlined.iter().map(|frame| frame.line.as_ref().unwrap().number);
        assert!(symbol.line.is_some() && lines.clone().all(|line| line.is_some()), "{symbol:?}");
    }
}

#[test]
fn units_are_found_beside_a_program_that_was_moved() {
    let Some(mut split) = Split::new(5) else { return };
    let away = split.dir.path().join("away");
    fs::create_dir(&away).unwrap();
    let moved = |path: &Path| {
        let to = away.join(path.file_name().unwrap());
        fs::rename(path, &to).unwrap();
        to
    };
    split.program = moved(&split.program);
    split.is_whole("the unit is where it was written");
    split.unit = moved(&split.unit);
    split.is_whole("the unit is beside the program");
    // A debug file has the skeletons of a stripped program.
    let debug = away.join("taken.debug");
    let keep = [OsStr::new("--only-keep-debug"), split.program.as_ref(), debug.as_ref()];
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    let program = split.program.as_ref();
    if tool("objcopy", &keep) && tool("strip", &[program]) && tool("objcopy", &[&link, program]) {
        split.is_whole("the program is stripped");
    }
}

#[test]
fn units_are_found_below_another_root() {
    let Some(split) = Split::new(5) else { return };
    let root = split.dir.path().join("root");
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap());
    fs::create_dir_all(below(split.dir.path())).unwrap();
    for path in [&split.program, &split.unit] {
        fs::rename(path, below(path)).unwrap();
    }
    let sources = Sources { symfs: Some(root.clone()), ..Sources::default() };
    let (state, names) = resolve_from(sources, &split.program, None, split.offset, true);
    assert_eq!((state, &names[..]), (State::Found, &ALL.map(String::from)[..]));
}

#[test]
fn a_missing_unit_is_named_with_where_it_was_looked_for() {
    for version in [4, 5] {
        let Some(split) = Split::new(version) else { return };
        fs::remove_file(&split.unit).unwrap();
        let missing = split.missing();
        assert_eq!((missing.refused, missing.has_others), (None, false));
        let package = split.dir.path().join("program.dwp");
        assert!(missing.tried.starts_with(&[split.unit.clone(), package]), "{:?}", missing.tried);
        let symbol = symbols(&split.program, split.offset, 1).1.remove(0).unwrap();
        assert!(symbol.line.is_some(), "the program has lines");
        assert_eq!(resolve(&split.program, None, split.offset, false).0, State::Found);
    }
}

#[test]
fn a_unit_of_another_build_or_damaged_is_not_used() {
    for version in [4, 5] {
        let Some(split) = Split::new(version) else { return };
        let other = tempfile::tempdir().unwrap();
        compile(other.path(), "program", &["-gsplit-dwarf", &dwarf(version), "-O1"]).unwrap();
        fs::copy(with_end(other.path(), "dwo").remove(0), &split.unit).unwrap();
        let refused = Some((split.unit.clone(), "it is of another build".to_owned()));
        assert_eq!(split.missing().refused, refused, "DWARF {version}");
        fs::write(&split.unit, "no ELF file").unwrap();
        let (path, why) = split.missing().refused.unwrap();
        assert!(path == split.unit && why != "it is of another build", "{why}");
    }
}

#[test]
fn what_is_missing_is_kept_with_symbols_until_it_is_there() {
    let Some(split) = Split::new(5) else { return };
    let away = split.dir.path().join("away");
    fs::rename(&split.unit, &away).unwrap();
    let ask = || {
        let cache = Some(split.dir.path().join("cache"));
        let sources = Sources { cache, ..Sources::default() };
        resolve_from(sources, &split.program, None, split.offset, true)
    };
    let first = ask();
    assert!(matches!(first.0, State::SplitMissing(_)), "{first:?}");
    let State::SplitMissing(missing) = ask().0 else { panic!("the cache does not say it") };
    assert!(missing.tried.contains(&split.unit) && !missing.has_others, "{missing:?}");
    fs::rename(&away, &split.unit).unwrap();
    let (state, names) = ask();
    assert_eq!((state, &names[..]), (State::Found, &ALL.map(String::from)[..]));
}

#[test]
fn a_package_of_units_is_read() {
    let Some(split) = Split::new(4) else { return };
    let package = split.dir.path().join("program.dwp");
    let arguments = [OsStr::new("-o"), package.as_ref(), split.unit.as_ref()];
    if !tool("dwp", &arguments) {
        return;
    }
    fs::remove_file(&split.unit).unwrap();
    split.is_whole("beside the program");
    // Of another build, or damaged: its unit has another number.
    let bytes = fs::read(&package).unwrap();
    fs::write(&package, &bytes[..bytes.len() / 2]).unwrap();
    assert!(split.missing().tried.contains(&split.unit));
}

/// LLVM's forms, of both versions.
#[test]
fn units_and_packages_of_rust_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("x.rs");
    fs::write(&source, RUST).unwrap();
    let compiler = std::env::var("RUSTC").unwrap_or("rustc".into());
    for (version, how) in [(4, "unpacked"), (5, "unpacked"), (4, "packed"), (5, "packed")] {
        let program = dir.path().join(format!("{how}{version}"));
        let (version, how) =
            (format!("-Cdwarf-version={version}"), format!("-Csplit-debuginfo={how}"));
        let arguments = ["--edition=2024", "-O", "-g", "-Cstrip=none", &version, &how, "-o"];
        let built = Command::new(&compiler).args(arguments).arg(&program).arg(&source).output();
        match built {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(error) => return eprintln!("skipped: no {compiler} ({error})"),
        }
        let Some(offset) = file_offset(&program, "outer") else { return };
        let (state, found) = symbols(&program, offset, 16);
        assert_eq!(state, State::Found, "{version} {how}");
        let frames = found.iter().flatten().map(|symbol| &symbol.inlined);
        let names = frames.map(|frames| frames.iter().map(|one| &*one.name).collect::<Vec<_>>());
        let is_inner = |names: &Vec<&str>| {
            names
                .iter()
                .position(|name| name.ends_with("middle"))
                .is_some_and(|at| names.get(at + 1).is_some_and(|name| name.ends_with("inner")))
        };
        let names: Vec<_> = names.collect();
        assert!(names.iter().any(is_inner), "{version} {how}: {names:?}");
    }
}
