//! Rows for spreadsheets and scripts: fields as those of `report`, numbers with all digits.

use std::fmt::Write as _;

use pmuscope_profile::export::csv::field;
use pmuscope_profile::metrics::MetricCell;
use pmuscope_profile::windows::{Cause, Row};

use super::{MetricsView, by_word, module, name};
use crate::escape;

/// A head and one line per row; `separator` is a comma or a tab. Per metric there are four columns: its
/// value, the ends of its interval, and of what was never counted what it is at most; what was not measured
/// is empty.
#[must_use]
pub fn metrics_csv(view: &MetricsView<'_>, separator: char) -> String {
    let mut out = String::new();
    let mut push = |fields: Vec<String>| {
        let mut text = fields.join(&separator.to_string());
        text.push('\n');
        out.push_str(&text);
    };
    let mut head: Vec<String> =
        [by_word(view.windows.by), "module", "samples", "kept"].map(str::to_owned).into();
    head.extend(Cause::ALL.iter().map(|cause| cause.words().to_owned()));
    for name in view.names() {
        let name = escape(name);
        head.push(name.to_string());
        head.extend(["low", "high", "at most"].map(|what| format!("{name} {what}")));
    }
    push(head.iter().map(|name| quoted(name, separator)).collect());
    for (row, cells) in &view.rows {
        push(line(view, row, cells, separator));
    }
    out
}

fn line(view: &MetricsView<'_>, row: &Row, cells: &[MetricCell], separator: char) -> Vec<String> {
    let text = |text: &str| quoted(text, separator);
    let mut line = vec![
        text(&name(view.windows, &row.key)),
        text(module(view.windows, &row.key).unwrap_or_default()),
        row.windows().to_string(),
        row.kept().to_string(),
    ];
    line.extend(Cause::ALL.iter().map(|&cause| row.rejected(cause).to_string()));
    for cell in cells {
        let ends = cell.interval.map_or([None; 2], |one| [Some(one.low), Some(one.high)]);
        for value in [cell.value, ends[0], ends[1], cell.at_most] {
            let mut text = String::new();
            // Writing to a string cannot fail.
            let _ = value.map(|value| write!(text, "{value}"));
            line.push(text);
        }
    }
    line
}

/// A field of foreign text.
pub(super) fn quoted(text: &str, separator: char) -> String {
    let field = field(text);
    // Commas need no quotes between tabs; what would be a formula keeps its mark.
    if separator == '\t'
        && !text.contains('"')
        && field.starts_with("\"")
        && !field.starts_with("\"'")
    {
        return text.to_owned();
    }
    field.into_owned()
}
