//! Windows to metrics: formulas of what was counted, each with its interval.
//!
//! A metric is a function of sums over the kept windows of a row, most often a ratio of two. Its 95 %
//! interval is by the delta method: the influence of all windows of a block of time is the formula's
//! slopes times their counts. Neighboring blocks are alike, so the variance of their sum is the long-run
//! variance ([`LongRun`]), which needs no seed and takes any formula.
//!
//! Where a row has less than 30 blocks' worth (a function that runs in one phase only), and where the
//! program's phases are so long that the recording has too few of them, there is no interval: windows
//! within a phase do not say what another phase would have shown.
//!
//! # Shares of all functions
//!
//! Of windows with two functions, which count for none, a short function has more than a long one. Its share
//! of all (`total()` in a formula) would come out too small by that, so where such windows were discarded, the
//! sums of each row count for all windows that end in it: times those tested over those with the same function
//! at both ends. Ratios of a row's own sums are the same with and without.
//!
//! # Which cells have no interval
//!
//! A window has the same function at both ends by two ways: it lies in one visit of the function, or the
//! function was left and entered again. For windows of length W that end at a random moment in a visit
//! of length L ≥ W, the share of the first kind is 1 - W/L, and over visits of all lengths, each met in
//! proportion to its length, 1 - W/mean(L). So of the share p seen, **mean(L) ≈ W / (1 - p)**; visits
//! shorter than W make it lower, entering again makes it higher. Ten windows are p = 0.9.
//!
//! Below that, or below 30 kept windows, a cell is an estimate without interval: what is kept of short
//! functions are the windows that left and entered again, which are not of that function alone.

pub mod diff;

use std::collections::BTreeMap;

use pmuscope_events::metrics::{Formula, Metric, Metrics};
use pmuscope_stats::{Interval, LEVEL, LongRun, MIN_BLOCKS, Shares};

use crate::aggregate::LongPhases;
use crate::windows::{Part, WindowRow, Windows};

/// Fewer kept windows have no interval.
pub const MIN_WINDOWS: u64 = 30;
/// A function whose mean length is fewer windows than this has no interval.
pub const MIN_LENGTH: f64 = 10.0;
/// Rows, the largest, that show how long the program's phases are.
const PHASE_ROWS: usize = 20;
/// What [`MetricCell::more_seconds`] aims at: half of the interval, per value.
pub const PRECISION: f64 = 0.05;

/// A metric of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MetricCell {
    /// The value; `None` where its events were not counted, or it has none.
    pub value: Option<f64>,
    /// Its interval; `None` where it is an estimate only.
    pub interval: Option<Interval>,
    /// Windows it is made of.
    pub windows: u64,
    /// Degrees of freedom of its variance; there without an interval where phases are too long for one.
    pub freedom: Option<f64>,
    /// Where nothing was counted, and the value is 0 for that: what it would be with three of each, which
    /// with 95 % confidence is more than the truth (the rule of three; Hanley & Lippman-Hand 1983).
    pub at_most: Option<f64>,
}

impl MetricCell {
    /// Seconds of further recording until half of the interval is 5 % of the value, 0 where it is so
    /// already, after `seconds`: intervals shrink with the root of time.
    #[must_use]
    pub fn more_seconds(&self, seconds: f64) -> Option<f64> {
        let (value, interval) = (self.value?, self.interval?);
        let ratio = interval.half_width() / (PRECISION * value.abs());
        ratio.is_finite().then(|| seconds * (ratio * ratio - 1.0).max(0.0))
    }
}

/// Mean length of a visit of a function, in windows, as far as the ends of windows tell; `None` where
/// no window told.
#[must_use]
pub fn mean_length(row: &WindowRow) -> Option<f64> {
    row.same_at_both_ends().map(|same| 1.0 / (1.0 - same))
}

