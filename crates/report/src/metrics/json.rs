//! The same for programs: the result of `pmuscope/metrics/1`.

use pmuscope_profile::windows::Windows;
use serde::Serialize;
use serde_json::json;

use super::MetricsView;
use super::name::by_word;
use super::sheet::kind_fields;
use crate::recording::lost_is;
use crate::sheet::{Field, Sheet, SheetObject};

/// The schema of [`MetricsReport`] in its envelope.
pub(super) const METRICS_SCHEMA: &str = "pmuscope/metrics/1";

/// Metrics of a recording.
#[derive(Debug, Serialize)]
pub(super) struct MetricsReport<'a> {
    file: &'a str,
    windows: SheetObject<'a>,
    by: &'static str,
    columns: Sheet<'a>,
    rows: Sheet<'a>,
    rows_left_out: usize,
    total: SheetObject<'a>,
}

impl<'a> MetricsReport<'a> {
    /// What is shown.
    #[must_use]
    pub(super) fn new(view: &'a MetricsView<'a>) -> Self {
        let rows = view.sheet(None, false);
        Self {
            file: view.file,
            windows: windows_object(view.windows),
            by: by_word(view.windows.by),
            columns: view.columns_sheet(),
            rows_left_out: rows.left_out(),
            rows,
            total: view.total_object(),
        }
    }
}

fn windows_object(windows: &Windows) -> SheetObject<'_> {
    let asked = |of: &Windows| of.kind.asked.filter(|&asked| of.kind.window != Some(asked));
    let mut fields: Vec<_> = kind_fields(|of: &Windows| of).into();
    fields.extend([
        Field::count("length_asked", asked).absent_if_missing(),
        Field::count("shortest", |of: &Windows| of.kind.range.map(|(shortest, _)| shortest))
            .absent_if_missing(),
        Field::count("longest", |of: &Windows| of.kind.range.map(|(_, longest)| longest))
            .absent_if_missing(),
        Field::count("burst", |of: &Windows| u64::from(of.kind.burst)),
        Field::count("interrupt_cost", |of: &Windows| of.interrupt_cost),
        Field::number("seconds", |of: &Windows| Some(of.seconds)),
        Field::count("lost", |of: &Windows| of.lost.count),
        // `exact` or `at_least`.
        Field::text("lost_is", |of: &Windows| Some(lost_is(of.lost))),
        Field::count("throttled", |of: &Windows| of.throttled),
        Field::count("outside", |of: &Windows| of.outside),
        Field::count("of_other_tasks", |of: &Windows| of.foreign),
        Field::json("cpus", |of: &Windows| {
            let cpus = of.by_cpu.iter();
            cpus.map(|(cpu, of)| {
                json!({"cpu": cpu, "windows": of.windows, "wrong_offset": of.wrong_offset})
            })
            .collect()
        }),
    ]);
    SheetObject(Sheet::new(fields, [windows], 1))
}
