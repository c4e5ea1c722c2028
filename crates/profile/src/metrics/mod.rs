//! Windows to metrics: formulas of what was counted, each with its interval.
//!
//! A metric is a function of sums over the kept windows of a row, most often a ratio of two. Its 95 %
//! interval is by the delta method ([`Spread`]): the influence of a window, or of all windows of a block
//! of time, is the formula's slopes times its counts. A bootstrap would resample some 200 blocks a
//! thousand times for each cell; the delta method goes over them once, needs no seed, takes any formula,
//! and is as good where a ratio's denominator (cycles, instructions) hardly varies, as it does not in
//! windows of one length.
//!
//! Windows of a block of time count as one observation, for neighbours are alike. Where a row has less
//! than ten blocks' worth (a function that runs in one phase only), windows are taken for independent:
//! within a phase they are draws from it.
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

use pmuscope_events::metrics::{Formula, Metric, Metrics};
use pmuscope_stats::{Interval, LEVEL, Spread};

use crate::windows::{Part, Row, Windows, product};

/// Fewer kept windows have no interval.
pub const MIN_WINDOWS: u64 = 30;
/// A function whose mean length is fewer windows than this has no interval.
pub const MIN_LENGTH: f64 = 10.0;
/// With fewer blocks' worth, windows count as independent.
const MIN_CLUSTERS: f64 = 10.0;
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
pub fn mean_length(row: &Row) -> Option<f64> {
    row.same_at_both_ends().map(|same| 1.0 / (1.0 - same))
}

/// Whether cells of a row can have an interval.
#[must_use]
pub fn is_sure(row: &Row) -> bool {
    row.kept() >= MIN_WINDOWS && is_long(row)
}

/// Whether visits are long enough for windows to be of this function.
fn is_long(row: &Row) -> bool {
    mean_length(row).is_some_and(|length| length >= MIN_LENGTH)
}

/// Computes metrics of rows.
#[derive(Debug)]
pub struct Table<'a> {
    windows: &'a Windows,
    columns: Vec<Column<'a>>,
    /// Sums of all rows by block of time: group, block, kept windows, counts.
    total_blocks: Vec<Vec<(u64, u64, Vec<f64>)>>,
    /// By group: the sums of a row without any window of it.
    empty: Vec<Part>,
}

/// A metric, and how it is computed here.
#[derive(Debug)]
pub struct Column<'a> {
    /// The metric.
    pub metric: &'a Metric,
    /// The formula whose events were all counted.
    pub formula: Option<&'a Formula>,
    /// For each group that has all events: where its variables stand, and which are totals.
    groups: Vec<(u32, Vec<(usize, bool)>)>,
}

impl<'a> Column<'a> {
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
        let columns = chosen.iter().map(|metric| Column::new(windows, metrics, metric)).collect();
        let total_blocks = (0..windows.counters.len() as u32)
            .map(|group| {
                let part = windows.total.sums.parts.iter().find(|part| part.group == group);
                let blocks = part.into_iter().flat_map(Part::blocks);
                let sums = |sums: &[u64]| sums.iter().map(|&sum| sum as f64).collect();
                blocks.map(|one| (one.block, one.kept, sums(one.sums))).collect()
            })
            .collect();
        let empty =
            (0..).zip(&windows.counters).map(|(group, names)| Part::new(group, names.len()));
        Self { windows, columns, total_blocks, empty: empty.collect() }
    }

    /// Its columns.
    #[must_use]
    pub fn columns(&self) -> &[Column<'a>] {
        &self.columns
    }

    /// The cells of a row, one per column.
    #[must_use]
    pub fn cells(&self, row: &Row) -> Vec<MetricCell> {
        let is_sure = is_sure(row);
        self.columns.iter().map(|column| self.cell(column, row, is_sure)).collect()
    }

    /// What a group has of a row. A row without a window of the group has its share of the total all the
    /// same, which is 0; where there is no total, the group says nothing of it.
    fn piece<'t>(
        &'t self,
        row: &'t Row,
        group: u32,
        places: &'t [(usize, bool)],
    ) -> Option<Piece<'t>> {
        let of = |row: &'t Row| row.sums.parts.iter().find(|part| part.group == group);
        let all = of(&self.windows.total)?;
        let has_totals = places.iter().any(|(_, total)| *total);
        let none = || has_totals.then(|| &self.empty[group as usize]);
        let own = of(row).or_else(none)?;
        Some(Piece { own, all, places, blocks: &self.total_blocks[group as usize] })
    }

    fn cell(&self, column: &Column<'_>, row: &Row, is_sure: bool) -> MetricCell {
        let Some(formula) = column.formula else { return MetricCell::default() };
        let parts: Vec<Piece<'_>> = column
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
        let can_tell = is_sure && windows >= MIN_WINDOWS;
        // Of what was never seen the windows do not tell how rare it is, only how frequent it is not.
        if value == 0.0 {
            let at_most = can_tell.then(|| with_three(formula, &values)).flatten();
            return MetricCell { value: Some(value), interval: None, windows, at_most };
        }
        let half = can_tell.then(|| half_width(&parts, &slopes)).flatten();
        let interval =
            half.map(|half| Interval { low: value - half, high: value + half, level: LEVEL });
        MetricCell { value: Some(value), interval, windows, at_most: None }
    }
}

