//! The table for people, on a page: its columns sort, its rows filter.

use std::fmt::Write as _;

use super::text::{INTERVAL, shown};
use super::{Entry, Heading, Kind, Sheet, Value};
use crate::html::{FILTER, number_cell, share_cell};
use crate::markup::text;
use crate::number::{counted, fixed};

impl Sheet<'_> {
    /// Appends the table with the field that filters its rows.
    pub(crate) fn push_html(&self, out: &mut String) {
        let columns = self.for_people();
        out.push_str(FILTER);
        out.push_str("<div class=\"wide\"><table class=\"sortable\">\n<thead><tr>");
        let heads = columns.iter().flat_map(|&at| heads(&self.headings[at]));
        for (position, (head, is_number)) in heads.enumerate() {
            let class = if is_number { " class=\"num\"" } else { "" };
            let sorted = if position == 0 { " aria-sort=\"descending\"" } else { "" };
            // Writing to a String does not fail, here and below.
            let _ = write!(out, "<th scope=\"col\"{class}{sorted}>{}</th>", text(head));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            columns.iter().for_each(|&at| push_cells(out, &self.headings[at], &row[at]));
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        if self.left_out > 0 {
            let more = counted(self.left_out, "more row");
            let _ = writeln!(out, "<p class=\"dim\">{more} left out: --limit all shows them.</p>");
        }
    }
}

fn heads(heading: &Heading) -> Vec<(&str, bool)> {
    match heading.kind {
        Kind::Text => vec![(&heading.head, false)],
        Kind::Number => vec![(&heading.head, true)],
        Kind::Share => vec![(&heading.head, true), (INTERVAL, true)],
    }
}

fn push_cells(out: &mut String, heading: &Heading, entry: &Entry<'_>) {
    const NONE: &str = "<td class=\"num dim\" data-v=\"-1\">-</td>";
    let _ = match (&entry.shown, &entry.value) {
        (None, Value::Share(share, interval)) => {
            out.push_str(&share_cell(*share));
            match interval.map(|of| of.half_width() * 100.0) {
                _ if heading.kind != Kind::Share => Ok(()),
                Some(half) => {
                    let shown = fixed(half, 2);
                    write!(out, "<td class=\"num\" data-v=\"{half:.6}\">{shown}</td>")
                }
                None => out.write_str(NONE),
            }
        }
        (None, Value::Count(value)) => out.write_str(&number_cell(*value)),
        (None, Value::Number(value, _)) => {
            let text = shown(entry).unwrap_or_default();
            write!(out, "<td class=\"num\" data-v=\"{value}\">{text}</td>")
        }
        (None, Value::Missing) if heading.kind == Kind::Text => {
            write!(out, "<td class=\"dim\">{}</td>", text(heading.missing))
        }
        (None, Value::Missing) => out.write_str(NONE),
        _ => {
            let class = if heading.kind == Kind::Text { "name" } else { "num mono" };
            let shown = shown(entry).unwrap_or_default();
            write!(out, "<td class=\"{class}\">{}</td>", text(&shown))
        }
    };
}
