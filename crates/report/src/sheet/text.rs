//! The table for people, at a terminal.

use std::borrow::Cow;

use pmuscope_stats::Interval;

use super::{FieldKind, Heading, Sheet, SheetCell, SheetForm, Value};
use crate::number::{self, count, duration, fixed, percent, significant};
use crate::{Cell, Column, Paint, Style, Table, escape};

/// The head of the column after a share.
pub(super) const INTERVAL: &str = "95% CI";
/// Rows with this part of the whole stand out.
const HOT: f64 = 0.1;

impl Sheet<'_> {
    /// Lines, and one more for the rows that are left out.
    pub(crate) fn text(&self, style: &Style) -> String {
        let (mut table, columns) = self.table();
        let feet: Vec<_> = self.feet().collect();
        let more = format!("… {} more: {}", count(self.left_out as u64), self.all_with);
        let has_row = self.left_out > 0 && (!feet.is_empty() || !self.rest.is_empty());
        if has_row {
            table.row(self.rest_cells(&columns, more.clone()));
        }
        for row in feet {
            table.row(columns.iter().flat_map(|&at| cells(&self.headings[at], &row[at])));
        }
        let mut out = table.render(style);
        if self.left_out > 0 && !has_row {
            out.push_str(&style.text(&format!("{more}\n")));
        }
        out
    }

    /// The rows, without those that are left out and without feet; and which columns they have.
    pub(crate) fn table(&self) -> (Table, Vec<usize>) {
        let columns = self.columns(SheetForm::Text);
        let heads = columns.iter().flat_map(|&at| heads(&self.headings[at]));
        let mut table = Table::new(heads).indent(self.indent);
        let share = columns.iter().copied().find(|&at| self.is_share(at));
        for (at, mut row) in self.entries().enumerate() {
            if share
                .is_some_and(|at| matches!(row[at].value, Value::Share(share, _) if share >= HOT))
            {
                row.iter_mut()
                    .filter(|cell| cell.paint == Paint::Plain)
                    .for_each(|cell| cell.paint = Paint::Bold);
            }
            if let Some((_, what)) = self.gap.as_ref().filter(|gap| gap.0 == at) {
                table.row(["…", what]);
            }
            table.row(columns.iter().flat_map(|&at| cells(&self.headings[at], &row[at])));
        }
        (table, columns)
    }

    /// Whether a column has parts of a whole.
    fn is_share(&self, at: usize) -> bool {
        self.headings[at].kind == FieldKind::Share
            || matches!(&*self.headings[at].key, "share" | "total")
    }

    /// Sums over the rows that are left out; the last cell says how many they are.
    fn rest_cells(&self, columns: &[usize], more: String) -> impl Iterator<Item = Cell> {
        let mut texts = Vec::new();
        for &at in columns {
            let heading = &self.headings[at];
            let sum = self.rest.iter().find(|(key, _)| *key == heading.key);
            let is_sum = heading.kind == FieldKind::Text && !self.rest.is_empty();
            let blank = if is_sum { "-" } else { "" };
            texts.push(match sum {
                Some((_, value)) => shown(value).unwrap_or_default().into(),
                None => blank.to_owned(),
            });
            texts.extend((heading.kind == FieldKind::Share).then(String::new));
        }
        texts.pop();
        texts.push(more);
        texts.into_iter().map(|text| Cell::new(text).paint(Paint::Dim))
    }
}

fn heads(heading: &Heading) -> Vec<Column> {
    let head = escape(&heading.head);
    let first = match heading.kind {
        FieldKind::Text if !heading.shrinks => Column::text(head),
        FieldKind::Text if heading.is_sentence => Column::text(head).shrink_end(),
        FieldKind::Text if heading.wanted > 0 => Column::text(head).shrink_to(heading.wanted),
        FieldKind::Text => Column::text(head).shrink(),
        FieldKind::Number | FieldKind::Estimate | FieldKind::Drawn | FieldKind::Share => {
            Column::number(head)
        }
    };
    let first = first.optional(heading.rank);
    match heading.kind {
        FieldKind::Share => vec![first, Column::number(INTERVAL).optional(heading.rank.max(1))],
        _ => vec![first],
    }
}

fn cells(heading: &Heading, entry: &SheetCell<'_>) -> Vec<Cell> {
    let cell = match shown(entry.for_people()) {
        Some(text) => Cell::new(escape(&text)).paint(entry.paint),
        None if heading.missing == "-" => Cell::new("-").paint(entry.paint),
        None => Cell::new(heading.missing).paint(Paint::Dim),
    };
    match (heading.kind, &entry.value) {
        (FieldKind::Share, Value::Share(share, interval)) => {
            let limits = Cell::measured(*interval, |of| limits_text(*share, &of));
            vec![cell, limits.paint(entry.paint)]
        }
        (FieldKind::Share, _) => vec![cell, Cell::new(heading.missing).paint(entry.paint)],
        _ => vec![cell],
    }
}

/// The interval of a share, in percentage points: `±1.23`, `0.16–5.20`.
pub(super) fn limits_text(share: f64, of: &Interval) -> String {
    number::limits(share * 100.0, of.low * 100.0, of.high * 100.0, 2)
}

/// How far a share can be off, in percentage points: `±1.23`.
fn half_text(half: f64) -> String {
    format!("±{}", fixed(half * 100.0, 2))
}

/// What people see of a value; `None` where it is missing.
pub(crate) fn shown<'a>(value: &'a Value<'_>) -> Option<Cow<'a, str>> {
    let text = match value {
        Value::Missing => return None,
        Value::Text(text) => return Some(Cow::Borrowed(text)),
        Value::Flag(is) => if *is { "yes" } else { "no" }.to_owned(),
        Value::Count(value) => count(*value),
        Value::Id(id) => id.to_string(),
        Value::Address(address) => format!("{address:#x}"),
        Value::Number(value, digits) => significant(*value, *digits),
        Value::Estimate(value, Some(of)) => number::estimate(*value, of.low, of.high),
        Value::Estimate(value, None) => format!("~{}", significant(*value, 3)),
        Value::Share(share, _) => percent(*share, 2),
        Value::Margin(margin) => half_text(*margin),
        Value::Limits(share, of) => limits_text(*share, of),
        Value::Seconds(seconds) => duration(*seconds),
        Value::Lines(lines) if lines.is_empty() => return None,
        Value::Lines(lines) => lines.join("; "),
        Value::Json(_) | Value::Drawn(_) => return None,
    };
    Some(Cow::Owned(text))
}
