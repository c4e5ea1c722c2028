//! Names of the object at an address, usually data: variables and tables of a program. Functions come
//! second: instructions are fetched from memory too.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::definitions::{Definitions, FieldAt, PartLayout};
use crate::demangle::Demangler;
use crate::image::Image;
use crate::kallsyms::Kallsyms;
use crate::locate::Locator;
use crate::table::SymbolTable;
use crate::{Module, ModuleFile, Sources};

/// What lies at an address of data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataObject {
    /// The variable, or the function. Foreign text.
    pub name: Arc<str>,
    /// How far into it the address is, bytes; 0 where the kernel has it.
    pub offset: u64,
    /// The field there, as far as it was asked for and debug information has it.
    pub field: Option<FieldAt>,
}

/// The variable or function at each of `addresses`, and the field there.
pub(crate) fn with_fields(
    sources: &Sources,
    module: &Module<'_>,
    addresses: &[u64],
) -> Vec<Option<DataObject>> {
    let found = at(sources, module, addresses);
    let Module::File(file) = module else { return without_start(found) };
    match Definitions::of(sources, *file) {
        Ok(definitions) => named(&definitions, found),
        Err(_) => without_start(found),
    }
}

/// Adds the fields.
pub(crate) fn named(
    definitions: &Definitions,
    mut found: Vec<PlacedObject>,
) -> Vec<Option<DataObject>> {
    let mut by_variable: BTreeMap<(Arc<str>, u64), Vec<usize>> = BTreeMap::new();
    for (at, (object, start)) in
        found.iter().enumerate().filter_map(|(at, one)| Some((at, one.as_ref()?)))
    {
        by_variable.entry((Arc::clone(&object.name), *start)).or_default().push(at);
    }
    for ((name, start), all) in by_variable {
        let offsets: Vec<u64> =
            all.iter().filter_map(|&at| Some(found[at].as_ref()?.0.offset)).collect();
        let fields = definitions.fields(&name, start, &offsets);
        for (at, field) in all.into_iter().zip(fields) {
            if let Some((object, _)) = &mut found[at] {
                object.field = field;
            }
        }
    }
    without_start(found)
}

/// Offsets of a group, and which group it is.
type NumberedOffsets = (usize, Vec<u64>);

/// For each group of addresses the variable that has them all, if one has, and its innermost part that does.
pub(crate) fn parts(
    sources: &Sources,
    module: &Module<'_>,
    groups: &[Vec<u64>],
) -> Vec<Option<PartLayout>> {
    let mut out = vec![None; groups.len()];
    let Module::File(file) = module else { return out };
    let addresses: Vec<u64> = groups.iter().flatten().copied().collect();
    let found = at(sources, module, &addresses);
    let Ok(definitions) = Definitions::of(sources, *file) else { return out };
    let mut by_variable: BTreeMap<(Arc<str>, u64), Vec<NumberedOffsets>> = BTreeMap::new();
    let mut rest = &found[..];
    for (number, group) in groups.iter().enumerate() {
        let (objects, further) = rest.split_at(group.len());
        rest = further;
        let Some(Some((first, start))) = objects.first() else { continue };
        let one = |object: &PlacedObject| {
            let (object, _) = object.as_ref().filter(|(_, other)| other == start)?;
            Some(object.offset)
        };
        if let Some(offsets) = objects.iter().map(one).collect() {
            let of = by_variable.entry((Arc::clone(&first.name), *start)).or_default();
            of.push((number, offsets));
        }
    }
    for ((name, start), all) in by_variable {
        let (numbers, offsets): (Vec<usize>, Vec<Vec<u64>>) = all.into_iter().unzip();
        let layouts = definitions.part_layouts(&name, start, &offsets);
        numbers.into_iter().zip(layouts).for_each(|(number, layout)| out[number] = layout);
    }
    out
}

/// For each type's name and offsets in an object of it: the innermost part that has all of these.
pub(crate) fn parts_of_types(
    sources: &Sources,
    module: &Module<'_>,
    groups: &[(Arc<str>, Vec<u64>)],
) -> Vec<Option<PartLayout>> {
    let mut out = vec![None; groups.len()];
    let Module::File(file) = module else { return out };
    let Ok(definitions) = Definitions::of(sources, *file) else { return out };
    let mut by_type: BTreeMap<&str, Vec<NumberedOffsets>> = BTreeMap::new();
    for (number, (name, offsets)) in groups.iter().enumerate() {
        by_type.entry(name).or_default().push((number, offsets.clone()));
    }
    for (name, all) in by_type {
        let (numbers, offsets): (Vec<usize>, Vec<Vec<u64>>) = all.into_iter().unzip();
        let layouts = definitions.type_part_layouts(name, &offsets);
        numbers.into_iter().zip(layouts).for_each(|(number, layout)| out[number] = layout);
    }
    out
}

