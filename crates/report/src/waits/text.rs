//! The table for people.

use std::collections::BTreeMap;

use pmuscope_profile::waits::{WaitBy, WaitRow, WaitSums, Waits};

use super::notes::notes;
use super::{WaitsView, key_text, seconds, waker_text, wall_parts, word};
use crate::number::{count, counted, fixed, percent};
use crate::recording::{account, asked, extent, paint_line, push_wrapped};
use crate::{Cell, Column, Paint, Style, Table, escape, wrap};

/// Head, all threads' time, the table, notes.
#[must_use]
pub fn waits_text(view: &WaitsView<'_>, style: &Style) -> String {
    let waits = view.waits;
    let number: u64 = waits.by_kind.iter().map(|sums| sums.waits).sum();
    let line = format!(
        "off-CPU time of {}, {}, {}    {}",
        counted(waits.threads, "thread"),
        extent(&waits.profile),
        counted(number, "wait"),
        escape(view.file)
    );
    let mut out = paint_line(style, &line);
    push_wrapped(&mut out, &account(&waits.profile), style);
    if let Some(filtered) = &waits.profile.filtered {
        push_wrapped(&mut out, &format!("only {}", asked(&filtered.filter)), style);
    }
    push_wrapped(&mut out, &wall_text(waits), style);
    out.push('\n');
    out.push_str(&table(view, style));
    let notes = notes(view);
    if !notes.is_empty() {
        out.push('\n');
    }
    for note in notes {
        let (word, paint) =
            if note.warning { ("warning:", Paint::Warn) } else { ("note:", Paint::Dim) };
        let line = wrap(&style.text(&note.text), style.width, word.len() + 1);
        out.push_str(&format!("{} {line}\n", style.paint(paint, word)));
    }
    out
}

/// All threads' time, as a sum of what they did.
fn wall_text(waits: &Waits) -> String {
    let part = |(what, ns, share): (&str, u64, f64)| {
        format!("{what} {} ({})", seconds(ns), percent(share, 1))
    };
    let parts: Vec<String> = wall_parts(waits).into_iter().map(part).collect();
    format!("threads' time {} = {}", seconds(waits.wall.total_ns()), parts.join(" + "))
}

fn table(view: &WaitsView<'_>, style: &Style) -> String {
    if view.rows.is_empty() {
        return "no waits\n".into();
    }
    let has_wakings = view.waits.has_wakings;
    let mut columns = vec![
        Column::number("off CPU"),
        Column::number("share"),
        Column::number("±95 %"),
        Column::number("waits"),
        Column::number("median"),
        Column::number("p99"),
        Column::number("longest"),
    ];
    columns.extend(has_wakings.then(|| Column::number("run queue")));
    columns.extend(view.by.iter().map(|by| match by {
        WaitBy::Process | WaitBy::Thread => Column::number(word(*by)),
        _ => Column::text(word(*by)).shrink(),
    }));
    columns.extend(has_wakings.then(|| Column::text("woken by").shrink()));
    let mut table = Table::new(columns);
    let (shown, hidden) = view.split();
    for row in shown {
        table.row(cells(view, row, has_wakings));
    }
    if !hidden.is_empty() {
        let ns = hidden.iter().fold(0_u64, |sum, row| sum.saturating_add(row.sums.ns));
        let share: f64 = hidden.iter().map(|row| row.share).sum();
        let waits: u64 = hidden.iter().map(|row| row.sums.waits).sum();
        let more = format!("… {} more: --limit all", counted(hidden.len(), "row"));
        let mut cells = vec![seconds(ns), percent(share, 2), String::new(), count(waits)];
        cells.extend(std::iter::repeat_n(String::new(), 3 + usize::from(has_wakings)));
        cells.extend(view.by.iter().skip(1).map(|_| "-".to_owned()));
        cells.push(more);
        cells.extend(has_wakings.then(String::new));
        table.row(cells.into_iter().map(|text| Cell::new(text).paint(Paint::Dim)));
    }
    table.render(style)
}

fn cells(view: &WaitsView<'_>, row: &WaitRow, has_wakings: bool) -> Vec<Cell> {
    let WaitSums { waits, ns, lengths, .. } = &row.sums;
    let half = row.interval.map(|interval| interval.half_width());
    let longest = longest(&row.sums);
    let mut cells = vec![
        Cell::new(seconds(*ns)),
        Cell::new(percent(row.share, 2)),
        Cell::measured(half, |half| fixed(half * 100.0, 2)),
        Cell::new(count(*waits)),
        Cell::measured(lengths.quantile_ns(0.5), seconds),
        Cell::measured(lengths.quantile_ns(0.99), seconds),
        Cell::measured(longest, |text| text),
    ];
    if has_wakings {
        cells.push(Cell::measured(queued(&row.sums), |text| text));
    }
    let keys = row.keys.iter().map(|key| key_text(key, &view.waits.profile.modules));
    cells.extend(keys.map(|key| Cell::measured(key, |text| text)));
    if has_wakings {
        cells.push(Cell::measured(wakers(row), |text| text));
    }
    cells
}

/// The longest wait, with a mark if it lasted longer than the recording shows.
pub(super) fn longest(sums: &WaitSums) -> Option<String> {
    let (ns, is_cut) = sums.longest_ns()?;
    Some(if is_cut { format!(">{}", seconds(ns)) } else { seconds(ns) })
}

/// Time on a run queue; at least so long where wakings are missing.
pub(super) fn queued(sums: &WaitSums) -> Option<String> {
    let at_least = if sums.without_waking.0 > 0 { ">" } else { "" };
    (sums.woken > 0).then(|| format!("{at_least}{}", seconds(sums.queued_ns)))
}

/// Who ended most of the time, and which part; and how many waits nobody is known to have ended.
pub(super) fn wakers(row: &WaitRow) -> Option<String> {
    // Threads that look the same here are one.
    let mut wakers: BTreeMap<String, u64> = BTreeMap::new();
    for waker in &row.wakers {
        let ns = wakers.entry(waker_text(waker)).or_default();
        *ns = ns.saturating_add(waker.ns);
    }
    let others = wakers.len().saturating_sub(1) as u64;
    let (without, without_ns) = row.sums.without_waking;
    let all = wakers.values().fold(without_ns, |sum, ns| sum.saturating_add(*ns));
    let (mut text, ns) = wakers.into_iter().max_by_key(|(_, ns)| *ns)?;
    if others > 0 || without > 0 {
        text.push_str(&format!(" {}", percent(ns as f64 / all.max(1) as f64, 0)));
    }
    if others > 0 {
        text.push_str(&format!(", {} more", count(others)));
    }
    if without > 0 {
        let ended = row.sums.woken.saturating_add(without);
        text.push_str(&format!(", {} of {} not known", count(without), count(ended)));
    }
    Some(text)
}
