//! A profile as one page: summary, functions, flame graph, CPUs over time, modules.
//!
//! The page is a single file that asks nothing of any network; its own policy forbids it to. Its
//! tables and pictures are complete without a script, which adds sorting, filters, search and zoom.
//! What would make it too big is left out and said: rows below the largest, boxes too narrow to see.

mod compare;
mod functions;
mod grid;
mod heat;
mod modules;
mod summary;

use std::fmt::Write as _;

use pmuscope_profile::export::{Event, Source};

use crate::flame::{Flame, FlameLimits, svg};
use crate::markup::text;
use crate::number::{count, percent};

pub use compare::{compare_page, trend_page};
pub(crate) use grid::{Cells, Grid};
pub use summary::{Fact, Summary};

/// No request can leave the page, whatever is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      base-uri 'none'; form-action 'none'";

/// How much of a profile a page shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageLimits {
    /// Most rows of the table of functions.
    pub rows: usize,
    /// What the flame graph shows.
    pub flame: FlameLimits,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self { rows: 500, flame: FlameLimits { boxes: 5_000, ..FlameLimits::default() } }
    }
}

/// The page.
#[must_use]
pub fn html_page(source: &Source<'_>, summary: &Summary, limits: PageLimits) -> String {
    let mut out = String::new();
    open_page(&mut out, &summary.title);
    push_head(&mut out, summary);
    out.push_str("<main>\n");
    for (at, event) in source.events.iter().enumerate() {
        push_event(&mut out, source, event, at, limits);
    }
    if source.events.is_empty() {
        out.push_str("<p class=\"dim\">No samples.</p>\n");
    }
    out.push_str("</main>\n");
    close_page(&mut out);
    out
}

/// What comes before the head of a page.
pub(crate) fn open_page(out: &mut String, title: &str) {
    // Writing to a String does not fail, here and below.
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"pmuscope {}\">\n\
         <title>{} · pmuscope</title>\n<style>\n{}{}</style>\n</head>\n<body>\n",
        env!("CARGO_PKG_VERSION"),
        text(title),
        include_str!("page.css"),
        svg::LOOK,
    );
}

/// What comes behind everything else.
pub(crate) fn close_page(out: &mut String) {
    push_foot(out);
    let _ = write!(
        out,
        "<script>\n{}{}</script>\n</body>\n</html>\n",
        svg::SCRIPT,
        include_str!("page.js")
    );
}

/// Title, command, facts, notes.
pub(crate) fn push_head(out: &mut String, summary: &Summary) {
    let _ = write!(out, "<header>\n<h1>{}</h1>\n", text(&summary.title));
    if !summary.command.is_empty() {
        let _ = writeln!(out, "<p class=\"command\"><code>{}</code></p>", text(&summary.command));
    }
    out.push_str("<dl class=\"facts\">\n");
    for fact in &summary.facts {
        let class = if fact.warning { " class=\"warn\"" } else { "" };
        let _ = writeln!(
            out,
            "<div{class}><dt>{}</dt><dd>{}</dd><dd class=\"detail\">{}</dd></div>",
            fact.name,
            text(&fact.value),
            text(&fact.detail)
        );
    }
    out.push_str("</dl>\n");
    for note in &summary.notes {
        let (class, word) = if note.warning { ("warn", "Warning") } else { ("", "Note") };
        let note = text(&note.text);
        let _ = writeln!(out, "<p class=\"note {class}\"><strong>{word}:</strong> {note}</p>");
    }
    out.push_str("</header>\n");
}

fn push_event(out: &mut String, source: &Source<'_>, event: &Event, at: usize, limits: PageLimits) {
    let several = source.events.len() > 1;
    let samples: u64 = source.counts.of_event(event.index).iter().map(|cell| cell.samples).sum();
    let _ = writeln!(out, "<article class=\"event\" id=\"event-{at}\">");
    if several {
        let _ = writeln!(out, "<h2 class=\"event-name\">{}</h2>", text(&event.name));
    }
    if samples == 0 {
        out.push_str("<p class=\"dim\">No samples.</p>\n</article>\n");
        return;
    }
    push_contents(out, at);
    let flame = Flame::new(source, event, limits.flame);
    functions::push(out, source, event, at, limits.rows);
    push_flame(out, source, event, at, &flame);
    heat::push(out, source, event, at);
    modules::push(out, source, event, at);
    out.push_str("</article>\n");
}

fn push_contents(out: &mut String, at: usize) {
    let parts = [
        ("functions", "Functions"),
        ("flame", "Flame graph"),
        ("cpus", "CPUs over time"),
        ("modules", "Modules"),
    ];
    out.push_str("<nav aria-label=\"Parts\">");
    for (id, name) in parts {
        let _ = write!(out, "<a href=\"#{id}-{at}\">{name}</a>");
    }
    out.push_str("</nav>\n");
}

fn push_flame(out: &mut String, source: &Source<'_>, event: &Event, at: usize, flame: &Flame) {
    let _ = write!(
        out,
        "<section class=\"flame-part\" id=\"flame-{at}\">\n<h2>Flame graph</h2>\n\
         <p class=\"dim\">Callers on top, what they call below; the width is the share. A click or Enter \
         zooms in, Escape goes back, arrows walk.</p>\n{}\n",
        svg::tools("")
    );
    push_legend(out, source, event);
    out.push_str("<div class=\"picture\">\n");
    svg::graph_svg(out, flame, &event.name);
    out.push_str("</div>\n<p class=\"detail mono\" aria-live=\"polite\"></p>\n");
    if let Some(note) = flame.note() {
        let _ = writeln!(out, "<p class=\"dim\">{}</p>", text(&note));
    }
    out.push_str("</section>\n");
}

/// Colours of the modules with the largest shares.
fn push_legend(out: &mut String, source: &Source<'_>, event: &Event) {
    const MOST: usize = 8;
    const LEAST: f64 = 0.005;
    out.push_str("<ul class=\"legend\">");
    let modules = pmuscope_profile::export::modules(source.counts, event);
    for row in modules.iter().take(MOST).filter(|row| row.share >= LEAST) {
        let module = row.module as u32;
        let _ =
            write!(out, "<li>{} {}</li>", chip(source, module), text(source.module_name(module)));
    }
    out.push_str("</ul>\n");
}

/// A dot in the colour of a module.
fn chip(source: &Source<'_>, module: u32) -> String {
    format!("<i style=\"background:{}\"></i>", crate::flame::of_module(source, module))
}

/// A share with a bar behind it.
pub(crate) fn share_cell(share: f64) -> String {
    format!(
        "<td class=\"bar num\" data-v=\"{share:.6}\" style=\"--w:{:.2}%\">{}</td>",
        share * 100.0,
        percent(share, 2)
    )
}

/// An exact number.
pub(crate) fn number_cell(value: u64) -> String {
    format!("<td class=\"num\" data-v=\"{value}\">{}</td>", count(value))
}

fn push_foot(out: &mut String) {
    let _ = writeln!(
        out,
        "<footer>Written by pmuscope {}. This file needs no network and no other file.</footer>",
        env!("CARGO_PKG_VERSION")
    );
}

#[cfg(test)]
mod tests;
