//! Stubs through which a program calls functions of libraries: `malloc@plt`, as perf and objdump say.
//!
//! The stubs have no symbols; those of `.plt` are identified by their order, which is that of the relocations
//! in `.rela.plt`, those of `.plt.got` by the slot that they jump through, which a relocation in `.rela.dyn` fills.

use std::sync::Arc;

use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _};
use object::{Architecture, SymbolIndex};
use rustc_hash::FxHashMap;

use crate::Symbol;
use crate::demangle::Demangler;

/// Bytes of a stub, on x86-64 and on 64-bit ARM.
const STUB: u64 = 16;
/// Bytes of a relocation with addend of a 64-bit file.
const RELOCATION: usize = 24;

/// Gives names to addresses in stubs, of those that have none.
pub(crate) fn fill(
    file: &object::File<'_>,
    addresses: &[Option<u64>],
    symbols: &mut [Option<Symbol>],
    demangler: &mut Demangler,
) {
    let header = match file.architecture() {
        Architecture::X86_64 => STUB,
        Architecture::Aarch64 => 2 * STUB,
        _ => return,
    };
    if !file.is_64() || !file.is_little_endian() {
        return;
    }
    let table = |name, skip: u64| {
        let section = file.section_by_name(name)?;
        let start = section.address().checked_add(skip)?;
        Some(start..section.address().checked_add(section.size())?)
    };
    let mut through_slots = SlotStubs::of(file);
    // With branch tracking the first jump of a stub is in a section of its own, without a header.
    let tables = [table(".plt.sec", 0), table(".plt", header)];
    let relocations = file
        .section_by_name(".rela.plt")
        .and_then(|section| section.data().ok())
        .unwrap_or_default();
    for (address, symbol) in addresses.iter().zip(symbols).filter(|(_, symbol)| symbol.is_none()) {
        let Some(address) = *address else { continue };
        let raw = match tables.iter().flatten().find(|stubs| stubs.contains(&address)) {
            Some(stubs) => name(file, relocations, ((address - stubs.start) / STUB) as usize),
            None => through_slots.as_mut().and_then(|stubs| stubs.name(file, address)),
        };
        *symbol = raw.map(|raw| Symbol::named(Arc::from(format!("{}@plt", demangler.name(raw)))));
    }
}

/// The stubs of `.plt.got` on x86-64: of functions whose address the program also takes.
struct SlotStubs<'data> {
    range: std::ops::Range<u64>,
    /// Bytes of a stub.
    size: u64,
    code: &'data [u8],
    /// Number of the symbol by the address of its slot, once that is asked for.
    slots: Option<FxHashMap<u64, u32>>,
}

impl<'data> SlotStubs<'data> {
    fn of(file: &object::File<'data>) -> Option<Self> {
        let section = file.section_by_name(".plt.got")?;
        if file.architecture() != Architecture::X86_64 {
            return None;
        }
        let range = section.address()..section.address().checked_add(section.size())?;
        let code = section.data().ok()?;
        // With branch tracking `endbr64` comes first.
        let size = if code.starts_with(&ENDBR64) { 16 } else { 8 };
        Some(Self { range, size, code, slots: None })
    }

    fn name(&mut self, file: &object::File<'data>, address: u64) -> Option<&'data [u8]> {
        let inside = address.checked_sub(self.range.start)? / self.size * self.size;
        let slot = slot(self.code.get(usize::try_from(inside).ok()?..)?)?;
        let slot = self.range.start.wrapping_add(inside).wrapping_add_signed(slot);
        let slots = self.slots.get_or_insert_with(|| slots(file));
        symbol_name(file, *slots.get(&slot)? as usize)
    }
}

/// The instruction that marks a place that may be jumped to.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// How far behind the start of a stub the slot is that it jumps through: `jmp *slot(%rip)`.
fn slot(stub: &[u8]) -> Option<i64> {
    let jump = stub.strip_prefix(&ENDBR64).unwrap_or(stub);
    let jump = jump.strip_prefix(&[0xf2]).unwrap_or(jump);
    let rest = jump.strip_prefix(&[0xff, 0x25])?;
    let (offset, behind) = rest.split_first_chunk()?;
    Some(i64::from(i32::from_le_bytes(*offset)) + (stub.len() - behind.len()) as i64)
}

/// Numbers of symbols by the addresses of the slots that they fill.
fn slots(file: &object::File<'_>) -> FxHashMap<u64, u32> {
    let section = file.section_by_name(".rela.dyn").and_then(|section| section.data().ok());
    let relocations = section.unwrap_or_default().chunks_exact(RELOCATION);
    let slot = |relocation: &[u8]| {
        let place = u64::from_le_bytes(*relocation.first_chunk()?);
        Some((place, u32::from_le_bytes(*relocation.get(12..16)?.first_chunk()?)))
    };
    relocations.filter_map(slot).filter(|(_, symbol)| *symbol > 0).collect()
}

/// Name of the function that relocation `number` is for.
fn name<'data>(
    file: &object::File<'data>,
    relocations: &[u8],
    number: usize,
) -> Option<&'data [u8]> {
    let start = number.checked_mul(RELOCATION)?;
    let relocation = relocations.get(start..start.checked_add(RELOCATION)?)?;
    let symbol = u32::from_le_bytes(*relocation.get(12..16)?.first_chunk()?) as usize;
    symbol_name(file, symbol)
}

/// Name of a symbol by its number.
fn symbol_name<'data>(file: &object::File<'data>, symbol: usize) -> Option<&'data [u8]> {
    // The first one is empty: stubs for functions chosen at run time have none.
    let table = file.dynamic_symbol_table().filter(|_| symbol > 0)?;
    let name = table.symbol_by_index(SymbolIndex(symbol)).ok()?.name_bytes().ok()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_lead_to_their_slots() {
        // jmp *0x10(%rip); xchg %ax,%ax
        assert_eq!(slot(&[0xff, 0x25, 0x10, 0, 0, 0, 0x66, 0x90]), Some(6 + 0x10));
        // endbr64; bnd jmp *-2(%rip)
        let marked =
            [&ENDBR64[..], &[0xf2, 0xff, 0x25, 0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0]].concat();
        assert_eq!(slot(&marked), Some(11 - 2));
        assert_eq!(slot(&[0x90; 8]), None);
        assert_eq!(slot(&[0xff, 0x25, 1]), None);
    }
}
