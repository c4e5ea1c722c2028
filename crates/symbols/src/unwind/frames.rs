//! A section of unwind information: the entry for an address, and its row.
//!
//! `.eh_frame_hdr` is a sorted table of functions and entries, in the one form that all linkers write;
//! if it is missing, damaged or in another form, and for `.debug_frame`, an index is built.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use addr2line::gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, EndianSlice,
    FrameDescriptionEntry, LittleEndian, UnwindContext, UnwindOffset, UnwindSection, Vendor,
};
use object::read::{Object as _, ObjectSection as _};

use super::{Arch, Gap, Rule};
use crate::image::{Image, SectionBytes};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Entries of an index at most: 16 bytes each. The largest programs have a few million.
const MOST_ENTRIES: usize = 32 << 20;

/// Memory to work in.
#[derive(Debug, Default)]
pub struct UnwindScratch(UnwindContext<usize>);

impl UnwindScratch {
    pub(super) fn context(&mut self) -> &mut UnwindContext<usize> {
        &mut self.0
    }
}

/// One section of a file.
#[derive(Debug)]
pub(super) struct Frames {
    image: Arc<Image>,
    section: SectionBytes,
    kind: TableKind,
    bases: BaseAddresses,
    /// Address of `.eh_frame`.
    start: u64,
    index: Index,
    /// An index of our own, where the file's hides an entry.
    own: OnceLock<Vec<(u64, usize)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableKind {
    /// `.eh_frame`
    Exceptions,
    /// `.debug_frame`
    Debug,
}

/// How the entry of an address is found.
#[derive(Debug)]
enum Index {
    /// The file's: pairs of 32-bit numbers behind its address.
    Header { section: SectionBytes, rows: Range<usize>, start: u64 },
    /// First address and offset of the entry, sorted.
    Own(Vec<(u64, usize)>),
}

impl Frames {
    /// The section of `image`, if it has one.
    pub(super) fn of(image: &Arc<Image>, kind: TableKind, arch: Arch) -> Option<Self> {
        let name = match kind {
            TableKind::Exceptions => ".eh_frame",
            TableKind::Debug => ".debug_frame",
        };
        // Separate debug files keep the headers of sections they do not have.
        if !image.has(name) {
            return None;
        }
        let elf = image.elf().ok()?;
        let address = |name| elf.section_by_name(name).map(|section| section.address());
        let start = address(name)?;
        let bases = BaseAddresses::default()
            .set_eh_frame(start)
            .set_eh_frame_hdr(address(".eh_frame_hdr").unwrap_or(0))
            .set_text(address(".text").unwrap_or(0))
            .set_got(address(".got").unwrap_or(0));
        let section = image.section(name)?;
        let header = match kind {
            TableKind::Exceptions => header(image, address(".eh_frame_hdr")),
            TableKind::Debug => None,
        };
        let own = Index::Own(Vec::new());
        let (image, index, own) = (Arc::clone(image), own, OnceLock::new());
        let mut frames = Self { image, section, kind, bases, start, index, own };
        frames.index = header.unwrap_or_else(|| Index::Own(frames.indexed(arch)));
        Some(frames)
    }

    /// The same with an index of our own.
    #[cfg(test)]
    pub(super) fn with_own_index(mut self, arch: Arch) -> Self {
        self.index = Index::Own(self.indexed(arch));
        self
    }

    /// The rule of an address; `None` if the section does not have it.
    pub(super) fn rule(
        &self,
        address: u64,
        arch: Arch,
        scratch: &mut UnwindScratch,
    ) -> Option<Result<Rule, Gap>> {
        match self.kind {
            TableKind::Exceptions => self.rule_in(&self.eh_frame(arch), address, arch, scratch),
            TableKind::Debug => self.rule_in(&self.debug_frame(arch), address, arch, scratch),
        }
    }

    fn eh_frame(&self, arch: Arch) -> EhFrame<Bytes<'_>> {
        let mut section = EhFrame::new(self.image.contents(&self.section), LittleEndian);
        section.set_address_size(8);
        section.set_vendor(vendor(arch));
        section
    }

