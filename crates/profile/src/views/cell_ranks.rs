//! Intervals of the largest rows, counted after the rows themselves: they take a pass over all counts by time.

use pmuscope_stats::Interval;

use super::query::{rank_cells, series_of};
use crate::aggregate::{Aggregate, LongPhases, RowSeries};

/// For each cell of an event the place of its row among the largest ones.
#[derive(Debug)]
pub struct CellRanks {
    event: u32,
    /// Rows that have places.
    rows: usize,
    /// Whether rows weigh by weight, else by samples.
    by_weight: bool,
    rank_of_cell: Vec<u32>,
}

impl CellRanks {
    /// Numbers of the `largest` of `all` rows, and that of each cell.
    pub(super) fn new(
        event: u32,
        by_weight: bool,
        mut row_of_cell: Vec<u32>,
        largest: &[u32],
        all: usize,
    ) -> Self {
        rank_cells(&mut row_of_cell, largest, all);
        Self { event, rows: largest.len(), by_weight, rank_of_cell: row_of_cell }
    }

    /// The intervals of the largest rows. `counts` are those that the rows were made of.
    #[must_use]
    pub fn intervals(&self, counts: &Aggregate) -> RowIntervals {
        let series = self.series(counts);
        let shares = series.shares();
        let rows = shares.iter().map(|share| {
            let freedom = share.map(|share| share.long_run.freedom);
            RowInterval { interval: share.and_then(|share| share.interval), freedom }
        });
        let timeline = &counts.timeline;
        let seconds = f64::from(timeline.blocks) * timeline.block_ns as f64 / 1e9;
        RowIntervals {
            rows: rows.collect(),
            blocks: series.filled(),
            long_phases: LongPhases::of(&shares, seconds),
        }
    }

    pub(super) fn series(&self, counts: &Aggregate) -> RowSeries {
        series_of(counts, self.event, self.rows, self.by_weight, &self.rank_of_cell)
    }
}

/// Intervals of the largest rows of a table, in the order of the rows.
#[derive(Debug, Clone, Default)]
pub struct RowIntervals {
    rows: Vec<RowInterval>,
    /// Blocks of time with samples of the event.
    pub blocks: usize,
    /// Phases of the program that are too long for intervals.
    pub long_phases: Option<LongPhases>,
}

/// The interval of one row.
#[derive(Debug, Clone, Copy, Default)]
struct RowInterval {
    interval: Option<Interval>,
    freedom: Option<f64>,
}

impl RowIntervals {
    /// 95% CI of the row at this index; `None` where there are too few blocks of time, and of rows that were not among
    /// the largest.
    #[must_use]
    pub fn interval(&self, at: usize) -> Option<Interval> {
        self.rows.get(at)?.interval
    }

    /// Degrees of freedom of the row's variance; there without an interval where phases are too long for one.
    #[must_use]
    pub fn freedom(&self, at: usize) -> Option<f64> {
        self.rows.get(at)?.freedom
    }
}
