//! Who hit from where: rows of places, columns of threads.

use std::sync::Arc;

use pmuscope_symbols::{Line, Symbol};
use rustc_hash::FxHashMap;

/// Hits of some kind of row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Hits.
    pub hits: u64,
    /// Those that found another value than the hit before.
    pub changed: u64,
    /// Those whose value was that of the hit before and one more.
    pub plus_one: u64,
    /// Those that the condition let pass.
    pub passed: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.hits, other.hits);
        sum(&mut self.changed, other.changed);
        sum(&mut self.plus_one, other.plus_one);
        sum(&mut self.passed, other.passed);
    }
}

/// A place in code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// Function, the innermost inlined one; `None` without symbol. Foreign text.
    pub function: Option<Arc<str>>,
    /// The function that holds the code, if it was inlined there. Foreign text.
    pub inlined_into: Option<Arc<str>>,
    /// Source line. Foreign text.
    pub line: Option<Line>,
    /// The nearest function outside the standard library that the innermost one was inlined into, and the line of the
    /// call in it; `None` where the innermost one is no function of the standard library. Foreign text.
    pub called_from: Option<(Arc<str>, Line)>,
    /// Path of the file, or a name in brackets. Foreign text.
    pub module: Arc<str>,
    /// Where in the module, if no symbol tells the function.
    pub address: Option<u64>,
}

impl Site {
    /// Of a symbol; without one, of an address in a module (0: it has none).
    pub(crate) fn new(symbol: Option<&Symbol>, module: Arc<str>, address: u64) -> Self {
        let Some(symbol) = symbol else {
            let address = Some(address).filter(|address| *address != 0);
            return Self {
                function: None,
                inlined_into: None,
                line: None,
                called_from: None,
                module,
                address,
            };
        };
        let line = symbol.inlined.last().map_or(&symbol.line, |frame| &frame.line);
        let is_inlined = !symbol.inlined.is_empty();
        Self {
            function: Some(Arc::clone(symbol.innermost())),
            inlined_into: is_inlined.then(|| Arc::clone(&symbol.name)),
            line: line.clone(),
            called_from: called_from(symbol),
            module,
            address: None,
        }
    }

    /// All of them in order, each once, and the number of each.
    pub(crate) fn numbered(each: &[Self]) -> (Vec<Self>, Vec<u32>) {
        let mut all = each.to_vec();
        all.sort_unstable();
        all.dedup();
        // Each is in it.
        let number = |site: &Self| all.binary_search(site).map_or(0, |at| at as u32);
        let numbers = each.iter().map(number).collect();
        (all, numbers)
    }
}

/// Paths of the standard libraries of C++ (GCC, LLVM), Rust and Go.
const STANDARD: [&str; 8] = [
    "/include/c++/",
    "/c++/v1/",
    "/rustc/",
    "library/core/src/",
    "library/std/src/",
    "library/alloc/src/",
    "/src/runtime/",
    "/src/sync/",
];

fn is_standard(line: &Line) -> bool {
    STANDARD.iter().any(|part| line.file.contains(part))
}

fn called_from(symbol: &Symbol) -> Option<(Arc<str>, Line)> {
    let inlined = symbol.inlined.iter().rev().map(|frame| (&frame.name, frame.line.as_ref()));
    let mut frames = inlined.chain([(&symbol.name, symbol.line.as_ref())]);
    frames.next().and_then(|(_, line)| line).filter(|line| is_standard(line))?;
    let own = frames.filter_map(|(name, line)| Some((name, line?)));
    let (name, line) = own.into_iter().find(|(_, line)| !is_standard(line))?;
    Some((Arc::clone(name), line.clone()))
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Its name. Foreign text.
    pub command: Arc<str>,
}

/// Hits of one target, by place and thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matrix {
    /// The places with the most hits first.
    pub rows: Vec<MatrixRow>,
    /// The threads with the most hits first: position in [`Hits::threads`](super::Hits::threads).
    pub threads: Vec<(u32, Counts)>,
    /// All rows.
    pub total: Counts,
    /// Hits that belong to no row: more writers than could be told apart.
    pub unattributed: u64,
}

/// Hits of one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixRow {
    /// Position in [`Hits::sites`](super::Hits::sites).
    pub site: u32,
    /// All its hits.
    pub total: Counts,
    /// By thread, as in [`Matrix::threads`], the thread with the most hits first.
    pub cells: Vec<(u32, Counts)>,
}

/// As much of a matrix as is shown. What is left out is in `others`, so that everything adds up to the
/// total.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Threads of the columns.
    pub threads: Vec<u32>,
    /// Places with their hits by column, hits of other threads, all hits.
    pub rows: Vec<ShownRow>,
    /// Hits of the places that are no rows, by column; `None` where all are.
    pub others: Option<ShownRow>,
    /// How many these are.
    pub other_rows: usize,
    /// How many threads are no columns.
    pub other_threads: usize,
    /// All places, by column.
    pub total: ShownRow,
}

/// A row that is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownRow {
    /// The place, of a row that is one.
    pub site: Option<u32>,
    /// By column.
    pub cells: Vec<u64>,
    /// Of threads that are no columns.
    pub others: u64,
    /// All.
    pub total: Counts,
}