/// Whether a metric of so many windows that count can have an interval, where this share of windows has the same function
/// at both ends; `None` where that is not known.
#[must_use]
pub fn can_have_interval(kept: u64, same_at_both_ends: Option<f64>) -> bool {
    kept >= MIN_WINDOWS && same_at_both_ends.is_some_and(|same| 1.0 / (1.0 - same) >= MIN_LENGTH)
}

/// Whether visits are long enough for windows to be of this function.
fn is_long(row: &WindowRow) -> bool {
    mean_length(row).is_some_and(|length| length >= MIN_LENGTH)
}

/// Whether cells of a row can have an interval.
#[must_use]
pub fn is_sure(row: &WindowRow) -> bool {
    can_have_interval(row.kept(), row.same_at_both_ends())
}

/// Computes metrics of rows.
#[derive(Debug)]
pub struct Table<'a> {
    windows: &'a Windows,
    columns: Vec<MetricColumn<'a>>,
    /// Sums of all rows, by group.
    totals: Vec<GroupTotal>,
    /// By group: the sums of a row without any window of it.
    empty: Vec<Part>,
    long_phases: Option<LongPhases>,
}

/// A metric, and how it is computed here.
#[derive(Debug)]
pub struct MetricColumn<'a> {
    /// The metric.
    pub metric: &'a Metric,
    /// The formula whose events were all counted.
    pub formula: Option<&'a Formula>,
    /// For each group that has all events: where its variables stand, and which are totals.
    groups: Vec<(u32, Vec<(usize, bool)>)>,
}

impl<'a> MetricColumn<'a> {
    fn new(windows: &Windows, metrics: &Metrics, metric: &'a Metric) -> Self {
        let found = metric.formulas.iter().find_map(|formula| {
            let groups = groups(windows, metrics, formula);
            (!groups.is_empty()).then_some((formula, groups))
        });
        let (formula, groups) = found.unzip();
        Self { metric, formula, groups: groups.unwrap_or_default() }
    }
}

fn groups(
    windows: &Windows,
    metrics: &Metrics,
    formula: &Formula,
) -> Vec<(u32, Vec<(usize, bool)>)> {
    let of_group = |(group, names): (u32, &Vec<String>)| {
        let place = |name: &str| {
            let name = metrics.canonical(name);
            names.iter().position(|known| *known == name)
        };
        let places: Option<Vec<_>> = formula
            .variables()
            .iter()
            .map(|variable| Some((place(&variable.event)?, variable.total)))
            .collect();
        Some((group, places?))
    };
    (0..).zip(&windows.counters).filter_map(of_group).collect()
}

