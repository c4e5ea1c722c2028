//! The unwind information of an ELF file.

use std::ops::Range;
use std::sync::Arc;

use object::Architecture;
use object::read::{Object as _, ObjectSection as _};

use super::frames::{Frames, TableKind};
use super::{Arch, Gap, Rule, UnwindScratch};
use crate::BuildId;
use crate::image::{Image, Segments};
use crate::locate::Locator;

/// Code at the entry point that nothing calls, bytes: `_start`, which not every C library gives an
/// entry in its tables.
const START: u64 = 96;

/// A file, or the vdso.
#[derive(Debug)]
pub(super) struct ElfTable {
    image: Arc<Image>,
    segments: Segments,
    arch: Arch,
    entry: u64,
    /// `.eh_frame`, which is there when the program runs.
    exceptions: Option<Frames>,
    /// `.debug_frame`: of the file, or where that has neither of its separate debug file.
    debug: Option<Frames>,
    /// Addresses of the stubs through which other files are called.
    stubs: Vec<Range<u64>>,
    /// Go's linker made it.
    is_go: bool,
}

/// Sections of such stubs.
const STUBS: [&str; 4] = [".plt", ".plt.sec", ".plt.got", ".iplt"];

impl ElfTable {
    /// The tables of `image`, which is of build `id`; `None` if it is of another machine.
    pub(super) fn new(
        image: Image,
        id: Option<&BuildId>,
        locator: &Locator<'_>,
        arch: Arch,
    ) -> Option<Self> {
        let elf = image.elf().ok()?;
        let machine = match elf.architecture() {
            Architecture::X86_64 => Arch::X86_64,
            Architecture::Aarch64 if elf.is_little_endian() => Arch::Aarch64,
            _ => return None,
        };
        if machine != arch || !elf.is_64() {
            return None;
        }
        let entry = elf.entry();
        let stubs = STUBS.iter().filter_map(|name| {
            let section = elf.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        });
        let stubs = stubs.collect();
        let is_go = elf.section_by_name(".go.buildinfo").is_some();
        let segments = image.segments();
        let image = Arc::new(image);
        let exceptions = Frames::of(&image, TableKind::Exceptions, arch);
        let mut debug = Frames::of(&image, TableKind::Debug, arch);
        if exceptions.is_none() && debug.is_none() {
            let own = image.build_id();
            let has = |file: &Image| file.has(".debug_frame");
            let file = locator.debug_file(&image, id.or(own.as_ref()), has).image;
            debug = file.and_then(|file| Frames::of(&Arc::new(file), TableKind::Debug, arch));
        }
        Some(Self { image, segments, arch, entry, exceptions, debug, stubs, is_go })
    }

    pub(super) fn rule(&self, place: u64, scratch: &mut UnwindScratch) -> Result<Rule, Gap> {
        let address = self.segments.address(place).ok_or(Gap::NoInformation)?;
        let mut ask = |frames: &Frames| frames.rule(address, self.arch, scratch);
        let found = self.exceptions.as_ref().and_then(&mut ask);
        let found = found.or_else(|| self.debug.as_ref().and_then(&mut ask));
        match found {
            Some(Ok(rule)) if self.is_leaving(place) => Ok(rule.without_popped()),
            Some(rule) => rule,
            None if self.is_start(address) => Ok(Rule::outermost()),
            None if self.is_in_stub(address, place) => Ok(Rule::at_entry(self.arch)),
            None if self.is_planted(place, address) => self.planted(address + 1, scratch),
            None => Err(if self.is_go { Gap::Go } else { Gap::NoInformation }),
        }
    }

    /// Whether an address is in a stub that jumps to a function of another file, before anything is pushed: lld and mold
    /// describe no stubs.
    fn is_in_stub(&self, address: u64, place: u64) -> bool {
        let is_there = self.stubs.iter().any(|stubs| stubs.contains(&address));
        is_there && starts_stub(self.code(place), self.arch)
    }

    /// The file from an offset on.
    fn code(&self, place: u64) -> &[u8] {
        let place = usize::try_from(place).ok();
        place.and_then(|place| self.image.bytes().get(place..)).unwrap_or_default()
    }

    /// Whether an address in no function is the one before a function's first, which no call there returns to: somebody put
    /// that return address on the stack, as makecontext(3) does with `__start_context`.
    fn is_planted(&self, place: u64, address: u64) -> bool {
        let Some(next) = address.checked_add(1) else { return false };
        let tables = || self.exceptions.iter().chain(&self.debug);
        let end = usize::try_from(place).ok().and_then(|place| place.checked_add(1));
        let code = end.and_then(|end| self.image.bytes().get(..end)).unwrap_or_default();
        tables().any(|frames| frames.has_start(next, self.arch))
            && !self.is_leaving(place)
            && !ends_with_call(code, self.arch)
    }

