//! A table as notebooks show it.

use std::fmt::Write as _;

use arrow_schema::DataType;
use pmuscope_tables::ArrowTable;

use crate::cells::text;

/// Letters of a cell; the rest is in its tooltip.
const WIDEST: usize = 60;

/// The first rows, and how many there are.
pub(crate) fn page(table: &ArrowTable, most: usize) -> String {
    let schema = table.schema();
    let mut out = String::from("<table>\n<thead><tr>");
    for field in schema.fields() {
        // Writing to a String does not fail.
        let _ = match field.metadata().get("unit") {
            Some(unit) => write!(out, "<th title=\"{}\">", escaped(unit)),
            None => write!(out, "<th>"),
        };
        let _ = write!(out, "{}</th>", escaped(field.name()));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for batch in table.slice(0, most).batches() {
        for row in 0..batch.num_rows() {
            out.push_str("<tr>");
            for column in batch.columns() {
                push_cell(&mut out, &text(column, row), column.data_type());
            }
            out.push_str("</tr>\n");
        }
    }
    let (rows, columns) = (table.rows(), schema.fields().len());
    let more = if rows > most { format!("first {most} of ") } else { String::new() };
    let _ = write!(out, "</tbody>\n</table>\n<p>{more}{rows} rows × {columns} columns</p>");
    out
}

fn push_cell(out: &mut String, text: &str, kind: &DataType) {
    let is_text = matches!(kind, DataType::Dictionary(..) | DataType::List(_));
    let align = if is_text { "left" } else { "right" };
    let _ = write!(out, "<td style=\"text-align: {align}\"");
    if text.chars().count() > WIDEST {
        let short: String = text.chars().take(WIDEST - 1).collect();
        let _ = write!(out, " title=\"{}\">{}…</td>", escaped(text), escaped(&short));
    } else {
        let _ = write!(out, ">{}</td>", escaped(text));
    }
}

/// Names come from recordings: what they have of markup is text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Notebooks take what is between dollar signs for formulas.
            '$' => out.push_str("&#36;"),
            other => out.push(other),
        }
    }
    out
}
