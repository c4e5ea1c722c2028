//! Which fields optimized code accesses, against what the source says of each of its lines.
//!
//! Each source line that accesses a field of a structure accesses only that one and says so in a comment. The line of
//! each load and store is that of the line table, read by objdump: nothing of what is under test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use object::read::{Object as _, ObjectSection as _};
use pmuscope_symbols::Sources;
use pmuscope_symbols::definitions::{AccessedField, Definitions, UnknownAccess};
use proptest::prelude::*;

/// What a source file says of a line.
#[derive(Debug, Clone)]
struct Truth {
    /// `queue.head`, of loads and of stores; several where either way to say it is right.
    loads: Vec<String>,
    stores: Vec<String>,
    /// It is on the stack, which other lines access for spilled registers.
    on_stack: bool,
}

/// By line.
fn truth(source: &str) -> BTreeMap<u32, Truth> {
    let mut found = BTreeMap::new();
    for (line, text) in (1..).zip(source.lines()) {
        let Some((code, comment)) = text.split_once(" // ") else { continue };
        if code.trim().is_empty() {
            continue;
        }
        let on_stack = comment.starts_with("stack ");
        let fields = |text: &str| text.split('|').map(str::to_owned).collect();
        let comment = comment.trim_start_matches("stack ");
        let (loads, stores) = comment.split_once(" > ").unwrap_or((comment, comment));
        found.insert(line, Truth { loads: fields(loads), stores: fields(stores), on_stack });
    }
    found
}

/// A load or store, as objdump prints it.
#[derive(Debug)]
struct Access {
    address: u64,
    text: String,
    uses_stack: bool,
    is_store: bool,
}

fn output(program: &str, arguments: &[&str], file: &Path) -> Option<String> {
    let output = Command::new(program).args(arguments).arg(file).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Loads and stores of a program: operands in brackets, but of instructions that only compute addresses.
fn accesses(objdump: &str, program: &Path) -> Vec<Access> {
    let text = output(objdump, &["-d", "--no-show-raw-insn"], program).unwrap();
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((address, instruction)) = line.split_once(":\t") else { continue };
        let Ok(address) = u64::from_str_radix(address.trim(), 16) else { continue };
        let text = instruction.trim().to_owned();
        let name = text.split_whitespace().next().unwrap_or_default().to_owned();
        let is_x86 = text.contains('(')
            && !["lea", "nop", "call", "jmp", "prefetch", "notrack", "bnd", "cs", "data16"]
                .iter()
                .any(|other| name.starts_with(other));
        let is_arm = text.contains('[')
            && ["ld", "st", "cas", "swp"].iter().any(|known| name.starts_with(known));
        if is_x86 || is_arm {
            let uses_stack = text.contains("%rsp") || text.contains("[sp") || text.contains("[x29");
            let operands = text.split_once(char::is_whitespace).map_or("", |(_, rest)| rest);
            // In AT&T syntax what is written comes last; a comment follows.
            let operands = operands.split(" #").next().unwrap_or_default().trim_end();
            let compares = ["cmp", "test", "ucomi"].iter().any(|other| name.starts_with(other));
            let is_store =
                if is_arm { name.starts_with("st") } else { last_is_memory(operands) && !compares };
            // Constants of vectors.
            let is_constant = text.contains("(%rip)") && text.contains("%xmm");
            if !is_constant {
                found.push(Access { address, text, uses_stack, is_store });
            }
        }
    }
    found
}

/// Whether the last operand is in memory: `mov %rax,8(%rdi,%rsi,1)`.
fn last_is_memory(operands: &str) -> bool {
    let mut depth = 0;
    let last = operands.rfind(|character| {
        match character {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    });
    last.is_some_and(|at| operands[at..].contains('('))
}

/// Lines of addresses in the source file `name`: each row of the line table counts until the next.
fn lines(objdump: &str, program: &Path, name: &str) -> BTreeMap<u64, Option<u32>> {
    let text = output(objdump, &["--dwarf=decodedline"], program).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [file, number, address, ..] = words[..] else { continue };
        let Some(address) =
            address.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok())
        else {
            continue;
        };
        let number = number.parse::<u32>().ok().filter(|_| file.ends_with(name));
        rows.insert(address, number);
    }
    rows
}

/// How many accesses were named as the source says, and others.
#[derive(Debug, Default, PartialEq)]
struct Coverage {
    named: usize,
    unknown: BTreeMap<UnknownAccess, usize>,
    wrong: Vec<String>,
}

impl Coverage {
    fn share(&self) -> f64 {
        let unknown: usize = self.unknown.values().sum();
        self.named as f64 / (self.named + unknown + self.wrong.len()).max(1) as f64
    }
}

/// Address to offset in the file.
fn file_offset(definitions: &Definitions, address: u64) -> Option<u64> {
    let segments = definitions.segments();
    let of = segments.iter().find(|one| address.wrapping_sub(one.address) < one.size)?;
    Some(address - of.address + of.offset)
}

