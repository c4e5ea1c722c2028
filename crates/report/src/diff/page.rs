//! Two sides as one page: what was compared, flame graphs in the colors of what changed, the table.

use pmuscope_measure::arms::join;
use std::collections::BTreeSet;

use pmuscope_profile::diff::EventDiff;
use pmuscope_profile::export::sources;
use pmuscope_profile::{LostSource, Profile};

use super::notes::{kept, notes};
use super::sheet::sheet;
use super::text::{side_text, verdict};
use super::{DIFF_SCHEMA, DiffView};
use crate::Note;
use crate::flame::{FlameLimits, FlameSide, FlameSides, flame_svg};
use crate::html::{Fact, PageFrame, PageLimits, Summary, contents, flames, legend};
use crate::markup::{Markup, html};
use crate::number::{count, counted, duration};

const SIDES: [&str; 2] = ["before", "after"];

/// The page; `commit` is what the program was built from.
#[must_use]
pub(super) fn diff_page(view: &DiffView<'_>, commit: &str) -> String {
    let limits = PageLimits::default();
    let body = html! {
        @for (at, event) in view.events.iter().enumerate() {
            article class="event" id={ "event-" (at) } {
                @if view.events.len() > 1 { h2 class="event-name" { (event.name) } }
                (event_parts(view, event, at, limits))
            }
            "\n"
        }
    };
    PageFrame { schema: DIFF_SCHEMA, commit }.page(&summary(view), &body)
}

/// The flame graph alone, as wide as the side after.
pub(super) fn picture(view: &DiffView<'_>, event: &EventDiff) -> String {
    let flame = sides(view, event).flame(FlameSide::After, FlameLimits::default());
    flame_svg(&flame, &title(view, &event.name), &totals(event))
}

fn event_parts(view: &DiffView<'_>, event: &EventDiff, at: usize, limits: PageLimits) -> Markup {
    const SHAPE: &str = "Callers on top, callees below; width is the percentage of samples on one side, color the change \
                         (after minus before), which may be chance: verdicts are in the table";
    let sides = sides(view, event);
    let [before, after] =
        [FlameSide::Before, FlameSide::After].map(|side| sides.flame(side, limits.flame));
    let colors = after.legend().map(legend).unwrap_or_default();
    let parts = [("flame", "Flame graph"), ("functions", "Functions")];
    let rows = view.rows.unwrap_or(limits.rows);
    html! {
        p { strong { (verdict(event)) } }
        p class="dim" { (totals(event)) }
        (contents(parts.map(|(id, name)| (format!("{id}-{at}"), name))))
        (flames(&[("after", &after), ("before", &before)], (at, &event.name), SHAPE, &colors))
        section class="table-part" id={ "functions-" (at) } {
            h2 { "Functions" }
            p class="dim" {
                "Samples in the function itself (self), of all on that side; change: after minus before, with 95% CI. \
                 The largest change is first."
            }
            (sheet(event, Some(rows)).html())
        }
        "\n"
    }
}

/// The call trees of both sides.
fn sides(view: &DiffView<'_>, event: &EventDiff) -> FlameSides {
    let [before, after] =
        view.recordings.map(|side| sources(side, (&event.name, event.occurrence)));
    FlameSides::new([&before, &after])
}

/// The head: what was compared, and what limits the reading.
fn summary(view: &DiffView<'_>) -> Summary {
    let names: Vec<&str> = view.events.iter().map(|event| &*event.name).collect();
    let event = match names[..] {
        [name] => Fact::new("Event", name, ""),
        _ => Fact::new("Events", count(names.len() as u64), names.join(", ")),
    };
    let side = |at: usize| side_fact(view, at);
    let kept = kept(view).map(Note::plain);
    Summary {
        title: title(view, &names.join(", ")),
        facts: vec![event, side(0), side(1), lost(view)],
        notes: notes(view).into_iter().chain(kept).collect(),
        command: commands(view),
    }
}

/// `cpu-clock: a.data vs b.data`.
fn title(view: &DiffView<'_>, event: &str) -> String {
    let [before, after] = view.files.map(|files| match files {
        [first, _, ..] => format!("{first} and {} more", files.len() - 1),
        _ => files.concat(),
    });
    format!("{event}: {before} vs {after}")
}

/// Samples of a side, and how long its recordings took.
fn side_fact(view: &DiffView<'_>, at: usize) -> Fact {
    let samples: u64 = view.events.iter().map(|event| event.sides[at].samples).sum();
    let recordings = counted(view.files[at].len(), "recording");
    let name = if at == 0 { "Before" } else { "After" };
    Fact::new(
        name,
        counted(samples, "sample"),
        format!("{recordings} of {}", length(view.recordings[at])),
    )
}

/// `1.01 s`; `1.01 s to 2.50 s` of several; `-` where one does not say it.
fn length(side: &[Profile]) -> String {
    let all = side.iter().map(|one| one.duration_s).collect::<Option<Vec<f64>>>();
    let all = all.filter(|all| !all.is_empty());
    let [least, most] = match &all {
        Some(all) => [f64::min, f64::max].map(|of| all.iter().copied().reduce(of)),
        None => [None, None],
    };
    let [least, most] = [least, most].map(|seconds| seconds.map_or("-".to_owned(), duration));
    if least == most { least } else { format!("{least} to {most}") }
}

/// Records that each side lost.
fn lost(view: &DiffView<'_>) -> Fact {
    let [before, after] = view.recordings.map(|side| {
        let all: u64 = side.iter().map(|one| one.lost.count).sum();
        let is_least = side.iter().any(|one| one.lost.source == LostSource::Records);
        (all, format!("{}{}", if is_least { "at least " } else { "" }, count(all)))
    });
    let throttled: u64 = view.recordings.into_iter().flatten().map(|one| one.throttled).sum();
    let value = format!("{} before, {} after", before.1, after.1);
    Fact::new("Lost", value, format!("records; throttled {} times", count(throttled)))
        .which_warns(before.0 + after.0 + throttled > 0)
}

/// What was recorded: the command line of the recorder, or those of each side where they are several.
fn commands(view: &DiffView<'_>) -> String {
    let command = |profile: &Profile| {
        let known = profile.info().map(|info| &info.command).filter(|command| !command.is_empty());
        join(known.unwrap_or(&profile.metadata.command))
    };
    let sides = view.recordings.map(|side| side.iter().map(command).collect::<BTreeSet<String>>());
    let [before, after] = sides.map(|side| Vec::from_iter(side).join(" | "));
    match before == after {
        true => before,
        false => format!("before: {before} · after: {after}"),
    }
}

/// Both sides with their recordings, samples and totals.
fn totals(event: &EventDiff) -> String {
    let side = |at: usize| format!("{}: {}", SIDES[at], side_text(&event.sides[at], event));
    format!("{} · {}", side(0), side(1))
}

#[cfg(test)]
mod tests;
