//! Symbols of programs that the tests compile.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy takes helpers of a test binary for no tests

use std::path::{Path, PathBuf};
use std::process::Command;

use pmuscope_symbols::{BuildId, Module, Options, State, Symbolizer, read_build_id};

const SOURCE: &str = "
static inline __attribute__((always_inline)) int inner(volatile int *p) { return *p * 3 + 1; }
static inline __attribute__((always_inline)) int middle(volatile int *p) { return inner(p) + 2; }
__attribute__((noinline)) int outer(volatile int *p) { return middle(p); }
int main(void) { volatile int x = 4; return outer(&x); }
";

/// Compiles the program with `arguments`; `None`, with the reason printed, where there is no compiler.
fn compile(dir: &Path, name: &str, arguments: &[&str]) -> Option<PathBuf> {
    let source = dir.join("program.c");
    std::fs::write(&source, SOURCE).unwrap();
    let program = dir.join(name);
    let compiler = Command::new("cc")
        .args(["-O2", "-g", "-Wl,--build-id"])
        .args(arguments)
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .output();
    match compiler {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("skipped: no C compiler ({error})");
            None
        }
    }
}

/// Offset in the file of function `name`, by nm(1) and the program headers that readelf(1) shows.
fn file_offset(program: &Path, name: &str) -> Option<u64> {
    let run = |tool: &str, arguments: &[&str]| {
        let output = Command::new(tool).args(arguments).arg(program).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let symbols = run("nm", &[])?;
    let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}")))?;
    let address = hex(line.split(' ').next()?)?;
    run("readelf", &["-lW"])?.lines().filter(|line| line.trim_start().starts_with("LOAD")).find_map(
        |line| {
            let fields: Vec<u64> =
                line.split_whitespace().skip(1).take(5).filter_map(hex).collect();
            let [offset, start, _, size, _] = fields[..] else { return None };
            (start..start + size).contains(&address).then(|| address - start + offset)
        },
    )
}

fn resolve(
    program: &Path,
    build_id: Option<&BuildId>,
    offset: u64,
    inlined: bool,
) -> (State, Vec<String>) {
    let module = Module::File { path: program, build_id };
    let found = Symbolizer::new(Options { inlined }).resolve(&module, &[offset]);
    let names = found.symbols[0].as_ref().map_or(Vec::new(), |symbol| {
        let inlined = symbol.inlined.iter().map(|frame| frame.name.to_string());
        std::iter::once(symbol.name.to_string()).chain(inlined).collect()
    });
    (found.state, names)
}

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
    assert!(matches!(state, State::Unreadable(_)), "{state:?}");
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
