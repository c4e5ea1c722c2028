//! Whether exceptions may go on in a function: then code is entered that no jump leads to.

use addr2line::gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, UnwindSection as _,
};
use object::read::{Object as _, ObjectSection as _};

/// Whether the function at `address` has handlers; also if that cannot be read.
pub(super) fn has(elf: &object::File<'_>, address: u64) -> bool {
    let has_any = elf.section_by_name(".gcc_except_table").is_some();
    has_any && of_function(elf, address).unwrap_or(true)
}

fn of_function(elf: &object::File<'_>, address: u64) -> Option<bool> {
    let section = |name| {
        let section = elf.section_by_name(name)?;
        Some((section.address(), EndianSlice::new(section.data().ok()?, LittleEndian)))
    };
    let (header_start, header) = section(".eh_frame_hdr")?;
    let (start, frames) = section(".eh_frame")?;
    let text = elf.section_by_name(".text").map_or(0, |section| section.address());
    let bases =
        BaseAddresses::default().set_eh_frame(start).set_eh_frame_hdr(header_start).set_text(text);
    let mut frames = EhFrame::from(frames);
    frames.set_address_size(8);
    let header = EhFrameHdr::from(header).parse(&bases, 8).ok()?;
    let entry =
        header.table()?.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset).ok()?;
    Some(entry.lsda().is_some())
}
