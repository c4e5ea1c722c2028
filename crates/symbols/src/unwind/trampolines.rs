//! CPython's trampolines: the piece of code that each Python function gets by `-X perf` or `sys.activate_stack_trampoline`, so
//! that profilers see it. Perf maps list them; there are no unwind tables for them. All are copies of the same code, so its size
//! says which it is:
//!
//! ```text
//!  3.12, 3.13: 11 bytes       3.14 and later: 8 bytes        with CET
//!   0  sub  $8, %rsp           0  push %rbp                   endbr64, 4 bytes, before either
//!   4  call *%rcx              1  mov  %rsp, %rbp
//!   6  add  $8, %rsp           4  call *%rcx
//!  10  ret                     6  pop  %rbp; ret
//! ```
//! The second kind keeps a frame pointer, as that of 64-bit Arm does, and is left by that.

use std::fs::File;
use std::io;

use super::{Arch, Rule};
use crate::RangeMap;
use crate::perf_map::each_function;

/// What CPython puts before the names of its functions.
const PREFIX: &str = "py::";
/// Size of the code of x86-64 without a frame pointer.
const SIZE: u64 = 11;
/// Size of `endbr64`.
const LANDING: u64 = 4;

/// Trampolines of a process that keep no frame pointer.
#[derive(Debug, Default)]
pub(crate) struct Trampolines {
    /// Start and size, by address.
    code: RangeMap<(u64, u64)>,
}

impl Trampolines {
    /// Those in a perf map. Later code covers earlier code, as it does for names.
    pub(crate) fn of_map(map: File) -> io::Result<Self> {
        let mut code = RangeMap::default();
        each_function(map, |start, size, name| {
            let end = start.saturating_add(size.max(1));
            let is_one = name.starts_with(PREFIX) && [SIZE, SIZE + LANDING].contains(&size);
            if is_one {
                code.insert(start, end, (start, size));
            } else {
                code.remove(start, end);
            }
        })?;
        Ok(Self { code })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.code.is_empty()
    }

    /// How the trampoline at an address is left; `None` if there is none.
    pub(super) fn rule(&self, address: u64) -> Option<Rule> {
        let &(start, size) = self.code.get(address)?;
        let inside = address - start;
        // Before the stack pointer is moved, and after it is moved back.
        let is_at_end = inside <= size - SIZE || inside == size - 1;
        Some(if is_at_end { Rule::at_entry(Arch::X86_64) } else { Rule::below_return_address(8) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::super::{Caller, Registers, StackCopy};
    use super::*;

    const SP: u64 = 0x7000;
    /// What callers of a trampoline find in their registers.
    const CALLER: u64 = 0x40_1234;

    fn trampolines(map: &str) -> Trampolines {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(map.as_bytes()).unwrap();
        file.rewind().unwrap();
        Trampolines::of_map(file).unwrap()
    }

    /// Stack pointer and program counter of the caller, from an instruction of a trampoline and the stack pointer there.
    fn caller(rule: &Rule, sp: u64, pc: u64) -> (u64, u64) {
        // The return address of the trampoline is at SP in all cases.
        let stack: Vec<u8> = (sp..SP + 8)
            .step_by(8)
            .flat_map(|at| [7, CALLER][usize::from(at == SP)].to_le_bytes())
            .collect();
        // The kernel's numbers: BP 6, SP 7, IP 8.
        let values = [(6, 0x55), (7, sp), (8, pc)];
        let mut registers = Registers::of_sample(Arch::X86_64, values.into_iter()).unwrap();
        let stack = StackCopy::new(sp, &stack, false);
        assert_eq!(rule.step(&mut registers, &stack), Ok(Caller::Returned));
        assert_eq!(registers.get(6), Some(0x55), "the frame pointer of the caller");
        (registers.sp(), registers.pc())
    }

    #[test]
    fn each_instruction_of_a_trampoline_leads_to_its_caller() {
        let found = trampolines("1000 b py::f:a.py\n2000 f py::g:a.py\n");
        // Offsets of instructions, with the bytes that the stack pointer is below the return address.
        let plain = [(0, 0), (4, 8), (6, 8), (10, 0)];
        let with_landing = [(0, 0), (4, 0), (8, 8), (10, 8), (14, 0)];
        for (start, instructions) in [(0x1000, &plain[..]), (0x2000, &with_landing[..])] {
            for &(offset, below) in instructions {
                let rule = found.rule(start + offset).unwrap();
                assert_eq!(caller(&rule, SP - below, start + offset), (SP + 8, CALLER), "{offset}");
            }
            // A return address is looked up one byte before: in the call.
            let call = start + if start == 0x1000 { 5 } else { 9 };
            assert_eq!(caller(&found.rule(call).unwrap(), SP - 8, call), (SP + 8, CALLER));
        }
        assert!(found.rule(0x100b).is_none());
    }

    #[test]
    fn other_code_of_a_map_is_none() {
        // Of another runtime, of Python 3.14, and what was there before other code.
        let found = trampolines(
            "1000 b LazyCompile:~f\n2000 8 py::f:a.py\n3000 b py::g:a.py\n3000 40 h\n4000 0 py::i\n",
        );
        assert!(found.is_empty());
        assert!([0x1000, 0x2000, 0x3000, 0x4000].iter().all(|&at| found.rule(at).is_none()));
    }
}
