//! The same for programs: the result of `pmuscope/metrics/1`.

use std::collections::BTreeMap;

use pmuscope_profile::metrics::{MetricCell, is_sure, mean_length};
use pmuscope_profile::windows::{Cause, WindowRow};
use serde::Serialize;

use crate::recording::{Count, LONG_PHASES, lost_is};

use super::{MetricsView, by_word};

/// The schema of [`MetricsReport`] in its envelope.
pub(super) const METRICS_SCHEMA: &str = "pmuscope/metrics/1";

/// Metrics of a recording.
#[derive(Debug, Serialize)]
pub(super) struct MetricsReport<'a> {
    file: &'a str,
    windows: WindowsOut<'a>,
    by: &'static str,
    columns: Vec<ColumnOut<'a>>,
    rows: Vec<RowOut<'a>>,
    rows_left_out: usize,
    total: RowOut<'a>,
}

#[derive(Debug, Serialize)]
struct WindowsOut<'a> {
    event: &'a str,
    length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length_asked: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shortest: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    longest: Option<u64>,
    burst: u32,
    period: Option<u64>,
    strobed: bool,
    interrupt_cost: u64,
    attribution: &'static str,
    seconds: f64,
    lost: Count,
    /// `exact` or `at_least`.
    lost_is: &'static str,
    throttled: Count,
    outside: u64,
    of_other_tasks: u64,
    cpus: Vec<CpuOut>,
}

#[derive(Debug, Serialize)]
struct CpuOut {
    cpu: u32,
    windows: u64,
    wrong_offset: u64,
}

#[derive(Debug, Serialize)]
struct ColumnOut<'a> {
    name: &'a str,
    unit: &'a str,
    formula: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct RowOut<'a> {
    function: Option<&'a str>,
    module: Option<&'a str>,
    inlined_into: Option<&'a str>,
    line: Option<String>,
    mode: Option<&'static str>,
    windows: u64,
    kept: u64,
    rejected: BTreeMap<&'static str, u64>,
    same_at_both_ends: Option<f64>,
    mean_length_windows: Option<f64>,
    metrics: Vec<CellOut<'a>>,
}

#[derive(Debug, Serialize)]
struct CellOut<'a> {
    name: &'a str,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    /// Of what was never counted: the value if it had been three times, 95 % sure to be more than it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    windows: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    more_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

impl<'a> MetricsReport<'a> {
    /// What is shown.
    #[must_use]
    pub(super) fn new(view: &'a MetricsView<'a>) -> Self {
        let windows = view.windows;
        let cpus = windows.by_cpu.iter().map(|(&cpu, of)| CpuOut {
            cpu,
            windows: of.windows,
            wrong_offset: of.wrong_offset,
        });
        let columns = view.table.columns().iter().map(|column| ColumnOut {
            name: &column.metric.name,
            unit: &column.metric.unit,
            formula: column.formula.map(ToString::to_string),
            why: column.formula.is_none().then_some("its events were not recorded"),
        });
        Self {
            file: view.file,
            windows: WindowsOut {
                event: &windows.kind.event,
                length: windows.kind.window,
                length_asked: windows
                    .kind
                    .asked
                    .filter(|&asked| windows.kind.window != Some(asked)),
                shortest: windows.kind.range.map(|(shortest, _)| shortest),
                longest: windows.kind.range.map(|(_, longest)| longest),
                burst: windows.kind.burst,
                period: windows.kind.period,
                strobed: windows.kind.strobed,
                interrupt_cost: windows.interrupt_cost,
                attribution: if windows.discards { "discard" } else { "none" },
                seconds: windows.seconds,
                lost: Count(windows.lost.count),
                lost_is: lost_is(windows.lost),
                throttled: Count(windows.throttled),
                outside: windows.outside,
                of_other_tasks: windows.foreign,
                cpus: cpus.collect(),
            },
            by: by_word(windows.by),
            columns: columns.collect(),
            rows: view.rows.iter().map(|(row, cells)| RowOut::new(view, row, cells)).collect(),
            rows_left_out: view.left_out,
            total: RowOut::new(view, &windows.total, &view.total),
        }
    }
}

impl<'a> RowOut<'a> {
    fn new(view: &'a MetricsView<'a>, row: &'a WindowRow, cells: &[MetricCell]) -> Self {
        let key = &row.key;
        let module = key.module.and_then(|at| view.windows.modules.get(at as usize));
        let line = key.line.as_ref().map(|(file, number)| {
            let number = number.map_or("?".into(), |number| number.to_string());
            format!("{file}:{number}")
        });
        let rejected = Cause::ALL.iter().map(|&cause| (word(cause), row.rejected(cause)));
        // Only where all windows passed is the length not to be told.
        let length = mean_length(row).filter(|length| length.is_finite());
        let metrics = view.names().zip(cells).map(|(name, cell)| CellOut {
            name,
            value: cell.value,
            low: cell.interval.map(|interval| interval.low),
            high: cell.interval.map(|interval| interval.high),
            at_most: cell.at_most,
            windows: cell.windows,
            more_seconds: view.needs.then(|| cell.more_seconds(view.windows.seconds)).flatten(),
            why: why(row, cell, view.table.long_phases().is_some()),
        });
        Self {
            function: key.function.as_deref(),
            module: module.map(|module| &module.path[..]),
            inlined_into: key.inlined_into.as_deref(),
            line,
            mode: key.mode,
            windows: row.windows(),
            kept: row.kept(),
            rejected: rejected.collect(),
            same_at_both_ends: row.same_at_both_ends(),
            mean_length_windows: length,
            metrics: metrics.collect(),
        }
    }
}

/// Why a cell lacks something.
fn why(row: &WindowRow, cell: &MetricCell, is_long: bool) -> Option<&'static str> {
    match (cell.value, cell.interval) {
        (_, Some(_)) => None,
        (None, None) => Some("not measured"),
        (Some(0.0), None) => Some("none was counted"),
        (Some(_), None) if is_sure(row) && (is_long || cell.freedom.is_some()) => Some(LONG_PHASES),
        (Some(_), None) if is_sure(row) => {
            Some("too few windows of its events, or in few blocks of time")
        }
        (Some(_), None) => Some("fewer than 30 kept windows, or shorter than ten windows"),
    }
}

fn word(cause: Cause) -> &'static str {
    match cause {
        Cause::Throttled => "throttled",
        Cause::AfterThrottle => "after_throttle",
        Cause::NoStart => "no_start",
        Cause::WrongOffset => "wrong_offset",
        Cause::WrongLength => "wrong_length",
        Cause::ContextSwitch => "context_switch",
        Cause::NoSymbol => "no_symbol",
        Cause::OtherSymbol => "other_symbol",
        Cause::Return => "return",
    }
}
