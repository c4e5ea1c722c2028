//! The table for people, on a page: its columns sort, its rows filter.

use pmuscope_stats::Interval;

use super::text::{INTERVAL, limits_text, shown};
use super::{FieldKind, Heading, Mark, RowOrder, Sheet, SheetCell, SheetForm, Value};
use crate::html::{dot, filter};
use crate::markup::{Markup, PreEscaped, html};
use crate::number::{counted, fixed};
use crate::{Paint, escape};

/// The strongest shade, percent: text stays readable on it, on light and on dark paper.
const STRONGEST: f64 = 45.0;
/// A table of one row needs no filter.
const FEW: usize = 1;

impl Sheet<'_> {
    /// The table with the field that filters its rows.
    pub(crate) fn html(&self) -> Markup {
        let columns = self.columns(SheetForm::Page);
        let searches = columns.iter().any(|&at| self.headings[at].searches);
        let is_named = searches || self.ends_with_a_name(&columns);
        let shades = columns.iter().any(|&at| self.headings[at].shades);
        let order = self.order.map(|order| match order {
            RowOrder::Rising => "ascending",
            RowOrder::Falling => "descending",
        });
        let row = |row: &[SheetCell<'_>]| {
            html! { tr { @for &at in &columns { (cells(&self.headings[at], &row[at], searches)) } } "\n" }
        };
        let feet: Vec<_> = self.feet().collect();
        html! {
            @if self.rows > FEW && !self.is_listing { (filter()) }
            div class="wide" {
                table class={ (self.kind())
                    @if searches { " functions" } @if is_named { " named" } @if shades { " matrix" } }
                    style=[is_named.then(|| self.heads_of(&columns))] {
                    thead {
                        tr {
                            @for (position, &at) in columns.iter().enumerate() {
                                (head(&self.headings[at], order.filter(|_| position == 0)))
                            }
                        }
                    }
                    "\n"
                    tbody {
                        @for (at, one) in self.entries().enumerate() {
                            @if let Some((_, what)) = self.gap.as_ref().filter(|gap| gap.0 == at) {
                                tr { td class="dim" colspan=(self.cells_of(&columns)) { (what) } }
                            }
                            (row(&one))
                        }
                    }
                    "\n"
                    @if !feet.is_empty() || self.left_out > 0 {
                        tfoot {
                            @if self.left_out > 0 { (self.rest(&columns)) }
                            @for foot in &feet { (row(foot)) }
                        }
                    }
                }
            }
            "\n"
        }
    }

    /// What a reader can do with the rows.
    fn kind(&self) -> &'static str {
        match (self.is_listing, &self.gap) {
            (true, _) => "listing",
            (false, Some(_)) => "",
            (false, None) => "sortable",
        }
    }

    /// Whether rows are about what their last cell names, with more numbers before it than a narrow screen shows.
    fn ends_with_a_name(&self, columns: &[usize]) -> bool {
        const FEW_CELLS: usize = 4;
        let last = columns.last().map(|&at| &self.headings[at]);
        let is_name = last.is_some_and(|last| last.kind == FieldKind::Text && last.shrinks);
        is_name && !self.is_listing && self.cells_of(columns) > FEW_CELLS
    }

    /// Heads as properties that the style of narrow screens puts in front of numbers: there, names have a line to
    /// themselves, and their numbers follow.
    fn heads_of(&self, columns: &[usize]) -> String {
        let mut heads: Vec<&str> = Vec::new();
        for &at in columns {
            let heading = &self.headings[at];
            heads.push(&heading.head);
            heads.extend((heading.kind == FieldKind::Share).then_some(INTERVAL));
        }
        let is_plain = |head: &&str| !head.contains(['"', '\\', '\n']);
        let named = heads.iter().enumerate().filter(|(_, head)| is_plain(head));
        named.map(|(at, head)| format!("--h{}:\"{head}\";", at + 1)).collect()
    }

    /// How many cells a row has: a share has two.
    fn cells_of(&self, columns: &[usize]) -> usize {
        let shares = columns.iter().filter(|&&at| self.headings[at].kind == FieldKind::Share);
        columns.len() + shares.count()
    }

    /// What is left out has a line of its own, so that shares add up.
    fn rest(&self, columns: &[usize]) -> Markup {
        let first = columns.first().map(|&at| &self.headings[at].key);
        let sum = self.rest.iter().find(|(key, _)| Some(key) == first);
        let sum = sum.and_then(|(_, value)| shown(value));
        html! {
            tr {
                @if let Some(sum) = &sum { td class="num" { (sum) } }
                td colspan=(self.cells_of(columns) - usize::from(sum.is_some())) {
                    (counted(self.left_out, "more row")) " left out: "
                    @match self.more { Some(more) => (more), None => { (self.all_with) " shows them" } }
                }
            }
        }
    }
}

