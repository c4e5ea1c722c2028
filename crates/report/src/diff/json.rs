//! The same for programs: the result of `pmuscope/diff/1`.

use pmuscope_profile::diff::{EventDiff, RowDiff, RowSide, SideTotal, TotalUnit};
use pmuscope_stats::Estimate;
use serde::Serialize;

use super::{ChangeVerdict, DiffView};
use crate::recording::{FilteredOut, LONG_PHASES};

/// The schema of [`DiffReport`] in its envelope.
pub(super) const DIFF_SCHEMA: &str = "pmuscope/diff/1";

/// Two sides of recordings.
#[derive(Debug, Serialize)]
pub(super) struct DiffReport<'a> {
    before: &'a [String],
    after: &'a [String],
    events: Vec<EventOut<'a>>,
    /// What was left out of each recording; absent where nothing was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    filters: Vec<FilteredOut<'a>>,
    /// Events that only one side has.
    one_sided: &'a [String],
    /// Seconds between the sides where one was recorded after the other.
    sides_apart_s: Option<f64>,
}

impl<'a> DiffReport<'a> {
    /// What is shown of a comparison.
    #[must_use]
    pub(super) fn new(view: &DiffView<'a>) -> Self {
        Self {
            before: view.files[0],
            after: view.files[1],
            events: view.events.iter().map(|event| EventOut::new(event, view.rows)).collect(),
            filters: view.recordings.into_iter().flatten().filter_map(FilteredOut::of).collect(),
            one_sided: view.one_sided,
            sides_apart_s: view.apart(),
        }
    }
}

#[derive(Debug, Serialize)]
struct EventOut<'a> {
    name: &'a str,
    /// What totals are in: `s`, `units` of the event, `samples`.
    total_unit: &'static str,
    before: TotalOut,
    after: TotalOut,
    functions: Vec<FunctionOut<'a>>,
    functions_left_out: usize,
    /// Length of the program's phases, seconds, where they are too long to claim anything; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase_s: Option<f64>,
}

impl<'a> EventOut<'a> {
    fn new(event: &'a EventDiff, most: Option<usize>) -> Self {
        let shown = most.map_or(event.rows.len(), |most| most.min(event.rows.len()));
        Self {
            name: &event.name,
            total_unit: match event.unit {
                TotalUnit::Seconds => "s",
                TotalUnit::Units => "units",
                TotalUnit::Samples => "samples",
            },
            before: TotalOut::new(&event.sides[0]),
            after: TotalOut::new(&event.sides[1]),
            functions: event.rows[..shown].iter().map(|row| FunctionOut::new(event, row)).collect(),
            functions_left_out: event.rows.len() - shown,
            phase_s: event.long_phases.map(|phases| phases.seconds),
        }
    }
}

#[derive(Debug, Serialize)]
struct TotalOut {
    recordings: usize,
    samples: u64,
    /// Mean of the recordings.
    total: EstimateOut,
}

impl TotalOut {
    fn new(side: &SideTotal) -> Self {
        let total = EstimateOut::new(&side.total);
        Self { recordings: side.runs, samples: side.samples, total }
    }
}

#[derive(Debug, Serialize)]
struct FunctionOut<'a> {
    /// Absent where there is no symbol.
    function: Option<&'a str>,
    inlined_into: Option<&'a str>,
    module: &'a str,
    command: &'a str,
    /// Change of the share, after less before.
    share_change: EstimateOut,
    /// Change of the mean total, after less before.
    total_change: EstimateOut,
    /// Adjusted for all rows.
    p: Option<f64>,
    /// `more`, `less`, `unclear`; absent where nothing tells.
    share_is: Option<&'static str>,
    before: Side,
    after: Side,
}

impl<'a> FunctionOut<'a> {
    fn new(event: &EventDiff, row: &'a RowDiff) -> Self {
        let verdict = ChangeVerdict::of(row);
        Self {
            function: row.name.function.as_deref(),
            inlined_into: row.name.inlined_into.as_deref(),
            module: &row.name.module,
            command: &row.name.command,
            share_change: EstimateOut::of_share(event, &row.share),
            total_change: EstimateOut::new(&row.total),
            p: row.p,
            share_is: (verdict != ChangeVerdict::Unknown).then(|| verdict.word()),
            before: Side::new(event, &row.sides[0]),
            after: Side::new(event, &row.sides[1]),
        }
    }
}

#[derive(Debug, Serialize)]
struct Side {
    samples: u64,
    share: EstimateOut,
    total: f64,
}

impl Side {
    fn new(event: &EventDiff, side: &RowSide) -> Self {
        let share = EstimateOut::of_share(event, &side.share);
        Self { samples: side.samples, share, total: side.total }
    }
}

/// A number with its 95 % interval.
#[derive(Debug, Serialize)]
struct EstimateOut {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

impl EstimateOut {
    /// One that is known from within a recording, where there is one a side.
    fn of_share(event: &EventDiff, estimate: &Estimate) -> Self {
        let figure = Self::new(estimate);
        let is_long = figure.why.is_some() && event.long_phases.is_some();
        Self { why: if is_long { Some(LONG_PHASES) } else { figure.why }, ..figure }
    }

    fn new(estimate: &Estimate) -> Self {
        Self {
            value: estimate.value,
            low: estimate.interval.map(|interval| interval.low),
            high: estimate.interval.map(|interval| interval.high),
            why: estimate
                .interval
                .is_none()
                .then_some("too few recordings, or too few blocks of time or phases within one"),
        }
    }
}
