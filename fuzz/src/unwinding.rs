//! Questions to whatever knows the callers of a function.

use std::path::Path;

use pmuscope_symbols::Module;
use pmuscope_symbols::unwind::{Arch, Caller, Registers, StackCopy, UnwindScratch, UnwindTable};

use crate::symbols;

/// Where the copy of the stack begins.
const STACK: u64 = 0x7fff_0000_0000;
/// Frames that a walk takes: damaged tables may lead on for ever.
const FRAMES: usize = 64;
/// Choice: of which machine the program is.
const AARCH64: u8 = 1;
/// Choice: the stack goes on behind the copy.
const FULL: u8 = 2;

/// Walks `stack` from many places in the program at `path`.
///
/// # Panics
/// If a step that failed changed the registers.
pub fn walk_file(path: &Path, choices: u8, stack: &[u8]) {
    let arch = if choices & AARCH64 == 0 { Arch::X86_64 } else { Arch::Aarch64 };
    let copy = StackCopy::new(STACK, stack, choices & FULL != 0);
    let symbolizer = symbols::symbolizer(false);
    let module = Module::file(path, None);
    let table = symbolizer.unwinder().table(&module, arch, true);
    let mut scratch = UnwindScratch::default();
    for pc in (0x1000..0x2000).step_by(8).chain([0, 0x40_1000, 1 << 40, u64::MAX]) {
        walk(&table, &mut scratch, registers(arch, pc), &copy);
    }
}

/// The stack pointer at the beginning of the copy, other registers within it.
fn registers(arch: Arch, pc: u64) -> Registers {
    // Numbers of the kernel's `asm/perf_regs.h`.
    let (sp, ip, all) = match arch {
        Arch::X86_64 => (7, 8, 24),
        Arch::Aarch64 => (31, 32, 33),
    };
    let values = (0..all).map(|number| match number {
        _ if number == sp => (number, STACK),
        _ if number == ip => (number, pc),
        _ => (number, STACK + 8 * u64::from(number)),
    });
    Registers::of_sample(arch, values).expect("both pointers are given")
}

fn walk(
    table: &UnwindTable,
    scratch: &mut UnwindScratch,
    mut registers: Registers,
    stack: &StackCopy<'_>,
) {
    for _ in 0..FRAMES {
        let Ok(rule) = table.rule(registers.pc(), scratch) else { return };
        let before = registers;
        match rule.step(&mut registers, stack) {
            Ok(Caller::None) => return,
            Ok(_) => {}
            Err(_) => {
                assert_eq!(registers, before);
                return;
            }
        }
    }
}
