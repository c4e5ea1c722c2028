//! Rows for spreadsheets and scripts: fields as those of `report`, numbers with all digits.

use pmuscope_profile::metrics::MetricCell;
use pmuscope_profile::windows::{Cause, WindowRow};

use super::{MetricsView, by_word, module, name};
use crate::sheet::{Lines, Separator};

/// A head and one line per row. Per metric there are four columns: its
/// value, the ends of its interval, and of what was never counted what it is at most; what was not measured
/// is empty.
#[must_use]
pub(super) fn metrics_delimited(view: &MetricsView<'_>, separator: Separator) -> String {
    let mut lines = Lines::new(separator);
    let mut head: Vec<String> =
        [by_word(view.windows.by), "module", "samples", "kept"].map(str::to_owned).into();
    head.extend(Cause::ALL.iter().map(|cause| cause.words().to_owned()));
    for name in view.names() {
        head.push(name.to_owned());
        head.extend(["low", "high", "at most"].map(|what| format!("{name} {what}")));
    }
    lines.push(head);
    for (row, cells) in &view.rows {
        lines.push(line(view, row, cells));
    }
    lines.finish()
}

fn line(view: &MetricsView<'_>, row: &WindowRow, cells: &[MetricCell]) -> Vec<String> {
    let mut line = vec![
        name(view.windows, &row.key),
        module(view.windows, &row.key).unwrap_or_default().to_owned(),
        row.windows().to_string(),
        row.kept().to_string(),
    ];
    line.extend(Cause::ALL.iter().map(|&cause| row.rejected(cause).to_string()));
    for cell in cells {
        let ends = cell.interval.map_or([None; 2], |one| [Some(one.low), Some(one.high)]);
        let values = [cell.value, ends[0], ends[1], cell.at_most];
        line.extend(values.map(|value| value.map_or_else(String::new, |value| value.to_string())));
    }
    line
}
