//! Metrics as one page: the table of functions, colored by one of them, and a flame graph of the same
//! colors.

use pmuscope_measure::arms::join;
use pmuscope_profile::windows::Windows;

use super::sheet::causes_sheet;
use super::text::{length_and_distance, notes, offsets, taken_off};
use super::tints::Tints;
use super::{METRICS_SCHEMA, MetricsView, causes};
use crate::flame::Flame;
use crate::html::{FlamePart, PageFrame, contents, legend};
use crate::markup::html;
use crate::number::{count, counted, duration, percent, significant};
use crate::section::{Body, Section};
use crate::{Fact, Summary, title};

/// The page; `flame` is a picture in the colors of `tints`, where rows are of functions;
/// `commit` is what the program was built from.
#[must_use]
pub fn metrics_page(
    view: &MetricsView<'_>,
    tints: Option<&Tints<'_>>,
    flame: Option<&Flame>,
    commit: &str,
) -> String {
    let colored = tints.map_or_else(String::new, |tints| {
        format!(" Color: {}; gray: no reliable value.", tints.title())
    });
    let metrics = Section::new("functions-0", "Metrics")
        .about(format!(
            "Share of the windows that end there, kept or not; metrics of the kept ones with 95% CI, ~ a value \
             without a CI.{colored}"
        ))
        .legend(tints.map(Tints::legend))
        .with(Body::Sheet(view.sheet(tints, flame.is_some())));
    let total = &view.windows.total;
    let causes = causes(total);
    let none = causes.is_empty().then(|| "None were rejected.".to_owned());
    let rejected = Section::new("causes-0", "Rejected windows")
        .about("By the first test they failed; percentages of all windows.")
        .sheet(causes_sheet(&causes, total.windows()))
        .line(none);
    let graph = flame.map(|_| ("flame-0".to_owned(), "Flame graph"));
    let links = [metrics.link()].into_iter().chain(graph).chain([rejected.link()]);
    let body = html! {
        article class="event" id="event-0" {
            (contents(links))
            (metrics.html())
            @if let Some(flame) = flame {
                @let colors = flame.legend().map(legend).unwrap_or_default();
                // Colors are of windows that end in a function, whatever its caller: the other way adds nothing.
                @let part = FlamePart { of: (0, "metrics"), shape: shape(flame), legend: &colors, forms: &[], missing: None };
                (crate::html::flame(flame, &part))
            }
            (rejected.html())
        }
        "\n"
    };
    PageFrame { schema: METRICS_SCHEMA, commit }.page(&summary(view), &body)
}

/// The head: what was recorded, and how much of it counts.
fn summary(view: &MetricsView<'_>) -> Summary {
    let windows = view.windows;
    let total = &windows.total;
    let all = total.windows();
    let kept = percent(total.kept() as f64 / all.max(1) as f64, 1);
    let rate = all as f64 / windows.seconds;
    let rate = if rate.is_finite() { format!("{}/s", significant(rate, 3)) } else { "-".into() };
    let (length, distance) = length_and_distance(&windows.kind);
    let mut facts = vec![
        Fact::new("Recorded", length, distance.unwrap_or_default()),
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
    facts.push(Fact::file(view.file));
    let told = info.map(|info| &info.command).filter(|command| !command.is_empty());
    Summary {
        title: title(view),
        facts,
        notes: notes(view),
        command: join(told.unwrap_or(&windows.metadata.command)),
    }
}

/// What was measured, in a line.
pub(super) fn title(view: &MetricsView<'_>) -> String {
    let windows = view.windows;
    let seconds = (windows.seconds > 0.0).then(|| duration(windows.seconds));
    let number = counted(windows.total.windows(), "window");
    let extents: Vec<String> = seconds.into_iter().chain([number]).collect();
    title::title("metrics", &title::of_recording(&windows.metadata, view.file), &extents)
}

/// What stands where in the flame graph.
fn shape(flame: &Flame) -> &'static str {
    if flame.is_flat() {
        "No call stacks were recorded, so functions are grouped by DSO; width: percentage of windows"
    } else {
        "Callers on top, callees below; width: percentage of samples that begin windows; color: metric of windows that \
         end in the function itself, whatever its caller"
    }
}

/// On how many CPUs the phase held, and what was taken off windows.
fn about(windows: &Windows) -> String {
    offsets(windows).into_iter().chain(taken_off(windows)).collect::<Vec<_>>().join(" · ")
}
