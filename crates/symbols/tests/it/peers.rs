//! What binutils say of the same file.

use std::process::Command;

use pmuscope_symbols::{Module, Options, Symbolizer};

use crate::programs::{compile, file_offset};

/// Functions and lines at an address of a program that is linked to run where it is in the file.
fn by_addr2line(program: &std::path::Path, address: u64) -> Option<Vec<(String, String)>> {
    let output = Command::new("addr2line")
        .args(["-f", "-i", "-C", "-e"])
        .arg(program)
        .arg(format!("{address:#x}"))
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let lines: Vec<&str> = text.lines().collect();
    // The innermost comes first; a line may have a discriminator behind it.
    let place = |line: &str| {
        let line = line.split(' ').next().unwrap_or(line);
        line.rsplit('/').next().unwrap_or(line).to_owned()
    };
    Some(lines.chunks_exact(2).rev().map(|two| (two[0].to_owned(), place(two[1]))).collect())
}

#[test]
fn functions_and_lines_are_those_of_addr2line() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "program", &[]) else { return };
    let Some(offset) = file_offset(&program, "outer") else { return };
    let addresses: Vec<u64> = (offset..offset + 12).collect();
    let module = Module::file(&program, None);
    let found = Symbolizer::new(Options { inlined: true }).resolve(&module, &addresses);
    for (address, symbol) in addresses.iter().zip(&found.symbols) {
        // Position-independent programs are laid out in the file as in memory up to their data.
        let Some(theirs) = by_addr2line(&program, *address) else {
            eprintln!("skipped: no addr2line");
            return;
        };
        // The function is short: what follows may have no lines.
        let Some(symbol) = symbol.as_ref().filter(|symbol| &*symbol.name == "outer") else { break };
        let place = |line: &Option<pmuscope_symbols::Line>| {
            let line = line.as_ref().unwrap();
            let file = line.file.rsplit('/').next().unwrap();
            format!("{file}:{}", line.number.unwrap_or(0))
        };
        let mut ours = vec![(symbol.name.to_string(), place(&symbol.line))];
        ours.extend(
            symbol.inlined.iter().map(|frame| (frame.name.to_string(), place(&frame.line))),
        );
        assert_eq!(ours, theirs, "{address:#x}");
    }
    assert!(found.symbols[0].is_some());
}

/// Addresses of stubs and their names.
fn by_objdump(program: &std::path::Path) -> Option<Vec<(u64, String)>> {
    let sections = ["-d", "--section=.plt", "--section=.plt.sec"];
    let output = Command::new("objdump").args(sections).arg(program).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let stub = |line: &str| {
        let (address, name) = line.strip_suffix(">:")?.split_once(" <")?;
        let address = u64::from_str_radix(address, 16).ok()?;
        name.ends_with("@plt").then(|| (address, name.to_owned()))
    };
    Some(text.lines().filter_map(stub).collect())
}

#[test]
fn stubs_have_the_names_that_objdump_shows() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("calls.c");
    let text = "#include <stdlib.h>\n#include <stdio.h>\nint main(int c, char **v) \
                { srand(atoi(v[c - 1])); puts(getenv(\"HOME\")); return rand(); }";
    std::fs::write(&source, text).unwrap();
    for how in ["-fcf-protection=none", "-fcf-protection=full"] {
        let program = dir.path().join("calls");
        let compiled = Command::new("cc")
            .args(["-O1", "-Wl,-z,lazy", how, "-o"])
            .args([&program, &source])
            .output();
        if !compiled.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: no cc {how}");
            continue;
        }
        let Some(theirs) = by_objdump(&program).filter(|stubs| !stubs.is_empty()) else {
            eprintln!("skipped: no objdump, or it names no stubs");
            return;
        };
        let addresses: Vec<u64> = theirs.iter().map(|(address, _)| address + 4).collect();
        let module = Module::file(&program, None);
        let found = Symbolizer::new(Options { inlined: false }).resolve(&module, &addresses);
        let names: Vec<Option<&str>> = found
            .symbols
            .iter()
            .map(|symbol| symbol.as_ref().map(|symbol| &*symbol.name))
            .collect();
        let expected: Vec<Option<&str>> = theirs.iter().map(|(_, name)| Some(&**name)).collect();
        assert_eq!(names, expected, "{how}");
    }
}
