//! Symbol tables: the function at an address.

use std::ops::Range;

use object::read::{Object as _, ObjectSection as _, ObjectSymbol};
use object::{SectionFlags, SymbolKind, SymbolSection, elf};
use rustc_hash::FxHashMap;

/// Index for "no function here".
const NONE: u32 = u32::MAX;

/// A function of a symbol table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FunctionSymbol<'data> {
    start: u64,
    /// One past the last; `start` where the table has no size.
    end: u64,
    /// Where its section ends.
    limit: u64,
    weak: bool,
    local: bool,
    name: &'data [u8],
    /// Its index in the table.
    order: u32,
}

impl FunctionSymbol<'_> {
    /// Of several names for one place perf(1) takes one with a size, that is not weak, is global.
    fn rank(&self) -> (bool, bool, bool) {
        (self.end == self.start, self.weak, self.local)
    }
}

/// Functions by address, without overlaps: where functions are nested the inner one counts.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable<'data> {
    /// Ascending; at each begins the function of the same index in `owners`, or nothing.
    starts: Vec<u64>,
    owners: Vec<u32>,
    entries: Vec<FunctionSymbol<'data>>,
    /// All names of equal rank, in the order of the table, of those that have several.
    aliases: FxHashMap<u32, Vec<&'data [u8]>>,
}

impl<'data> SymbolTable<'data> {
    /// The full symbol table of `file` (`.symtab`).
    pub(crate) fn of_symtab(file: &object::File<'data>) -> Self {
        Self::new(collect(file, file.symbols(), Contents::Code))
    }

    /// Variables of the full symbol table of `file`.
    pub(crate) fn of_objects(file: &object::File<'data>) -> Self {
        Self::new(collect(file, file.symbols(), Contents::Data))
    }

    /// Variables that `file` exports by name.
    pub(crate) fn of_exported_objects(file: &object::File<'data>) -> Self {
        Self::new(collect(file, file.dynamic_symbols(), Contents::Data))
    }

    /// What `file` exports and imports by name (`.dynsym`), which strip(1) leaves.
    pub(crate) fn of_dynsym(file: &object::File<'data>) -> Self {
        Self::new(collect(file, file.dynamic_symbols(), Contents::Code))
    }

    fn new(mut entries: Vec<FunctionSymbol<'data>>) -> Self {
        entries.sort_unstable_by(|a, b| {
            (a.start.cmp(&b.start))
                .then_with(|| a.rank().cmp(&b.rank()))
                .then_with(|| a.order.cmp(&b.order))
        });
        let aliases = aliases(&entries);
        entries.dedup_by_key(|entry| entry.start);
        // What has no size ends where the next begins.
        let mut next = u64::MAX;
        for entry in entries.iter_mut().rev() {
            if entry.end == entry.start {
                entry.end = next.min(entry.limit);
            }
            next = entry.start;
        }
        let (starts, owners) = flatten(&entries);
        Self { starts, owners, entries, aliases }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of the function at `address`.
    pub(crate) fn get(&self, address: u64) -> Option<u32> {
        let at = self.starts.partition_point(|&start| start <= address).checked_sub(1)?;
        Some(self.owners[at]).filter(|&owner| owner != NONE)
    }

    /// Where the function at `address` begins and ends.
    pub(crate) fn range(&self, address: u64) -> Option<Range<u64>> {
        let entry = self.entries.get(self.get(address)? as usize)?;
        Some(entry.start..entry.end.min(entry.limit))
    }

    /// The names of that function, as they are in the table: more than one if linkers or programmers
    /// gave it several. The one to show is a matter of how they read.
    pub(crate) fn names(&self, number: u32) -> &[&'data [u8]] {
        match (self.aliases.get(&number), self.entries.get(number as usize)) {
            (Some(names), _) => names,
            (None, Some(entry)) => std::slice::from_ref(&entry.name),
            (None, None) => &[],
        }
    }

    /// Address of the symbol `name`.
    pub(crate) fn address_of(&self, name: &[u8]) -> Option<u64> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| entry.start)
    }
}

/// Names of those that begin at one place and are of the best rank there, where they are several, by
/// the number that the function has once each place is there once. The entries are sorted.
fn aliases<'data>(entries: &[FunctionSymbol<'data>]) -> FxHashMap<u32, Vec<&'data [u8]>> {
    let groups = entries.chunk_by(|a, b| a.start == b.start);
    (0_u32..)
        .zip(groups)
        .filter_map(|(number, group)| {
            let best = group.first()?.rank();
            let equal = group.partition_point(|entry| entry.rank() == best);
            let names = || group[..equal].iter().map(|entry| entry.name).collect();
            (equal > 1).then(|| (number, names()))
        })
        .collect()
}

/// Lays nested and overlapping functions out side by side: at each address that one counts which
/// began last. Functions come in order of their starts; each is pushed and popped once.
fn flatten(entries: &[FunctionSymbol<'_>]) -> (Vec<u64>, Vec<u32>) {
    let mut pieces: Vec<(u64, u32)> = Vec::with_capacity(entries.len() + entries.len() / 4);
    let mut open: Vec<u32> = Vec::new();
    let close = |open: &mut Vec<u32>, pieces: &mut Vec<(u64, u32)>, until: u64| {
        while let Some(&top) = open.last() {
            let end = entries[top as usize].end;
            if end > until {
                break;
            }
            open.pop();
            while open.last().is_some_and(|&below| entries[below as usize].end <= end) {
                open.pop();
            }
            pieces.push((end, open.last().copied().unwrap_or(NONE)));
        }
    };
    for (index, entry) in (0_u32..).zip(entries) {
        close(&mut open, &mut pieces, entry.start);
        if pieces.last().is_some_and(|(start, _)| *start == entry.start) {
            pieces.pop();
        }
        pieces.push((entry.start, index));
        open.push(index);
    }
    close(&mut open, &mut pieces, u64::MAX);
    pieces.into_iter().unzip()
}

/// What is looked for in a symbol table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    /// Functions, and labels of code written in assembly.
    Code,
    /// Variables; not those of threads, whose addresses count from somewhere else.
    Data,
}

