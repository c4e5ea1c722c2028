//! Symbol tables: the function at an address.

use std::ops::Range;

use object::read::{Object as _, ObjectSection as _, ObjectSymbol};
use object::{SectionFlags, SymbolKind, SymbolSection, elf};
use rustc_hash::{FxHashMap, FxHashSet};

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
    /// The table has no size: it was taken to end where the next begins.
    is_stretched: bool,
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
    /// Whether the file has any, though perhaps none that was asked for.
    has_any: bool,
}

impl<'data> SymbolTable<'data> {
    /// The full symbol table of `file` (`.symtab`).
    pub(crate) fn of_symtab(file: &object::File<'data>) -> Self {
        Self::new(collect(file, file.symbols(), Contents::Code))
    }

    /// As much of the full symbol table of `file` as [`SymbolTable::get`] needs for these addresses: compilers have half a million
    /// symbols, which take longer to put in order than to look through.
    pub(crate) fn of_symtab_at(file: &object::File<'data>, addresses: &[Option<u64>]) -> Self {
        let mut wanted = NearestSymbols::new(addresses.iter().copied().flatten());
        let mut has_any = false;
        let sections = SymbolSections::of(file, Contents::Code);
        for symbol in file.symbols() {
            let Some(span) = sections.span(&symbol) else { continue };
            if (!has_any || wanted.is_new(&span)) && sections.name(&symbol).is_some() {
                has_any = true;
                wanted.note(&span);
            }
        }
        let starts = wanted.starts();
        let symbols = sections.collect(file.symbols(), |span| starts.contains(&span.start));
        Self { has_any, ..Self::new(symbols) }
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
                entry.is_stretched = true;
            }
            next = entry.start;
        }
        let (starts, owners) = flatten(&entries);
        let has_any = !entries.is_empty();
        Self { starts, owners, entries, aliases, has_any }
    }

    /// Whether the file has no functions.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_any
    }

    /// Number of the function at `address`.
    pub(crate) fn get(&self, address: u64) -> Option<u32> {
        let at = self.starts.partition_point(|&start| start <= address).checked_sub(1)?;
        Some(self.owners[at]).filter(|&owner| owner != NONE)
    }

    /// Whether a function has no size in the table: what it is taken to reach over may be code of others, which the table
    /// does not have.
    pub(crate) fn is_stretched(&self, number: u32) -> bool {
        self.entries.get(number as usize).is_some_and(|entry| entry.is_stretched)
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
    SymbolSections::of(file, of).collect(symbols, |_| true)
}

/// Where a symbol begins and ends, and where its section ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SymbolSpan {
    start: u64,
    end: u64,
    limit: u64,
}

/// Which symbols of a file are looked for.
struct SymbolSections {
    of: Contents,
    /// By number of the section: where those of these contents end.
    ends: Vec<Option<u64>>,
}

impl SymbolSections {
    fn of(file: &object::File<'_>, of: Contents) -> Self {
        let mut ends: Vec<Option<u64>> = Vec::new();
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            let index = section.index().0;
            let is_code = sh_flags.contains(elf::SHF_EXECINSTR);
            let is_data = sh_flags.contains(elf::SHF_ALLOC) && !is_code;
            if (of == Contents::Code && is_code) || (of == Contents::Data && is_data) {
                ends.resize(ends.len().max(index + 1), None);
                ends[index] = section.address().checked_add(section.size());
            }
        }
        Self { of, ends }
    }

    /// Where a symbol lies, if that is in a section of these contents.
    fn span<'data>(&self, symbol: &impl ObjectSymbol<'data>) -> Option<SymbolSpan> {
        let SymbolSection::Section(section) = symbol.section() else { return None };
        let limit = self.ends.get(section.0).copied().flatten()?;
        let start = symbol.address();
        let end = start.saturating_add(symbol.size());
        (start < limit).then_some(SymbolSpan { start, end, limit })
    }

    /// The name of a symbol, if it is of these contents.
    fn name<'data>(&self, symbol: &impl ObjectSymbol<'data>) -> Option<&'data [u8]> {
        let kind = symbol.kind();
        let is_label = (self.of, kind) == (Contents::Code, SymbolKind::Unknown);
        let is_it = match self.of {
            Contents::Code => kind == SymbolKind::Text,
            Contents::Data => kind == SymbolKind::Data,
        };
        if !is_it && !is_label {
            return None;
        }
        let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
        // Labels; those with a dollar sign mark code and data for ARM's disassemblers.
        (is_it || !name.starts_with(b"$") && !name.starts_with(b".L")).then_some(name)
    }

    /// Symbols with a `wanted` span.
    fn collect<'data, Symbol: ObjectSymbol<'data>>(
        &self,
        symbols: impl Iterator<Item = Symbol>,
        wanted: impl Fn(&SymbolSpan) -> bool,
    ) -> Vec<FunctionSymbol<'data>> {
        (0_u32..)
            .zip(symbols)
            .filter_map(|(order, symbol)| {
                let span = self.span(&symbol).filter(&wanted)?;
                let name = self.name(&symbol)?;
                let SymbolSpan { start, end, limit } = span;
                let (weak, local) = (symbol.is_weak(), symbol.is_local());
                let is_stretched = false;
                Some(FunctionSymbol { start, end, limit, is_stretched, weak, local, name, order })
            })
            .collect()
    }
}

