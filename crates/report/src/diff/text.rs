//! The table of `pmuscope diff`.

use pmuscope_profile::diff::{EventDiff, SideTotal, TotalUnit};

use super::DiffView;
use super::notes::{kept, notes};
use super::sheet::{sheet, total_text};
use crate::number::{count, counted, fixed, signed};
use crate::recording::{paint_line, push_all_notes, push_wrapped};
use crate::{Style, escape};

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

fn head(event: &EventDiff, files: [&[String]; 2], style: &Style) -> String {
    let mut out = paint_line(style, &verdict(event));
    for (word, (side, files)) in ["before", "after "].iter().zip(event.sides.iter().zip(files)) {
        let line = format!("{word}  {}    {}", side_text(side, event), escape(&files.join(" ")));
        push_wrapped(&mut out, &line, style);
    }
    out
}

/// `cpu-clock: 1 of 3 rows changed, most: parse +15.00 points (after minus before)`.
pub(super) fn verdict(event: &EventDiff) -> String {
    let differing = event.rows.iter().filter(|row| row.differs() == Some(true)).count();
    format!(
        "{}: {} of {} rows changed{} (after minus before)",
        escape(&event.name),
        count(differing as u64),
        count(event.rows.len() as u64),
        largest(event)
    )
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
pub(super) fn side_text(side: &SideTotal, event: &EventDiff) -> String {
    let total = total_text(&side.total);
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pmuscope_profile::diff::{RowDiff, RowName, RowSide};
    use pmuscope_stats::{Estimate, Interval, LEVEL};

    fn estimate(value: f64, half: Option<f64>) -> Estimate {
        let around = |half| Interval { low: value - half, high: value + half, level: LEVEL };
        Estimate { value, interval: half.map(around), n: 40 }
    }

    pub(in crate::diff) fn row(
        function: Option<&str>,
        shares: [f64; 2],
        half: Option<f64>,
        p: Option<f64>,
    ) -> RowDiff {
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

    pub(in crate::diff) fn event(rows: Vec<RowDiff>) -> EventDiff {
        let side = || SideTotal { runs: 1, samples: 10_000, total: estimate(10.0, None) };
        EventDiff {
            name: "cpu-clock".into(),
            occurrence: 0,
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