/// Rows stand by the first column in this `order`, where it is of numbers.
fn head(heading: &Heading, order: Option<&str>) -> Markup {
    let (class, order) = match heading.kind {
        FieldKind::Text => (None, None),
        FieldKind::Drawn => (Some("fixed"), None),
        _ => (Some("num"), order),
    };
    let about = (!heading.about.is_empty()).then_some(&heading.about);
    html! {
        th scope="col" class=[class] title=[about] aria-sort=[order] {
            (heading.head)
        }
        @if heading.kind == FieldKind::Share { th scope="col" class="num" { (INTERVAL) } }
    }
}

/// A cell without a number.
fn none() -> Markup {
    html! { td class="num dim" data-v="-1" { "-" } }
}

/// `searches` is whether the table has a column that does: only that one readings as if.
fn cells(heading: &Heading, cell: &SheetCell<'_>, searches: bool) -> Markup {
    let known = shown(cell.for_people());
    match &cell.value {
        Value::Drawn(_) | Value::Lines(_) => lines_cell(heading, cell),
        _ if heading.kind != FieldKind::Text && known.is_none() => {
            html! {
                td class={ "num dim" (tint(cell)) } data-v="-1" style=[style(cell)] { (heading.missing) }
                @if heading.kind == FieldKind::Share { td class="num dim" data-v="-1" { (heading.missing) } }
            }
        }
        Value::Share(share, interval) => html! {
            td class="bar num" data-v=(format!("{share:.6}")) style=(format!("--w:{:.2}%", share * 100.0)) {
                (known.unwrap_or_default())
            }
            @if heading.kind == FieldKind::Share { (limits(*share, interval.as_ref())) }
        },
        Value::Margin(half) if cell.shown.is_none() => margin(*half, &fixed(half * 100.0, 2)),
        Value::Limits(share, of) => limits(*share, Some(of)),
        Value::Number(..)
        | Value::Seconds(_)
        | Value::Estimate(..)
        | Value::Margin(_)
        | Value::Count(_) => figure_cell(cell),
        _ => text_cell(heading, cell, searches),
    }
}

/// A number, as people see it.
fn figure_cell(cell: &SheetCell<'_>) -> Markup {
    let exact = match cell.value {
        Value::Count(value) => Some(value.to_string()),
        Value::Number(value, _)
        | Value::Estimate(value, _)
        | Value::Margin(value)
        | Value::Seconds(value) => Some(value.to_string()),
        _ => None,
    };
    let number = cell.sort.map(|number| number.to_string()).or(exact);
    let shade = matches!(cell.mark, Some(Mark::Shade(share)) if share > 0.0);
    html! {
        td class={ "num" @if cell.paint == Paint::Dim { " dim" } @if shade { " cell" } (tint(cell)) }
            data-v=[number] style=[style(cell)] { (shown(cell.for_people()).unwrap_or_default()) }
    }
}

/// The class of cells with a color for the size of their value.
fn tint(cell: &SheetCell<'_>) -> &'static str {
    if matches!(cell.mark, Some(Mark::Tint(_))) { " tint" } else { "" }
}

/// Color and strength of a cell's background.
fn style(cell: &SheetCell<'_>) -> Option<String> {
    match &cell.mark {
        Some(Mark::Tint(color)) => Some(format!("--t:{color}")),
        Some(Mark::Shade(share)) if *share > 0.0 => {
            Some(format!("--s:{:.0}%", (STRONGEST * share.min(1.0)).max(4.0)))
        }
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

/// The interval of a share, in percentage points, sorted by its width.
fn limits(share: f64, interval: Option<&Interval>) -> Markup {
    interval.map_or_else(none, |of| margin(of.half_width(), &limits_text(share, of)))
}

/// How far a share can be off, in percentage points.
fn margin(half: f64, text: &str) -> Markup {
    html! { td class="num" data-v=(format!("{:.6}", half * 100.0)) { (text) } }
}

fn text_cell(heading: &Heading, entry: &SheetCell<'_>, searches: bool) -> Markup {
    let known = shown(entry.for_people());
    let class = match (heading.kind, known.is_some()) {
        (FieldKind::Text, false) if heading.searches => Some("name dim"),
        (FieldKind::Text, false) => Some("dim"),
        (FieldKind::Text, true) if entry.paint == Paint::Dim => Some("dim"),
        (FieldKind::Text, true) if heading.searches => Some("name"),
        // What may be cut in a terminal is long: it gets room here.
        (FieldKind::Text, true) if !searches && heading.shrinks => Some("name"),
        (FieldKind::Text, true) => None,
        // A number that is written as text of its own, or one that names something.
        _ if matches!(entry.value, Value::Text(_)) => Some("num"),
        _ => Some("num mono"),
    };
    let text = escape(known.as_deref().unwrap_or(heading.missing));
    match &entry.mark {
        Some(Mark::Search(name)) if known.as_deref() != Some(name) => {
            html! { td class=[class] data-find=(name) { (text) } }
        }
        Some(Mark::Color(color)) => html! { td class=[class] { (dot(color)) (text) } },
        Some(Mark::Title(title)) => html! { td class=[class] title=[title.as_ref()] { (text) } },
        Some(Mark::Link(id)) if known.is_some() => {
            html! { td class=[class] { a href={ "#" (id) } { (text) } } }
        }
        _ => html! { td class=[class] { (text) } },
    }
}
