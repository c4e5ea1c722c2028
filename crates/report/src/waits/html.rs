//! The page: what the text says, then where threads wait as functions and flame graphs, a part for each state.

use std::fmt::Write as _;

use pmuscope_profile::export::Source;
use pmuscope_profile::waits::{WaitBy, WaitRow};

use super::notes::notes;
use super::text::{longest, queued, wakers};
use super::{WAITS_SCHEMA, WaitsView, key_text, seconds, wall_parts, word};
use crate::html::{
    FILTER, Fact, Frame, PageLimits, Summary, cost, machine, number_cell, push_contents,
    push_events, share_cell, time,
};
use crate::markup::text;
use crate::number::{count, counted, fixed, percent};
use crate::recording::asked;

/// The page; `commit` is what the program was built from.
#[must_use]
pub fn waits_page(view: &WaitsView<'_>, limits: PageLimits, commit: &str) -> String {
    let profile = &view.waits.profile;
    Frame { schema: WAITS_SCHEMA, commit }.page(&waits_summary(view), |out| {
        let source = Source::new(profile);
        let states = (0..)
            .zip(&source.events)
            .map(|(at, event): (usize, _)| (format!("event-{at}"), &*event.name));
        push_contents(out, [("waits".to_owned(), "Waits")].into_iter().chain(states));
        push_table(out, view, limits.rows);
        push_events(out, &source, limits);
    })
}

/// The head of the page: all threads' time by what they did, and what there is to say about it.
#[must_use]
pub fn waits_summary(view: &WaitsView<'_>) -> Summary {
    let (waits, profile) = (view.waits, &view.waits.profile);
    let number: u64 = waits.by_kind.iter().map(|sums| sums.waits).sum();
    let emulator = profile.info().and_then(|info| info.machine.emulator.as_deref());
    let mut facts = vec![
        time(profile),
        Fact::new("Threads", count(waits.threads), counted(number, "wait")),
        Fact::new("Threads' time", seconds(waits.wall.total_ns()), "the sum of what follows"),
    ];
    let part = |(what, ns, share): (&'static str, u64, f64)| {
        Fact::new(what, seconds(ns), percent(share, 1))
    };
    facts.extend(wall_parts(waits).into_iter().map(part));
    facts.extend([
        Fact::lost(profile.lost, profile.throttled, number),
        cost(profile),
        machine(profile),
    ]);
    facts.extend(
        profile.filtered.as_ref().map(|filtered| Fact::new("Filter", asked(&filtered.filter), "")),
    );
    facts.extend(emulator.map(Fact::emulated));
    let recorded = profile.info().map(|info| &info.command).filter(|command| !command.is_empty());
    Summary {
        title: view.file.to_owned(),
        facts,
        notes: notes(view),
        command: recorded.unwrap_or(&profile.metadata.command).join(" "),
    }
}

/// The rows of the text, the largest first.
fn push_table(out: &mut String, view: &WaitsView<'_>, most: usize) {
    let has_wakings = view.waits.has_wakings;
    // Writing to a String does not fail, here and below.
    let _ = write!(
        out,
        "<section class=\"table-part\" id=\"waits\">\n<h2>Waits</h2>\n<p class=\"dim\">Time off the CPU; share \
         is of all threads' time, ±95 % its interval{}.</p>\n{FILTER}<div class=\"wide\">\
         <table class=\"sortable\">\n<thead><tr>",
        if has_wakings { "; run queue is the part of it after the waking" } else { "" }
    );
    let columns = ["off CPU", "share", "±95 %", "waits", "median", "p99", "longest"];
    let columns =
        columns.into_iter().chain(has_wakings.then_some("run queue")).map(|name| (name, true));
    let keys = view.by.iter().map(|by| (word(*by), matches!(by, WaitBy::Process | WaitBy::Thread)));
    let columns: Vec<_> =
        columns.chain(keys).chain(has_wakings.then_some(("woken by", false))).collect();
    for (position, (name, is_number)) in columns.iter().enumerate() {
        let class = if *is_number { " class=\"num\"" } else { "" };
        let sorted = if position == 0 { " aria-sort=\"descending\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}{sorted}>{name}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let (large, _) = view.split();
    let shown = &large[..large.len().min(most)];
    for row in shown {
        push_row(out, view, row);
    }
    out.push_str("</tbody>\n");
    let hidden = &view.rows[shown.len()..];
    if !hidden.is_empty() {
        let ns = hidden.iter().fold(0_u64, |sum, row| sum.saturating_add(row.sums.ns));
        let _ = writeln!(
            out,
            "<tfoot><tr><td class=\"num\">{}</td><td colspan=\"{}\">{} more: --limit all</td></tr></tfoot>",
            seconds(ns),
            columns.len() - 1,
            counted(hidden.len(), "row")
        );
    }
    out.push_str("</table></div>\n</section>\n");
}

fn push_row(out: &mut String, view: &WaitsView<'_>, row: &WaitRow) {
    let sums = &row.sums;
    let time = |ns: Option<u64>, shown: Option<String>| match ns.zip(shown) {
        Some((ns, shown)) => format!("<td class=\"num\" data-v=\"{ns}\">{}</td>", text(&shown)),
        None => "<td class=\"num dim\" data-v=\"-1\">-</td>".to_owned(),
    };
    let length = |ns: Option<u64>| time(ns, ns.map(seconds));
    let _ = write!(out, "<tr>{}{}", length(Some(sums.ns)), share_cell(row.share));
    let half = row.interval.map(|interval| interval.half_width() * 100.0);
    out.push_str(&half.map_or("<td class=\"num dim\" data-v=\"-1\">-</td>".into(), |half| {
        format!("<td class=\"num\" data-v=\"{half:.6}\">{}</td>", fixed(half, 2))
    }));
    out.push_str(&number_cell(sums.waits));
    out.push_str(&length(sums.lengths.quantile_ns(0.5)));
    out.push_str(&length(sums.lengths.quantile_ns(0.99)));
    out.push_str(&time(sums.longest_ns().map(|(ns, _)| ns), longest(sums)));
    if view.waits.has_wakings {
        out.push_str(&time(Some(sums.queued_ns), queued(sums)));
    }
    for (by, key) in view.by.iter().zip(&row.keys) {
        let class = match by {
            WaitBy::Process | WaitBy::Thread => "num",
            WaitBy::Wait | WaitBy::Function => "name",
            WaitBy::Command => "",
        };
        let key = key_text(key, &view.waits.profile.modules).unwrap_or_else(|| "-".into());
        let _ = write!(out, "<td class=\"{class}\">{}</td>", text(&key));
    }
    if view.waits.has_wakings {
        let wakers = wakers(row).unwrap_or_else(|| "-".into());
        let _ = write!(out, "<td>{}</td>", text(&wakers));
    }
    out.push_str("</tr>\n");
}