impl<'a> Table<'a> {
    /// A table of these metrics.
    #[must_use]
    pub fn new(windows: &'a Windows, metrics: &Metrics, chosen: &[&'a Metric]) -> Self {
        let columns =
            chosen.iter().map(|metric| MetricColumn::new(windows, metrics, metric)).collect();
        let totals = (0..).zip(&windows.counters);
        let totals =
            totals.map(|(group, names)| GroupTotal::new(windows, group, names.len())).collect();
        let empty =
            (0..).zip(&windows.counters).map(|(group, names)| Part::new(group, names.len()));
        let long_phases = long_phases(windows);
        Self { windows, columns, totals, empty: empty.collect(), long_phases }
    }

    /// The program's phases, where they are too long for intervals from this recording.
    #[must_use]
    pub fn long_phases(&self) -> Option<LongPhases> {
        self.long_phases
    }

    /// Its columns.
    #[must_use]
    pub fn columns(&self) -> &[MetricColumn<'a>] {
        &self.columns
    }

    /// The cells of a row, one per column.
    #[must_use]
    pub fn cells(&self, row: &WindowRow) -> Vec<MetricCell> {
        let is_sure = is_sure(row);
        self.columns.iter().map(|column| self.cell(column, row, is_sure)).collect()
    }

    /// What a group has of a row. A row without a window of the group has its share of the total all the
    /// same, which is 0; where there is no total, the group says nothing of it.
    fn piece<'t>(
        &'t self,
        row: &'t WindowRow,
        group: u32,
        places: &'t [(usize, bool)],
    ) -> Option<GroupSums<'t>> {
        let of = |row: &'t WindowRow| row.sums.parts.iter().find(|part| part.group == group);
        let total = Some(&self.totals[group as usize]).filter(|total| total.kept > 0)?;
        let has_totals = places.iter().any(|(_, total)| *total);
        let none = || has_totals.then(|| &self.empty[group as usize]);
        let own = of(row).or_else(none)?;
        let is_all = std::ptr::eq(row, &raw const self.windows.total);
        let scale = if has_totals { self.windows.ends_per_window(row) } else { 1.0 };
        Some(GroupSums { own, is_all: is_all && has_totals, scale, total, places })
    }

    fn cell(&self, column: &MetricColumn<'_>, row: &WindowRow, is_sure: bool) -> MetricCell {
        let Some(formula) = column.formula else { return MetricCell::default() };
        let parts: Vec<GroupSums<'_>> = column
            .groups
            .iter()
            .filter_map(|(group, places)| self.piece(row, *group, places))
            .collect();
        let variables = |at: usize| parts.iter().map(|piece| piece.sum(at)).sum::<f64>();
        let values: Vec<f64> = (0..formula.variables().len()).map(variables).collect();
        let windows = parts.iter().map(|piece| piece.own.kept).sum();
        let Some(value) = formula.value(&values).filter(|_| windows > 0) else {
            return MetricCell { windows, ..MetricCell::default() };
        };
        let slopes = formula.slopes(&values);
        let can_tell = is_sure && windows >= MIN_WINDOWS && self.long_phases.is_none();
        // Of what was never seen the windows do not tell how rare it is, only how frequent it is not.
        if value == 0.0 {
            let at_most = can_tell.then(|| with_three(formula, &values)).flatten();
            return MetricCell { value: Some(value), windows, at_most, ..MetricCell::default() };
        }
        let long_run = can_tell.then(|| long_run(&parts, &slopes)).flatten();
        let long_run = long_run.filter(|found| found.worth >= MIN_BLOCKS as f64);
        let interval = long_run.and_then(|found| found.half_width_of_many()).map(|half| Interval {
            low: value - half,
            high: value + half,
            level: LEVEL,
        });
        let freedom = long_run.map(|found| found.freedom);
        MetricCell { value: Some(value), interval, freedom, windows, at_most: None }
    }
}

/// The value if three had been counted of what was not counted at all; `None` where that is none, or 0.
#[must_use]
pub fn with_three(formula: &Formula, values: &[f64]) -> Option<f64> {
    let three: Vec<f64> =
        values.iter().map(|&value| if value == 0.0 { 3.0 } else { value }).collect();
    formula.value(&three).filter(|value| *value != 0.0)
}

/// Sums of a group over all rows, each for all windows that end in it.
#[derive(Debug, Default)]
struct GroupTotal {
    kept: u64,
    sums: Vec<f64>,
    /// Block of time, kept windows, sums.
    blocks: Vec<(u64, f64, Vec<f64>)>,
}

impl GroupTotal {
    fn new(windows: &Windows, group: u32, counters: usize) -> Self {
        let mut sum = Self { sums: vec![0.0; counters], ..Self::default() };
        let mut blocks: BTreeMap<u64, (f64, Vec<f64>)> = BTreeMap::new();
        for row in &windows.rows {
            let scale = windows.ends_per_window(row);
            let add = |to: &mut [f64], counts: &[u64]| {
                to.iter_mut().zip(counts).for_each(|(sum, &count)| *sum += scale * count as f64);
            };
            for part in row.sums.parts.iter().filter(|part| part.group == group) {
                sum.kept += part.kept;
                add(&mut sum.sums, &part.sums);
                for one in part.blocks() {
                    let block = blocks.entry(one.block);
                    let (kept, sums) = block.or_insert_with(|| (0.0, vec![0.0; counters]));
                    *kept += one.kept as f64;
                    add(sums, one.sums);
                }
            }
        }
        sum.blocks = blocks.into_iter().map(|(block, (kept, sums))| (block, kept, sums)).collect();
        sum
    }
}

