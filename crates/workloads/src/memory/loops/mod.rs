//! Going through memory: what is asked of [`Access`] and [`Order`], by the loops of [`sys`].

mod sys;

use super::options::{Access, BATCH, LINE};
use super::sys::{MappedArea, Part};

use sys::LoopKind;

/// Bits of the vectors that loops use.
// Others than x86-64 have the first only.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// SSE2, NEON.
    V128,
    /// AVX2.
    V256,
    /// AVX-512.
    V512,
}

impl Width {
    /// The widest that this CPU has.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn of_this_cpu() -> Self {
        if std::is_x86_feature_detected!("avx512f") {
            Self::V512
        } else if std::is_x86_feature_detected!("avx2") {
            Self::V256
        } else {
            Self::V128
        }
    }

    /// The widest that this CPU has.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn of_this_cpu() -> Self {
        Self::V128
    }

    /// Bits.
    pub(super) fn bits(self) -> u64 {
        match self {
            Self::V128 => 128,
            Self::V256 => 256,
            Self::V512 => 512,
        }
    }
}

/// Bytes that memset gets at once where it is to go backward.
const PAGE: usize = 4096;

fn work(access: Access) -> LoopKind {
    match access {
        Access::Read => LoopKind::Read,
        Access::Write | Access::Zero => LoopKind::Write,
        Access::Both => LoopKind::Both,
        Access::Stream => LoopKind::Stream,
        Access::Copy => LoopKind::Copy,
        Access::CopyStream => LoopKind::CopyStream,
    }
}

/// Goes through a piece of an area, whole blocks of 256 bytes; bytes that were loaded and stored. What is copied
/// goes so many bytes further on.
pub(super) fn sweep(
    access: Access,
    (width, backward): (Width, bool),
    area: &MappedArea,
    (at, bytes): (usize, usize),
    further: usize,
) -> u64 {
    let part = area.part(at, bytes);
    match access {
        Access::Zero => zero(part, area, backward.then_some(at)),
        Access::Copy | Access::CopyStream => {
            let to = area.part(at + further, bytes);
            sys::sweep(work(access), width, false, part, to);
        }
        _ => sys::sweep(work(access), width, backward, part, part),
    }
    bytes_moved(access, bytes as u64)
}

fn zero(part: Part<'_>, area: &MappedArea, backward_from: Option<usize>) {
    let Some(at) = backward_from else { return sys::zero(part) };
    for page in (0..part.bytes()).step_by(PAGE).rev() {
        sys::zero(area.part(at + page, PAGE.min(part.bytes() - page)));
    }
}

/// Touches these cache lines of an area; bytes that were loaded and stored.
pub(super) fn lines(access: Access, area: &MappedArea, lines: &[u64]) -> u64 {
    let value = if access == Access::Zero { [0; 2] } else { [1; 2] };
    sys::lines(work(access), area.part(0, area.bytes()), lines, &value);
    bytes_moved(access, lines.len() as u64 * LINE)
}

/// Makes so many batches of [`BATCH`] loads along the circle in an area; where it is then.
pub(super) fn chase(area: &MappedArea, at: u64, batches: u64) -> u64 {
    const { assert!(BATCH == 16, "the loop's") };
    sys::chase(area.part(0, area.bytes()), at, batches)
}

/// Bytes loaded and stored where so many are gone through.
pub(super) fn bytes_moved(access: Access, bytes: u64) -> u64 {
    match access {
        Access::Read | Access::Write | Access::Stream | Access::Zero => bytes,
        Access::Both | Access::Copy | Access::CopyStream => 2 * bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::options::Thp;

    fn widths() -> Vec<Width> {
        let widest = Width::of_this_cpu().bits();
        [Width::V128, Width::V256, Width::V512].into_iter().filter(|w| w.bits() <= widest).collect()
    }

    fn area(bytes: usize) -> MappedArea {
        let area = MappedArea::private(bytes, 4096, Thp::System).unwrap();
        for at in (0..bytes).step_by(8) {
            area.put_word(at, at as u64);
        }
        area
    }

    fn words(area: &MappedArea) -> Vec<u64> {
        (0..area.bytes()).step_by(8).map(|at| area.word(at)).collect()
    }

    /// What each access leaves behind in a piece, and nothing around it.
    #[test]
    fn every_byte_of_a_piece_is_touched_and_no_other() {
        let (size, at, bytes) = (64 << 10, 8 << 10, 12 << 10);
        let inside = |word: u64| (at as u64..(at + bytes) as u64).contains(&word);
        for width in widths() {
            for backward in [false, true] {
                for &access in Access::ALL {
                    let area = area(size);
                    let moved = sweep(access, (width, backward), &area, (at, bytes), size / 2);
                    for (index, word) in words(&area).into_iter().enumerate() {
                        let old = index as u64 * 8;
                        let expected = match access {
                            Access::Write | Access::Stream if inside(old) => 1,
                            Access::Zero if inside(old) => 0,
                            Access::Both if inside(old) => old + 1,
                            Access::Copy | Access::CopyStream
                                if old >= 32 << 10 && inside(old - (32 << 10)) =>
                            {
                                old - (32 << 10)
                            }
                            _ => old,
                        };
                        assert_eq!(word, expected, "{access:?} {width:?} {backward} at {old}");
                    }
                    let twice = matches!(access, Access::Both | Access::Copy | Access::CopyStream);
                    assert_eq!(moved, if twice { 2 } else { 1 } * bytes as u64);
                }
            }
        }
    }

    #[test]
    fn lines_are_touched_where_they_are() {
        for access in [Access::Read, Access::Write, Access::Zero, Access::Both] {
            let area = area(4096);
            let moved = lines(access, &area, &[3, 60, 63]);
            assert_eq!(moved, if access == Access::Both { 384 } else { 192 });
            for (index, word) in words(&area).into_iter().enumerate() {
                let old = index as u64 * 8;
                let expected = match access {
                    _ if ![3, 60, 63].contains(&(index / 8)) => old,
                    Access::Write => 1,
                    Access::Zero => 0,
                    Access::Both => old + 1,
                    _ => old,
                };
                assert_eq!(word, expected, "{access:?} {index}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "lines of the part")]
    fn lines_beyond_the_area_are_not_touched() {
        lines(Access::Read, &area(4096), &[64]);
    }
}