/// The value if three had been counted of what was not counted at all.
fn with_three(formula: &Formula, values: &[f64]) -> Option<f64> {
    let three: Vec<f64> =
        values.iter().map(|&value| if value == 0.0 { 3.0 } else { value }).collect();
    formula.value(&three).filter(|value| *value != 0.0)
}

/// Sums of a group: of the row, and of all rows.
struct Piece<'a> {
    own: &'a Part,
    all: &'a Part,
    places: &'a [(usize, bool)],
    blocks: &'a [(u64, u64, Vec<f64>)],
}

impl Piece<'_> {
    fn sum(&self, variable: usize) -> f64 {
        let (place, total) = self.places[variable];
        (if total { self.all } else { self.own }).sums[place] as f64
    }

    fn has_totals(&self) -> bool {
        self.places.iter().any(|(_, total)| *total)
    }

    /// Influence and windows of each block of time.
    fn clusters(&self, slopes: &[f64]) -> Vec<(f64, f64)> {
        let influence = |sums: &dyn Fn(usize) -> f64, of_total: bool| -> f64 {
            let each = self.places.iter().zip(slopes).filter(|((_, total), _)| *total == of_total);
            each.map(|((place, _), slope)| slope * sums(*place)).sum()
        };
        let own = self
            .own
            .blocks()
            .map(|one| (one.block, influence(&|place| one.sums[place] as f64, false), one.kept));
        if !self.has_totals() {
            return own.map(|(_, influence, kept)| (influence, kept as f64)).collect();
        }
        let mut own = own.peekable();
        let all = self.blocks.iter().map(|(block, kept, sums)| {
            let here = own.next_if(|(at, ..)| at == block).map_or(0.0, |(_, here, _)| here);
            (here + influence(&|place| sums[place], true), *kept as f64)
        });
        all.collect()
    }

    /// Number of windows, and the sums of their influences and of the squares.
    fn singles(&self, slopes: &[f64]) -> (f64, f64, f64) {
        let square = |part: &Part, with_own: bool| -> f64 {
            let used: Vec<(usize, f64)> = self
                .places
                .iter()
                .zip(slopes)
                .filter(|((_, total), _)| *total || with_own)
                .map(|(&(place, _), &slope)| (place, slope))
                .collect();
            let pairs = used.iter().flat_map(|a| used.iter().map(move |b| (a, b)));
            pairs.map(|(a, b)| a.1 * b.1 * part.products[product(a.0, b.0)]).sum()
        };
        let sum = (0..slopes.len()).map(|at| slopes[at] * self.sum(at)).sum();
        if !self.has_totals() {
            return (self.own.kept as f64, sum, square(self.own, true));
        }
        // Of windows elsewhere only the totals know.
        let elsewhere = square(self.all, false) - square(self.own, false);
        (self.all.kept as f64, sum, square(self.own, true) + elsewhere.max(0.0))
    }
}

fn half_width(parts: &[Piece<'_>], slopes: &[f64]) -> Option<f64> {
    let by_block = Spread::of(parts.iter().flat_map(|piece| piece.clusters(slopes)));
    if let Some(spread) = by_block.filter(|spread| spread.clusters >= MIN_CLUSTERS) {
        return spread.half_width();
    }
    let (n, sum, squares) = parts.iter().fold((0.0, 0.0, 0.0), |sums, piece| {
        let one = piece.singles(slopes);
        (sums.0 + one.0, sums.1 + one.1, sums.2 + one.2)
    });
    Spread::of_sums(n, sum, squares)?.half_width()
}
