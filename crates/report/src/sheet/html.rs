//! The table for people, on a page: its columns sort, its rows filter.

use std::fmt::Write as _;

use super::text::{INTERVAL, shown};
use super::{FieldKind, Heading, Mark, Sheet, SheetCell, Value};
use crate::html::{FILTER, number_cell, share_cell};
use crate::markup::text;
use crate::number::{counted, fixed};

impl Sheet<'_> {
    /// Appends the table with the field that filters its rows.
    pub(crate) fn push_html(&self, out: &mut String) {
        let columns = self.for_people();
        let searches = columns.iter().any(|&at| self.headings[at].searches);
        let class = if searches { "sortable functions" } else { "sortable" };
        out.push_str(FILTER);
        // Writing to a String does not fail, here and below.
        let _ = write!(out, "<div class=\"wide\"><table class=\"{class}\">\n<thead><tr>");
        let heads: Vec<_> = columns.iter().flat_map(|&at| heads(&self.headings[at])).collect();
        for (position, (head, is_number)) in heads.iter().enumerate() {
            let class = if *is_number { " class=\"num\"" } else { "" };
            let sorted = if position == 0 { " aria-sort=\"descending\"" } else { "" };
            let _ = write!(out, "<th scope=\"col\"{class}{sorted}>{}</th>", text(head));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in self.entries() {
            out.push_str("<tr>");
            for &at in &columns {
                push_cells(out, &self.headings[at], &row[at], searches);
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n");
        self.push_rest(out, &columns, heads.len());
        out.push_str("</table></div>\n");
    }

    /// What is left out has a line of its own, so that shares add up.
    fn push_rest(&self, out: &mut String, columns: &[usize], cells: usize) {
        if self.left_out == 0 {
            return;
        }
        let more = counted(self.left_out, "more row");
        let first = columns.first().map(|&at| &self.headings[at].key);
        let sum = self.rest.iter().find(|(key, _)| Some(key) == first);
        let sum = sum
            .and_then(|(_, value)| shown(value))
            .map(|of| format!("<td class=\"num\">{of}</td>"));
        let left = cells - usize::from(sum.is_some());
        let _ = writeln!(
            out,
            "<tfoot><tr>{}<td colspan=\"{left}\">{more} left out: {}</td></tr></tfoot>",
            sum.unwrap_or_default(),
            text(self.more)
        );
    }
}

fn heads(heading: &Heading) -> Vec<(&str, bool)> {
    match heading.kind {
        FieldKind::Text => vec![(&heading.head, false)],
        FieldKind::Number => vec![(&heading.head, true)],
        FieldKind::Share => vec![(&heading.head, true), (INTERVAL, true)],
    }
}

/// A cell without a number.
const NONE: &str = "<td class=\"num dim\" data-v=\"-1\">-</td>";

/// `searches` is whether the table has a column that does: only that one looks as if.
fn push_cells(out: &mut String, heading: &Heading, entry: &SheetCell<'_>, searches: bool) {
    let _ = match (&entry.shown, &entry.value) {
        (None, Value::Share(share, interval)) => {
            out.push_str(&share_cell(*share));
            let half = interval.map(|of| of.half_width());
            if heading.kind == FieldKind::Share { push_margin(out, half) } else { Ok(()) }
        }
        (None, Value::Margin(margin)) => push_margin(out, Some(*margin)),
        (None, Value::Count(value)) => out.write_str(&number_cell(*value)),
        (_, Value::Number(value, _) | Value::Seconds(value)) => {
            let shown = shown(entry.for_people()).unwrap_or_default();
            write!(out, "<td class=\"num\" data-v=\"{value}\">{}</td>", text(&shown))
        }
        _ if heading.kind != FieldKind::Text && shown(entry.for_people()).is_none() => {
            out.write_str(NONE)
        }
        _ => push_text(out, heading, entry, searches),
    };
}

/// How far a share can be off, in percentage points.
fn push_margin(out: &mut String, margin: Option<f64>) -> std::fmt::Result {
    match margin.map(|margin| margin * 100.0) {
        Some(points) => {
            write!(out, "<td class=\"num\" data-v=\"{points:.6}\">{}</td>", fixed(points, 2))
        }
        None => out.write_str(NONE),
    }
}

fn push_text(
    out: &mut String,
    heading: &Heading,
    entry: &SheetCell<'_>,
    searches: bool,
) -> std::fmt::Result {
    let known = shown(entry.for_people());
    let class = match (heading.kind, known.is_some()) {
        (FieldKind::Text, false) if heading.searches => "name dim",
        (FieldKind::Text, false) => "dim",
        (FieldKind::Text, true) if heading.searches || !searches => "name",
        (FieldKind::Text, true) => "",
        (FieldKind::Number | FieldKind::Share, _) => "num mono",
    };
    let (find, dot) = match &entry.mark {
        Some(Mark::Search(name)) if known.as_deref() != Some(name) => {
            (format!(" data-find=\"{}\"", text(name)), String::new())
        }
        Some(Mark::Color(color)) => {
            (String::new(), format!("<i style=\"background:{color}\"></i> "))
        }
        _ => Default::default(),
    };
    let shown = text(known.as_deref().unwrap_or(heading.missing));
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    write!(out, "<td{class}{find}>{dot}{shown}</td>")
}
