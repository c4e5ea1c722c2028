//! The same for programs: the result of `pmuscope/diff/1`.

use pmuscope_profile::diff::EventDiff;
use serde::Serialize;

use super::DiffView;
use super::sheet::{sheet, total_object, unit_word};
use crate::recording::FilteredOut;
use crate::sheet::{Sheet, SheetObject};

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

#[derive(Debug, Serialize)]
struct EventOut<'a> {
    name: &'a str,
    /// What totals are in: `s`, `units` of the event, `samples`.
    total_unit: &'static str,
    before: SheetObject<'a>,
    after: SheetObject<'a>,
    functions: Sheet<'a>,
    functions_left_out: usize,
    /// Length of the program's phases, seconds, where they are too long to claim anything; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase_s: Option<f64>,
}

impl<'a> DiffReport<'a> {
    /// What is shown of a comparison.
    #[must_use]
    pub(super) fn new(view: &DiffView<'a>) -> Self {
        let event = |event: &'a EventDiff| {
            let functions = sheet(event, view.rows);
            EventOut {
                name: &event.name,
                total_unit: unit_word(event.unit),
                before: total_object(&event.sides[0]),
                after: total_object(&event.sides[1]),
                functions_left_out: functions.left_out(),
                functions,
                phase_s: event.long_phases.map(|phases| phases.seconds),
            }
        };
        Self {
            before: view.files[0],
            after: view.files[1],
            events: view.events.iter().map(event).collect(),
            filters: view.recordings.into_iter().flatten().filter_map(FilteredOut::of).collect(),
            one_sided: view.one_sided,
            sides_apart_s: view.apart(),
        }
    }
}
