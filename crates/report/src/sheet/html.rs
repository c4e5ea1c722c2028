//! The table for people, on a page: its columns sort, its rows filter.

use super::text::{INTERVAL, shown};
use super::{Audience, FieldKind, Heading, Mark, Sheet, SheetCell, Value};
use crate::escape;
use crate::html::{dot, filter};
use crate::markup::{Markup, html};
use crate::number::{counted, fixed};

/// The strongest shade, percent: text stays readable on it, on light and on dark paper.
const STRONGEST: f64 = 45.0;
/// A table of so many rows needs no filter.
const FEW: usize = 5;

impl Sheet<'_> {
    /// The table with the field that filters its rows.
    pub(crate) fn html(&self) -> Markup {
        let columns = self.for_people(Audience::Page);
        let searches = columns.iter().any(|&at| self.headings[at].searches);
        let heads: Vec<_> = columns.iter().flat_map(|&at| heads(&self.headings[at])).collect();
        let shades = columns.iter().any(|&at| self.headings[at].shades);
        let row = |row: Vec<SheetCell<'_>>| {
            html! { tr { @for &at in &columns { (cells(&self.headings[at], &row[at], searches)) } } "\n" }
        };
        let body = self.rows - self.feet;
        let order = if self.rises { "ascending" } else { "descending" };
        html! {
            @if self.rows > FEW { (filter()) }
            div class="wide" {
                table class={ (if self.gap.is_none() { "sortable" } else { "" })
                    @if searches { " functions" } @if shades { " matrix" } } {
                    thead {
                        tr {
                            @for (position, (head, is_number)) in heads.iter().enumerate() {
                                th scope="col" class=[is_number.then_some("num")]
                                    aria-sort=[(position == 0).then_some(order)] { (head) }
                            }
                        }
                    }
                    "\n"
                    tbody {
                        @for (at, one) in self.entries().take(body).enumerate() {
                            @if let Some((_, what)) = self.gap.as_ref().filter(|gap| gap.0 == at) {
                                tr { td class="dim" colspan=(heads.len()) { (what) } }
                            }
                            (row(one))
                        }
                    }
                    "\n"
                    @if self.feet > 0 || self.left_out > 0 {
                        tfoot {
                            @for one in self.entries().skip(body) { (row(one)) }
                            @if self.left_out > 0 { (self.rest(&columns, heads.len())) }
                        }
                    }
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
            tr {
                @if let Some(sum) = &sum { td class="num" { (sum) } }
                td colspan=(cells - usize::from(sum.is_some())) {
                    (counted(self.left_out, "more row")) " left out: " (self.more)
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
    let known = shown(entry.for_people());
    let text = known.as_deref().unwrap_or_default();
    match &entry.value {
        _ if heading.kind != FieldKind::Text && known.is_none() => none(),
        Value::Share(share, interval) => html! {
            td class="bar num" data-v=(format!("{share:.6}")) style=(format!("--w:{:.2}%", share * 100.0)) { (text) }
            @if heading.kind == FieldKind::Share { (margin(interval.map(|of| of.half_width()))) }
        },
        Value::Margin(half) => margin(Some(*half)),
        Value::Count(value) => number(*value as f64, text, entry.mark.as_ref()),
        Value::Number(value, _) | Value::Seconds(value) | Value::Estimate(value, _) => {
            number(*value, text, entry.mark.as_ref())
        }
        _ => text_cell(heading, entry, searches),
    }
}

fn number(value: f64, text: &str, mark: Option<&Mark>) -> Markup {
    let shade = match mark {
        Some(Mark::Shade(share)) if *share > 0.0 => Some((STRONGEST * share.min(1.0)).max(4.0)),
        _ => None,
    };
    html! {
        td class={ "num" @if shade.is_some() { " cell" } } data-v=(value)
            style=[shade.map(|shade| format!("--s:{shade:.0}%"))] { (text) }
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
    let text = escape(known.as_deref().unwrap_or(heading.missing));
    match &entry.mark {
        Some(Mark::Search(name)) if known.as_deref() != Some(name) => {
            html! { td class=[class] data-find=(name) { (text) } }
        }
        Some(Mark::Color(color)) => html! { td class=[class] { (dot(color)) (text) } },
        Some(Mark::Title(title)) => html! { td class=[class] title=[title.as_ref()] { (text) } },
        Some(Mark::Link(id)) => html! { td class=[class] { a href={ "#" (id) } { (text) } } },
        _ => html! { td class=[class] { (text) } },
    }
}