    /// The rule of a function that was returned to without a call: nothing called it, unless it ends a signal handler.
    fn planted(&self, start: u64, scratch: &mut UnwindScratch) -> Result<Rule, Gap> {
        let mut tables = self.exceptions.iter().chain(&self.debug);
        let rule = tables.find_map(|frames| frames.rule(start, self.arch, scratch)?.ok());
        Ok(rule.filter(Rule::is_of_signal).unwrap_or_else(Rule::outermost))
    }

    /// Whether the instruction at an offset in the file pops a register or returns.
    fn is_leaving(&self, place: u64) -> bool {
        self.arch == Arch::X86_64 && pops_or_returns(self.code(place))
    }

    fn is_start(&self, address: u64) -> bool {
        self.entry != 0 && address.checked_sub(self.entry).is_some_and(|offset| offset < START)
    }
}

/// Whether code begins with the jump of a stub. On AArch64 a stub leaves the stack as it is up to its end.
fn starts_stub(code: &[u8], arch: Arch) -> bool {
    match arch {
        Arch::Aarch64 => true,
        // jmp *slot(%rip), bnd jmp; endbr64 in front of it
        Arch::X86_64 => {
            let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
            code.starts_with(&[0xff, 0x25]) || code.starts_with(&[0xf2, 0xff, 0x25])
        }
    }
}

/// Whether x86-64 code begins with `pop` of a register or `ret`, with its prefixes.
fn pops_or_returns(code: &[u8]) -> bool {
    match code {
        // ret, ret n; rep ret, bnd ret
        [0xc3 | 0xc2, ..] | [0xf3 | 0xf2, 0xc3, ..] => true,
        // pop of the first eight registers, and of the others
        [0x58..=0x5f, ..] | [0x41, 0x58..=0x5f, ..] => true,
        _ => false,
    }
}

/// Whether code may end with a call.
fn ends_with_call(code: &[u8], arch: Arch) -> bool {
    let behind = |length: usize| code.len().checked_sub(length).map(|start| &code[start..]);
    match arch {
        Arch::Aarch64 => behind(4).and_then(|code| code.first_chunk()).is_some_and(|word| {
            let word = u32::from_le_bytes(*word);
            // bl; blr and its authenticated forms
            word >> 26 == 0b10_0101 || word & 0xfeff_f000 == 0xd63f_0000
        }),
        Arch::X86_64 => {
            // call to a near address; call through a register or memory: ff /2 with an operand of up to 6 bytes
            let is_near = behind(5).is_some_and(|code| code[0] == 0xe8);
            let is_through = |code: &[u8]| code[0] == 0xff && code[1] >> 3 & 7 == 2;
            is_near || [2, 3, 4, 6, 7].into_iter().filter_map(behind).any(is_through)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_are_told_from_what_pushes() {
        let jumps: [&[u8]; 3] =
            [&[0xff, 0x25, 1], &[0xf2, 0xff, 0x25, 1], &[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 1]];
        assert!(jumps.iter().all(|code| starts_stub(code, Arch::X86_64)));
        let others: [&[u8]; 4] = [&[], &[0xff, 0x35, 1], &[0x68, 0, 0, 0, 0], &[0xe9, 0, 0, 0, 0]];
        assert!(!others.iter().any(|code| starts_stub(code, Arch::X86_64)));
    }

    #[test]
    fn calls_are_told_from_what_fills_up_to_a_function() {
        let calls: [&[u8]; 5] = [
            &[0xe8, 1, 2, 3, 4],
            &[0x90, 0xff, 0xd0],
            &[0x41, 0xff, 0xd4],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0xff, 0x54, 0x24, 8],
        ];
        assert!(calls.iter().all(|code| ends_with_call(code, Arch::X86_64)));
        let others: [&[u8]; 4] =
            [&[], &[0xc3], &[0xc3, 0x0f, 0x1f, 0x80, 0, 0, 0, 0], &[0xeb, 0xfe, 0xcc, 0xcc, 0xcc]];
        assert!(!others.iter().any(|code| ends_with_call(code, Arch::X86_64)));
        let arm = |word: u32| ends_with_call(&word.to_le_bytes(), Arch::Aarch64);
        // bl, blr x8, blraaz x8; nop, b, ret
        assert!([0x9400_0001, 0xd63f_0100, 0xd63f_091f].into_iter().all(arm));
        assert!(![0xd503_201f, 0x1400_0001, 0xd65f_03c0].into_iter().any(arm));
        assert!(!ends_with_call(&[], Arch::Aarch64));
    }

    #[test]
    fn pops_and_returns_are_told_from_other_instructions() {
        let leaving: [&[u8]; 6] =
            [&[0xc3], &[0xc2, 8, 0], &[0xf3, 0xc3], &[0x5b], &[0x5d], &[0x41, 0x5f]];
        assert!(leaving.iter().all(|code| pops_or_returns(code)));
        let others: [&[u8]; 5] =
            [&[], &[0x55], &[0x48, 0x89, 0xe5], &[0x41, 0x57], &[0xf3, 0x0f, 0x1e, 0xfa]];
        assert!(!others.iter().any(|code| pops_or_returns(code)));
    }
}
