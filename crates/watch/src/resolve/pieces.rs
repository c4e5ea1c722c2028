//! What hardware can watch: 1, 2, 4 or 8 bytes, aligned to their number.

use pmuscope_abi::breakpoint::INSTRUCTION;
use pmuscope_symbols::definitions::ValueType;

use super::{ResolveError, Watchpoint};
use crate::slots::Kind;
use crate::target::{Access, Target};

/// Most bytes of an object: over a thousand times what fits at once.
const LARGEST: u64 = 64 << 10;
/// Whether the hardware tells reads from writes only one way: there are no read-only slots.
const READS_ARE_READ_WRITE: bool = cfg!(any(target_arch = "x86", target_arch = "x86_64"));

/// What one slot watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// First address.
    pub address: u64,
    /// 1, 2, 4 or 8 bytes; of an instruction, what the kernel wants there.
    pub len: u64,
}

/// Bytes to watch.
pub(super) struct Object<'a> {
    pub(super) target: &'a Target,
    pub(super) address: u64,
    pub(super) len: u64,
    /// Whether the length is the type's, not the user's.
    pub(super) of_type: bool,
}

/// A data watchpoint on `object`.
pub(super) fn data(object: &Object<'_>, access: Access) -> Result<Watchpoint, ResolveError> {
    let Object { target, address, len, of_type } = *object;
    let name = target.name.clone();
    let mut notes = Vec::new();
    if len > LARGEST || address.checked_add(len).is_none() {
        let slots = len.div_ceil(8);
        return Err(ResolveError::TooLarge {
            target: target.text.clone(),
            name,
            bytes: len,
            slots,
        });
    }
    let aligned = address.is_multiple_of(natural(len));
    if !aligned && !of_type {
        let alternatives = alternatives(address, len);
        let target = target.text.clone();
        return Err(ResolveError::Unaligned { target, address, len, alternatives });
    }
    let pieces = split(address, len);
    if !aligned {
        notes.push(format!(
            "{name} is not aligned ({len} bytes at {address:#x}): {} debug registers watch its \
             parts, and one access may hit several",
            pieces.len()
        ));
    } else if let [_, _, ..] = pieces[..] {
        notes.push(format!("{name} has {len} bytes, which take {} debug registers", pieces.len()));
    }
    let access = match access {
        Access::Read if READS_ARE_READ_WRITE => {
            notes.push(format!(
                "{name} is watched for reads and writes: x86 has no read-only watchpoints"
            ));
            Access::ReadWrite
        }
        other => other,
    };
    let value = if matches!(len, 1 | 2 | 4 | 8) { ValueType::Unsigned } else { ValueType::Other };
    Ok(Watchpoint { kind: Kind::Data, notes, value, ..of(name, address, len, access, pieces) })
}

/// A watchpoint on the instructions at `addresses`, of which there is one.
pub(super) fn code(target: &Target, addresses: &[u64]) -> Result<Watchpoint, ResolveError> {
    let name = target.name.clone();
    if let Some(&address) =
        addresses.iter().find(|at| cfg!(target_arch = "aarch64") && **at % 4 != 0)
    {
        let alternatives = vec![format!("{:#x}:x", address & !3)];
        let target = target.text.clone();
        return Err(ResolveError::Unaligned { target, address, len: 4, alternatives });
    }
    let pieces = addresses.iter().map(|&address| Piece { address, len: INSTRUCTION }).collect();
    let first = addresses.first().copied().unwrap_or_default();
    Ok(of(name, first, INSTRUCTION, Access::Execute, pieces))
}

fn of(name: String, address: u64, len: u64, access: Access, pieces: Vec<Piece>) -> Watchpoint {
    Watchpoint {
        name,
        address,
        len,
        kind: if access == Access::Execute { Kind::Instruction } else { Kind::Data },
        access,
        pieces,
        value: ValueType::Other,
        type_name: None,
        module: None,
        declared: None,
        followed: Vec::new(),
        in_kernel: crate::target::is_kernel_address(address),
        notes: Vec::new(),
        is_untyped: false,
        is_brief: false,
    }
}

/// A part of a word of a cache line.
pub(super) fn of_word(name: String, piece: Piece, access: Access) -> Watchpoint {
    let value = ValueType::Unsigned;
    Watchpoint { value, ..of(name, piece.address, piece.len, access, vec![piece]) }
}

/// What `len` bytes are aligned to when hardware watches them in as few pieces as it can.
fn natural(len: u64) -> u64 {
    match len {
        8.. => 8,
        len => 1 << (63 - len.max(1).leading_zeros()),
    }
}

