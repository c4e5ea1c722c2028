//! The page: what the text says, then where threads wait as functions and flame graphs, a part for each state.

use pmuscope_measure::arms::join;
use pmuscope_profile::export::Source;

use super::notes::notes;
use super::{WAITS_SCHEMA, WaitsView, seconds, wall_parts};
use crate::html::{Fact, PageFrame, PageLimits, Summary, contents, cost, events, machine, time};
use crate::markup::{Markup, html};
use crate::number::{count, counted, duration, percent};
use crate::recording::asked;
use crate::title;

/// The page; `commit` is what the program was built from.
#[must_use]
pub(super) fn waits_page(view: &WaitsView<'_>, limits: PageLimits, commit: &str) -> String {
    let profile = &view.waits.profile;
    let source = Source::new(profile);
    let states = (0..)
        .zip(&source.events)
        .map(|(at, event): (usize, _)| (format!("event-{at}"), &*event.name));
    let body = html! {
        (contents([("waits".to_owned(), "Waits")].into_iter().chain(states)))
        (table(view, limits.rows))
        (events(&source, limits, &[]))
    };
    PageFrame { schema: WAITS_SCHEMA, commit }.page(&waits_summary(view), &body)
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
        Fact::new("Thread time", seconds(waits.wall.total_ns()), "sum of the parts below"),
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
    facts.push(Fact::file(view.file));
    let recorded = profile.info().map(|info| &info.command).filter(|command| !command.is_empty());
    Summary {
        title: title::title(
            "waits",
            &title::of_recording(&profile.metadata, view.file),
            &profile
                .duration_s
                .map(duration)
                .into_iter()
                .chain([counted(number, "wait")])
                .collect::<Vec<_>>(),
        ),
        facts,
        notes: notes(view),
        command: join(recorded.unwrap_or(&profile.metadata.command)),
    }
}

/// The rows of the text, the largest first.
fn table(view: &WaitsView<'_>, most: usize) -> Markup {
    html! {
        section class="table-part" id="waits" {
            h2 { "Waits" }
            p class="dim" {
                "Time off CPU; share of all thread time, with 95% CI"
                @if view.waits.has_wakings { "; run-queue latency is the part after the wakeup" }
                "."
            }
            (view.sheet(most).html())
        }
    }
}
