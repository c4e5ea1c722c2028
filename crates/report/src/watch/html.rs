//! Hits as one page: facts, then the parts with their pictures.

use super::words::{hit_cost, lost, missed, percents, slowdown, subject, written};
use super::{WATCH_SCHEMA, WatchView};
use crate::html::{Fact, PageFrame, Summary};
use crate::number::{count, counted, duration};
use crate::section::sections_html;
use crate::title;
use pmuscope_measure::arms::join;

/// The page; `commit` is what the program was built from.
#[must_use]
pub(super) fn watch_page(view: &WatchView<'_>, commit: &str) -> String {
    PageFrame { schema: WATCH_SCHEMA, commit }.page(&summary(view), &sections_html(&view.parts()))
}

pub(crate) fn summary(view: &WatchView<'_>) -> Summary {
    let (hits, info) = (view.hits, &view.hits.info);
    let recording = view.recording();
    let all = hits.targets.iter().fold(0_u64, |sum, one| sum.saturating_add(one.hits));
    let records = [counted(hits.records, "record"), written(info, hits.is_part())];
    let about_hits: Vec<String> = missed(view).into_iter().chain(records).collect();
    let seconds = (hits.seconds > 0.0).then(|| duration(hits.seconds));
    let extents: Vec<String> = seconds.iter().cloned().chain([counted(all, "hit")]).collect();
    let of = recording.map(|_| title::of_recording(&hits.metadata, "")).unwrap_or_default();
    let duration = seconds.unwrap_or_else(|| "-".to_owned());
    let armed = hits.armed.map_or_else(String::new, |armed| {
        let turns = if hits.took_turns { " (multiplexed)" } else { "" };
        format!("enabled {}{turns}", percents(armed))
    });
    let lost = lost(info);
    let mut facts = vec![
        Fact::new("Watched", subject(info), recording.map_or("", |info| &info.scope)),
        Fact::new("Hits", count(all), about_hits.join(" · ")),
        Fact::new("Duration", duration, armed),
        Fact::new("Lost", lost.map_or("-".into(), count), "records that found the buffer full")
            .which_warns(lost.is_some_and(|lost| lost > 0)),
    ];
    let cost = info.hit_cost.as_ref().map(hit_cost);
    facts.extend(cost.map(|cost| Fact::new("Overhead", cost, slowdown(info).unwrap_or_default())));
    let emulator = recording.and_then(|info| info.machine.emulator.as_deref());
    facts.extend(emulator.map(Fact::emulated));
    facts.extend(Fact::machine(&hits.metadata));
    facts.extend(view.file.map(Fact::file));
    let command = recording.map(|info| &info.command).filter(|command| !command.is_empty());
    Summary {
        title: title::title(&subject(info), &of, &extents),
        facts,
        notes: view.notes(),
        command: join(command.unwrap_or(&hits.metadata.command)),
    }
}