/// Cells in the making: place and thread.
pub(super) type MatrixCells = FxHashMap<(u32, u32), Counts>;

impl Matrix {
    pub(super) fn new(cells: MatrixCells, unattributed: u64) -> Self {
        let mut total = Counts::default();
        let mut threads = FxHashMap::<u32, Counts>::default();
        let mut rows = FxHashMap::<u32, MatrixRow>::default();
        for ((site, thread), counts) in cells {
            total.add(&counts);
            threads.entry(thread).or_default().add(&counts);
            let empty = MatrixRow { site, total: Counts::default(), cells: Vec::new() };
            let row = rows.entry(site).or_insert(empty);
            row.total.add(&counts);
            row.cells.push((thread, counts));
        }
        let mut rows: Vec<MatrixRow> = rows.into_values().collect();
        rows.sort_unstable_by(|a, b| b.total.hits.cmp(&a.total.hits).then(a.site.cmp(&b.site)));
        rows.iter_mut().for_each(|row| by_hits(&mut row.cells));
        let mut threads: Vec<(u32, Counts)> = threads.into_iter().collect();
        by_hits(&mut threads);
        Self { rows, threads, total, unattributed }
    }

    /// At most so many rows and columns.
    #[must_use]
    pub fn shown(&self, rows: usize, columns: usize) -> Shown {
        let threads: Vec<u32> = self.threads.iter().take(columns).map(|one| one.0).collect();
        let column: FxHashMap<u32, usize> =
            threads.iter().enumerate().map(|(at, thread)| (*thread, at)).collect();
        let empty = || ShownRow { cells: vec![0; threads.len()], ..ShownRow::default() };
        let add = |shown: &mut ShownRow, row: &MatrixRow| {
            shown.total.add(&row.total);
            for (thread, counts) in &row.cells {
                match column.get(thread) {
                    Some(&at) => shown.cells[at] += counts.hits,
                    None => shown.others += counts.hits,
                }
            }
        };
        let (head, tail) = self.rows.split_at(rows.min(self.rows.len()));
        let one = |row: &MatrixRow| {
            let mut shown = ShownRow { site: Some(row.site), ..empty() };
            add(&mut shown, row);
            shown
        };
        let mut others = empty();
        tail.iter().for_each(|row| add(&mut others, row));
        let mut total = empty();
        self.rows.iter().for_each(|row| add(&mut total, row));
        Shown {
            rows: head.iter().map(one).collect(),
            others: (!tail.is_empty()).then_some(others),
            other_rows: tail.len(),
            other_threads: self.threads.len() - threads.len(),
            threads,
            total,
        }
    }
}

fn by_hits(list: &mut [(u32, Counts)]) {
    list.sort_unstable_by(|a, b| b.1.hits.cmp(&a.1.hits).then(a.0.cmp(&b.0)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_rows_and_columns_add_up(
            hits in proptest::collection::vec((0_u32..8, 0_u32..12, 1_u64..9), 0..120),
            rows in 0_usize..10, columns in 0_usize..14,
        ) {
            let mut cells = MatrixCells::default();
            for &(site, thread, hits) in &hits {
                let counts = Counts { hits, changed: hits / 2, ..Counts::default() };
                cells.entry((site, thread)).or_default().add(&counts);
            }
            let matrix = Matrix::new(cells, 0);
            let of = |is: &dyn Fn(u32, u32) -> bool| {
                hits.iter().filter(|hit| is(hit.0, hit.1)).map(|hit| hit.2).sum::<u64>()
            };
            prop_assert_eq!(matrix.total.hits, of(&|_, _| true));
            prop_assert!(matrix.rows.is_sorted_by(|a, b| a.total.hits >= b.total.hits));
            for row in &matrix.rows {
                prop_assert_eq!(row.total.hits, of(&|site, _| site == row.site));
                for (thread, counts) in &row.cells {
                    prop_assert_eq!(counts.hits, of(&|site, by| (site, by) == (row.site, *thread)));
                }
            }
            for (thread, counts) in &matrix.threads {
                prop_assert_eq!(counts.hits, of(&|_, by| by == *thread));
            }
            let shown = matrix.shown(rows, columns);
            prop_assert_eq!(shown.rows.len() + shown.other_rows, matrix.rows.len());
            prop_assert_eq!(shown.threads.len() + shown.other_threads, matrix.threads.len());
            let lines = shown.rows.iter().chain(&shown.others);
            for row in lines.clone().chain([&shown.total]) {
                prop_assert_eq!(row.cells.iter().sum::<u64>() + row.others, row.total.hits);
            }
            for (at, thread) in shown.threads.iter().enumerate() {
                let column: u64 = lines.clone().map(|row| row.cells[at]).sum();
                prop_assert_eq!(column, of(&|_, by| by == *thread));
                prop_assert_eq!(column, shown.total.cells[at]);
            }
            prop_assert_eq!(lines.map(|row| row.total.hits).sum::<u64>(), matrix.total.hits);
        }
    }
}
