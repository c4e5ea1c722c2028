//! The table of `pmuscope diff`.

use pmuscope_profile::diff::{EventDiff, SideTotal, TotalUnit};
use pmuscope_profile::{LongPhases, Profile};

use super::sheet::sheet;
use super::{DiffView, claims_note, phases_note, runs_note};
use crate::number::{count, counted, fixed, interval, signed};
use crate::recording::{asked, paint_line, push_all_notes, push_wrapped};
use crate::{Note, Style, escape};

/// A table per event: rows with the change of share and total; then what limits the reading.
#[must_use]
pub(super) fn diff_text(view: &DiffView<'_>, style: &Style) -> String {
    let mut out = String::new();
    for event in view.events {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&head(event, view.files, style));
        out.push('\n');
        match event.rows.is_empty() {
            true => out.push_str("no samples\n"),
            false => out.push_str(&sheet(event, view.rows).text(style)),
        }
    }
    if let Some(kept) = kept(view) {
        out.push('\n');
        push_wrapped(&mut out, &kept, style);
    }
    push_all_notes(&mut out, notes(view), style);
    out
}

/// What a filter left of each side.
fn kept(view: &DiffView<'_>) -> Option<String> {
    let [before, after] = view.recordings;
    let filtered = before.iter().chain(after).find_map(|one| one.filtered.as_ref())?;
    let side = |side: &[Profile]| {
        let kept: u64 = side.iter().map(Profile::samples).sum();
        let read: u64 = side.iter().map(Profile::samples_read).sum();
        format!("{} of {}", count(kept), count(read))
    };
    let flags = asked(&filtered.filter);
    Some(format!("samples kept: {} before, {} after: {flags}", side(before), side(after)))
}

fn head(event: &EventDiff, files: [&[String]; 2], style: &Style) -> String {
    let differing = event.rows.iter().filter(|row| row.differs() == Some(true)).count();
    let line = format!(
        "{}: {} of {} rows changed{} (after minus before)",
        escape(&event.name),
        count(differing as u64),
        count(event.rows.len() as u64),
        largest(event)
    );
    let mut out = paint_line(style, &line);
    for (word, (side, files)) in ["before", "after "].iter().zip(event.sides.iter().zip(files)) {
        let line = format!("{word}  {}    {}", side_text(side, event), escape(&files.join(" ")));
        push_wrapped(&mut out, &line, style);
    }
    out
}

/// `, most: parse +15.00 points`; nothing where no change is claimed.
fn largest(event: &EventDiff) -> String {
    let changed = event.rows.iter().filter(|row| row.differs() == Some(true));
    let most = changed.max_by(|a, b| a.share.value.abs().total_cmp(&b.share.value.abs()));
    most.map_or_else(String::new, |row| {
        let change = signed(&fixed(row.share.value * 100.0, 2), row.share.value);
        let name = row.name.function.as_deref().unwrap_or(&row.name.module);
        format!(", most: {} {change} points", escape(name))
    })
}

/// `3 recordings, 12,345 samples, 4.12 ± 0.05 s each`.
fn side_text(side: &SideTotal, event: &EventDiff) -> String {
    let half = side.total.interval.map_or(0.0, |interval| interval.half_width());
    let total = interval(side.total.value, half);
    let each = if side.runs == 1 { "" } else { " each" };
    let (runs, samples) = (counted(side.runs, "recording"), counted(side.samples, "sample"));
    format!("{runs}, {samples}, {total} {}{each}", unit(event))
}

fn unit(event: &EventDiff) -> String {
    match event.unit {
        TotalUnit::Seconds => "s".into(),
        TotalUnit::Units => escape(&event.name).into_owned(),
        TotalUnit::Samples => "samples".into(),
    }
}

fn notes(view: &DiffView<'_>) -> Vec<Note> {
    let runs = [0, 1].map(|side: usize| view.files[side].len());
    let of = ("shares", "diff");
    let mut notes: Vec<String> = runs_note(runs, view.apart(), of).into_iter().collect();
    let all_rows = || view.events.iter().flat_map(|event| &event.rows);
    let long = view.events.iter().filter_map(|event| event.long_phases).reduce(LongPhases::longer);
    if let Some(phases) = long {
        notes.push(phases_note(&phases));
    } else if runs == [1, 1] && all_rows().next().is_some() && all_rows().all(|row| row.p.is_none())
    {
        notes.push("no CI: samples fall in fewer than 30 time blocks. Record longer.".to_owned());
    }
    if all_rows().any(|row| row.p.is_some()) {
        notes.push(claims_note(""));
    }
    if !view.one_sided.is_empty() {
        let names: Vec<_> = view.one_sided.iter().map(|name| escape(name)).collect();
        notes.push(format!("in one side only: {}.", names.join(", ")));
    }
    notes.into_iter().map(Note::plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_profile::diff::{RowDiff, RowName, RowSide};
    use pmuscope_stats::{Estimate, Interval, LEVEL};

    fn estimate(value: f64, half: Option<f64>) -> Estimate {
        let around = |half| Interval { low: value - half, high: value + half, level: LEVEL };
        Estimate { value, interval: half.map(around), n: 40 }
    }

    fn row(function: Option<&str>, shares: [f64; 2], half: Option<f64>, p: Option<f64>) -> RowDiff {
        let side = |at: usize| RowSide {
            share: estimate(shares[at], half),
            total: shares[at] * 10.0,
            samples: (shares[at] * 1e4) as u64,
        };
        RowDiff {
            name: RowName {
                command: "db".into(),
                module: "db\u{1b}[2J".into(),
                function: function.map(str::to_owned),
                inlined_into: None,
            },
            sides: [side(0), side(1)],
            share: estimate(shares[1] - shares[0], half),
            total: estimate((shares[1] - shares[0]) * 10.0, None),
            p,
        }
    }

    fn event(rows: Vec<RowDiff>) -> EventDiff {
        let side = || SideTotal { runs: 1, samples: 10_000, total: estimate(10.0, None) };
        EventDiff {
            name: "cpu-clock".into(),
            unit: TotalUnit::Seconds,
            sides: [side(), side()],
            rows,
            long_phases: None,
        }
    }

    fn text(events: &[EventDiff], rows: Option<usize>) -> String {
        styled(events, rows, &Style::PLAIN)
    }

    fn styled(events: &[EventDiff], rows: Option<usize>, style: &Style) -> String {
        let files = [vec!["a.data".to_owned()], vec!["b.data".to_owned()]];
        let view = DiffView {
            events,
            files: [&files[0], &files[1]],
            recordings: [&[], &[]],
            one_sided: &[],
            rows,
        };
        diff_text(&view, style)
    }

    #[test]
    fn changes_stand_beside_what_chance_does() {
        let events = [event(vec![
            row(Some("parse"), [0.10, 0.25], Some(0.01), Some(0.0001)),
            row(Some("hash"), [0.30, 0.29], Some(0.03), Some(1.0)),
            row(None, [0.0, 0.001], None, None),
        ])];
        insta::assert_snapshot!(text(&events, None));
        crate::widths::fits("diff", |style| styled(&events, None, style));
    }

    #[test]
    fn rows_beyond_the_limit_are_counted() {
        let rows = (0..5).map(|_| row(Some("f"), [0.2, 0.2], None, None)).collect();
        let text = text(&[event(rows)], Some(2));
        assert!(text.contains("… 3 more: --limit all"), "{text}");
    }
}
