//! A profile as one page: summary, flame graph, functions, CPUs over time, modules.
//!
//! What would make it too big is left out and said: rows below the largest, boxes too narrow to see.

mod frame;
mod grid;
mod heat;
mod modules;
mod parts;
mod served;
mod summary;

use pmuscope_profile::export::{ExportedEvent, Source};
use pmuscope_profile::{Annotation, FunctionTable, Intervals, Options, RankBy};

use crate::flame::{Flame, FlameLimits, ModuleHues};
use crate::markup::{Markup, html};
use crate::number::duration;
use crate::recording::{RECORDING_SCHEMA, RowLimits, no_interval_note};
use crate::views::{CodePart, Functions};

pub(crate) use frame::{PALETTE, PageFrame};
pub(crate) use grid::{Cells, Grid, tick, ticks};
pub(crate) use parts::{
    FlameForm, FlamePart, contents, dot, filter, flame, flames, legend, number_cell, share_cell,
};
pub use served::{ServedLink, redirect_page, served_page};
pub use summary::{Fact, Summary};
pub(crate) use summary::{cost, machine, time};

/// How much of a profile a page shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageLimits {
    /// Most rows of the table of functions.
    pub rows: usize,
    /// What the flame graph shows.
    pub flame: FlameLimits,
    /// What its time order shows, where a function has a box each time that it comes.
    pub time_order: FlameLimits,
}

impl PageLimits {
    /// Of a page with these rows; boxes of a flame graph below their share are left out too.
    #[must_use]
    pub fn of(limits: RowLimits) -> Self {
        let Self { rows, flame, time_order } = Self::default();
        Self {
            rows: limits.rows.unwrap_or(rows),
            flame: flame.above(limits.share),
            time_order: time_order.above(limits.share),
        }
    }
}

impl Default for PageLimits {
    fn default() -> Self {
        let flame = FlameLimits { boxes: 5_000, ..FlameLimits::default() };
        Self { rows: 500, flame, time_order: FlameLimits { boxes: 20_000, ..flame } }
    }
}

/// The page, with the `code` of some functions; `commit` is what the program was built from.
#[must_use]
pub fn html_page(
    source: &Source<'_>,
    summary: &Summary,
    limits: PageLimits,
    code: &[Annotation<'_>],
    commit: &str,
) -> String {
    PageFrame { schema: RECORDING_SCHEMA, commit }.page(summary, &events(source, limits, code))
}

/// All events, one after another.
pub(crate) fn events(source: &Source<'_>, limits: PageLimits, code: &[Annotation<'_>]) -> Markup {
    html! {
        @for (at, event) in source.events.iter().enumerate() {
            article class="event" id={ "event-" (at) } {
                @if source.events.len() > 1 { h2 class="event-name" { (event.name) } }
                (event_parts(source, event, at, limits, code))
            }
            "\n"
        }
        @if source.events.is_empty() { p class="dim" { "No samples." } "\n" }
    }
}

fn event_parts(
    source: &Source<'_>,
    event: &ExportedEvent,
    at: usize,
    limits: PageLimits,
    annotations: &[Annotation<'_>],
) -> Markup {
    let samples: u64 = source.counts.of_event(event.index).iter().map(|cell| cell.samples).sum();
    if samples == 0 {
        return html! { p class="dim" { "No samples." } };
    }
    let code = CodePart { annotations, event: event.index, at };
    let parts = [
        ("flame", "Flame graph"),
        ("functions", "Functions"),
        ("cpus", "CPUs over time"),
        ("modules", "Modules"),
        ("code", "Code"),
    ];
    let parts = parts.into_iter().filter(|(id, _)| *id != "code" || !code.is_empty());
    let graph = Flame::new(source, event, limits.flame);
    let options = Options {
        rows: Some(limits.rows),
        intervals: Intervals::Largest(limits.rows),
        totals: true,
        rank: RankBy::Either,
        ..Options::default()
    };
    let table = source.functions(event, options);
    let hues = &graph.hues;
    let rows = Functions::of_table(source, event, &table).in_colors(hues).with_code(code);
    let has_callers = rows.has_callers();
    let callers = has_callers.then(|| Flame::callers(source, event, limits.flame));
    let timed = Flame::time_order(source, event, limits.time_order);
    let forms = [
        callers.as_ref().map(callers_form),
        timed.as_ref().ok().map(|timed| time_form(timed, source.counts.timeline.block_ns)),
    ];
    let flame_part = FlamePart {
        of: (at, &event.name),
        shape: "Callers on top, callees below; width is the share of samples",
        legend: &module_colors(source, hues, &table),
        forms: &forms.into_iter().flatten().collect::<Vec<_>>(),
        missing: timed.as_ref().err().copied(),
    };
    html! {
        (contents(parts.map(|(id, name)| (format!("{id}-{at}"), name))))
        (flame(&graph, &flame_part))
        (functions(&rows, at, no_interval_note(&table, &event.name)))
        (heat::part(source, event, at))
        (modules::part(source, hues, &table, at))
        @if !code.is_empty() { (code.html()) }
    }
}

fn callers_form(flame: &Flame) -> FlameForm<'_> {
    FlameForm {
        way: "callers",
        button: ("Callers", "From sampled functions to callers (bottom-up)"),
        shape: "Sampled functions on top, their callers below, the command last; width is the share of samples in the \
                function on top itself"
            .into(),
        flame,
    }
}

fn time_form(flame: &Flame, block_ns: u64) -> FlameForm<'_> {
    let block = duration(block_ns as f64 / 1e9);
    FlameForm {
        way: "time",
        button: ("Time order", "Each thread from its first sample to its last (flame chart)"),
        shape: format!(
            "Threads on top, in each its stacks in time order, left to right, to {block}; width is the share of samples"
        ),
        flame,
    }
}

fn functions(functions: &Functions<'_>, at: usize, no_interval: Option<String>) -> Markup {
    let limits = RowLimits { rows: Some(functions.rows.len()), ..RowLimits::ALL };
    html! {
        section class="table-part" id={ "functions-" (at) } {
            h2 { "Functions" }
            p class="dim" { (explanation(functions)) }
            @if let Some(why) = no_interval { p class="dim" { (why) } }
            (functions.sheet(limits).more_in("pmuscope report -o FILE.csv has all").html())
        }
        "\n"
    }
}

/// What the columns are.
fn explanation(functions: &Functions<'_>) -> String {
    let shares = match functions.has_callers() {
        true => {
            "Self: samples in the function itself; total: with its callees. 95% CIs are of self"
                .to_owned()
        }
        false => format!("Shares of all {} with their 95% CIs", functions.counted),
    };
    let lost = match functions.with_lost(0.0) {
        Some(_) => "; ±lost: the most that lost samples can change it",
        None => "",
    };
    format!("{shares}{lost}.")
}

/// Colors of the modules with the largest shares.
fn module_colors(source: &Source<'_>, hues: &ModuleHues, table: &FunctionTable) -> Markup {
    const MOST: usize = 10;
    const LEAST: f64 = 0.005;
    html! {
        ul class="legend" {
            @for row in table.modules.iter().take(MOST).filter(|row| row.share >= LEAST) {
                li {
                    (dot(&hues.module(row.module as u32)))
                    (source.module_name(row.module as u32))
                }
            }
        }
        "\n"
    }
}

#[cfg(test)]
mod tests;
