//! Two sides of recordings, metric by metric and function by function: what changed, and what cannot be
//! told apart.
//!
//! With one recording a side, each value's own interval says what chance does within a recording; the
//! interval of the difference is made of both (Zou & Donner 2008). With several a side, the values of the
//! recordings tell (Welch's interval and test), and how much a metric varies from run to run is in it.
//!
//! A function whose visits are not ten windows long, or that has fewer than 30 kept windows, has no
//! difference that could be relied on: it is shown, and nothing is claimed. Nor of a value that only one
//! side has. What was counted on one side and never on the other has the rule of three for its bound
//! ([`MetricCell::at_most`]).
//!
//! All rows of all metrics are tested together: p-values are adjusted for their number (Holm 1979).

use std::collections::BTreeMap;
use std::sync::Arc;

use pmuscope_events::metrics::{Metric, Metrics};
use pmuscope_stats::{
    Estimate, Interval, LEVEL, difference_of_means, holm, mean_interval, welch_test,
};

use super::{MIN_WINDOWS, MetricCell, Table, is_long};
use crate::diff::{DIFFERS_BELOW, difference};
use crate::windows::{WindowRow, Windows};

/// What a row is of, on whatever side: what was built anew lies elsewhere, so of a module the last part
/// of its path. Foreign text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowName {
    /// Last part of the module's path; `None` where rows are of modes.
    pub module: Option<String>,
    /// `None` where it has no name, and where rows are not of functions.
    pub function: Option<Arc<str>>,
    /// The function that holds the code, if it was inlined there.
    pub inlined_into: Option<Arc<str>>,
    /// Source line, where rows are of lines and it is known.
    pub line: Option<(Arc<str>, Option<u32>)>,
    /// `kernel`, `user` or `other`, where rows are of modes.
    pub mode: Option<&'static str>,
}

/// One metric on both sides.
#[derive(Debug)]
pub struct MetricDiff<'a> {
    /// Which.
    pub metric: &'a Metric,
    /// Whether its events were counted in all recordings, before and after.
    pub measured: [bool; 2],
    /// Those that differ first, then by windows.
    pub rows: Vec<RowDiff>,
    /// All rows together.
    pub total: RowDiff,
}

/// A row on both sides.
#[derive(Debug, Clone)]
pub struct RowDiff {
    /// Which; `None` for all together.
    pub name: Option<RowName>,
    /// Before and after.
    pub sides: [RowSide; 2],
    /// After less before; `None` where a side has no value.
    pub change: Option<Estimate>,
    /// p-value of that change, adjusted; `None` where nothing tells.
    pub p: Option<f64>,
}

/// A row on one side.
#[derive(Debug, Clone, Copy, Default)]
pub struct RowSide {
    /// The metric; the mean of recordings where there are several.
    pub value: Option<f64>,
    /// Its interval: within one recording, or over several.
    pub interval: Option<Interval>,
    /// Windows that end there, those that do not count too; of all recordings.
    pub windows: u64,
    /// Windows that the value is made of.
    pub kept: u64,
}

impl RowDiff {
    /// Whether the metric differs; `None` where nothing tells.
    #[must_use]
    pub fn differs(&self) -> Option<bool> {
        self.p.map(|p| p < DIFFERS_BELOW)
    }

    /// The change as a share of the value before; `None` where there is no such value.
    #[must_use]
    pub fn relative(&self) -> Option<f64> {
        let before = self.sides[0].value.filter(|value| *value != 0.0)?;
        Some(self.change?.value / before.abs())
    }
}

/// Compares metrics of recordings. Each side is one recording or several of the same thing; names of
/// counts are those of `metrics`.
#[must_use]
pub fn diff<'a>(
    before: &'a [Windows],
    after: &'a [Windows],
    metrics: &Metrics,
    chosen: &[&'a Metric],
) -> Vec<MetricDiff<'a>> {
    let sides = [before, after].map(|side| {
        side.iter().map(|windows| Recording::new(windows, metrics, chosen)).collect::<Vec<_>>()
    });
    let mut names: Vec<&RowName> =
        sides.iter().flatten().flat_map(|recording| recording.rows.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut total = row_diffs(None, &sides, |one| Some(&one.total));
    let mut rows: Vec<Vec<RowDiff>> =
        names.iter().map(|&name| row_diffs(Some(name), &sides, |one| one.rows.get(name))).collect();
    let mut cells: Vec<&mut RowDiff> = rows.iter_mut().flatten().chain(&mut total).collect();
    let adjusted = holm(&cells.iter().map(|cell| cell.p).collect::<Vec<_>>());
    cells.iter_mut().zip(adjusted).for_each(|(cell, p)| cell.p = p);
    let of_metric = |(at, total): (usize, RowDiff)| {
        let mut rows: Vec<RowDiff> = rows.iter().map(|cells| cells[at].clone()).collect();
        rows.sort_by_cached_key(rank);
        let measured = [0, 1].map(|side: usize| sides[side].iter().all(|one| one.measured[at]));
        MetricDiff { metric: chosen[at], measured, rows, total }
    };
    total.into_iter().enumerate().map(of_metric).collect()
}

/// Those that differ come first, those with most windows before others.
fn rank(row: &RowDiff) -> (bool, std::cmp::Reverse<u64>, Option<RowName>) {
    let windows = row.sides.iter().map(|side| side.windows).sum();
    (row.differs() != Some(true), std::cmp::Reverse(windows), row.name.clone())
}

