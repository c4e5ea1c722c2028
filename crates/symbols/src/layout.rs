//! Where code was in a file of which only the debug file is there.
//!
//! ```text
//!  the file            offset 0x1000, size 0x19d, at 0x1000      what was recorded: offsets in this file
//!  eu-strip -f         offset 0x1000, size 0x19d, at 0x1000      as it was
//!  objcopy             offset 0x0,    size 0,     at 0x1000      lost: only sizes in memory and addresses are left
//!    --only-keep-debug
//! ```
//! Linkers place a segment at the first offset after the segment before that equals its address modulo its alignment.
//! Some leave gaps: then offsets grow as addresses do. Where both rules give the same, that is where it was: of 2,105 files
//! of a Debian system, 2,061 have such a layout, and it was right for all of them. For the
//! others there is no answer, which is better than a wrong one.

use object::read::{Object as _, ObjectSegment as _};
use object::{SegmentFlags, elf};

use crate::image::{Image, Segments};

/// A segment of a debug file.
#[derive(Debug, Clone, Copy)]
struct DebugSegment {
    offset: u64,
    /// Bytes in this file.
    size: u64,
    address: u64,
    /// Bytes in memory.
    memory: u64,
    align: u64,
    is_code: bool,
}

/// The segments with code of the file that `debug` was taken from, as they were there; `None` where that is not certain.
pub(crate) fn segments(debug: &Image) -> Option<Segments> {
    let file = debug.elf().ok()?;
    let segment = |segment: object::Segment<'_, '_>| {
        let (offset, size) = segment.file_range();
        let is_code = matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.contains(elf::PF_X));
        let (address, memory, align) = (segment.address(), segment.size(), segment.align());
        DebugSegment { offset, size, address, memory, align, is_code }
    };
    as_they_were(&file.segments().map(segment).collect::<Vec<_>>()).map(Segments::of)
}

/// First offset, end, and address of each segment with code.
fn as_they_were(segments: &[DebugSegment]) -> Option<Vec<(u64, u64, u64)>> {
    let mut code = Vec::new();
    if segments.iter().filter(|one| one.is_code).all(|one| one.size == one.memory) {
        for one in segments.iter().filter(|one| one.is_code) {
            code.push((one.offset, one.offset.checked_add(one.size)?, one.address));
        }
        return Some(code).filter(|code| !code.is_empty());
    }
    let (mut end, mut before) = (0_u64, None);
    let last = segments.iter().rposition(|one| one.is_code)?;
    for one in &segments[..=last] {
        let gap = one.address.wrapping_sub(end).checked_rem(one.align).unwrap_or(0);
        let offset = end.checked_add(gap)?;
        let as_addresses = match before {
            None => 0,
            Some((address, offset)) => one.address.checked_sub(address)?.checked_add(offset)?,
        };
        if offset != as_addresses {
            return None;
        }
        end = offset.checked_add(one.memory)?;
        if one.is_code {
            code.push((offset, end, one.address));
        }
        before = Some((one.address, offset));
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offset and size in the file, address, size in memory, whether it has code; pages of 4 KiB.
    fn segment(
        (offset, size, address, memory, is_code): (u64, u64, u64, u64, bool),
    ) -> DebugSegment {
        DebugSegment { offset, size, address, memory, align: 0x1000, is_code }
    }

    fn layout(segments: &[(u64, u64, u64, u64, bool)]) -> Option<Vec<(u64, u64, u64)>> {
        as_they_were(&segments.iter().copied().map(segment).collect::<Vec<_>>())
    }

    #[test]
    fn segments_are_as_they_were_where_the_debug_file_keeps_them() {
        let kept = [(0, 0x618, 0, 0x618, false), (0x5a0, 0x19d, 0x15a0, 0x19d, true)];
        assert_eq!(layout(&kept), Some(vec![(0x5a0, 0x73d, 0x15a0)]));
    }

    #[test]
    fn segments_that_lost_their_offsets_are_laid_out_again() {
        // GNU ld: code in pages of its own.
        let separate =
            [(0, 0x39c, 0, 0x618, false), (0, 0, 0x1000, 0x19d, true), (0, 0, 0x2000, 0xf8, false)];
        assert_eq!(layout(&separate), Some(vec![(0x1000, 0x119d, 0x1000)]));
        // Code with the headers, in a program that is not relocated.
        let together = [(0, 0x32c, 0x40_0000, 0x838, true), (0, 0, 0x40_1dd0, 0x1218, false)];
        assert_eq!(layout(&together), Some(vec![(0, 0x838, 0x40_0000)]));
    }

    /// lld: code follows the headers in the file, and is a page further in memory. A gap of a page in both, as in
    /// programs whose code is to be on large pages, looks the same.
    #[test]
    fn two_layouts_that_both_fit_are_no_answer() {
        let lld = [(0, 0x300, 0, 0x59c, false), (0, 0, 0x15a0, 0x19d, true)];
        assert_eq!(layout(&lld), None);
        let gap = [(0, 0x300, 0x40_0000, 0xe90, false), (0, 0, 0x40_2000, 0x19d, true)];
        assert_eq!(layout(&gap), None);
    }

    #[test]
    fn hostile_segments_are_no_answer() {
        let most = u64::MAX;
        for hostile in [
            vec![],
            vec![(0, 0, 0, 10, false)],
            vec![(0, 0, 0, most, false), (0, 0, most, 10, true)],
            vec![(0, 0, 0x1000, 10, false), (0, 0, 0, 10, true)],
            vec![(most, 2, 0, 2, true)],
            vec![(0, 0, 0, most, true), (0, 0, 1, most, true)],
        ] {
            assert_eq!(layout(&hostile), None, "{hostile:x?}");
        }
    }
}