/// Sums of a group: of the row, and of all rows.
struct GroupSums<'a> {
    own: &'a Part,
    /// Whether the row is that of all rows, and its formula has totals.
    is_all: bool,
    /// What the row's own sums count.
    scale: f64,
    total: &'a GroupTotal,
    places: &'a [(usize, bool)],
}

impl GroupSums<'_> {
    fn sum(&self, variable: usize) -> f64 {
        let (place, total) = self.places[variable];
        if total || self.is_all {
            self.total.sums[place]
        } else {
            self.scale * self.own.sums[place] as f64
        }
    }

    fn has_totals(&self) -> bool {
        self.places.iter().any(|(_, total)| *total)
    }

    /// Block of time, influence and windows.
    fn clusters(&self, slopes: &[f64]) -> Vec<(u64, f64, f64)> {
        let influence = |sums: &dyn Fn(usize) -> f64, fits: &dyn Fn(bool) -> bool| -> f64 {
            let each = self.places.iter().zip(slopes).filter(|((_, total), _)| fits(*total));
            each.map(|((place, _), slope)| slope * sums(*place)).sum()
        };
        let own = self.own.blocks().map(|one| {
            let sum = |place: usize| self.scale * one.sums[place] as f64;
            (one.block, influence(&sum, &|total| !total), one.kept)
        });
        if !self.has_totals() {
            return own.map(|(at, influence, kept)| (at, influence, kept as f64)).collect();
        }
        let mut own = own.filter(|_| !self.is_all).peekable();
        let all = self.total.blocks.iter().map(|(block, kept, sums)| {
            let here = own.next_if(|(at, ..)| at == block).map_or(0.0, |(_, here, _)| here);
            let of_total = influence(&|place| sums[place], &|total| total || self.is_all);
            (*block, here + of_total, *kept)
        });
        all.collect()
    }
}

/// Of the sum of influences; groups take turns, so their blocks are put in the order of time.
fn long_run(parts: &[GroupSums<'_>], slopes: &[f64]) -> Option<LongRun> {
    let mut blocks: Vec<(u64, f64, f64)> =
        parts.iter().flat_map(|piece| piece.clusters(slopes)).collect();
    blocks.sort_by_key(|(block, ..)| *block);
    blocks.dedup_by(|next, one| {
        let is_same = next.0 == one.0;
        if is_same {
            *one = (one.0, one.1 + next.1, one.2 + next.2);
        }
        is_same
    });
    LongRun::of(blocks.into_iter().map(|(_, influence, size)| (influence, size)))
}

/// The phases that the shares of the largest rows show, where they are too long for this recording.
#[must_use]
pub fn long_phases(windows: &Windows) -> Option<LongPhases> {
    let by_block = |row: &WindowRow| {
        let mut kept = vec![0.0; crate::timeline::blocks::MOST as usize + 1];
        for one in row.sums.parts.iter().flat_map(Part::blocks) {
            if let Some(sum) = kept.get_mut(one.block as usize) {
                *sum += one.kept as f64;
            }
        }
        kept
    };
    let mut totals = by_block(&windows.total);
    let length = totals.iter().rposition(|kept| *kept > 0.0).map_or(0, |last| last + 1);
    totals.truncate(length);
    let shares = Shares::new(&totals)?;
    let share = |row: &WindowRow| shares.share(&by_block(row)[..length]);
    let shares: Vec<_> = windows.rows.iter().take(PHASE_ROWS).map(share).collect();
    LongPhases::of(&shares, windows.seconds)
}
