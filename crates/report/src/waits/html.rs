//! The page: what the text says, then where threads wait as functions and flame graphs, a part for each state.

use std::fmt::Write as _;

use pmuscope_profile::export::Source;

use super::notes::notes;
use super::{WAITS_SCHEMA, WaitsView, seconds, wall_parts};
use crate::html::{
    Fact, PageFrame, PageLimits, Summary, cost, machine, push_contents, push_events, time,
};
use crate::number::{count, counted, percent};
use crate::recording::asked;

/// The page; `commit` is what the program was built from.
#[must_use]
pub(super) fn waits_page(view: &WaitsView<'_>, limits: PageLimits, commit: &str) -> String {
    let profile = &view.waits.profile;
    PageFrame { schema: WAITS_SCHEMA, commit }.page(&waits_summary(view), |out| {
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
    let run_queue = match view.waits.has_wakings {
        true => "; run queue is the part of it after the waking",
        false => "",
    };
    // Writing to a String does not fail.
    let _ = write!(
        out,
        "<section class=\"table-part\" id=\"waits\">\n<h2>Waits</h2>\n<p class=\"dim\">Time off the CPU; share \
         is of all threads' time, ±95 % its interval{run_queue}.</p>\n"
    );
    view.sheet(most).push_html(out);
    out.push_str("</section>\n");
}
