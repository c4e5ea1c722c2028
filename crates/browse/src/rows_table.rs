//! Rows of a view, the largest first: functions as `report` has them, or rows by other dimensions.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use pmuscope_profile::aggregate::Aggregate;
use pmuscope_profile::views::{Key, RankedRows, Row, RowIntervals};
use pmuscope_profile::{FunctionShare, FunctionTable};
use pmuscope_stats::Interval;

/// Rows, and the intervals of the largest, which are counted when no key waits.
#[derive(Default)]
pub(crate) struct RowsTable {
    pub(crate) rows: TableRows,
    pub(crate) intervals: OnceCell<RowIntervals>,
}

/// The rows themselves.
pub(crate) enum TableRows {
    /// Functions by command, and the functions that they were inlined into.
    Functions(FunctionTable),
    /// By some dimensions.
    By(RankedRows),
}

/// What a row is sorted by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSize {
    pub(crate) samples: u64,
    /// With what it called: a share, or a weight.
    pub(crate) total: f64,
}

impl Default for TableRows {
    fn default() -> Self {
        Self::By(RankedRows::default())
    }
}

impl RowsTable {
    /// A row by dimensions with its interval, where that is counted.
    pub(crate) fn row(&self, counts: &Aggregate, at: u32) -> Option<Row> {
        let TableRows::By(rows) = &self.rows else { return None };
        let row = rows.row(counts, at as usize)?;
        Some(Row { interval: self.interval(at), ..row })
    }

    /// A function with its interval, where that is counted.
    pub(crate) fn function(&self, at: u32) -> Option<FunctionShare> {
        let TableRows::Functions(table) = &self.rows else { return None };
        let mut row = *table.rows.get(at as usize)?;
        row.interval = self.interval(at);
        row.freedom = self.intervals.get().and_then(|all| all.freedom(at as usize));
        Some(row)
    }

    /// Whether intervals are still to be counted.
    pub(crate) fn lacks_intervals(&self) -> bool {
        self.intervals.get().is_none()
    }

    /// The interval of a row, where it has one and that is counted.
    pub(crate) fn interval(&self, at: u32) -> Option<Interval> {
        self.intervals.get().and_then(|all| all.interval(at as usize))
    }
}

impl TableRows {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Functions(table) => table.rows.len(),
            Self::By(rows) => rows.len(),
        }
    }

    /// Bytes that each row takes, about.
    pub(crate) fn bytes_of_row(&self) -> usize {
        match self {
            Self::Functions(_) => size_of::<FunctionShare>(),
            Self::By(_) => 40,
        }
    }

    pub(crate) fn size(&self, at: u32) -> RowSize {
        match self {
            Self::Functions(table) => {
                let row = table.rows.get(at as usize);
                let total = row.map(|row| row.total.map_or(row.share, |total| total.share));
                RowSize { samples: row.map_or(0, |row| row.samples), total: total.unwrap_or(0.0) }
            }
            Self::By(rows) => {
                let (own, total) = rows.sums(at as usize);
                RowSize { samples: own.samples, total: total.weight as f64 }
            }
        }
    }

    /// What a row is of. Functions: comm, module, function, and the function that it was inlined into.
    pub(crate) fn keys(&self, counts: &Aggregate, at: u32) -> Option<Vec<Key>> {
        match self {
            Self::Functions(table) => {
                let row = table.rows.get(at as usize)?;
                Some((0..KEYS).map(|key| key_of(function_key(table, row, key))).collect())
            }
            Self::By(rows) => rows.row(counts, at as usize).map(|row| row.keys),
        }
    }

    /// Index of the row with these keys.
    pub(crate) fn position(&self, counts: &Aggregate, keys: &[Key]) -> Option<usize> {
        match self {
            Self::Functions(table) => table.rows.iter().position(|row| {
                let is_it = |at: usize| {
                    keys.get(at).is_some_and(|key| is_key(key, function_key(table, row, at)))
                };
                keys.len() == KEYS && (0..KEYS).all(is_it)
            }),
            Self::By(rows) => rows.position(counts, keys),
        }
    }

    /// Indices of rows of which a key is `wanted`, in order. It is called once for each distinct key.
    pub(crate) fn with_key(
        &self,
        counts: &Aggregate,
        mut wanted: impl FnMut(&Key) -> bool,
    ) -> Vec<u32> {
        match self {
            Self::Functions(table) => {
                let mut known: HashMap<FunctionKey<'_>, bool> = HashMap::new();
                let mut is_wanted = |key| *known.entry(key).or_insert_with(|| wanted(&key_of(key)));
                let mut has = |row: &FunctionShare| {
                    let mut keys = (0..KEYS).map(|at| function_key(table, row, at));
                    keys.any(|key| key != FunctionKey::Nothing && is_wanted(key))
                };
                (0..).zip(&table.rows).filter(|(_, row)| has(row)).map(|(at, _)| at).collect()
            }
            Self::By(rows) => rows.with_key(counts, wanted),
        }
    }

    /// For each row the rank of its key in one of the dimensions; equal for equal keys.
    pub(crate) fn key_ranks(&self, counts: &Aggregate, dimension: usize) -> Vec<u32> {
        match self {
            Self::Functions(table) => {
                let key = |row: &FunctionShare| function_key(table, row, dimension);
                let mut ranks: HashMap<FunctionKey<'_>, u32> =
                    table.rows.iter().map(|row| (key(row), 0)).collect();
                let mut order: Vec<FunctionKey<'_>> = ranks.keys().copied().collect();
                order.sort_unstable();
                for (key, rank) in order.into_iter().zip(0..) {
                    ranks.insert(key, rank);
                }
                table.rows.iter().map(|row| ranks[&key(row)]).collect()
            }
            Self::By(rows) => rows.key_ranks(counts, dimension),
        }
    }
}

/// Keys of a function: comm, module, function, and the function that it was inlined into.
const KEYS: usize = 4;

/// A key of a function, without a name of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum FunctionKey<'a> {
    /// The function was not inlined.
    Nothing,
    Unknown,
    Name(&'a str),
    Module(usize),
}

fn function_key<'a>(table: &'a FunctionTable, row: &FunctionShare, at: usize) -> FunctionKey<'a> {
    let name = match at {
        0 => Some(table.names.command_of(row)),
        1 => return FunctionKey::Module(row.module),
        2 => table.names.function_of(row),
        _ => {
            let outer = table.names.inlined_into(row);
            return outer.map_or(FunctionKey::Nothing, FunctionKey::Name);
        }
    };
    name.map_or(FunctionKey::Unknown, FunctionKey::Name)
}

fn key_of(key: FunctionKey<'_>) -> Key {
    match key {
        FunctionKey::Nothing | FunctionKey::Unknown => Key::Unknown,
        FunctionKey::Name(name) => Key::Name(Arc::from(name)),
        FunctionKey::Module(module) => Key::Module(module as u32),
    }
}

fn is_key(key: &Key, other: FunctionKey<'_>) -> bool {
    match (key, other) {
        (Key::Unknown, FunctionKey::Nothing | FunctionKey::Unknown) => true,
        (Key::Name(name), FunctionKey::Name(other)) => **name == *other,
        (Key::Module(module), FunctionKey::Module(other)) => *module as usize == other,
        _ => false,
    }
}
