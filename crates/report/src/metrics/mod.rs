//! Metrics of functions from windows: text, JSON and rows for spreadsheets.

mod delimited;
mod diff;
mod figure;
mod html;
mod json;
mod text;
mod tints;

use crate::report::Report;
use crate::{Separator, Style};
use pmuscope_events::metrics::{Metric, Metrics};
use pmuscope_profile::metrics::{MetricCell, Table};
use pmuscope_profile::windows::{By, Cause, RowKey, WindowRow, Windows};
use serde::Serialize;

use crate::escape;
use crate::flame::{Flame, FlameLimits, FlatRow};
use crate::recording::RowLimits;

pub use diff::MetricsDiffView;
pub use html::metrics_page;
use json::{METRICS_SCHEMA, MetricsReport};
pub use text::{length_text, metric_list_text, metrics_title, too_short_text};
pub use tints::Tints;

/// What is shown of the windows of a recording.
#[derive(Debug)]
pub struct MetricsView<'a> {
    windows: &'a Windows,
    file: &'a str,
    table: Table<'a>,
    rows: Vec<(&'a WindowRow, Vec<MetricCell>)>,
    total: Vec<MetricCell>,
    left_out: usize,
    /// Whether to tell how long it takes until intervals are narrow.
    needs: bool,
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
        let rows: Vec<_> = shown.map(|row| (row, table.cells(row))).collect();
        let total = table.cells(&windows.total);
        let left_out = windows.rows.len() - rows.len();
        Self { windows, file, table, rows, total, left_out, needs }
    }

    /// Colours by the metric of that name; `None` where it is no column, or its events were not counted.
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

    /// Functions below their modules, coloured: for recordings without call chains.
    #[must_use]
    pub fn flat_flame(&self, tints: &Tints<'_>, limits: FlameLimits) -> Flame {
        let row = |row: &'a WindowRow| FlatRow {
            function: row.key.function.as_deref(),
            module: module(self.windows, &row.key).unwrap_or("[unknown]"),
            weight: row.windows(),
        };
        let rows: Vec<FlatRow<'_>> = self.windows.rows.iter().map(row).collect();
        Flame::flat(&rows, limits, &tints.painter(&|frame| tints.tint(frame)))
    }

    fn names(&self) -> impl Iterator<Item = &'a str> {
        self.table.columns().iter().map(|column| &column.metric.name[..])
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
        Some(delimited::metrics_delimited(self, separator))
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

/// What rows are of, as a head of their column.
fn by_word(by: By) -> &'static str {
    match by {
        By::Function => "function",
        By::Inlined => "inlined function",
        By::Line => "line",
        By::Module => "module",
        By::Mode => "mode",
    }
}

/// Whether a column of modules tells more than the rows do.
fn module_column(by: By) -> bool {
    matches!(by, By::Function | By::Inlined | By::Line)
}

/// Last part of a module's path; foreign text.
fn module<'a>(windows: &'a Windows, key: &RowKey) -> Option<&'a str> {
    Some(windows.modules.get(key.module? as usize)?.short_name())
}

/// What a row is of, escaped.
fn name(windows: &Windows, key: &RowKey) -> String {
    Named {
        module: module(windows, key),
        function: key.function.as_deref(),
        inlined_into: key.inlined_into.as_deref(),
        line: key.line.as_ref().map(|(file, number)| (&**file, *number)),
        mode: key.mode,
    }
    .text(windows.by)
}

/// What a row is of, in words of its own. Foreign text.
struct Named<'a> {
    module: Option<&'a str>,
    function: Option<&'a str>,
    inlined_into: Option<&'a str>,
    line: Option<(&'a str, Option<u32>)>,
    mode: Option<&'a str>,
}

impl Named<'_> {
    /// Escaped.
    fn text(&self, by: By) -> String {
        let module = self.module.unwrap_or("-");
        let unknown = || {
            if module.starts_with('[') {
                module.to_owned()
            } else {
                format!("[unknown] in {module}")
            }
        };
        let function = || self.function.map_or_else(unknown, str::to_owned);
        let text = match by {
            By::Module => module.to_owned(),
            By::Mode => self.mode.unwrap_or("-").to_owned(),
            By::Line => match self.line {
                Some((file, number)) => {
                    let file = file.rsplit('/').next().unwrap_or(file);
                    let number = number.map_or("?".into(), |number| number.to_string());
                    format!("{file}:{number} {}", function())
                }
                None => function(),
            },
            By::Function | By::Inlined => match self.inlined_into {
                Some(outer) => format!("{} (inlined into {outer})", function()),
                None => function(),
            },
        };
        escape(&text).into_owned()
    }
}
