//! Metrics as one page: the table of functions, coloured by one of them, and a flame graph of the same
//! colours.

use std::fmt::Write as _;

use pmuscope_profile::metrics::MetricCell;
use pmuscope_profile::windows::{WindowRow, Windows};

use super::figure::{figure, relied_on};
use super::text::{kind, notes, offsets, taken_off};
use super::tints::Tints;
use super::{METRICS_SCHEMA, MetricsView, by_word, causes, module, name};
use crate::flame::Flame;
use crate::html::{PageFrame, contents, filter, legend, number_cell, share_cell};
use crate::markup::{text, written};
use crate::number::{count, counted, duration, percent, significant};
use crate::{Fact, Note, Summary};

/// The page; `flame` is a picture in the colours of `tints`, where rows are of functions;
/// `commit` is what the program was built from.
#[must_use]
pub fn metrics_page(
    view: &MetricsView<'_>,
    tints: Option<&Tints<'_>>,
    flame: Option<&Flame>,
    commit: &str,
) -> String {
    PageFrame { schema: METRICS_SCHEMA, commit }.page(
        &summary(view),
        &written(|out| {
            out.push_str("<article class=\"event\" id=\"event-0\">\n");
            let parts = [
                Some(("functions-0", "Metrics")),
                flame.map(|_| ("flame-0", "Flame graph")),
                Some(("causes-0", "Windows that do not count")),
            ];
            out.push_str(
                &contents(parts.into_iter().flatten().map(|(id, name)| (id.to_owned(), name))).0,
            );
            push_table(out, view, tints, flame.is_some());
            if let Some(flame) = flame {
                let colors = flame.legend().map(legend).unwrap_or_default();
                let graph = crate::html::flame(flame, (0, "metrics"), shape(flame), &colors);
                out.push_str(&graph.0);
            }
            push_causes(out, view);
            out.push_str("</article>\n");
        }),
    )
}

/// The head: what was recorded, and how much of it counts.
fn summary(view: &MetricsView<'_>) -> Summary {
    let windows = view.windows;
    let total = &windows.total;
    let all = total.windows();
    let kept = percent(total.kept() as f64 / all.max(1) as f64, 1);
    let rate = all as f64 / windows.seconds;
    let rate = if rate.is_finite() { format!("{}/s", significant(rate, 3)) } else { "-".into() };
    let (length, distance) = match kind(&windows.kind).split_once(", ") {
        Some((length, distance)) => (length.to_owned(), distance.to_owned()),
        None => (kind(&windows.kind), String::new()),
    };
    let mut facts = vec![
        Fact::new("Recorded", length, distance),
        Fact::new("Windows", count(all), rate),
        Fact::new(
            "Kept",
            kept,
            causes(total).first().map_or_else(String::new, |(cause, number)| {
                format!("{} {}", cause.words(), percent(*number as f64 / all.max(1) as f64, 1))
            }),
        ),
        Fact::new("Duration", duration(windows.seconds), about(windows)),
        Fact::lost(windows.lost, windows.throttled, all),
    ];
    let info = windows.metadata.info.as_ref();
    if let Some(emulator) = info.and_then(|info| info.machine.emulator.as_deref()) {
        facts.push(Fact::emulated(emulator));
    }
    facts.extend(Fact::machine(&windows.metadata));
    let told = info.map(|info| &info.command).filter(|command| !command.is_empty());
    let note = |text| Note { warning: false, text };
    Summary {
        title: view.file.to_owned(),
        facts,
        notes: notes(view).into_iter().map(note).collect(),
        command: told.unwrap_or(&windows.metadata.command).join(" "),
    }
}

