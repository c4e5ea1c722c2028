//! Stubs through which a program calls functions of libraries: `malloc@plt`, as perf and objdump say.
//!
//! The stubs have no symbols; they are identified by their order, which is that of the relocations
//! in `.rela.plt`.

use std::sync::Arc;

use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _};
use object::{Architecture, SymbolIndex};

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
    // With branch tracking the first jump of a stub is in a section of its own, without a header.
    let tables = [table(".plt.sec", 0), table(".plt", header)];
    let Some(relocations) =
        file.section_by_name(".rela.plt").and_then(|section| section.data().ok())
    else {
        return;
    };
    for (address, symbol) in addresses.iter().zip(symbols).filter(|(_, symbol)| symbol.is_none()) {
        let Some(address) = *address else { continue };
        let Some(stubs) = tables.iter().flatten().find(|stubs| stubs.contains(&address)) else {
            continue;
        };
        let number = ((address - stubs.start) / STUB) as usize;
        *symbol = name(file, relocations, number)
            .map(|raw| Symbol::named(Arc::from(format!("{}@plt", demangler.name(raw)))));
    }
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
    // The first one is empty: stubs for functions chosen at run time have none.
    let table = file.dynamic_symbol_table().filter(|_| symbol > 0)?;
    let name = table.symbol_by_index(SymbolIndex(symbol)).ok()?.name_bytes().ok()?;
    (!name.is_empty()).then_some(name)
}
