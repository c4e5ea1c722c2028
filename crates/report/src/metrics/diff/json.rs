//! The same for programs: the result of `pmuscope/metrics-diff/1`.

use pmuscope_profile::metrics::diff::MetricDiff;
use serde::Serialize;

use super::super::name::by_word;
use super::MetricsDiffView;
use crate::sheet::{Sheet, SheetObject};

/// The schema of [`MetricsDiffReport`] in its envelope.
pub(super) const METRICS_DIFF_SCHEMA: &str = "pmuscope/metrics-diff/1";

/// Metrics of two sides of recordings.
#[derive(Debug, Serialize)]
pub(super) struct MetricsDiffReport<'a> {
    before: Sheet<'static>,
    after: Sheet<'static>,
    by: &'static str,
    metrics: Vec<MetricOut<'a>>,
    /// Seconds between the sides where one was recorded after the other.
    sides_apart_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct MetricOut<'a> {
    name: &'a str,
    unit: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    rows: Sheet<'a>,
    rows_left_out: usize,
    total: SheetObject<'a>,
}

impl<'a> MetricsDiffReport<'a> {
    /// What is shown of a comparison.
    #[must_use]
    pub(super) fn new(view: &MetricsDiffView<'a>) -> Self {
        let metric = |diff: &'a MetricDiff<'a>| {
            let rows = view.sheet(diff);
            MetricOut {
                name: &diff.metric.name,
                unit: &diff.metric.unit,
                why: (diff.measured != [true; 2]).then_some("not all recordings have its events"),
                rows_left_out: rows.left_out(),
                rows,
                total: view.total_object(diff),
            }
        };
        Self {
            before: view.files_sheet(0),
            after: view.files_sheet(1),
            by: by_word(view.by),
            metrics: view.diffs.iter().map(metric).collect(),
            sides_apart_s: view.apart(),
        }
    }
}
