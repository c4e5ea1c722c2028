//! Symbols of files, and of the vdso, which is a file in memory.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pmuscope_machine::Machine;
use rustc_hash::FxHashMap;

use crate::demangle::{Demangler, FunctionName};
use crate::dwarf::DebugInfo;
use crate::image::Image;
use crate::locate::Locator;
use crate::table::SymbolTable;
use crate::{BuildId, ModuleFile, Options, State, Symbol, layout, plt};

/// A vdso is a page or two.
const LARGEST_VDSO: u64 = 1 << 20;

/// What symbol tables say, and what is left for debug information.
#[derive(Debug, Default)]
pub(crate) struct FromTables {
    /// One per address.
    pub(crate) symbols: Vec<Option<Symbol>>,
    pub(crate) debug: Option<DebugWork>,
    /// Files that would be better than what was found, but are not there.
    pub(crate) absent: Vec<PathBuf>,
    /// Why there are no symbols, if there are none.
    pub(crate) lacking: Option<State>,
    /// The file that was read: the debug file, where one was needed.
    pub(crate) file: PathBuf,
}

/// Addresses that debug information has to be asked for.
#[derive(Debug)]
pub(crate) struct DebugWork {
    pub(crate) info: Arc<DebugInfo>,
    pub(crate) addresses: Vec<DebugAddress>,
}

/// An address that debug information has to be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DebugAddress {
    /// Its number among those asked for.
    pub(crate) index: u32,
    /// As debug information counts.
    pub(crate) address: u64,
    /// The symbol table has a name whose function has no size: debug information knows better, if it has one.
    pub(crate) is_doubtful: bool,
}

/// Symbols of `offsets`, ascending, in the file that ran.
pub(crate) fn of_file(
    locator: &Locator<'_>,
    options: Options,
    file: ModuleFile<'_>,
    offsets: &[u64],
) -> Result<FromTables, State> {
    let image = locator.file(file)?;
    let segments = image.segments();
    let addresses: Vec<Option<u64>> = offsets.iter().map(|&at| segments.address(at)).collect();
    Ok(of_image(locator, options, image, file.build_id, &addresses))
}

/// Symbols of `offsets`, ascending, in a file of build `id` that is nowhere, from its debug file alone. `missing` is what
/// came of looking for the file.
pub(crate) fn of_debug_file(
    locator: &Locator<'_>,
    options: Options,
    id: &BuildId,
    offsets: &[u64],
    missing: State,
) -> Result<FromTables, State> {
    let debug = locator.debug_file_alone(id);
    let refused = debug.refused();
    let image = debug.image.ok_or_else(|| refused.unwrap_or(missing))?;
    let Some(segments) = layout::segments(&image) else {
        return Err(State::Unreadable(format!(
            "{} does not say where code was in the file that ran, which is missing",
            image.path().display()
        )));
    };
    let addresses: Vec<Option<u64>> = offsets.iter().map(|&at| segments.address(at)).collect();
    Ok(of_image(locator, options, image, Some(id), &addresses))
}

/// Symbols of addresses, as the tables of `image` count them; `None` where nothing is mapped.
pub(crate) fn of_image(
    locator: &Locator<'_>,
    options: Options,
    image: Image,
    id: Option<&BuildId>,
    addresses: &[Option<u64>],
) -> FromTables {
    let image = Arc::new(image);
    let own_id = image.build_id();
    let has_table = image.has(".symtab");
    let has_debug = image.has(".debug_info");
    let wanted = |file: &Image| {
        (has_table || file.has(".symtab"))
            && (!options.inlined || has_debug || file.has(".debug_info"))
    };
    let mut found = FromTables::default();
    let mut separate = None;
    // With neither the file is stripped; without debug information names are complete, lines are not.
    if !wanted(&image) {
        let debug = locator.debug_file(&image, id.or(own_id.as_ref()), |file| {
            file.has(".symtab") || file.has(".debug_info")
        });
        found.lacking = debug.refused();
        found.absent = debug.absent;
        separate = debug.image.map(Arc::new);
    }
    found.file = separate.as_ref().unwrap_or(&image).path().to_owned();
    let mut demangler = Demangler::default();
    let (symbols, doubtful) = from_tables(&image, separate.as_deref(), addresses, &mut demangler);
    found.symbols = symbols;

    let left: Vec<DebugAddress> = (0_u32..)
        .zip(addresses.iter().zip(found.symbols.iter().zip(doubtful)))
        .filter(|(_, (_, (symbol, is_doubtful)))| {
            options.inlined || symbol.is_none() || *is_doubtful
        })
        .filter_map(|(index, (address, (_, is_doubtful)))| {
            Some(DebugAddress { index, address: (*address)?, is_doubtful })
        })
        .collect();
    if !left.is_empty() {
        let dirs = locator.debug_dirs();
        let places = locator.split_places(&image, separate.as_deref());
        let info = DebugInfo::of(image, &dirs).or_else(|| DebugInfo::of(separate?, &dirs));
        found.debug =
            info.map(|info| DebugWork { info: Arc::new(info.with_split(places)), addresses: left });
    }
    found
}