/// Finds out which symbols decide what some addresses lie in: those that end after an address, and the last one that begins at
/// it or before, since what has no size ends there. Of symbols that begin at one place all do.
///
/// ```text
///  symbols     aaaaaaaaaaaaaaaaaaaaaaa     bb   cc        d (no size)
///  address                  ▲                         ▲
///  wanted      a (ends after it)               cc, d: the last before each
/// ```
struct NearestSymbols {
    /// In order.
    addresses: Vec<u64>,
    /// For each address the last start met so far that is not before the address in front of it.
    before: Vec<Option<u64>>,
    /// Of what ends after an address.
    around: FxHashSet<u64>,
}

impl NearestSymbols {
    fn new(addresses: impl Iterator<Item = u64>) -> Self {
        let mut addresses: Vec<u64> = addresses.collect();
        addresses.sort_unstable();
        addresses.dedup();
        Self { before: vec![None; addresses.len()], around: FxHashSet::default(), addresses }
    }

    /// Whether a symbol would change anything.
    fn is_new(&self, span: &SymbolSpan) -> bool {
        let next = self.addresses.partition_point(|&address| address < span.start);
        self.addresses
            .get(next)
            .is_some_and(|&next_one| next_one < span.end || self.before[next] < Some(span.start))
    }

    fn note(&mut self, span: &SymbolSpan) {
        let next = self.addresses.partition_point(|&address| address < span.start);
        let Some(&address) = self.addresses.get(next) else { return };
        self.before[next] = self.before[next].max(Some(span.start));
        if address < span.end {
            self.around.insert(span.start);
        }
    }

    /// Where the symbols begin that are wanted.
    fn starts(self) -> FxHashSet<u64> {
        let Self { before, mut around, .. } = self;
        let mut last = None;
        for start in before {
            last = last.max(start);
            around.extend(last);
        }
        around
    }
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
            is_stretched: false,
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

        /// Of all symbols those that are wanted say the same, whatever overlaps, has no size or has several names.
        #[test]
        fn what_is_wanted_for_some_addresses_is_enough(
            spans in proptest::collection::vec((0_u64..60, 0_u64..30, any::<bool>()), 0..40),
            addresses in proptest::collection::vec(0_u64..100, 0..6),
        ) {
            let names: Vec<String> = (0..spans.len()).map(|number| format!("f{number}")).collect();
            let all: Vec<FunctionSymbol<'_>> = spans
                .iter()
                .zip(names.iter().zip(0..))
                .map(|(&(start, size, weak), (name, order))| {
                    let name = name.as_bytes();
                    FunctionSymbol { name, order, weak, limit: 95, ..entry(start, size, "") }
                })
                .collect();
            let mut wanted = NearestSymbols::new(addresses.iter().copied());
            for &FunctionSymbol { start, end, limit, .. } in &all {
                let span = SymbolSpan { start, end, limit };
                if wanted.is_new(&span) {
                    wanted.note(&span);
                }
            }
            let starts = wanted.starts();
            let some = all.iter().filter(|entry| starts.contains(&entry.start)).copied().collect();
            let (all, some) = (SymbolTable::new(all), SymbolTable::new(some));
            let names = |table: &SymbolTable<'_>, address| {
                table.get(address).map(|number| table.names(number).iter().map(|name| name.to_vec()).collect::<Vec<_>>())
            };
            for &address in &addresses {
                prop_assert_eq!(names(&some, address), names(&all, address), "{}", address);
            }
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
                is_stretched: false,
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
