//! The table for people, on a page: its columns sort, its rows filter.

use super::text::{INTERVAL, shown};
use super::{FieldKind, Heading, Mark, Sheet, SheetCell, SheetForm, Value};
use crate::html::{dot, filter, number_cell, share_cell};
use crate::markup::{Markup, PreEscaped, html};
use crate::number::{counted, fixed};
use crate::{Paint, escape};

impl Sheet<'_> {
    /// The table with the field that filters its rows.
    pub(crate) fn html(&self) -> Markup {
        let columns = self.columns(SheetForm::Page);
        let searches = columns.iter().any(|&at| self.headings[at].searches);
        let row = |row: &[SheetCell<'_>]| {
            html! { tr { @for &at in &columns { (cells(&self.headings[at], &row[at], searches)) } } "\n" }
        };
        let total = self.total();
        html! {
            (filter())
            div class="wide" {
                table class=(if searches { "sortable functions" } else { "sortable" }) {
                    thead {
                        tr {
                            @for (position, &at) in columns.iter().enumerate() {
                                (head(&self.headings[at], position == 0))
                            }
                        }
                    }
                    "\n"
                    tbody { @for cells in self.entries() { (row(&cells)) } }
                    "\n"
                    @if total.is_some() || self.left_out > 0 {
                        tfoot {
                            @if self.left_out > 0 { (self.rest(&columns)) }
                            @if let Some(total) = total { (row(&total)) }
                        }
                    }
                }
            }
            "\n"
        }
    }

    /// What is left out has a line of its own, so that shares add up.
    fn rest(&self, columns: &[usize]) -> Markup {
        let first = columns.first().map(|&at| &self.headings[at].key);
        let sum = self.rest.iter().find(|(key, _)| Some(key) == first);
        let sum = sum.and_then(|(_, value)| shown(value));
        let shares = columns.iter().filter(|&&at| self.headings[at].kind == FieldKind::Share);
        html! {
            tr {
                @if let Some(sum) = &sum { td class="num" { (sum) } }
                td colspan=(columns.len() + shares.count() - usize::from(sum.is_some())) {
                    (counted(self.left_out, "more row")) " left out: " (self.more)
                }
            }
        }
    }
}

/// Rows stand by the first column, where it is of numbers.
fn head(heading: &Heading, is_first: bool) -> Markup {
    let (class, falls) = match heading.kind {
        FieldKind::Text => (None, false),
        FieldKind::Drawn => (Some("fixed"), false),
        _ => (Some("num"), is_first),
    };
    let about = (!heading.about.is_empty()).then_some(&heading.about);
    html! {
        th scope="col" class=[class] title=[about] aria-sort=[falls.then_some("descending")] {
            (heading.head)
        }
        @if heading.kind == FieldKind::Share { th scope="col" class="num" { (INTERVAL) } }
    }
}

/// A cell without a number.
fn none() -> Markup {
    html! { td class="num dim" data-v="-1" { "-" } }
}

/// `searches` is whether the table has a column that does: only that one looks as if.
fn cells(heading: &Heading, cell: &SheetCell<'_>, searches: bool) -> Markup {
    match (&cell.shown, &cell.value) {
        (_, Value::Drawn(_) | Value::Lines(_)) => lines_cell(heading, cell),
        (None, Value::Share(share, interval)) => html! {
            (share_cell(*share))
            @if heading.kind == FieldKind::Share { (margin(interval.map(|of| of.half_width()))) }
        },
        (None, Value::Margin(half)) => margin(Some(*half)),
        (None, Value::Count(value)) => number_cell(*value),
        (_, Value::Number(..) | Value::Seconds(_) | Value::Estimate(..))
        | (Some(_), Value::Share(..) | Value::Margin(_) | Value::Count(_)) => figure_cell(cell),
        _ if heading.kind != FieldKind::Text && shown(cell.for_people()).is_none() => {
            html! { td class="num dim" data-v="-1" style=[style(cell)] { (heading.missing) } }
        }
        _ => text_cell(heading, cell, searches),
    }
}

/// A number that is written otherwise than it is, or rounded.
fn figure_cell(cell: &SheetCell<'_>) -> Markup {
    let number = cell.sort.or(match cell.value {
        Value::Number(value, _)
        | Value::Estimate(value, _)
        | Value::Share(value, _)
        | Value::Margin(value)
        | Value::Seconds(value) => Some(value),
        Value::Count(value) => Some(value as f64),
        _ => None,
    });
    let class = if cell.paint == Paint::Dim { "num dim" } else { "num" };
    html! {
        td class=(class) data-v=[number] style=[style(cell)] {
            (shown(cell.for_people()).unwrap_or_default())
        }
    }
}

fn style(cell: &SheetCell<'_>) -> Option<String> {
    match &cell.mark {
        Some(Mark::Tint(color)) => Some(format!("background:{color};color:#16181d")),
        _ => None,
    }
}

/// A picture, or lines; what has no number to sort by comes last.
fn lines_cell(heading: &Heading, cell: &SheetCell<'_>) -> Markup {
    let is_number = heading.kind == FieldKind::Number;
    let number = cell.sort.map(|number| number.to_string()).unwrap_or_default();
    html! {
        td class=[is_number.then_some("num")] data-v=[is_number.then_some(number)] {
            @match &cell.value {
                Value::Drawn(markup) => (PreEscaped(markup)),
                Value::Lines(lines) => { @for line in lines { div class="line" { (escape(line)) } } },
                _ => {},
            }
            @if shown(&cell.value).is_none() && !matches!(cell.value, Value::Drawn(_)) { "-" }
        }
    }
}

/// How far a share can be off, in percentage points.
fn margin(half: Option<f64>) -> Markup {
    match half.map(|half| half * 100.0) {
        Some(points) => {
            html! { td class="num" data-v=(format!("{points:.6}")) { (fixed(points, 2)) } }
        }
        None => none(),
    }
}

fn text_cell(heading: &Heading, entry: &SheetCell<'_>, searches: bool) -> Markup {
    let known = shown(entry.for_people());
    let class = match (heading.kind, known.is_some()) {
        (FieldKind::Text, false) if heading.searches => Some("name dim"),
        (FieldKind::Text, false) => Some("dim"),
        (FieldKind::Text, true) if heading.searches => Some("name"),
        // What may be cut in a terminal is long: it gets room here.
        (FieldKind::Text, true) if !searches && heading.shrinks => Some("name"),
        (FieldKind::Text, true) => None,
        // A number that is written as text of its own, or one that names something.
        _ if matches!(entry.value, Value::Text(_)) => Some("num"),
        _ => Some("num mono"),
    };
    let (find, color) = match &entry.mark {
        Some(Mark::Search(name)) if known.as_deref() != Some(name) => (Some(name), None),
        Some(Mark::Color(color)) => (None, Some(color)),
        _ => (None, None),
    };
    html! {
        td class=[class] data-find=[find] {
            @if let Some(color) = color { (dot(color)) }
            (escape(known.as_deref().unwrap_or(heading.missing)))
        }
    }
}