/// Asks the tables in turn, the fullest first, for what is still without a name. Also, whether the name is that of a function
/// without a size.
fn from_tables(
    image: &Image,
    separate: Option<&Image>,
    addresses: &[Option<u64>],
    demangler: &mut Demangler,
) -> (Vec<Option<Symbol>>, Vec<bool>) {
    let mut symbols = vec![None; addresses.len()];
    let mut doubtful = vec![false; addresses.len()];
    let mut full = |image: &Image, symbols: &mut Vec<Option<Symbol>>, demangler: &mut Demangler| {
        let Ok(elf) = image.elf() else { return false };
        let table = SymbolTable::of_symtab_at(&elf, addresses);
        fill(&table, addresses, symbols, demangler);
        let number = |address: &Option<u64>| address.and_then(|address| table.get(address));
        for (address, doubtful) in addresses.iter().zip(&mut doubtful) {
            *doubtful |= number(address).is_some_and(|number| table.is_stretched(number));
        }
        !table.is_empty()
    };
    let mut has_table = full(image, &mut symbols, demangler);
    if !has_table && let Some(separate) = separate {
        has_table = full(separate, &mut symbols, demangler);
    }
    if !has_table && let Some(mini) = image.debugdata() {
        full(&mini, &mut symbols, demangler);
    }
    // `.debugdata` leaves out what is exported, and some linkers leave `.dynsym` names out of `.symtab`.
    if symbols.iter().any(Option::is_none)
        && let Ok(elf) = image.elf()
    {
        fill(&SymbolTable::of_dynsym(&elf), addresses, &mut symbols, demangler);
        plt::fill(&elf, addresses, &mut symbols, demangler);
    }
    (symbols, doubtful)
}

fn fill(
    table: &SymbolTable<'_>,
    addresses: &[Option<u64>],
    symbols: &mut [Option<Symbol>],
    demangler: &mut Demangler,
) {
    let mut names: FxHashMap<u32, FunctionName> = FxHashMap::default();
    for (address, symbol) in addresses.iter().zip(symbols).filter(|(_, symbol)| symbol.is_none()) {
        let Some(number) = address.and_then(|address| table.get(address)) else { continue };
        let name = names.entry(number).or_insert_with(|| demangler.best(table.names(number)));
        *symbol = Some(name.clone().into());
    }
}

/// Our own vdso: with the same kernel it is the one of every process.
pub(crate) fn vdso() -> Result<Image, State> {
    let mappings = Machine::host()
        .mappings(std::process::id())
        .map_err(|error| State::Unreadable(error.to_string()))?;
    let vdso =
        mappings.iter().find(|mapping| mapping.path == b"[vdso]").ok_or(State::FileMissing)?;
    let size = (vdso.end - vdso.start).min(LARGEST_VDSO);
    let mut bytes = vec![0; size as usize];
    File::open("/proc/self/mem")
        .and_then(|memory| memory.read_exact_at(&mut bytes, vdso.start))
        .map_err(|error| State::Unreadable(error.to_string()))?;
    Ok(Image::in_memory(Path::new("[vdso]"), bytes))
}

/// Symbols of our own vdso. Addresses count from its start.
pub(crate) fn of_vdso(offsets: &[u64]) -> Result<Vec<Option<Symbol>>, State> {
    let image = vdso()?;
    let segments = image.segments();
    let addresses: Vec<Option<u64>> = offsets.iter().map(|&at| segments.address(at)).collect();
    let mut symbols = vec![None; offsets.len()];
    let elf = image.elf()?;
    fill(&SymbolTable::of_dynsym(&elf), &addresses, &mut symbols, &mut Demangler::default());
    Ok(symbols)
}
