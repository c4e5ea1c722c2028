//! Where a line of source code begins.

use addr2line::Context;
use addr2line::gimli::{self, UnitHeader};
use rustc_hash::FxHashMap;

use super::names::{Nearest, few, is_file};
use super::scan::joined;
use super::units::{Dwarf, DwarfUnit, Units};
use super::{CodePlaces, DefinitionError, Definitions};
use crate::dwarf::{DebugInfo, Slice};
use crate::pool;
use crate::table::SymbolTable;

/// Places of one line: as many as a template or an inlined function has copies.
const MOST_PLACES: usize = 100_000;
/// Functions that are inlined into each other.
const DEEPEST: usize = 256;

/// What one unit knows of a file.
#[derive(Default)]
struct UnitLines {
    /// The file's name, as the unit has it.
    file: Option<String>,
    /// The line that is nearest to the one asked for, and where it begins.
    best: Option<(u64, Vec<u64>)>,
    near: Vec<String>,
}

impl UnitLines {
    fn offer(&mut self, line: u64, address: u64) {
        match &mut self.best {
            Some((best, _)) if *best < line => {}
            Some((best, places)) if *best == line => {
                if places.len() < MOST_PLACES {
                    places.push(address);
                }
            }
            best => *best = Some((line, vec![address])),
        }
    }
}

/// Where code of `line` of `file` begins, or of the next line that has some.
pub(super) fn find(
    of: &Definitions,
    debug: &DebugInfo,
    file: &str,
    line: u32,
) -> Result<CodePlaces, DefinitionError> {
    let units = Units::of(debug.dwarf());
    let dwarf = &units.dwarf;
    let parts = pool::run(units.main(), of.threads, |header| {
        one(dwarf, header, file, line.into()).unwrap_or_default()
    });
    let mut all = UnitLines::default();
    let mut nearest = Nearest::new(file);
    for part in parts.into_iter().flatten() {
        all.file = all.file.or(part.file);
        part.near.iter().for_each(|name| nearest.offer(name));
        for (line, address) in
            part.best.iter().flat_map(|(line, all)| all.iter().map(move |at| (*line, *at)))
        {
            all.offer(line, address);
        }
    }
    let nothing = |near| Err(DefinitionError::NoLine { file: file.to_owned(), line, near });
    match (all.file, all.best) {
        (Some(name), Some((found, mut addresses))) => {
            addresses.sort_unstable();
            addresses.dedup();
            let addresses = once_per_function(of, debug, addresses);
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            Ok(CodePlaces { name: format!("{name}:{found}"), addresses, line: Some(found) })
        }
        (Some(_), None) => nothing(Vec::new()),
        (None, _) => match few(nearest.names()) {
            near if near.is_empty() => Err(DefinitionError::NoLines {
                file: file.to_owned(),
                why: "no file of this name was compiled into it with line information".into(),
            }),
            near => nothing(near),
        },
    }
}

fn one<'a>(
    dwarf: &Dwarf<'a>,
    header: &UnitHeader<Slice<'a>>,
    file: &str,
    line: u64,
) -> gimli::Result<UnitLines> {
    let unit = dwarf.unit(*header)?;
    let mut found = UnitLines::default();
    let Some(program) = unit.line_program.clone() else { return Ok(found) };
    let names = names(dwarf, &unit);
    let is_it: Vec<bool> = names.iter().map(|name| is_file(name, file)).collect();
    let Some(first) = is_it.iter().position(|is_it| *is_it) else {
        // The last part decides whether a name is near.
        let short = |name: &String| name.rsplit('/').next().unwrap_or_default().to_owned();
        let mut nearest = Nearest::new(file);
        names.iter().for_each(|name| nearest.offer(&short(name)));
        found.near = nearest.names();
        return Ok(found);
    };
    found.file = names.get(first).cloned();
    let base = if header.version() <= 4 { 1 } else { 0 };
    let mut rows = program.rows();
    // File and line of the row before, in the same sequence.
    let mut before = None;
    while let Some((_, row)) = rows.next_row()? {
        let here = (row.file_index(), row.line().map_or(0, std::num::NonZero::get));
        let begins = before != Some(here);
        before = (!row.end_sequence()).then_some(here);
        let index = usize::try_from(here.0).unwrap_or(usize::MAX);
        let is_it = index.checked_sub(base).and_then(|index| is_it.get(index));
        if begins
            && row.is_stmt()
            && !row.end_sequence()
            && here.1 >= line.max(1)
            && row.address() > 0
            && is_it == Some(&true)
        {
            found.offer(here.1, row.address());
        }
    }
    Ok(found)
}

/// Paths of the files of a line table, in its order.
fn names(dwarf: &Dwarf<'_>, unit: &DwarfUnit<'_>) -> Vec<String> {
    let Some(program) = &unit.line_program else { return Vec::new() };
    let header = program.header();
    let text = |value| {
        let text = dwarf.attr_string(unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    };
    (header.file_names().iter())
        .map(|file| {
            let directory = file.directory(header).and_then(text);
            joined(directory.as_deref(), &text(file.path_name()).unwrap_or_default())
        })
        .collect()
}

/// Of the places within one copy of one function, inlined or not, the first: a line of a loop's head,
/// say, has code in several.
fn once_per_function(of: &Definitions, debug: &DebugInfo, addresses: Vec<u64>) -> Vec<u64> {
    if addresses.len() < 2 {
        return addresses;
    }
    let Ok(context) = Context::from_dwarf(debug.dwarf()) else { return addresses };
    let image = if of.image.has(".symtab") { Some(&of.image) } else { of.separate.as_ref() };
    let elf = image.and_then(|image| image.elf().ok());
    let table = elf.as_ref().map(SymbolTable::of_symtab).unwrap_or_default();
    let mut first: FxHashMap<_, u64> = FxHashMap::default();
    for &address in &addresses {
        // A function's parts that lie elsewhere have symbols of their own.
        let symbol = table.range(address).map(|range| range.start);
        first.entry((symbol, inlined(&context, address))).or_insert(address);
    }
    let mut kept: Vec<u64> = first.into_values().collect();
    kept.sort_unstable();
    kept
}

/// A function, and line and column of its call.
type Call<'a> = (Option<&'a [u8]>, Option<(u32, u32)>);

/// Functions at an address, the innermost first, and the places that they call the one before from.
fn inlined<'a>(context: &Context<Slice<'a>>, address: u64) -> Vec<Call<'a>> {
    let mut chain = Vec::new();
    let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return chain };
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.map(|function| function.name.slice());
        let place = frame.location.filter(|_| !chain.is_empty());
        let place = place.map(|at| (at.line.unwrap_or(0), at.column.unwrap_or(0)));
        chain.push((name, place));
        if chain.len() == DEEPEST {
            break;
        }
    }
    chain
}