/// `queue.slots[].value` of an answer.
fn written(field: &AccessedField) -> String {
    let name =
        ["struct ", "class ", "union "].iter().find_map(|word| field.type_name.strip_prefix(word));
    let mut text = name.unwrap_or(&field.type_name).to_owned();
    let mut rest = &*field.path;
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        text.push_str("[]");
        rest = after.split_once(']').map_or("", |(_, rest)| rest);
    }
    text + rest
}

/// Whether an answer is what the source says: the field, or what has all of a wider access, or of bits.
fn is_right(field: &AccessedField, truth: &Truth, is_store: bool) -> bool {
    let written = written(field);
    (if is_store { &truth.stores } else { &truth.loads }).iter().any(|right| {
        let wider = field.bytes.is_none_or(|bytes| bytes > 8);
        // Bit-fields of one byte are named together.
        let together = written
            .rsplit_once('.')
            .is_some_and(|(of, last)| last.split('/').any(|one| format!("{of}.{one}") == *right));
        let bits = together || right == "queue.level";
        let pointer = right == "unique_ptr" && written.starts_with("unique_ptr<");
        *right == written || together || pointer || ((wider || bits) && right.starts_with(&written))
    })
}

fn check(objdump: &str, program: &Path, source: &Path) -> Coverage {
    let text = std::fs::read_to_string(source).unwrap();
    let truth = truth(&text);
    let name = source.file_name().unwrap().to_str().unwrap();
    let lines = lines(objdump, program, name);
    let definitions = Definitions::open(&Sources::default(), program, None).unwrap();
    let of_fields: Vec<(Access, &Truth, u32)> = accesses(objdump, program)
        .into_iter()
        .filter_map(|access| {
            let line = (*lines.range(..=access.address).next_back()?.1)?;
            let truth = truth.get(&line)?;
            (!access.uses_stack || truth.on_stack).then_some((access, truth, line))
        })
        .collect();
    let offsets: Vec<u64> = (of_fields.iter())
        .filter_map(|(access, ..)| file_offset(&definitions, access.address))
        .collect();
    assert_eq!(offsets.len(), of_fields.len());
    let answers = definitions.accesses(&offsets);
    let mut coverage = Coverage::default();
    for ((access, truth, line), answer) in of_fields.iter().zip(&answers) {
        let place = || format!("{name}:{line} {:#x} {}: {answer:?}", access.address, access.text);
        match answer {
            Ok(field) if is_right(field, truth, access.is_store) => coverage.named += 1,
            Ok(_) => coverage.wrong.push(place()),
            Err(why) => {
                eprintln!("unknown: {}", place());
                *coverage.unknown.entry(*why).or_default() += 1;
            }
        }
    }
    coverage
}

/// A compiler that makes programs of one architecture.
struct Compiler {
    program: &'static str,
    arguments: &'static [&'static str],
    source: &'static str,
    objdump: &'static str,
}

/// Links without libraries: the code is only read.
const ALONE: &[&str] =
    &["-O2", "-g", "-nostdlib", "-Wl,-e,0", "-Wl,--unresolved-symbols=ignore-all"];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/accesses").join(name)
}

fn compile(dir: &Path, compiler: &Compiler) -> Option<PathBuf> {
    for program in [compiler.program, compiler.objdump] {
        if let Err(error) = Command::new(program).arg("--version").output() {
            eprintln!("skipped: no {program} ({error})");
            return None;
        }
    }
    let program = dir.join("program");
    let is_rust = compiler.program == "rustc";
    let mut command = Command::new(compiler.program);
    command.args(compiler.arguments).args(if is_rust { &["-O", "-g"][..] } else { ALONE });
    let output = command.arg("-o").arg(&program).arg(source(compiler.source)).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if is_rust && !output.status.success() && errors.contains("may not be installed") {
        eprintln!("skipped: rustc has no {:?}", compiler.arguments);
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(program)
}

/// Compiles and checks: most are named, and none wrong.
fn holds(
    program: &'static str,
    arguments: &'static [&'static str],
    source_name: &'static str,
    objdump: &'static str,
) {
    let dir = tempfile::tempdir().unwrap();
    let compiler = Compiler { program, arguments, source: source_name, objdump };
    let Some(path) = compile(dir.path(), &compiler) else { return };
    let coverage = check(objdump, &path, &source(source_name));
    let (named, unknown) = (coverage.named, coverage.unknown.values().sum::<usize>());
    eprintln!(
        "{program} {arguments:?} {source_name}: {named} named, {unknown} unknown {:?}, {} wrong: {:.1}%",
        coverage.unknown,
        coverage.wrong.len(),
        coverage.share() * 100.0
    );
    assert!(coverage.wrong.is_empty(), "{:#?}", coverage.wrong);
    assert!(named >= 20, "{named}");
    // 92% and more here; other versions of compilers keep other values.
    assert!(coverage.share() >= 0.8, "{:.3}", coverage.share());
}

#[test]
fn fields_of_c() {
    holds("gcc", &[], "program.c", "objdump");
}

#[test]
fn fields_of_c_at_fixed_addresses() {
    holds("gcc", &["-no-pie", "-fno-pie"], "program.c", "objdump");
}

