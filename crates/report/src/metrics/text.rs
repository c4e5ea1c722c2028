//! The table for people.

use pmuscope_events::metrics::Metrics;
use pmuscope_perfdata::strobe::StrobeInfo;
use pmuscope_profile::windows::{WindowKind, WindowRow, Windows};

use super::figure::is_estimate;
use super::{MetricsView, Named, causes};
use crate::number::{agree, count, counted, duration, percent};
use crate::recording::{long_phases_text, lost_text, paint_line, push_all_notes, push_wrapped};
use crate::{Cell, Column, Note, Paint, Style, Table, escape};

/// A function that loses this share of its windows to those before it is named in a note.
const MUCH_DISCARDED: f64 = 0.01;

/// Head, one row per function, notes.
#[must_use]
pub(super) fn metrics_text(view: &MetricsView<'_>, style: &Style) -> String {
    let mut out = head(view, style);
    out.push('\n');
    out.push_str(&view.sheet(None, false).text(style));
    push_all_notes(&mut out, notes(view), style);
    out
}

/// What was recorded and how much of it counts, in a line.
#[must_use]
pub fn metrics_title(view: &MetricsView<'_>) -> String {
    let total = &view.windows.total;
    let kept = percent(total.kept() as f64 / total.windows().max(1) as f64, 1);
    let emulated = emulated(view.windows).map_or_else(String::new, |by| format!(" · {by}"));
    format!(
        "{} · {} · kept {kept}{emulated}",
        kind(&view.windows.kind),
        counted(total.windows(), "window")
    )
}

/// `emulated by QEMU`, escaped.
fn emulated(windows: &Windows) -> Option<String> {
    let emulator = windows.metadata.info.as_ref()?.machine.emulator.as_ref()?;
    Some(format!("emulated by {}", escape(emulator)))
}

fn head(view: &MetricsView<'_>, style: &Style) -> String {
    let windows = view.windows;
    let total = &windows.total;
    let mut first = vec![kind(&windows.kind), counted(total.windows(), "window")];
    if !windows.by_cpu.is_empty() {
        let cpus = windows.by_cpu.len();
        first.push(counted(cpus, "CPU"));
    }
    let first = format!("{}    {}", first.join(", "), escape(view.file));
    let of_all = |number: u64| percent(number as f64 / total.windows().max(1) as f64, 1);
    let mut second = vec![format!("kept {}", of_all(total.kept()))];
    let causes = causes(total);
    second.extend(
        causes.iter().map(|(cause, number)| format!("{} {}", cause.words(), of_all(*number))),
    );
    second.extend(offsets(windows));
    second.extend(taken_off(windows));
    second.push(lost_text(windows.lost, windows.throttled));
    second.extend(emulated(windows));
    let second = second.join(" · ");
    let mut out = paint_line(style, &first);
    push_wrapped(&mut out, &second, style);
    out
}

/// `windows of 300 cycles, 1 in 1,000,003 cycles`; with jitter `windows of 300 to 360 cycles`.
pub(super) fn kind(kind: &WindowKind) -> String {
    let (length, distance) = length_and_distance(kind);
    length + &distance.map_or_else(String::new, |distance| format!(", {distance}"))
}

/// `windows of 300 cycles` and, where they do not follow each other, `1 in 1,000,003 cycles`.
pub(super) fn length_and_distance(kind: &WindowKind) -> (String, Option<String>) {
    let event = escape(kind.event.split(['/', ':']).next().unwrap_or_default()).into_owned();
    let length = kind.window.map_or_else(
        || format!("windows between samples of {event}"),
        |window| format!("windows of {} {event}", length_text(window, kind.range)),
    );
    let distance = kind.period.map(|period| format!("{} in {} {event}", kind.burst, count(period)));
    (length, distance)
}

/// `300`; `300 to 360` where it was to vary.
#[must_use]
pub fn length_text(window: u64, range: Option<(u64, u64)>) -> String {
    match range {
        Some((shortest, longest)) => format!("{} to {}", count(shortest), count(longest)),
        None => count(window),
    }
}

/// Why windows are longer than asked for.
#[must_use]
pub fn too_short_text(asked: u64, calls: u64) -> String {
    let (asked, calls) = (count(asked), count(calls));
    format!("{asked} requested; the calls alone take {calls}: windows cannot be shorter here")
}

/// On how many CPUs the phase held.
pub(super) fn offsets(windows: &Windows) -> Option<String> {
    let good = windows.by_cpu.values().filter(|cpu| cpu.wrong_offset == 0).count();
    let cpus = windows.by_cpu.len();
    (windows.kind.strobed && cpus > 0).then(|| format!("offset constant on {good} of {cpus} CPUs"))
}

/// What is subtracted from each window, on request.
pub(super) fn taken_off(windows: &Windows) -> Option<String> {
    let cost = windows.interrupt_cost;
    (cost > 0).then(|| format!("minus {} each for the interrupt", count(cost)))
}

