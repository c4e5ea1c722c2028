//! The table for people, on a page: its columns sort, its rows filter.

use super::text::{INTERVAL, shown};
use super::{FieldKind, Heading, Mark, Sheet, SheetCell, Value};
use crate::escape;
use crate::html::{dot, filter, number_cell, share_cell};
use crate::markup::{Markup, html};
use crate::number::{counted, fixed};

impl Sheet<'_> {
    /// The table with the field that filters its rows.
    pub(crate) fn html(&self) -> Markup {
        let columns = self.for_people();
        let searches = columns.iter().any(|&at| self.headings[at].searches);
        let heads: Vec<_> = columns.iter().flat_map(|&at| heads(&self.headings[at])).collect();
        html! {
            (filter())
            div class="wide" {
                table class=(if searches { "sortable functions" } else { "sortable" }) {
                    thead {
                        tr {
                            @for (position, (head, is_number)) in heads.iter().enumerate() {
                                th scope="col" class=[is_number.then_some("num")]
                                    aria-sort=[(position == 0).then_some("descending")] { (head) }
                            }
                        }
                    }
                    "\n"
                    tbody {
                        @for row in self.entries() {
                            tr { @for &at in &columns { (cells(&self.headings[at], &row[at], searches)) } } "\n"
                        }
                    }
                    "\n"
                    @if self.left_out > 0 { (self.rest(&columns, heads.len())) }
                }
            }
            "\n"
        }
    }

    /// What is left out has a line of its own, so that shares add up.
    fn rest(&self, columns: &[usize], cells: usize) -> Markup {
        let first = columns.first().map(|&at| &self.headings[at].key);
        let sum = self.rest.iter().find(|(key, _)| Some(key) == first);
        let sum = sum.and_then(|(_, value)| shown(value));
        html! {
            tfoot {
                tr {
                    @if let Some(sum) = &sum { td class="num" { (sum) } }
                    td colspan=(cells - usize::from(sum.is_some())) {
                        (counted(self.left_out, "more row")) " left out: " (self.more)
                    }
                }
            }
        }
    }
}

fn heads(heading: &Heading) -> Vec<(&str, bool)> {
    match heading.kind {
        FieldKind::Text => vec![(&heading.head, false)],
        FieldKind::Number | FieldKind::Estimate => vec![(&heading.head, true)],
        FieldKind::Share => vec![(&heading.head, true), (INTERVAL, true)],
    }
}

/// A cell without a number.
fn none() -> Markup {
    html! { td class="num dim" data-v="-1" { "-" } }
}

/// `searches` is whether the table has a column that does: only that one looks as if.
fn cells(heading: &Heading, entry: &SheetCell<'_>, searches: bool) -> Markup {
    match (&entry.shown, &entry.value) {
        (None, Value::Share(share, interval)) => html! {
            (share_cell(*share))
            @if heading.kind == FieldKind::Share { (margin(interval.map(|of| of.half_width()))) }
        },
        (None, Value::Margin(half)) => margin(Some(*half)),
        (None, Value::Count(value)) => number_cell(*value),
        (_, Value::Number(value, _) | Value::Seconds(value) | Value::Estimate(value, _)) => html! {
            td class="num" data-v=(value) { (shown(entry.for_people()).unwrap_or_default()) }
        },
        _ if heading.kind != FieldKind::Text && shown(entry.for_people()).is_none() => none(),
        _ => text_cell(heading, entry, searches),
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
        (FieldKind::Text, true) if heading.searches || !searches => Some("name"),
        (FieldKind::Text, true) => None,
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
