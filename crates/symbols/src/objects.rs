//! Names of the object at an address, usually data: variables and tables of a program. Functions come
//! second: instructions are fetched from memory too.

use std::path::Path;
use std::sync::Arc;

use crate::demangle::Demangler;
use crate::image::Image;
use crate::kallsyms::Kallsyms;
use crate::locate::Locator;
use crate::table::SymbolTable;
use crate::{Module, Sources};

/// The variable or function at each of `addresses`, as far as symbol tables tell.
pub(crate) fn at(
    sources: &Sources,
    module: &Module<'_>,
    addresses: &[u64],
) -> Vec<Option<Arc<str>>> {
    let locator = Locator::new(sources);
    let found = match module {
        Module::File { path, build_id } => locator.file(path, *build_id).ok().map(|image| {
            let own_id = image.build_id();
            let id = build_id.or(own_id.as_ref());
            let debug = locator.debug_file(&image, id, |file| file.has(".symtab"));
            in_image(&image, debug.image.as_ref(), addresses)
        }),
        Module::Kernel => Kallsyms::of_running().ok().map(|kallsyms| {
            let name = |&address: &u64| {
                let code = || kallsyms.get(address).map(|(_, name)| name);
                let name = kallsyms.object(address).or_else(code)?;
                Some(String::from_utf8_lossy(name).as_ref().into())
            };
            addresses.iter().map(name).collect()
        }),
        Module::Vdso | Module::Jit { .. } => None,
    };
    found.unwrap_or_else(|| vec![None; addresses.len()])
}

/// Offset in the file of `path` where its data end in memory, as if the file held what starts as zero.
pub(crate) fn data_end(sources: &Sources, path: &Path) -> Option<u64> {
    Locator::new(sources).file(path, None).ok()?.segments().data_end()
}

fn in_image(image: &Image, separate: Option<&Image>, offsets: &[u64]) -> Vec<Option<Arc<str>>> {
    let (elf, other) = (image.elf().ok(), separate.and_then(|other| other.elf().ok()));
    let tables = [
        elf.as_ref().map(SymbolTable::of_objects).unwrap_or_default(),
        other.as_ref().map(SymbolTable::of_objects).unwrap_or_default(),
        elf.as_ref().map(SymbolTable::of_exported_objects).unwrap_or_default(),
        elf.as_ref().map(SymbolTable::of_symtab).unwrap_or_default(),
        other.as_ref().map(SymbolTable::of_symtab).unwrap_or_default(),
        elf.as_ref().map(SymbolTable::of_dynsym).unwrap_or_default(),
    ];
    let segments = image.segments();
    let mut demangler = Demangler::default();
    let mut name = |&offset: &u64| {
        let address = segments.data_address(offset)?;
        let (table, number) = tables.iter().find_map(|table| Some((table, table.get(address)?)))?;
        Some(demangler.best(table.names(number)).name)
    };
    offsets.iter().map(&mut name).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::sync::atomic::{AtomicU64, Ordering};

    use pmuscope_machine::Machine;

    use super::*;
    use crate::{Options, Symbolizer};

    static NUMBERS: [u64; 4] = [1, 2, 3, 4];
    static ZEROED: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

    #[test]
    fn a_variable_is_found_by_any_of_its_addresses() {
        let here = std::ptr::from_ref(&NUMBERS) as u64;
        let mappings = Machine::host().mappings(std::process::id()).unwrap();
        let mapping = mappings.iter().find(|one| (one.start..one.end).contains(&here)).unwrap();
        let path = std::env::current_exe().unwrap();
        let module = Module::File { path: &path, build_id: None };
        let at = here - mapping.start + mapping.offset;
        let symbolizer = Symbolizer::new(Options { inlined: false });
        let found = symbolizer.objects(&module, &[at, at + 31, at + 32, u64::MAX]);
        let is_it = |name: &Option<Arc<str>>| {
            name.as_ref().is_some_and(|name| name.ends_with("objects::tests::NUMBERS"))
        };
        let found: Vec<bool> = found.iter().map(is_it).collect();
        assert_eq!(found, [true, true, false, false]);
        let gone = Module::File { path: Path::new("/nowhere"), build_id: None };
        assert_eq!(symbolizer.objects(&gone, &[1]), [None]);
    }

    /// The file has no bytes for it: its offset is where the mapping of the data before it would have it.
    #[test]
    fn a_variable_that_starts_as_zero_is_found_beyond_the_bytes_of_the_file() {
        ZEROED[1].store(1, Ordering::Relaxed);
        let here = std::ptr::from_ref(&ZEROED) as u64;
        let path = std::env::current_exe().unwrap();
        let mappings = Machine::host().mappings(std::process::id()).unwrap();
        let own = mappings.iter().filter(|one| one.path == path.as_os_str().as_bytes());
        let before = own.filter(|one| one.start <= here).max_by_key(|one| one.start).unwrap();
        let at = here - before.start + before.offset;
        let module = Module::File { path: &path, build_id: None };
        let found = Symbolizer::new(Options { inlined: false }).objects(&module, &[at, at + 31]);
        for name in found {
            assert!(name.as_ref().is_some_and(|name| name.ends_with("tests::ZEROED")), "{name:?}");
        }
    }
}