fn collect<'data: 'file, 'file, Symbol>(
    file: &'file object::File<'data>,
    symbols: impl Iterator<Item = Symbol>,
    of: Contents,
) -> Vec<FunctionSymbol<'data>>
where
    Symbol: ObjectSymbol<'data>,
{
    // By number of the section: where those of these contents end.
    let mut limits: Vec<Option<u64>> = Vec::new();
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        let index = section.index().0;
        let is_code = sh_flags.contains(elf::SHF_EXECINSTR);
        let is_data = sh_flags.contains(elf::SHF_ALLOC) && !is_code;
        if (of == Contents::Code && is_code) || (of == Contents::Data && is_data) {
            limits.resize(limits.len().max(index + 1), None);
            limits[index] = section.address().checked_add(section.size());
        }
    }
    (0_u32..)
        .zip(symbols)
        .filter_map(|(order, symbol)| {
            let SymbolSection::Section(section) = symbol.section() else { return None };
            let limit = limits.get(section.0).copied().flatten()?;
            let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
            match (of, symbol.kind()) {
                (Contents::Code, SymbolKind::Text) | (Contents::Data, SymbolKind::Data) => {}
                // Labels; those with a dollar sign tell ARM's disassemblers code from data.
                (Contents::Code, SymbolKind::Unknown)
                    if !name.starts_with(b"$") && !name.starts_with(b".L") => {}
                _ => return None,
            }
            let start = symbol.address();
            Some(FunctionSymbol {
                start,
                end: start.saturating_add(symbol.size()),
                limit,
                weak: symbol.is_weak(),
                local: symbol.is_local(),
                name,
                order,
            })
        })
        .filter(|entry| entry.start < entry.limit)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(start: u64, size: u64, name: &'static str) -> FunctionSymbol<'static> {
        let end = start + size;
        FunctionSymbol {
            start,
            end,
            limit: 1000,
            weak: false,
            local: false,
            name: name.as_bytes(),
            order: 0,
        }
    }

    fn name(table: &SymbolTable<'static>, address: u64) -> &'static str {
        let first = |number| std::str::from_utf8(table.names(number)[0]).unwrap();
        table.get(address).map_or("-", first)
    }

    #[test]
    fn of_several_names_those_of_the_best_rank_are_kept_in_order() {
        let weak = FunctionSymbol { weak: true, ..entry(10, 5, "malloc_weak") };
        let local = FunctionSymbol { local: true, ..entry(10, 5, "malloc_local") };
        let table = SymbolTable::new(vec![
            weak,
            local,
            entry(10, 0, "label"),
            FunctionSymbol { order: 2, ..entry(10, 5, "__libc_malloc") },
            FunctionSymbol { order: 1, ..entry(10, 5, "malloc") },
            entry(20, 5, "alone"),
        ]);
        assert_eq!(table.names(table.get(12).unwrap()), [&b"malloc"[..], b"__libc_malloc"]);
        assert_eq!(table.names(table.get(20).unwrap()), [b"alone"]);
        assert_eq!((name(&table, 15), table.names(7)), ("-", &[][..]));
        assert_eq!(table.address_of(b"malloc"), Some(10));
    }

    #[test]
    fn what_has_no_size_goes_on_to_the_next_or_to_the_end_of_its_section() {
        let table = SymbolTable::new(vec![entry(10, 0, "a"), entry(20, 0, "b"), entry(30, 5, "c")]);
        assert_eq!((name(&table, 19), name(&table, 20), name(&table, 29)), ("a", "b", "b"));
        assert_eq!((name(&table, 34), name(&table, 35), name(&table, 9)), ("c", "-", "-"));
        let table = SymbolTable::new(vec![entry(10, 0, "last")]);
        assert_eq!((name(&table, 999), name(&table, 1000)), ("last", "-"));
    }

    proptest! {
        /// Against a search over all of them: the one that begins last counts.
        #[test]
        fn nested_functions_are_found_inside_others(
            spans in proptest::collection::btree_map(0_u64..90, 1_u64..40, 0..30),
        ) {
            let names: Vec<String> = spans.keys().map(|start| format!("f{start}")).collect();
            let entries: Vec<FunctionSymbol<'_>> = spans
                .iter()
                .zip(&names)
                .map(|((&start, &size), name)| FunctionSymbol { name: name.as_bytes(), ..entry(start, size, "") })
                .collect();
            let table = SymbolTable::new(entries.clone());
            for address in 0..140 {
                let expected = entries
                    .iter()
                    .filter(|entry| (entry.start..entry.end).contains(&address))
                    .max_by_key(|entry| entry.start)
                    .map(|entry| entry.name);
                prop_assert_eq!(table.get(address).map(|number| table.names(number)[0]), expected);
            }
            prop_assert!(table.starts.is_sorted());
        }

        #[test]
        fn absurd_sizes_do_no_harm(
            spans in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..30),
            probe in any::<u64>(),
        ) {
            let entries = spans.into_iter().map(|(start, size)| FunctionSymbol {
                start,
                end: start.saturating_add(size),
                limit: u64::MAX,
                weak: false,
                local: false,
                name: b"x",
                order: 0,
            });
            let table = SymbolTable::new(entries.collect());
            let _ = (table.get(probe), table.get(0), table.get(u64::MAX));
        }
    }
}
