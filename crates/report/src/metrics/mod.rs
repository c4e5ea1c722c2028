//! Metrics of functions from windows: text, JSON and rows for spreadsheets.

mod diff;
mod figure;
mod html;
mod json;
mod name;
mod sheet;
mod text;
mod tints;

use crate::report::Report;
use crate::{Separator, Style};
use pmuscope_events::metrics::{Metric, Metrics};
use pmuscope_profile::metrics::{MetricCell, Table};
use pmuscope_profile::windows::{Cause, WindowRow, Windows};
use serde::Serialize;

use crate::flame::{Flame, FlameLimits, FlatRow};
use crate::recording::RowLimits;

pub use diff::MetricsDiffView;
pub use html::metrics_page;
use json::{METRICS_SCHEMA, MetricsReport};
use name::Named;
pub use text::{length_text, metric_list_text, metrics_title, too_short_text};
pub use tints::Tints;

/// What is shown of the windows of a recording.
#[derive(Debug)]
pub struct MetricsView<'a> {
    windows: &'a Windows,
    file: &'a str,
    table: Table<'a>,
    rows: Vec<MetricRow<'a>>,
    total: MetricRow<'a>,
    limits: RowLimits,
    /// Whether to tell how long it takes until intervals are narrow.
    needs: bool,
}

/// A row with its metrics.
#[derive(Debug)]
struct MetricRow<'a> {
    row: &'a WindowRow,
    cells: Vec<MetricCell>,
}

impl<'a> MetricsView<'a> {
    /// Computes the cells that are shown.
    #[must_use]
    pub fn new(
        windows: &'a Windows,
        file: &'a str,
        metrics: &Metrics,
        chosen: &[&'a Metric],
        limits: RowLimits,
        needs: bool,
    ) -> Self {
        let table = Table::new(windows, metrics, chosen);
        let all = windows.total.windows().max(1) as f64;
        let is_large = |row: &&WindowRow| row.windows() as f64 / all >= limits.share;
        let shown = windows.rows.iter().filter(is_large).take(limits.rows.unwrap_or(usize::MAX));
        let row = |row: &'a WindowRow| MetricRow { row, cells: table.cells(row) };
        let (rows, total) = (shown.map(row).collect(), row(&windows.total));
        Self { windows, file, table, rows, total, limits, needs }
    }

    /// Colors by the metric of that name; `None` where it is no column, or its events were not counted.
    #[must_use]
    pub fn tints(&'a self, name: &str) -> Option<Tints<'a>> {
        Tints::new(self, name)
    }

    /// The first column whose events were counted.
    #[must_use]
    pub fn first_counted(&self) -> Option<&'a str> {
        let mut columns = self.table.columns().iter();
        columns.find(|column| column.formula.is_some()).map(|column| &column.metric.name[..])
    }

    /// Functions below their modules, colored: for recordings without call chains.
    #[must_use]
    pub fn flat_flame(&self, tints: &Tints<'_>, limits: FlameLimits) -> Flame {
        let row = |row: &'a WindowRow| FlatRow {
            function: row.key.function.as_deref(),
            module: Named::of_key(self.windows, &row.key).module.unwrap_or("[unknown]"),
            weight: row.windows(),
        };
        let rows: Vec<FlatRow<'_>> = self.windows.rows.iter().map(row).collect();
        Flame::flat(&rows, limits, &tints.painter(&|frame| tints.tint(frame)))
    }

    /// Seconds of further recording until all intervals of a row are within 5 % of their values.
    fn more_seconds(&self, cells: &[MetricCell]) -> Option<f64> {
        cells.iter().filter_map(|cell| cell.more_seconds(self.windows.seconds)).reduce(f64::max)
    }
}

impl Report for MetricsView<'_> {
    fn schema(&self) -> &'static str {
        METRICS_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        text::metrics_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        MetricsReport::new(self)
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(self.sheet(None, false).delimited(separator))
    }
}

/// Causes for which windows of a row do not count, the most frequent first.
fn causes(row: &WindowRow) -> Vec<(Cause, u64)> {
    let mut causes: Vec<(Cause, u64)> =
        Cause::ALL.iter().map(|&cause| (cause, row.rejected(cause))).collect();
    causes.retain(|(_, number)| *number > 0);
    causes.sort_by_key(|(cause, number)| (std::cmp::Reverse(*number), *cause));
    causes
}

#[cfg(test)]
mod tests;
