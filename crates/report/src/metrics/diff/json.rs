//! The same for programs: the result of `pmuscope/metrics-diff/1`.

use pmuscope_profile::metrics::diff::{MetricDiff, RowDiff, RowSide};
use pmuscope_profile::windows::Windows;
use serde::Serialize;

use super::super::by_word;
use super::{MetricsDiffView, verdict};
use crate::diff::ChangeVerdict;
use crate::recording::LONG_PHASES;

/// The schema of [`MetricsDiffReport`] in its envelope.
pub(super) const METRICS_DIFF_SCHEMA: &str = "pmuscope/metrics-diff/1";

/// Metrics of two sides of recordings.
#[derive(Debug, Serialize)]
pub(super) struct MetricsDiffReport<'a> {
    before: Vec<FileOut<'a>>,
    after: Vec<FileOut<'a>>,
    by: &'static str,
    metrics: Vec<MetricOut<'a>>,
    /// Seconds between the sides where one was recorded after the other.
    sides_apart_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct FileOut<'a> {
    file: &'a str,
    windows: u64,
    kept: u64,
    event: &'a str,
    length: Option<u64>,
    period: Option<u64>,
    strobed: bool,
    attribution: &'static str,
    emulated_by: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct MetricOut<'a> {
    name: &'a str,
    unit: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    rows: Vec<RowOut<'a>>,
    rows_left_out: usize,
    total: RowOut<'a>,
}

#[derive(Debug, Serialize)]
struct RowOut<'a> {
    function: Option<&'a str>,
    module: Option<&'a str>,
    inlined_into: Option<&'a str>,
    line: Option<String>,
    mode: Option<&'static str>,
    change: ChangeOut,
    /// Adjusted for all rows of all metrics.
    p: Option<f64>,
    /// `more`, `less`, `unclear`; absent where nothing tells.
    is: Option<&'static str>,
    before: SideOut,
    after: SideOut,
}

#[derive(Debug, Serialize)]
struct ChangeOut {
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    relative: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct SideOut {
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    windows: u64,
    kept: u64,
}

impl<'a> MetricsDiffReport<'a> {
    /// What is shown of a comparison.
    #[must_use]
    pub(super) fn new(view: &MetricsDiffView<'a>) -> Self {
        let files = |side: usize| {
            let pairs = view.files[side].iter().zip(view.windows[side]);
            pairs.map(|(file, windows)| FileOut::new(file, windows)).collect()
        };
        let is_long = view.long_phases().is_some();
        Self {
            before: files(0),
            after: files(1),
            by: by_word(view.by),
            metrics: view.diffs.iter().map(|diff| MetricOut::new(view, diff, is_long)).collect(),
            sides_apart_s: view.apart(),
        }
    }
}

impl<'a> FileOut<'a> {
    fn new(file: &'a str, windows: &'a Windows) -> Self {
        let kind = &windows.kind;
        let info = windows.metadata.info.as_ref();
        Self {
            file,
            windows: windows.total.windows(),
            kept: windows.total.kept(),
            event: &kind.event,
            length: kind.window,
            period: kind.period,
            strobed: kind.strobed,
            attribution: if windows.discards { "discard" } else { "none" },
            emulated_by: info.and_then(|info| info.machine.emulator.as_deref()),
        }
    }
}

impl<'a> MetricOut<'a> {
    fn new(view: &MetricsDiffView<'a>, diff: &'a MetricDiff<'a>, is_long: bool) -> Self {
        let shown = view.shown(diff);
        let why = (diff.measured != [true; 2]).then_some("not all recordings have its events");
        Self {
            name: &diff.metric.name,
            unit: &diff.metric.unit,
            why,
            rows: shown.iter().map(|row| RowOut::new(row, is_long)).collect(),
            rows_left_out: diff.rows.len() - shown.len(),
            total: RowOut::new(&diff.total, is_long),
        }
    }
}

impl<'a> RowOut<'a> {
    fn new(row: &'a RowDiff, is_long: bool) -> Self {
        let name = row.name.as_ref();
        let line = name.and_then(|name| name.line.as_ref()).map(|(file, number)| {
            let number = number.map_or("?".into(), |number| number.to_string());
            format!("{file}:{number}")
        });
        let verdict = verdict(row);
        Self {
            function: name.and_then(|name| name.function.as_deref()),
            module: name.and_then(|name| name.module.as_deref()),
            inlined_into: name.and_then(|name| name.inlined_into.as_deref()),
            line,
            mode: name.and_then(|name| name.mode),
            change: ChangeOut::new(row, is_long),
            p: row.p,
            is: (verdict != ChangeVerdict::Unknown).then(|| verdict.word()),
            before: SideOut::new(&row.sides[0]),
            after: SideOut::new(&row.sides[1]),
        }
    }
}

impl ChangeOut {
    fn new(row: &RowDiff, is_long: bool) -> Self {
        let interval = row.change.and_then(|change| change.interval);
        let why = match (row.change, interval) {
            (_, Some(_)) => None,
            (None, _) => Some("a side has no value"),
            (Some(_), None) if is_long => Some(LONG_PHASES),
            (Some(_), None) => Some(
                "shorter than ten windows, fewer than 30 kept windows, too few phases or too few recordings \
                 on a side",
            ),
        };
        Self {
            value: row.change.map(|change| change.value),
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
            relative: row.relative(),
            why,
        }
    }
}

impl SideOut {
    fn new(side: &RowSide) -> Self {
        Self {
            value: side.value,
            low: side.interval.map(|interval| interval.low),
            high: side.interval.map(|interval| interval.high),
            windows: side.windows,
            kept: side.kept,
        }
    }
}
