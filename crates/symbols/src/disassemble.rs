//! Disassembles code with `objdump` of binutils, which supports every architecture and is usually
//! installed where instructions are read.
//!
//! It gets bytes, not the file, so code of the kernel, of a stripped file and from a debug server is
//! handled alike, and names of call targets are ours, including those of procedure linkage tables.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use object::Architecture;
use rustix::fs::MemfdFlags;

use crate::Code;

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Its address, as [`Code::address`] counts.
    pub address: u64,
    /// Operation and operands, as objdump writes them.
    pub text: String,
    /// The address that it calls or jumps to, if it is written in it.
    pub target: Option<u64>,
}

/// Why code could not be disassembled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DisassembleError {
    /// There is no such program.
    #[error("{program} is not installed")]
    NoProgram {
        /// The program.
        program: String,
    },
    /// It could not be run.
    #[error("cannot run {program}: {error}")]
    Run {
        /// The program.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// It rejected the code.
    #[error("{program}: {why}")]
    Refused {
        /// The program.
        program: String,
        /// What it said. Foreign text.
        why: String,
    },
    /// objdump's name of it is unknown.
    #[error("disassembling {0:?} code is not supported")]
    Architecture(Architecture),
}

/// The instructions of `code`, by `objdump`, a program's name or path.
///
/// # Errors
/// If the program is not installed, or does not support the architecture.
pub fn disassemble(objdump: &OsStr, code: &Code) -> Result<Vec<Instruction>, DisassembleError> {
    let machine = machine(code.architecture)?;
    let program = objdump.to_string_lossy().into_owned();
    let run = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => DisassembleError::NoProgram { program: program.clone() },
        _ => DisassembleError::Run { program: program.clone(), error },
    };
    // It wants a file that it can seek in; this one goes with its descriptor.
    let memory =
        rustix::fs::memfd_create("code", MemfdFlags::empty()).map_err(|error| run(error.into()))?;
    let mut file = File::from(memory);
    file.write_all(&code.bytes).map_err(run)?;
    let output = Command::new(objdump)
        .args(["-D", "-b", "binary", "-m", machine, "-w", "--no-show-raw-insn"])
        .arg(format!("--adjust-vma={:#x}", code.address))
        .arg("/proc/self/fd/0")
        .env("LC_ALL", "C")
        .stdin(file)
        .stderr(Stdio::piped())
        .output()
        .map_err(run)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().next().unwrap_or("it failed without a message").to_owned();
        return Err(DisassembleError::Refused { program, why });
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// What objdump calls an architecture.
fn machine(architecture: Architecture) -> Result<&'static str, DisassembleError> {
    Ok(match architecture {
        Architecture::X86_64 => "i386:x86-64",
        Architecture::I386 => "i386",
        Architecture::Aarch64 => "aarch64",
        Architecture::Arm => "arm",
        Architecture::Riscv64 => "riscv:rv64",
        Architecture::PowerPc64 => "powerpc:common64",
        Architecture::S390x => "s390:64-bit",
        Architecture::LoongArch64 => "Loongarch64",
        other => return Err(DisassembleError::Architecture(other)),
    })
}

/// A line is an address, a colon, a tab and the instruction; every other line is a head.
fn parse(text: &str) -> Vec<Instruction> {
    let line = |line: &str| {
        let (address, text) = line.split_once(":\t")?;
        let address = u64::from_str_radix(address.trim(), 16).ok()?;
        let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        let target = target(&text);
        Some(Instruction { address, text, target })
    };
    text.lines().filter_map(line).collect()
}

/// The last operand, where that is an address: `call 0x1030`, `cbz x0, 0x4010`; values of instructions
/// have a sign in front, `$` or `#`.
fn target(text: &str) -> Option<u64> {
    let operands = text.split(" //").next()?.split(" <").next()?;
    let last = operands.rsplit([' ', ',']).find(|word| !word.is_empty())?;
    u64::from_str_radix(last.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn code(architecture: Architecture, bytes: &[u8]) -> Code {
        let (start, address) = (0x149, 0x1149);
        Code { start, address, bytes: bytes.to_vec(), architecture, path: PathBuf::new() }
    }

    #[test]
    fn x86_code_is_taken_apart_at_its_addresses() {
        // push %rbp; call 0x1030; ret
        let bytes = [0x55, 0xe8, 0xe1, 0xfe, 0xff, 0xff, 0xc3];
        let found = match disassemble("objdump".as_ref(), &code(Architecture::X86_64, &bytes)) {
            Ok(found) => found,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let addresses: Vec<u64> = found.iter().map(|one| one.address).collect();
        assert_eq!(addresses, [0x1149, 0x114a, 0x114f]);
        assert_eq!(found[0].text, "push %rbp");
        let targets: Vec<Option<u64>> = found.iter().map(|one| one.target).collect();
        assert_eq!(targets, [None, Some(0x1030), None], "call -0x11f from 0x114f");
    }

    #[test]
    fn what_is_not_there_or_refuses_is_told() {
        let x86 = code(Architecture::X86_64, &[0xc3]);
        let error = disassemble("no-such-objdump".as_ref(), &x86).unwrap_err();
        assert!(matches!(error, DisassembleError::NoProgram { .. }), "{error}");
        let error = disassemble("false".as_ref(), &x86).unwrap_err();
        assert!(matches!(error, DisassembleError::Refused { .. }), "{error}");
        let error = disassemble("objdump".as_ref(), &code(Architecture::Wasm32, &[])).unwrap_err();
        assert!(matches!(error, DisassembleError::Architecture(_)), "{error}");
    }

    #[test]
    fn lines_are_read_as_objdump_writes_them() {
        let text = "\n/proc/self/fd/0:     file format binary\n\nDisassembly of section .data:\n\n\
                    0000000000001149 <.data>:\n    1149:\tpush   %rbp\n    114a:\tcall   0x1030\n    \
                    1150:\tmov    $0x20,%eax\n    1155:\tlea    0xe9b(%rip),%rax        # 0x2004\n    \
                    1160:\tcbz\tx0, 0x4010\n    1164:\tb.ne\t0x4010  // b.any\n";
        let found = parse(text);
        let targets: Vec<Option<u64>> = found.iter().map(|one| one.target).collect();
        assert_eq!(targets, [None, Some(0x1030), None, Some(0x2004), Some(0x4010), Some(0x4010)]);
        assert_eq!(found[4].text, "cbz x0, 0x4010");
    }
}
