//! The tables for people: one per metric.

use pmuscope_profile::metrics::diff::{MetricDiff, RowDiff, RowSide};
use pmuscope_profile::windows::Windows;
use pmuscope_stats::Estimate;

use super::super::figure::value_figure;
use super::super::text::kind;
use super::super::{by_word, module_column};
use super::{MetricsDiffView, name, verdict};
use crate::diff::{ChangeVerdict, apart_note};
use crate::number::{count, counted, duration, interval, percent, signed, significant};
use crate::recording::long_phases_text;
use crate::{Cell, Column, Paint, Style, Table, escape, wrap};

/// A table per metric that both sides have; then what limits the reading.
#[must_use]
pub(super) fn metrics_diff_text(view: &MetricsDiffView<'_>, style: &Style) -> String {
    let mut out = String::new();
    for (word, at) in [("before", 0), ("after ", 1)] {
        let line = format!("{word}  {}", side(view.windows[at], view.files[at]));
        out.push_str(&style.text(&line));
        out.push('\n');
    }
    for diff in view.measured() {
        out.push('\n');
        out.push_str(&head(diff, style));
        out.push_str(&table(view, diff, style));
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

/// `3 recordings, windows of 300 cycles, 1 in 1,000,003 cycles, 12,345 windows, kept 97.1 %    a b c`.
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

fn emulator(windows: &Windows) -> Option<&str> {
    windows.metadata.info.as_ref()?.machine.emulator.as_deref()
}

fn head(diff: &MetricDiff<'_>, style: &Style) -> String {
    let differing = diff.rows.iter().filter(|row| row.differs() == Some(true)).count();
    let unit = match &diff.metric.unit[..] {
        "" => String::new(),
        unit => format!(" [{unit}]"),
    };
    let line = format!(
        "{}{}: {} of {} rows differ; after less before",
        escape(&diff.metric.name),
        escape(&unit),
        count(differing as u64),
        count(diff.rows.len() as u64)
    );
    format!("{}\n", style.paint(Paint::Bold, &style.text(&line)))
}

fn table(view: &MetricsDiffView<'_>, diff: &MetricDiff<'_>, style: &Style) -> String {
    let with_module = module_column(view.by);
    let mut columns = vec![
        Column::number("change"),
        Column::number("change %"),
        Column::text("it is"),
        Column::number("before"),
        Column::number("after"),
        Column::number("samples before"),
        Column::number("samples after"),
    ];
    columns.extend(with_module.then(|| Column::text("module").shrink()));
    columns.push(Column::text(by_word(view.by)).shrink());
    let blank = columns.len() - 1;
    let mut table = Table::new(columns);
    let shown = view.shown(diff);
    for row in shown {
        let of = row.name.as_ref();
        let module = of.and_then(|name| name.module.as_deref()).map(escape).unwrap_or_default();
        let mut line = cells(row);
        line.extend(with_module.then(|| Cell::new(module)));
        line.push(Cell::new(of.map_or_else(String::new, |of| name(view.by, of))));
        table.row(paint(row, line));
    }
    if shown.len() < diff.rows.len() {
        let number = count((diff.rows.len() - shown.len()) as u64);
        let more = format!("… {number} more rows: --limit all");
        let cells = std::iter::repeat_n(String::new(), blank).chain([more]);
        table.row(cells.map(|text| Cell::new(text).paint(Paint::Dim)));
    }
    let mut line = cells(&diff.total);
    line.extend(with_module.then(|| Cell::new("")));
    line.push(Cell::new(format!("all {} rows", count(diff.rows.len() as u64))));
    table.row(paint(&diff.total, line));
    table.render(style)
}

/// What cannot be told apart stands back.
fn paint(row: &RowDiff, cells: Vec<Cell>) -> Vec<Cell> {
    match verdict(row) {
        ChangeVerdict::More | ChangeVerdict::Less => cells,
        ChangeVerdict::Unclear | ChangeVerdict::Unknown => {
            cells.into_iter().map(|cell| cell.paint(Paint::Dim)).collect()
        }
    }
}

fn cells(row: &RowDiff) -> Vec<Cell> {
    let [before, after] = &row.sides;
    vec![
        Cell::new(row.change.as_ref().map_or("-".into(), change)),
        Cell::new(row.relative().map_or("-".into(), |of| signed(&percent(of, 1), of))),
        Cell::new(verdict(row).word()),
        side_cell(before),
        side_cell(after),
        Cell::new(count(before.windows)),
        Cell::new(count(after.windows)),
    ]
}

/// A value on one side; what it is a guess of stands back.
fn side_cell(side: &RowSide) -> Cell {
    let shown = Cell::new(value_figure(side.value, side.interval));
    let is_guess = side.value.is_some() && side.interval.is_none();
    if is_guess { shown.paint(Paint::Dim) } else { shown }
}

/// `+0.12 ±0.03`; `~` where there is no interval.
fn change(change: &Estimate) -> String {
    match change.interval {
        _ if change.value == 0.0 => "0".to_owned(),
        Some(of) => signed(&interval(change.value, of.half_width()), change.value),
        None => format!("~{}", signed(&significant(change.value, 3), change.value)),
    }
}

fn notes(view: &MetricsDiffView<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let absent = view.absent();
    if !absent.is_empty() {
        let names: Vec<&str> = absent.iter().map(|diff| &diff.metric.name[..]).collect();
        notes.push(format!(
            "{}: not all recordings have the events. pmuscope metrics --list tells which events each \
             metric needs.",
            escape(&names.join(", "))
        ));
    }
    let mut lengths =
        view.windows.iter().flat_map(|side| side.iter()).map(|one| one.kind.intended());
    let first = lengths.next();
    if lengths.any(|length| Some(length) != first) {
        notes.push(
            "windows are not of one length on both sides: what the interrupt costs them, and which \
             functions are too short for them, differs too."
                .to_owned(),
        );
    }
    match view.windows.map(<[Windows]>::len) {
        [1, 1] => notes.push(
            "one recording a side: ± tells how much metrics vary within the recordings, not how much \
             from run to run. Record each side three times and more, in turn: pmuscope diff --metrics A1 A2 A3 \
             -- B1 B2 B3."
                .to_owned(),
        ),
        [1, _] | [_, 1] => notes.push(
            "a side with one recording has no variance from run to run, so there are no intervals: \
             give both sides two recordings or more, or one each."
                .to_owned(),
        ),
        _ => notes.extend(view.apart().map(apart_note)),
    }
    let long = view.long_phases();
    if let Some(phases) = &long {
        let (why, enough) = (long_phases_text(phases), duration(phases.enough()));
        notes.push(format!(
            "{why}, so nothing is claimed. Record {enough} or longer, or each side three times and more."
        ));
    }
    let all = || view.measured().flat_map(|diff| &diff.rows);
    if all().any(|row| row.p.is_some()) {
        notes.push(
            "\"more\" and \"less\" hold for all rows of all metrics together (Holm, 5 %); \"unclear\" \
             is within what chance does."
                .to_owned(),
        );
    }
    if long.is_none()
        && all().any(|row| row.p.is_none() && row.change.is_some_and(|change| change.value != 0.0))
    {
        notes.push(
            "~ marks what nothing can be claimed of: functions shorter than ten windows, with fewer than 30 \
             kept windows, or that ran in too few stretches of time on a side."
                .to_owned(),
        );
    }
    notes
}
