//! Unwind information of generated code, as jitdumps have it: an `.eh_frame` that counts addresses as if it stood right
//! behind the code.
//!
//! ```text
//!  0                 size          size, rounded up to 8
//!  ├── code ─────────┤             ├── .eh_frame ──────┤       (perf's `jit_write_elf` of tools/perf/util/genelf.c)
//! ```

use addr2line::gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection as _};

use super::frames::vendor;
use super::{Arch, Gap, Rule, UnwindScratch};

/// The rule so far behind the start of code of `size` bytes; `None` if the frames do not have it.
pub(crate) fn rule(
    frames: &[u8],
    size: u64,
    inside: u64,
    arch: Arch,
    scratch: &mut UnwindScratch,
) -> Option<Result<Rule, Gap>> {
    let mut section = EhFrame::new(frames, LittleEndian);
    section.set_address_size(8);
    section.set_vendor(vendor(arch));
    let bases =
        BaseAddresses::default().set_eh_frame(size.checked_next_multiple_of(8)?).set_text(0);
    let entry = section.fde_for_address(&bases, inside, EhFrame::cie_from_offset).ok()?;
    let row = entry.unwind_info_for_address(&section, &bases, scratch.context(), inside);
    let (register, signal) = (entry.cie().return_address_register(), entry.is_signal_trampoline());
    let rule = row.ok().and_then(|row| Rule::of_row(&section, row, register, signal, arch));
    Some(rule.ok_or(Gap::Damaged))
}

#[cfg(test)]
mod tests {
    use super::super::rule::{Cfa, Recover};
    use super::*;

    /// Frames of code of `size` bytes that pushes `%rbp` with its first instruction.
    fn frames(size: u32) -> Vec<u8> {
        // Version 1, "zR": addresses are relative, of 4 bytes. %rsp + 8, the return address below that.
        let common = [
            &20_u32.to_le_bytes()[..],
            &[0; 4],
            &[1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0],
        ]
        .concat();
        let field = common.len() as u32 + 8;
        let start = size.next_multiple_of(8) + field;
        // Behind one byte %rsp + 16, with %rbp saved there.
        let own = [0, 0x41, 0x0e, 16, 0x86, 2, 0, 0];
        let length = 12 + own.len() as u32;
        let back = common.len() as u32 + 4;
        let words = [length, back, start.wrapping_neg(), size];
        [common, words.iter().flat_map(|word| word.to_le_bytes()).collect(), own.to_vec()].concat()
    }

    #[test]
    fn frames_count_as_if_they_stood_behind_the_code() {
        let mut scratch = UnwindScratch::default();
        for size in [9, 16, 4096] {
            let frames = frames(size);
            let mut at = |inside| {
                let rule = rule(&frames, size.into(), inside, Arch::X86_64, &mut scratch)?;
                Some(rule.unwrap())
            };
            assert_eq!(at(0).unwrap().cfa, Cfa::Register(7, 8));
            let pushed = at(4).unwrap();
            assert_eq!(pushed.cfa, Cfa::Register(7, 16));
            assert!(pushed.registers.contains(&(6, Recover::At(-16))));
            assert!(at(size.into()).is_none(), "behind its end");
        }
        assert!(rule(&[1, 2, 3], 9, 0, Arch::X86_64, &mut scratch).is_none());
        assert!(rule(&frames(9), u64::MAX, 0, Arch::X86_64, &mut scratch).is_none());
    }
}
