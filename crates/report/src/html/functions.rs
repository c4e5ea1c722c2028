//! The table of functions.

use std::fmt::Write as _;

use pmuscope_profile::export::{Event, FunctionRow, Source, functions};

use crate::flame::nameless;
use crate::markup::text;
use crate::number::{count, fixed, percent};

use super::{FILTER, chip, number_cell, share_cell};

/// The largest rows; what is left out has a line of its own, so that shares add up.
pub(super) fn push(out: &mut String, source: &Source<'_>, event: &Event, at: usize, most: usize) {
    let mut rows = functions(source.counts, event, most);
    // With call chains there are functions that are only on the way to others.
    let chains = rows.iter().any(|row| row.total_weight != row.weight);
    let all = rows.len();
    rows.truncate(most);
    let left_out = all - rows.len();
    let _ = write!(
        out,
        "<section class=\"table-part\" id=\"functions-{at}\">\n<h2>Functions</h2>\n<p class=\"dim\">{}</p>\n\
         {FILTER}<div class=\"wide\"><table class=\"sortable functions\">\n<thead><tr>",
        explanation(chains, event)
    );
    let share = if chains { "self" } else { "share" };
    let lost = event.with_lost(0.0).is_some();
    let columns: Vec<(&str, bool)> = [(share, true), ("±95 %", true)]
        .into_iter()
        .chain(lost.then_some(("±lost", true)))
        .chain(chains.then_some(("total", true)))
        .chain([(event.counted(), true)])
        .collect();
    let names = [("command", false), ("module", false), ("function", false)];
    for (position, (name, is_number)) in columns.iter().chain(&names).enumerate() {
        let class = if *is_number { " class=\"num\"" } else { "" };
        let sorted = if position == 0 { " aria-sort=\"descending\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}{sorted}>{name}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &rows {
        push_row(out, source, event, row, chains);
    }
    out.push_str("</tbody>\n");
    if left_out > 0 {
        let shown: f64 = rows.iter().map(|row| row.share).sum();
        let _ = writeln!(
            out,
            "<tfoot><tr><td class=\"num\">{}</td><td colspan=\"{}\">{} more rows are not on this page; \
             pmuscope report -o FILE.csv has all</td></tr></tfoot>",
            percent((1.0 - shown).max(0.0), 2),
            columns.len() + 2,
            count(left_out as u64)
        );
    }
    out.push_str("</table></div>\n</section>\n");
}

/// What the columns are.
fn explanation(chains: bool, event: &Event) -> String {
    let counted = event.counted();
    let shares = if chains {
        "Self is the function's own share; total includes what it called. ±95 % is the interval of self".into()
    } else {
        format!("Shares of all {counted}; ±95 % is their interval")
    };
    let lost = if event.with_lost(0.0).is_some() {
        ", ±lost the most that lost samples can change it"
    } else {
        ""
    };
    format!("{shares}{lost}.")
}

fn push_row(out: &mut String, source: &Source<'_>, event: &Event, row: &FunctionRow, chains: bool) {
    let error =
        |half: f64| format!("<td class=\"num\" data-v=\"{half:.6}\">{}</td>", fixed(half, 2));
    let half = row.interval.map(|interval| interval.half_width() * 100.0);
    let interval = half.map_or("<td class=\"num dim\" data-v=\"-1\">-</td>".into(), error);
    let lost = event.with_lost(row.share).map_or(String::new(), |(low, high)| {
        error((row.share - low).max(high - row.share) * 100.0)
    });
    let total = if chains { share_cell(row.total_share) } else { String::new() };
    let name = match row.function {
        Some(id) => {
            format!("<td class=\"name\">{}</td>", text(&source.counts.functions[id as usize].name))
        }
        // The flame graph has it by its module.
        None => format!(
            "<td class=\"name dim\" data-find=\"{}\">[unknown]</td>",
            text(&nameless(source.module_name(row.module)))
        ),
    };
    let _ = writeln!(
        out,
        "<tr>{}{interval}{lost}{total}{}<td>{}</td><td>{} {}</td>{name}</tr>",
        share_cell(row.share),
        number_cell(row.samples),
        text(&row.command),
        chip(source, row.module),
        text(source.module_name(row.module)),
    );
}
