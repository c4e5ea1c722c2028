//! A profile as one page: summary, functions, flame graph, CPUs over time, modules.
//!
//! What would make it too big is left out and said: rows below the largest, boxes too narrow to see.

mod compare;
mod frame;
mod grid;
mod heat;
mod modules;
mod parts;
mod summary;

use std::fmt::Write as _;

use pmuscope_profile::export::{ExportedEvent, Source};
use pmuscope_profile::{FunctionTable, Intervals, Options};

use crate::flame::{Flame, FlameLimits};
use crate::markup::text;
use crate::recording::{RECORDING_SCHEMA, RowLimits};
use crate::views::Functions;

pub use compare::figures_page;
pub(crate) use compare::{compare_page, trend_page};
pub(crate) use frame::{PALETTE, PageFrame};
pub(crate) use grid::{Cells, Grid};
pub(crate) use parts::{FILTER, number_cell, push_contents, push_flame, push_legend, share_cell};
pub use summary::{Fact, Summary};
pub(crate) use summary::{cost, machine, time};

/// How much of a profile a page shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageLimits {
    /// Most rows of the table of functions.
    pub rows: usize,
    /// What the flame graph shows.
    pub flame: FlameLimits,
}

impl PageLimits {
    /// Of a page with these rows; boxes of a flame graph below their share are left out too.
    #[must_use]
    pub fn of(limits: RowLimits) -> Self {
        let Self { rows, flame } = Self::default();
        Self { rows: limits.rows.unwrap_or(rows), flame: flame.above(limits.share) }
    }
}

impl Default for PageLimits {
    fn default() -> Self {
        Self { rows: 500, flame: FlameLimits { boxes: 5_000, ..FlameLimits::default() } }
    }
}

/// The page; `commit` is what the program was built from.
#[must_use]
pub fn html_page(
    source: &Source<'_>,
    summary: &Summary,
    limits: PageLimits,
    commit: &str,
) -> String {
    let frame = PageFrame { schema: RECORDING_SCHEMA, commit };
    frame.page(summary, |out| push_events(out, source, limits))
}

/// All events, one after another.
pub(crate) fn push_events(out: &mut String, source: &Source<'_>, limits: PageLimits) {
    for (at, event) in source.events.iter().enumerate() {
        push_event(out, source, event, at, limits);
    }
    if source.events.is_empty() {
        out.push_str("<p class=\"dim\">No samples.</p>\n");
    }
}

fn push_event(
    out: &mut String,
    source: &Source<'_>,
    event: &ExportedEvent,
    at: usize,
    limits: PageLimits,
) {
    let several = source.events.len() > 1;
    let samples: u64 = source.counts.of_event(event.index).iter().map(|cell| cell.samples).sum();
    // Writing to a String does not fail, here and below.
    let _ = writeln!(out, "<article class=\"event\" id=\"event-{at}\">");
    if several {
        let _ = writeln!(out, "<h2 class=\"event-name\">{}</h2>", text(&event.name));
    }
    if samples == 0 {
        out.push_str("<p class=\"dim\">No samples.</p>\n</article>\n");
        return;
    }
    let parts = [
        ("functions", "Functions"),
        ("flame", "Flame graph"),
        ("cpus", "CPUs over time"),
        ("modules", "Modules"),
    ];
    push_contents(out, parts.map(|(id, name)| (format!("{id}-{at}"), name)));
    let flame = Flame::new(source, event, limits.flame);
    let options = Options {
        rows: Some(limits.rows),
        intervals: Intervals::Largest(limits.rows),
        totals: true,
        ..Options::default()
    };
    let table = source.functions(event, options);
    push_functions(out, &Functions::of_table(source, event, &table), at, limits.rows);
    let shape = "Callers on top, what they call below; the width is the share";
    push_flame(out, &flame, (at, &event.name), shape, |out| push_modules(out, source, &table));
    heat::push(out, source, event, at);
    modules::push(out, source, &table, at);
    out.push_str("</article>\n");
}

fn push_functions(out: &mut String, functions: &Functions<'_>, at: usize, rows: usize) {
    let limits = RowLimits { rows: Some(rows), share: 0.0 };
    let _ = write!(
        out,
        "<section class=\"table-part\" id=\"functions-{at}\">\n<h2>Functions</h2>\n<p class=\"dim\">{}</p>\n",
        explanation(functions)
    );
    functions.sheet(limits).more_in("pmuscope report -o FILE.csv has all").push_html(out);
    out.push_str("</section>\n");
}

/// What the columns are.
fn explanation(functions: &Functions<'_>) -> String {
    let shares = match functions.has_callers() {
        true => "Self is the function's own share; total includes what it called. ±95 % is the interval of self"
            .to_owned(),
        false => format!("Shares of all {}; ±95 % is their interval", functions.counted),
    };
    let lost = match functions.with_lost(0.0) {
        Some(_) => ", ±lost the most that lost samples can change it",
        None => "",
    };
    format!("{shares}{lost}.")
}

/// Colours of the modules with the largest shares.
fn push_modules(out: &mut String, source: &Source<'_>, table: &FunctionTable) {
    const MOST: usize = 8;
    const LEAST: f64 = 0.005;
    out.push_str("<ul class=\"legend\">");
    for row in table.modules.iter().take(MOST).filter(|row| row.share >= LEAST) {
        let module = row.module as u32;
        let _ =
            write!(out, "<li>{} {}</li>", chip(source, module), text(source.module_name(module)));
    }
    out.push_str("</ul>\n");
}

/// A dot in the colour of a module.
fn chip(source: &Source<'_>, module: u32) -> String {
    format!("<i style=\"background:{}\"></i>", crate::flame::of_module(source.modules, module))
}

#[cfg(test)]
mod tests;