/// The fewest aligned pieces that cover `len` bytes at `address`, and nothing else.
pub(super) fn split(address: u64, len: u64) -> Vec<Piece> {
    let (mut at, end) = (address, address + len);
    let mut pieces = Vec::new();
    while at < end {
        let aligned = 1 << at.trailing_zeros().min(3);
        let fits = natural(end - at);
        let len = fits.min(aligned);
        pieces.push(Piece { address: at, len });
        at += len;
    }
    pieces
}

/// What to type instead of `len` bytes at an unaligned `address`.
fn alternatives(address: u64, len: u64) -> Vec<String> {
    let fits = split(address, len).first().map_or(1, |piece| piece.len);
    let mut found = vec![format!("{address:#x}/{fits}")];
    for wide in [2, 4, 8] {
        let start = address & !(wide - 1);
        if wide > fits && start.saturating_add(wide) >= address.saturating_add(len) {
            found.push(format!("{start:#x}/{wide}, which contains it"));
            return found;
        }
    }
    let start = address & !7;
    found.push(format!("{start:#x}/{}, in two parts", len.div_ceil(8) * 8 + 8));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(text: &str) -> Target {
        Target::parse(text).unwrap()
    }

    fn watch(
        text: &str,
        address: u64,
        len: u64,
        of_type: bool,
    ) -> Result<Watchpoint, ResolveError> {
        let target = target(text);
        let access = target.access.unwrap_or(Access::Write);
        data(&Object { target: &target, address, len, of_type }, access)
    }

    #[test]
    fn an_unaligned_address_is_refused_with_what_is_aligned() {
        let error = watch("0x1002/4:w", 0x1002, 4, false).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot watch 0x1002/4:w: 4 bytes at 0x1002 are not aligned. Try: 0x1002/2, or \
             0x1000/8, which contains it"
        );
        let error = watch("0x1005/8", 0x1005, 8, false).unwrap_err().to_string();
        assert!(error.ends_with("Try: 0x1005/1, or 0x1000/16, in two parts"), "{error}");
    }

    #[test]
    fn an_object_of_a_packed_structure_is_watched_in_pieces() {
        let found = watch("p.x", 0x1003, 8, true).unwrap();
        let pieces: Vec<_> = found.pieces.iter().map(|piece| (piece.address, piece.len)).collect();
        assert_eq!(pieces, [(0x1003, 1), (0x1004, 4), (0x1008, 2), (0x100a, 1)]);
        assert!(found.notes[0].contains("not aligned"), "{:?}", found.notes);
    }

    #[test]
    fn long_objects_take_several_slots_and_too_long_ones_none() {
        let found = watch("s", 0x1000, 20, true).unwrap();
        assert_eq!(found.pieces.len(), 3);
        assert_eq!(found.notes, ["s has 20 bytes, which take 3 debug registers"]);
        let error = watch("s", 0x1000, 1 << 20, true).unwrap_err().to_string();
        assert!(error.contains("its 1048576 bytes would take 131072 debug registers"), "{error}");
    }

    #[test]
    fn a_read_is_what_the_hardware_can_tell() {
        let found = watch("s:r", 0x1000, 8, true).unwrap();
        if READS_ARE_READ_WRITE {
            assert_eq!(found.access, Access::ReadWrite);
            assert_eq!(
                found.notes,
                ["s is watched for reads and writes: x86 has no read-only watchpoints"]
            );
        } else {
            assert_eq!((found.access, found.notes.len()), (Access::Read, 0));
        }
    }

    proptest! {
        /// Pieces cover the object and nothing else, are aligned, and no fewer would do (by trying
        /// all ways, the shortest).
        #[test]
        fn pieces_cover_the_object_exactly(address in 0_u64..64, len in 1_u64..40) {
            let pieces = split(address, len);
            let mut at = address;
            for piece in &pieces {
                prop_assert_eq!(piece.address, at);
                prop_assert!(matches!(piece.len, 1 | 2 | 4 | 8));
                prop_assert!(piece.address.is_multiple_of(piece.len));
                at += piece.len;
            }
            prop_assert_eq!(at, address + len);
            let end = (address + len) as usize;
            let mut fewest = vec![usize::MAX; end + 1];
            fewest[address as usize] = 0;
            for at in address as usize..end {
                for wide in [1, 2, 4, 8] {
                    if at % wide == 0 && at + wide <= end && fewest[at] != usize::MAX {
                        fewest[at + wide] = fewest[at + wide].min(fewest[at] + 1);
                    }
                }
            }
            prop_assert_eq!(pieces.len(), fewest[end]);
        }
    }
}