#[test]
fn fields_of_c_by_clang() {
    holds("clang-14", &[], "program.c", "objdump");
}

#[test]
fn fields_of_cpp() {
    holds("g++", &[], "program.cpp", "objdump");
}

#[test]
fn fields_of_cpp_by_clang() {
    holds("clang++-14", &[], "program.cpp", "objdump");
}

#[test]
fn fields_of_rust() {
    holds("rustc", &[], "program.rs", "objdump");
}

const ARM_OBJDUMP: &str = "aarch64-linux-gnu-objdump";

#[test]
fn fields_of_c_on_aarch64() {
    holds("aarch64-linux-gnu-gcc", &[], "program.c", ARM_OBJDUMP);
}

#[test]
fn fields_of_c_with_atomic_instructions_on_aarch64() {
    holds("aarch64-linux-gnu-gcc", &["-march=armv8.1-a", "-no-pie"], "program.c", ARM_OBJDUMP);
}

#[test]
fn fields_of_c_by_clang_on_aarch64() {
    let arguments = &["--target=aarch64-linux-gnu", "-fuse-ld=/usr/bin/aarch64-linux-gnu-ld"];
    holds("clang-14", arguments, "program.c", ARM_OBJDUMP);
}

#[test]
fn fields_of_cpp_on_aarch64() {
    holds("aarch64-linux-gnu-g++", &[], "program.cpp", ARM_OBJDUMP);
}

#[test]
fn fields_of_rust_on_aarch64() {
    let arguments =
        &["--target=aarch64-unknown-linux-musl", "-Clinker=rust-lld", "-Clinker-flavor=ld.lld"];
    holds("rustc", arguments, "program.rs", ARM_OBJDUMP);
}

/// The C program and where its code and its debug information are; nothing where there is no compiler.
fn program() -> &'static (Vec<u8>, Vec<std::ops::Range<usize>>) {
    static PROGRAM: OnceLock<(Vec<u8>, Vec<std::ops::Range<usize>>)> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let compiler =
            Compiler { program: "gcc", arguments: &[], source: "program.c", objdump: "objdump" };
        let Some(path) = compile(dir.path(), &compiler) else { return Default::default() };
        let bytes = std::fs::read(path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let wanted =
            [".text", ".debug_info", ".debug_abbrev", ".debug_loclists", ".debug_rnglists"];
        let ranges = wanted.iter().filter_map(|name| file.section_by_name(name)?.file_range());
        let ranges: Vec<_> = ranges.map(|(at, size)| at as usize..(at + size) as usize).collect();
        assert_eq!(ranges.len(), wanted.len());
        (bytes, ranges)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Any answer will do; it has to come.
    #[test]
    fn damaged_code_and_debug_information_do_no_harm(
        section in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let (bytes, ranges) = program();
        if !bytes.is_empty() {
            let range = section.get(ranges).clone();
            let mut bytes = bytes.clone();
            for (at, value) in changes {
                bytes[range.start + at.index(range.len())] = value;
            }
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &bytes).unwrap();
            let code = ranges[0].clone();
            let offsets: Vec<u64> = code.map(|at| at as u64).chain([u64::MAX]).collect();
            if let Ok(definitions) = Definitions::open(&Sources::default(), file.path(), None) {
                prop_assert_eq!(definitions.accesses(&offsets).len(), offsets.len());
            }
        }
    }
}

/// Whatever is asked, what is not known says why.
#[test]
fn what_is_no_access_or_has_no_debug_information_says_so() {
    let (bytes, ranges) = program();
    if bytes.is_empty() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    std::fs::write(&path, bytes).unwrap();
    let definitions = Definitions::open(&Sources::default(), &path, None).unwrap();
    let every: Vec<u64> = ranges[0].clone().map(|at| at as u64).collect();
    let answers = definitions.accesses(&every);
    let no_access = |answer: &&Result<_, UnknownAccess>| **answer == Err(UnknownAccess::NoAccess);
    assert!(answers.iter().filter(no_access).count() > answers.len() / 2);
    assert_eq!(definitions.accesses(&[u64::MAX]), [Err(UnknownAccess::NoDebugInformation)]);
    // Of an object at a known instruction any offset has its field.
    let at = answers.iter().position(|answer| {
        answer
            .as_ref()
            .is_ok_and(|field| &*field.type_name == "struct node" && field.path == ".value")
    });
    let place = every[at.unwrap()];
    let fields = definitions.accessed_fields(&[(place, 0), (place, 26), (place, 100)]);
    let paths: Vec<Option<&str>> =
        fields.iter().map(|field| Some(&*field.as_ref()?.path)).collect();
    assert_eq!(paths, [Some(".next"), None, None]);
    let stripped = dir.path().join("stripped");
    let strip = Command::new("strip").arg("-o").arg(&stripped).arg(&path).status();
    if strip.is_ok_and(|status| status.success()) {
        let definitions = Definitions::open(&Sources::default(), &stripped, None).unwrap();
        assert_eq!(definitions.accesses(&[place]), [Err(UnknownAccess::NoDebugInformation)]);
    }
}