fn push_table(
    out: &mut String,
    view: &MetricsView<'_>,
    tints: Option<&Tints<'_>>,
    has_flame: bool,
) {
    // The script looks a function of such a table up in the flame graph.
    let class = if has_flame { "sortable functions" } else { "sortable" };
    let coloured = tints.map_or_else(String::new, |tints| {
        format!(" The colour is that of {}; grey has no value to rely on.", tints.title())
    });
    let _ = write!(
        out,
        "<section class=\"table-part\" id=\"functions-0\">\n<h2>Metrics</h2>\n\
         <p class=\"dim\">Share of the windows that end there, kept or not; metrics of the kept ones, \
         ± is the 95 % interval, ~ an estimate without.{}</p>\n",
        text(&coloured)
    );
    if let Some(tints) = tints {
        out.push_str(&legend(&tints.legend()).0);
    }
    let _ = write!(
        out,
        "{}<div class=\"wide\"><table class=\"{class}\">\n<thead><tr>\
         <th scope=\"col\" class=\"num\" aria-sort=\"descending\">share</th>\
         <th scope=\"col\" class=\"num\">windows</th>",
        filter().0
    );
    for column in view.table.columns() {
        let metric = column.metric;
        let about = [&metric.about, &metric.unit].map(|text| &**text).join("; ");
        let _ = write!(
            out,
            "<th scope=\"col\" class=\"num\" title=\"{}\">{}</th>",
            text(&about),
            text(&metric.name)
        );
    }
    let _ = write!(
        out,
        "<th scope=\"col\" class=\"num\">kept</th><th scope=\"col\">module</th>\
         <th scope=\"col\">{}</th></tr></thead>\n<tbody>\n",
        by_word(view.windows.by)
    );
    for (row, cells) in &view.rows {
        let module = module(view.windows, &row.key).unwrap_or("-");
        push_row(out, view, tints, row, cells, [module, &name(view.windows, &row.key)]);
    }
    out.push_str("</tbody>\n<tfoot>");
    let all = format!("all {}", counted(view.windows.rows.len() as u64, "row"));
    push_row(out, view, None, &view.windows.total, &view.total, ["", &all]);
    out.push_str("</tfoot>\n</table></div>\n");
    if view.left_out > 0 {
        let left_out = counted(view.left_out as u64, "row");
        let _ = writeln!(out, "<p class=\"dim\">{left_out} left out: --limit all shows them.</p>");
    }
    out.push_str("</section>\n");
}

fn push_row(
    out: &mut String,
    view: &MetricsView<'_>,
    tints: Option<&Tints<'_>>,
    row: &WindowRow,
    cells: &[MetricCell],
    [module, name]: [&str; 2],
) {
    let all = view.windows.total.windows().max(1) as f64;
    let share = row.windows() as f64 / all;
    let _ = write!(out, "<tr>{}{}", share_cell(share).0, number_cell(row.windows()).0);
    for (at, cell) in cells.iter().enumerate() {
        let number = cell.value.unwrap_or(-1.0);
        let tint = tints.filter(|tints| tints.column() == at).map_or_else(String::new, |tints| {
            format!(" style=\"background:{};color:#16181d\"", tints.colour(cell))
        });
        let class = if relied_on(cell).is_some() { "num" } else { "num dim" };
        let shown = figure(cell);
        let _ = write!(out, "<td class=\"{class}\" data-v=\"{number}\"{tint}>{shown}</td>");
    }
    let kept = row.kept() as f64 / row.windows().max(1) as f64;
    let _ = writeln!(
        out,
        "<td class=\"num\" data-v=\"{kept:.6}\">{}</td><td>{}</td><td class=\"name\">{}</td></tr>",
        percent(kept, 0),
        text(module),
        text(name)
    );
}

/// What stands where in the flame graph.
fn shape(flame: &Flame) -> &'static str {
    if flame.is_flat() {
        "The recording has no call chains, so functions stand below their modules; the width is the \
         share of windows"
    } else {
        "Callers on top, what they call below; the width is the share of samples that begin windows, \
         the colour that of windows that end in the function itself, whoever called it"
    }
}

/// On how many CPUs the phase held, and what was taken off windows.
fn about(windows: &Windows) -> String {
    offsets(windows).into_iter().chain(taken_off(windows)).collect::<Vec<_>>().join(" · ")
}

/// Why windows do not count.
fn push_causes(out: &mut String, view: &MetricsView<'_>) {
    let total = &view.windows.total;
    let all = total.windows().max(1) as f64;
    out.push_str(
        "<section id=\"causes-0\">\n<h2>Windows that do not count</h2>\n<p class=\"dim\">By the first \
         test they failed; shares of all windows.</p>\n<div class=\"wide\"><table class=\"causes\">\
         <thead><tr><th scope=\"col\" class=\"num\">share</th><th scope=\"col\" class=\"num\">windows</th>\
         <th scope=\"col\">why not</th></tr></thead>\n<tbody>\n",
    );
    for (cause, number) in causes(total) {
        let _ = writeln!(
            out,
            "<tr>{}{}<td>{}</td></tr>",
            share_cell(number as f64 / all).0,
            number_cell(number).0,
            cause.words()
        );
    }
    if causes(total).is_empty() {
        out.push_str("<tr><td class=\"dim\">All of them count.</td></tr>\n");
    }
    out.push_str("</tbody></table></div>\n</section>\n");
}
