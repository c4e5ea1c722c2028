//! Programs to look into, and what to look for.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmuscope_symbols::{BuildId, Module, Options, Sources, State, Symbolizer};

const SOURCE: &str = "
static inline __attribute__((always_inline)) int inner(volatile int *p) { return *p * 3 + 1; }
static inline __attribute__((always_inline)) int middle(volatile int *p) { return inner(p) + 2; }
__attribute__((noinline)) int outer(volatile int *p) { return middle(p); }
int main(void) { volatile int x = 4; return outer(&x); }
";

/// Compiles the program with `arguments`; `None`, with the reason printed, where there is no compiler.
pub(crate) fn compile(dir: &Path, name: &str, arguments: &[&str]) -> Option<PathBuf> {
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
pub(crate) fn file_offset(program: &Path, name: &str) -> Option<u64> {
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

/// As [`resolve_from`], from where symbols come from by default.
pub(crate) fn resolve(
    program: &Path,
    build_id: Option<&BuildId>,
    offset: u64,
    inlined: bool,
) -> (State, Vec<String>) {
    resolve_from(Sources::default(), program, build_id, offset, inlined)
}

/// State of the file, and names at `offset`, the outermost first.
pub(crate) fn resolve_from(
    sources: Sources,
    program: &Path,
    build_id: Option<&BuildId>,
    offset: u64,
    inlined: bool,
) -> (State, Vec<String>) {
    let module = Module::file(program, build_id);
    let found = Symbolizer::with_sources(Options { inlined }, sources).resolve(&module, &[offset]);
    let names = found.symbols[0].as_ref().map_or(Vec::new(), |symbol| {
        let inlined = symbol.inlined.iter().map(|frame| frame.name.to_string());
        std::iter::once(symbol.name.to_string()).chain(inlined).collect()
    });
    (found.state, names)
}

/// Runs a tool on files; false, with the reason printed, where it is not installed.
pub(crate) fn tool(name: &str, arguments: &[&OsStr]) -> bool {
    match Command::new(name).args(arguments).output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => panic!("{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("skipped: no {name} ({error})");
            false
        }
    }
}

/// Takes away what running does not need, as sstrip(1) does: section headers, and all behind what is mapped. With `keep`
/// the ELF header still points to them.
pub(crate) fn remove_section_headers(program: &Path, keep: bool) {
    let mut bytes = std::fs::read(program).unwrap();
    assert_eq!(&bytes[..6], b"\x7fELF\x02\x01", "of 64 bits, little-endian");
    let number = |at: usize, size: usize| {
        let word = bytes[at..at + size].iter().rev();
        word.fold(0_usize, |sum, &byte| sum << 8 | usize::from(byte))
    };
    let (table, entries) = (number(0x20, 8), number(0x38, 2));
    let end = |at: usize| number(table + 56 * at + 8, 8) + number(table + 56 * at + 0x20, 8);
    let end = (0..entries).map(end).max().unwrap();
    bytes.truncate(end);
    if !keep {
        bytes[0x28..0x30].fill(0);
        bytes[0x3c..0x40].fill(0);
    }
    std::fs::write(program, bytes).unwrap();
}
