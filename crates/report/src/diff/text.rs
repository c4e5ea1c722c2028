//! The table of `pmuscope diff`.

use pmuscope_profile::diff::{EventDiff, RowDiff, RowName, SideTotal, TotalUnit};
use pmuscope_profile::{LongPhases, Profile};

use super::{ChangeVerdict, DiffView, apart_note};
use crate::number::{count, counted, duration, fixed, interval, percent, signed, significant};
use crate::recording::{asked, long_phases_text};
use crate::{Cell, Column, Paint, Style, Table, escape, wrap};

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
        out.push_str(&rows(event, view.rows, style));
    }
    if let Some(kept) = kept(view) {
        out.push('\n');
        out.push_str(&wrap(&style.text(&kept), style.width, 0));
        out.push('\n');
    }
    let notes = notes(view);
    if !notes.is_empty() {
        out.push('\n');
    }
    for note in notes {
        let line = wrap(&style.text(&note), style.width, "note: ".len());
        out.push_str(&format!("{} {line}\n", style.paint(Paint::Dim, "note:")));
    }
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
        "{}: {} of {} rows differ; after less before",
        escape(&event.name),
        count(differing as u64),
        count(event.rows.len() as u64)
    );
    let mut out = format!("{}\n", style.paint(Paint::Bold, &style.text(&line)));
    for (word, (side, files)) in ["before", "after "].iter().zip(event.sides.iter().zip(files)) {
        let line = format!("{word}  {}    {}", side_text(side, event), escape(&files.join(" ")));
        out.push_str(&style.text(&line));
        out.push('\n');
    }
    out
}

/// `3 recordings, 12,345 samples, 4.12 ±0.05 s each`.
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

fn rows(event: &EventDiff, most: Option<usize>, style: &Style) -> String {
    if event.rows.is_empty() {
        return "no samples\n".into();
    }
    let total = match event.unit {
        TotalUnit::Seconds => "s",
        TotalUnit::Units => "units",
        TotalUnit::Samples => "samples",
    };
    let mut table = Table::new([
        Column::number("change, points"),
        Column::number("±95 %"),
        Column::text("share is"),
        Column::number("before"),
        Column::number("after"),
        Column::number(format!("change {total}")),
        Column::number(format!("before {total}")),
        Column::number(format!("after {total}")),
        Column::text("command"),
        Column::text("module").shrink(),
        Column::text("function").shrink(),
    ]);
    let shown = most.map_or(event.rows.len(), |most| most.min(event.rows.len()));
    for row in &event.rows[..shown] {
        table.row(cells(row));
    }
    if shown < event.rows.len() {
        let more = format!("… {} more rows: --limit all", count((event.rows.len() - shown) as u64));
        let blank = std::iter::repeat_n("", 10);
        table.row(blank.chain([more.as_str()]).map(|text| Cell::new(text).paint(Paint::Dim)));
    }
    table.render(style)
}

fn cells(row: &RowDiff) -> Vec<Cell> {
    let verdict = ChangeVerdict::of(row);
    let paint = match verdict {
        ChangeVerdict::More | ChangeVerdict::Less => Paint::Plain,
        ChangeVerdict::Unclear | ChangeVerdict::Unknown => Paint::Dim,
    };
    let half = row.share.interval.map(|interval| interval.half_width() * 100.0);
    let [before, after] = &row.sides;
    let total = match row.total.interval {
        Some(of) => interval(row.total.value, of.half_width()),
        None => significant(row.total.value, 3),
    };
    let texts = [
        signed(&fixed(row.share.value * 100.0, 2), row.share.value),
        half.map_or("-".into(), |half| fixed(half, 2)),
        verdict.word().into(),
        percent(before.share.value, 2),
        percent(after.share.value, 2),
        signed(&total, row.total.value),
        significant(before.total, 3),
        significant(after.total, 3),
        escape(&row.name.command).into_owned(),
        escape(&row.name.module).into_owned(),
        function(&row.name),
    ];
    texts.into_iter().map(|text| Cell::new(text).paint(paint)).collect()
}

fn function(name: &RowName) -> String {
    let function = escape(name.function.as_deref().unwrap_or("[unknown]"));
    match &name.inlined_into {
        Some(outer) => format!("{function} (inlined in {})", escape(outer)),
        None => function.into_owned(),
    }
}

fn notes(view: &DiffView<'_>) -> Vec<String> {
    let runs = [0, 1].map(|side: usize| view.files[side].len());
    let mut notes = Vec::new();
    match runs {
        [1, 1] => notes.push(
            "one recording a side: ± tells how much shares vary within the recordings, not how much \
             from run to run. Record each side three times and more, in turn: pmuscope diff A1 A2 A3 -- B1 B2 B3."
                .to_owned(),
        ),
        [1, _] | [_, 1] => notes.push(
            "a side with one recording has no variance from run to run, so there are no intervals: \
             give both sides two recordings or more, or one each."
                .to_owned(),
        ),
        _ => notes.extend(view.apart().map(apart_note)),
    }
    let all_rows = || view.events.iter().flat_map(|event| &event.rows);
    let long = view.events.iter().filter_map(|event| event.long_phases).reduce(LongPhases::longer);
    if let Some(phases) = long {
        notes.push(format!(
            "{}, so nothing is claimed. Record {} or longer, or each side three times and more.",
            long_phases_text(&phases),
            duration(phases.enough())
        ));
    } else if runs == [1, 1] && all_rows().next().is_some() && all_rows().all(|row| row.p.is_none())
    {
        notes.push(
            "samples fall into fewer than 30 blocks of time: there are no intervals. Record longer."
                .to_owned(),
        );
    }
    if all_rows().any(|row| row.p.is_some()) {
        notes.push(
            "\"more\" and \"less\" hold for all rows together (Holm, 5 %); \"unclear\" is within \
             what chance does."
                .to_owned(),
        );
    }
    if !view.one_sided.is_empty() {
        let names: Vec<_> = view.one_sided.iter().map(|name| escape(name)).collect();
        notes.push(format!("only one side has: {}.", names.join(", ")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_profile::diff::RowSide;
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
        let files = [vec!["a.data".to_owned()], vec!["b.data".to_owned()]];
        let view = DiffView {
            events,
            files: [&files[0], &files[1]],
            recordings: [&[], &[]],
            one_sided: &[],
            rows,
        };
        diff_text(&view, &Style::PLAIN)
    }

    #[test]
    fn changes_stand_beside_what_chance_does() {
        let events = [event(vec![
            row(Some("parse"), [0.10, 0.25], Some(0.01), Some(0.0001)),
            row(Some("hash"), [0.30, 0.29], Some(0.03), Some(1.0)),
            row(None, [0.0, 0.001], None, None),
        ])];
        insta::assert_snapshot!(text(&events, None));
    }

    #[test]
    fn rows_beyond_the_limit_are_counted() {
        let rows = (0..5).map(|_| row(Some("f"), [0.2, 0.2], None, None)).collect();
        let text = text(&[event(rows)], Some(2));
        assert!(text.contains("… 3 more rows: --limit all"), "{text}");
    }
}