    fn debug_frame(&self, arch: Arch) -> DebugFrame<Bytes<'_>> {
        let mut section = DebugFrame::new(self.image.contents(&self.section), LittleEndian);
        section.set_address_size(8);
        section.set_vendor(vendor(arch));
        section
    }

    fn rule_in<'a, S: UnwindSection<Bytes<'a>>>(
        &self,
        section: &S,
        address: u64,
        arch: Arch,
        scratch: &mut UnwindScratch,
    ) -> Option<Result<Rule, Gap>> {
        let entry = self.entry_in(section, address, arch)?;
        let row = entry.unwind_info_for_address(section, &self.bases, &mut scratch.0, address);
        let (cie, signal) = (entry.cie(), entry.is_signal_trampoline());
        let rule = row.ok().and_then(|row| {
            Rule::of_row(section, row, cie.return_address_register(), signal, arch)
        });
        Some(rule.ok_or(Gap::Damaged))
    }

    /// Whether a function begins at exactly this address.
    pub(super) fn has_start(&self, address: u64, arch: Arch) -> bool {
        let start = match self.kind {
            TableKind::Exceptions => {
                let entry = self.entry_in(&self.eh_frame(arch), address, arch);
                entry.map(|entry| entry.initial_address())
            }
            TableKind::Debug => {
                let entry = self.entry_in(&self.debug_frame(arch), address, arch);
                entry.map(|entry| entry.initial_address())
            }
        };
        start == Some(address)
    }

    /// The entry of the function that has an address.
    fn entry_in<'a, S: UnwindSection<Bytes<'a>>>(
        &self,
        section: &S,
        address: u64,
        arch: Arch,
    ) -> Option<FrameDescriptionEntry<Bytes<'a>>> {
        // A table that points nowhere knows nothing.
        let at = |offset: usize| {
            section.fde_from_offset(&self.bases, offset.into(), S::cie_from_offset).ok()
        };
        let mut entry = at(self.entry(address)?)?;
        if entry.len() == 0 && matches!(self.index, Index::Header { .. }) {
            // An empty function in front of one has the same first address: lld keeps one of them.
            let own = self.own.get_or_init(|| self.indexed(arch));
            entry = at(last_before(own, address)?)?;
        }
        entry.contains(address).then_some(entry)
    }

    /// Offset of the last entry that starts at or before an address.
    fn entry(&self, address: u64) -> Option<usize> {
        match &self.index {
            Index::Own(entries) => last_before(entries, address),
            Index::Header { section, rows, start } => {
                let (rows, _) = self.image.contents(section).get(rows.clone())?.as_chunks::<8>();
                let place =
                    |half: [u8; 4]| start.wrapping_add_signed(i64::from(i32::from_le_bytes(half)));
                let halves = |&[a, b, c, d, e, f, g, h]: &[u8; 8]| ([a, b, c, d], [e, f, g, h]);
                let behind = rows.partition_point(|row| place(halves(row).0) <= address);
                let found = place(halves(rows.get(behind.checked_sub(1)?)?).1);
                usize::try_from(found.checked_sub(self.start)?).ok()
            }
        }
    }

    /// Goes over all entries. What stands behind a damaged one is not found.
    fn indexed(&self, arch: Arch) -> Vec<(u64, usize)> {
        let mut entries = match self.kind {
            TableKind::Exceptions => starts(&self.eh_frame(arch), &self.bases),
            TableKind::Debug => starts(&self.debug_frame(arch), &self.bases),
        };
        entries.sort_unstable();
        entries
    }
}

/// Offset of the last of `entries` that starts at or before an address.
fn last_before(entries: &[(u64, usize)], address: u64) -> Option<usize> {
    let behind = entries.partition_point(|(start, _)| *start <= address);
    Some(entries[behind.checked_sub(1)?].1)
}

/// First addresses and offsets of all entries.
fn starts<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
) -> Vec<(u64, usize)> {
    let mut found = Vec::new();
    let mut latest: Option<CommonInformationEntry<Bytes<'a>>> = None;
    let mut entries = section.entries(bases);
    while found.len() < MOST_ENTRIES
        && let Ok(Some(entry)) = entries.next()
    {
        let CieOrFde::Fde(part) = entry else { continue };
        let entry: Result<FrameDescriptionEntry<Bytes<'a>>, _> =
            part.parse(|section, bases, offset| {
                let same =
                    |cie: &&CommonInformationEntry<_>| cie.offset() == UnwindOffset::into(offset);
                match latest.as_ref().filter(same) {
                    Some(cie) => Ok(cie.clone()),
                    None => section.cie_from_offset(bases, offset),
                }
            });
        if let Ok(entry) = entry {
            // Functions that the linker threw away are left at 0.
            if entry.initial_address() != 0 && entry.len() > 0 {
                found.push((entry.initial_address(), entry.offset()));
            }
            latest = Some(entry.cie().clone());
        }
    }
    found
}

/// The table in `.eh_frame_hdr`, at `address`.
///
/// ```text
///  version 1 │ 0x1b │ 3: number is 32 bits │ 0x3b: rows are 32 bits from here │ … │ number │ rows
/// ```
fn header(image: &Image, address: Option<u64>) -> Option<Index> {
    const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    const FRONT: usize = 12;
    let start = address?;
    let section = image.section(".eh_frame_hdr")?;
    let bytes = image.contents(&section);
    if bytes.get(..4)? != FORM {
        return None;
    }
    let number = u32::from_le_bytes(*bytes.get(8..FRONT)?.first_chunk()?);
    let end = FRONT.checked_add(usize::try_from(number).ok()?.checked_mul(8)?)?;
    if number == 0 || end > bytes.len() {
        return None;
    }
    Some(Index::Header { section, rows: FRONT..end, start })
}

pub(super) fn vendor(arch: Arch) -> Vendor {
    match arch {
        Arch::X86_64 => Vendor::Default,
        Arch::Aarch64 => Vendor::AArch64,
    }
}
