//! Rows for spreadsheets and scripts: one per metric and function, numbers with all digits.

use pmuscope_profile::metrics::diff::{MetricDiff, RowDiff, RowName};
use pmuscope_stats::Interval;

use super::super::by_word;
use super::{MetricsDiffView, name, verdict};
use crate::diff::ChangeVerdict;
use crate::sheet::{Lines, Separator};

/// A head and one line per metric and row. What was not measured, or
/// cannot be told, is empty.
#[must_use]
pub(super) fn metrics_diff_delimited(view: &MetricsDiffView<'_>, separator: Separator) -> String {
    let mut head = vec!["metric", "unit", by_word(view.by), "module"];
    head.extend(["change", "change low", "change high", "relative change", "p", "is"]);
    head.extend(["before", "before low", "before high", "samples before", "windows before"]);
    head.extend(["after", "after low", "after high", "samples after", "windows after"]);
    let mut lines = Lines::new(separator);
    lines.push(head);
    for diff in view.measured() {
        for row in view.shown(diff) {
            lines.push(line(view, diff, row));
        }
    }
    lines.finish()
}

fn line(view: &MetricsDiffView<'_>, diff: &MetricDiff<'_>, row: &RowDiff) -> Vec<String> {
    let of = |at: fn(&RowName) -> Option<&str>| row.name.as_ref().and_then(at).unwrap_or_default();
    let verdict = verdict(row);
    let mut line = vec![
        diff.metric.name.to_string(),
        diff.metric.unit.to_string(),
        row.name.as_ref().map_or_else(String::new, |of| name(view.by, of)),
        of(|name| name.module.as_deref()).to_owned(),
    ];
    line.extend(figure(row.change.map(|of| of.value), row.change.and_then(|of| of.interval)));
    line.push(number(row.relative()));
    line.push(number(row.p));
    line.push(if verdict == ChangeVerdict::Unknown { "" } else { verdict.word() }.to_owned());
    for side in &row.sides {
        line.extend(figure(side.value, side.interval));
        line.extend([side.windows.to_string(), side.kept.to_string()]);
    }
    line
}

fn figure(value: Option<f64>, interval: Option<Interval>) -> [String; 3] {
    [value, interval.map(|of| of.low), interval.map(|of| of.high)].map(number)
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
