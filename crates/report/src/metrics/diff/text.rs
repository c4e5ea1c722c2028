//! The tables for people: one per metric.

use pmuscope_profile::metrics::diff::MetricDiff;
use pmuscope_profile::windows::Windows;

use super::super::text::kind;
use super::MetricsDiffView;
use super::sheet::emulator;
use crate::diff::{claims_note, phases_note, runs_note};
use crate::number::{count, counted, percent};
use crate::recording::{push_all_notes, push_wrapped};
use crate::section::Section;
use crate::{Note, Style, escape};

/// A table per metric that both sides have; then what limits the reading.
#[must_use]
pub(super) fn metrics_diff_text(view: &MetricsDiffView<'_>, style: &Style) -> String {
    let mut out = String::new();
    for (word, at) in [("before", 0), ("after ", 1)] {
        let line = format!("{word}  {}", side(view.windows[at], view.files[at]));
        push_wrapped(&mut out, line.trim_end(), style);
    }
    for diff in view.measured() {
        Section::new("", title(diff)).sheet(view.sheet(diff)).push_text(&mut out, style);
    }
    push_all_notes(&mut out, notes(view), style);
    out
}

/// `3 recordings, windows of 300 cycles, 1 in 1,000,003 cycles, 12,345 windows, kept 97.1%    a b c`.
fn side(windows: &[Windows], files: &[String]) -> String {
    let all: u64 = windows.iter().map(|one| one.total.windows()).sum();
    let kept: u64 = windows.iter().map(|one| one.total.kept()).sum();
    let kind = windows.first().map_or_else(String::new, |one| format!(", {}", kind(&one.kind)));
    let emulated = windows.iter().find_map(emulator);
    let emulated = emulated.map_or_else(String::new, |by| format!(", emulated by {}", escape(by)));
    format!(
        "{}{kind}, {}, kept {}{emulated}    {}",
        counted(windows.len(), "recording"),
        counted(all, "window"),
        percent(kept as f64 / all.max(1) as f64, 1),
        escape(&files.join(" "))
    )
}

fn title(diff: &MetricDiff<'_>) -> String {
    let differing = diff.rows.iter().filter(|row| row.differs() == Some(true)).count();
    let unit = match &diff.metric.unit[..] {
        "" => String::new(),
        unit => format!(" [{unit}]"),
    };
    format!(
        "{}{unit}: {} of {} rows changed (after minus before)",
        diff.metric.name,
        count(differing as u64),
        count(diff.rows.len() as u64)
    )
}

fn notes(view: &MetricsDiffView<'_>) -> Vec<Note> {
    let mut notes = Vec::new();
    let absent = view.absent();
    if !absent.is_empty() {
        let names: Vec<&str> = absent.iter().map(|diff| &diff.metric.name[..]).collect();
        notes.push(format!(
            "{}: not all recordings have the events. pmuscope metrics --list shows which events each metric needs.",
            escape(&names.join(", "))
        ));
    }
    let mut lengths =
        view.windows.iter().flat_map(|side| side.iter()).map(|one| one.kind.intended());
    let first = lengths.next();
    if lengths.any(|length| Some(length) != first) {
        notes.push(
            "window lengths differ between the sides, and with them interrupt overhead and which functions are too \
             short."
                .to_owned(),
        );
    }
    let runs = view.windows.map(<[Windows]>::len);
    notes.extend(runs_note(runs, view.apart(), ("metrics", "diff --metrics")));
    let long = view.long_phases();
    notes.extend(long.as_ref().map(phases_note));
    let all = || view.measured().flat_map(|diff| &diff.rows);
    if all().any(|row| row.p.is_some()) {
        notes.push(claims_note(" of all metrics"));
    }
    if long.is_none()
        && all().any(|row| row.p.is_none() && row.change.is_some_and(|change| change.value != 0.0))
    {
        notes.push(
            "~ marks values without a CI: functions shorter than ten windows, with fewer than 30 kept windows, or \
             that ran in too few blocks of time on a side."
                .to_owned(),
        );
    }
    notes.into_iter().map(Note::plain).collect()
}