/// What changes the reading.
pub(super) fn notes(view: &MetricsView<'_>) -> Vec<Note> {
    let windows = view.windows;
    let mut notes = Vec::new();
    let absent: Vec<&str> = view
        .table
        .columns()
        .iter()
        .filter(|column| column.formula.is_none())
        .map(|column| &column.metric.name[..])
        .collect();
    if !absent.is_empty() {
        notes.push(format!(
            "{}: their events were not recorded. pmuscope metrics --list shows which events each metric needs.",
            escape(&absent.join(", "))
        ));
    }
    if let Some(phases) = view.table.long_phases() {
        let (why, enough) = (long_phases_text(&phases), duration(phases.enough()));
        notes.push(format!("{why}. Record {enough} or longer."));
    } else if view.rows.iter().any(|row| row.cells.iter().any(is_estimate)) {
        notes.push(
            "~ marks values without a CI: functions shorter than ten windows, with fewer than 30 kept windows, or \
             that ran in too few blocks of time."
                .to_owned(),
        );
    }
    notes.extend(entries_note(view));
    let strobe = windows.metadata.info.as_ref().and_then(|info| info.strobe.as_ref());
    let missing = strobe.map(StrobeInfo::missing).unwrap_or_default();
    notes.extend(missing.iter().map(|sentence| format!("{}.", escape(sentence))));
    if windows.outside > 0 {
        notes.push(format!(
            "{} {} taken while a CPU's phase was being set, outside of windows.",
            counted(windows.outside, "sample"),
            agree(windows.outside, "was", "were")
        ));
    }
    if let (Some(asked), Some(calls)) = (windows.kind.asked, windows.kind.calls) {
        notes.push(format!("{}.", too_short_text(asked, calls)));
    }
    if windows.foreign > 0 {
        notes.push(format!(
            "{} of other tasks {} left out.",
            counted(windows.foreign, "window"),
            agree(windows.foreign, "was", "were")
        ));
    }
    notes.into_iter().map(Note::plain).collect()
}

/// What events at the entry of a function lose with the windows that began elsewhere.
fn entries_note(view: &MetricsView<'_>) -> Option<String> {
    let discarded = |row: &WindowRow| row.same_at_both_ends().map(|same| 1.0 - same);
    let rows = view.rows.iter().filter(|row| row.cells.iter().any(|cell| cell.interval.is_some()));
    let shares = rows.filter_map(|row| Some((discarded(row.row)?, row.row)));
    let (share, row) = shares
        .filter(|(share, _)| view.windows.discards && *share >= MUCH_DISCARDED)
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!(
        "windows that begin in another function are discarded ({} of those that end in {}), so events at function \
         entry read low. --attribution none counts them, including work of the other function.",
        percent(share, 1),
        Named::of_key(view.windows, &row.key).text(view.windows.by)
    ))
}

/// All metrics with their formulas.
#[must_use]
pub fn metric_list_text(metrics: &Metrics, style: &Style) -> String {
    let mut out = String::new();
    for group in metrics.groups() {
        out.push_str(&style.paint(Paint::Bold, &format!("[{}]", escape(group))));
        out.push('\n');
        let columns = [
            Column::text(""),
            Column::text("").optional(2),
            Column::text("").shrink_end(),
            Column::text("").shrink_end().optional(1),
        ];
        let mut table = Table::new(columns).indent(2);
        for metric in metrics.list.iter().filter(|metric| metric.group == group) {
            for (at, formula) in metric.formulas.iter().enumerate() {
                let first =
                    |text: &str| if at == 0 { escape(text).into_owned() } else { String::new() };
                table.row([
                    Cell::new(first(&metric.name)),
                    Cell::new(first(&metric.unit)),
                    Cell::new(escape(&formula.to_string())),
                    Cell::new(first(&metric.about)),
                ]);
            }
        }
        out.push_str(&table.render(style));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::figure::figure;
    use super::*;
    use pmuscope_profile::metrics::MetricCell;

    #[test]
    fn windows_are_shown_as_recorded() {
        let event = "cycles:u".to_owned();
        let one = WindowKind {
            event,
            window: Some(332),
            range: None,
            asked: Some(300),
            calls: None,
            period: Some(992_721),
            burst: 1,
            strobed: true,
        };
        assert_eq!(kind(&one), "windows of 332 cycles, 1 in 992,721 cycles");
        let many = WindowKind { range: Some((332, 378)), burst: 3, ..one };
        assert_eq!(kind(&many), "windows of 332 to 378 cycles, 3 in 992,721 cycles");
    }

    #[test]
    fn zero_is_shown_with_its_upper_bound() {
        let zero = MetricCell { value: Some(0.0), windows: 400, ..MetricCell::default() };
        assert_eq!(figure(&MetricCell { at_most: Some(0.031_2), ..zero }), "0 (≤0.031)");
        assert_eq!(figure(&MetricCell { windows: 1, ..zero }), "~0");
        assert!(is_estimate(&MetricCell { windows: 1, ..zero }));
        assert_eq!(figure(&MetricCell::default()), "-");
    }
}
