//! The unwind information of an ELF file.

use std::sync::Arc;

use object::Architecture;
use object::read::Object as _;

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
    segments: Segments,
    arch: Arch,
    entry: u64,
    /// `.eh_frame`, which is there when the program runs.
    exceptions: Option<Frames>,
    /// `.debug_frame`: of the file, or where that has neither of its separate debug file.
    debug: Option<Frames>,
}

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
        Some(Self { segments, arch, entry, exceptions, debug })
    }

    pub(super) fn rule(&self, place: u64, scratch: &mut UnwindScratch) -> Result<Rule, Gap> {
        let address = self.segments.address(place).ok_or(Gap::NoInformation)?;
        let mut ask = |frames: &Frames| frames.rule(address, self.arch, scratch);
        let found = self.exceptions.as_ref().and_then(&mut ask);
        let found = found.or_else(|| self.debug.as_ref().and_then(&mut ask));
        match found {
            Some(rule) => rule,
            None if self.is_start(address) => Ok(Rule::outermost()),
            None => Err(Gap::NoInformation),
        }
    }

    fn is_start(&self, address: u64) -> bool {
        self.entry != 0 && address.checked_sub(self.entry).is_some_and(|offset| offset < START)
    }
}