/// One recording: cells of each row.
struct Recording {
    rows: BTreeMap<RowName, MetricRow>,
    total: MetricRow,
    /// By metric.
    measured: Vec<bool>,
}

/// A row of one recording.
struct MetricRow {
    windows: u64,
    kept: u64,
    is_long: bool,
    /// By metric.
    cells: Vec<MetricCell>,
}

impl Recording {
    fn new(windows: &Windows, metrics: &Metrics, chosen: &[&Metric]) -> Self {
        let table = Table::new(windows, metrics, chosen);
        let mut rows: BTreeMap<RowName, WindowRow> = BTreeMap::new();
        for row in &windows.rows {
            // Two files of one name share a row.
            rows.entry(name(windows, row))
                .and_modify(|known| known.sums.merge(&row.sums))
                .or_insert_with(|| row.clone());
        }
        let cells = |row: &WindowRow| MetricRow {
            windows: row.windows(),
            kept: row.kept(),
            is_long: is_long(row),
            cells: table.cells(row),
        };
        Self {
            rows: rows.iter().map(|(name, row)| (name.clone(), cells(row))).collect(),
            total: cells(&windows.total),
            measured: table.columns().iter().map(|column| column.formula.is_some()).collect(),
        }
    }
}

fn name(windows: &Windows, row: &WindowRow) -> RowName {
    let key = &row.key;
    let module = key.module.and_then(|at| windows.modules.get(at as usize));
    RowName {
        module: module.map(|module| module.short_name().to_owned()),
        function: key.function.clone(),
        inlined_into: key.inlined_into.clone(),
        line: key.line.clone(),
        mode: key.mode,
    }
}

/// A row by each metric.
fn row_diffs<'a>(
    name: Option<&RowName>,
    sides: &'a [Vec<Recording>; 2],
    row: impl Fn(&'a Recording) -> Option<&'a MetricRow>,
) -> Vec<RowDiff> {
    let metrics = sides.iter().flatten().next().map_or(0, |one| one.measured.len());
    let runs = [sides[0].len(), sides[1].len()];
    let found = [0, 1].map(|side: usize| sides[side].iter().filter_map(&row).collect::<Vec<_>>());
    let of_metric = |at: usize| {
        let cells = [0, 1].map(|side: usize| {
            let cell = |row: &&&MetricRow| row.cells[at].value.is_some();
            found[side].iter().filter(cell).map(|row| (*row, row.cells[at])).collect::<Vec<_>>()
        });
        let windows = [0, 1].map(|side: usize| found[side].iter().map(|row| row.windows).sum());
        let (sides, change, p) =
            if runs == [1, 1] { within(&cells, windows) } else { over_runs(&cells, windows) };
        RowDiff { name: name.cloned(), sides, change, p }
    };
    (0..metrics).map(of_metric).collect()
}

/// A metric of one row in the recordings of a side that have it.
type SideCells<'a> = [(&'a MetricRow, MetricCell)];
type Compared = ([RowSide; 2], Option<Estimate>, Option<f64>);

fn within(cells: &[Vec<(&MetricRow, MetricCell)>; 2], windows: [u64; 2]) -> Compared {
    let side = |at: usize| {
        let cell = cells[at].first().map(|(_, cell)| *cell).unwrap_or_default();
        RowSide {
            value: cell.value,
            interval: cell.interval,
            windows: windows[at],
            kept: cell.windows,
        }
    };
    let estimate = |at: usize| {
        let (_, cell) = cells[at].first()?;
        let bound = |most: f64| Interval { low: most.min(0.0), high: most.max(0.0), level: LEVEL };
        let interval = cell.interval.or_else(|| cell.at_most.map(bound));
        Some(Estimate { value: cell.value?, interval, n: cell.windows as usize })
    };
    let freedom = |at: usize| {
        let (_, cell) = cells[at].first()?;
        // A bound has no variance that had to be estimated.
        if cell.interval.is_some() { cell.freedom } else { Some(f64::INFINITY) }
    };
    let both = estimate(0).zip(estimate(1));
    let (change, p) =
        both.map(|(before, after)| difference(&[before, after], [freedom(0), freedom(1)])).unzip();
    ([side(0), side(1)], change, p.flatten())
}

fn over_runs(cells: &[Vec<(&MetricRow, MetricCell)>; 2], windows: [u64; 2]) -> Compared {
    let values = [0, 1].map(|side: usize| {
        cells[side].iter().filter_map(|(_, cell)| cell.value).collect::<Vec<f64>>()
    });
    let can_tell = cells.iter().all(|side| is_sure(side));
    let bare = |mut estimate: Estimate| {
        estimate.interval = estimate.interval.filter(|_| can_tell);
        estimate
    };
    let side = |at: usize| {
        let mean = mean_interval(&values[at], LEVEL);
        RowSide {
            value: mean.map(|mean| mean.value),
            interval: mean.and_then(|mean| mean.interval).filter(|_| is_sure(&cells[at])),
            windows: windows[at],
            kept: cells[at].iter().map(|(_, cell)| cell.windows).sum(),
        }
    };
    let change = difference_of_means(&values[0], &values[1], LEVEL).map(bare);
    let p = welch_test(&values[0], &values[1]).filter(|_| can_tell);
    ([side(0), side(1)], change, p)
}

/// Whether windows of all recordings together are of this function.
fn is_sure(cells: &SideCells<'_>) -> bool {
    let kept: u64 = cells.iter().map(|(row, _)| row.kept).sum();
    kept >= MIN_WINDOWS && cells.iter().all(|(row, _)| row.is_long)
}