/// An object and the address where it begins, as the symbol table has it.
pub(crate) type PlacedObject = Option<(DataObject, u64)>;

pub(crate) fn without_start(found: Vec<PlacedObject>) -> Vec<Option<DataObject>> {
    found.into_iter().map(|one| Some(one?.0)).collect()
}

/// The variable or function at each of `addresses`, as far as symbol tables tell.
pub(crate) fn at(sources: &Sources, module: &Module<'_>, addresses: &[u64]) -> Vec<PlacedObject> {
    let locator = Locator::new(sources);
    let found = match module {
        Module::File(file) => locator.file(*file).ok().map(|image| {
            let own_id = image.build_id();
            let id = file.build_id.or(own_id.as_ref());
            let debug = locator.debug_file(&image, id, |file| file.has(".symtab"));
            in_image(&image, debug.image.as_ref(), addresses)
        }),
        Module::Kernel => Kallsyms::of_running().ok().map(|kallsyms| {
            let name = |&address: &u64| {
                let code = || kallsyms.get(address).map(|(_, name)| name);
                let name = kallsyms.object(address).or_else(code)?;
                let name = String::from_utf8_lossy(name).as_ref().into();
                Some((DataObject { name, offset: 0, field: None }, address))
            };
            addresses.iter().map(name).collect()
        }),
        Module::Vdso | Module::Jit { .. } => None,
    };
    found.unwrap_or_else(|| vec![None; addresses.len()])
}

/// Offset in the file of `path` where its data end in memory, as if the file held what starts as zero.
pub(crate) fn data_end(sources: &Sources, path: &Path) -> Option<u64> {
    Locator::new(sources)
        .file(ModuleFile { path, build_id: None, mapped: None })
        .ok()?
        .segments()
        .data_end()
}

fn in_image(image: &Image, separate: Option<&Image>, offsets: &[u64]) -> Vec<PlacedObject> {
    let segments = image.segments();
    let placed = |&offset: &u64| segments.data_address(offset);
    let addresses: Vec<Option<u64>> = offsets.iter().map(placed).collect();
    let known: Vec<u64> = addresses.iter().flatten().copied().collect();
    let mut found = in_tables(image, separate, &known).into_iter();
    addresses.iter().map(|address| address.and_then(|_| found.next().flatten())).collect()
}

/// The objects at addresses as symbol tables count.
pub(crate) fn in_tables(
    image: &Image,
    separate: Option<&Image>,
    addresses: &[u64],
) -> Vec<PlacedObject> {
    let (elf, other) = (image.elf().ok(), separate.and_then(|other| other.elf().ok()));
    let tables = [
        elf.as_ref().map(SymbolTable::of_objects).unwrap_or_default(),
        other.as_ref().map(SymbolTable::of_objects).unwrap_or_default(),
        elf.as_ref().map(SymbolTable::of_exported_objects).unwrap_or_default(),
        elf.as_ref().map(SymbolTable::of_symtab).unwrap_or_default(),
        other.as_ref().map(SymbolTable::of_symtab).unwrap_or_default(),
        elf.as_ref().map(SymbolTable::of_dynsym).unwrap_or_default(),
    ];
    let mut demangler = Demangler::default();
    let mut name = |&address: &u64| {
        let (table, number) = tables.iter().find_map(|table| Some((table, table.get(address)?)))?;
        let start = table.range(address)?.start;
        let name = demangler.best(table.names(number)).name;
        Some((DataObject { name, offset: address - start, field: None }, start))
    };
    addresses.iter().map(&mut name).collect()
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
        let module = Module::file(&path, None);
        let at = here - mapping.start + mapping.offset;
        let symbolizer = Symbolizer::new(Options { inlined: false });
        let found = symbolizer.objects(&module, &[at, at + 31, at + 32, u64::MAX]);
        let is_it = |name: &Option<Arc<str>>| {
            name.as_ref().is_some_and(|name| name.ends_with("objects::tests::NUMBERS"))
        };
        let found: Vec<bool> = found.iter().map(is_it).collect();
        assert_eq!(found, [true, true, false, false]);
        let gone = Module::file(Path::new("/nowhere"), None);
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
        let module = Module::file(&path, None);
        let found = Symbolizer::new(Options { inlined: false }).objects(&module, &[at, at + 31]);
        for name in found {
            assert!(name.as_ref().is_some_and(|name| name.ends_with("tests::ZEROED")), "{name:?}");
        }
    }
}
