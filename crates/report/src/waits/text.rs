//! The table for people.

use std::collections::BTreeMap;

use pmuscope_profile::waits::{Kind, WaitBy, WaitRow, WaitSums, Waits};

use super::{WaitsView, key_text, waker_text, word};
use crate::number::{count, counted, duration, fixed, percent};
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
    let notes = notes(waits);
    if !notes.is_empty() {
        out.push('\n');
    }
    for (is_warning, note) in notes {
        let (word, paint) =
            if is_warning { ("warning:", Paint::Warn) } else { ("note:", Paint::Dim) };
        let line = wrap(&style.text(&note), style.width, word.len() + 1);
        out.push_str(&format!("{} {line}\n", style.paint(paint, word)));
    }
    out
}

/// All threads' time, as a sum of what they did.
fn wall_text(waits: &Waits) -> String {
    let wall = &waits.wall;
    let total = wall.total_ns();
    let part = |ns: u64, what: &str| {
        let share = if total > 0 { ns as f64 / total as f64 } else { 0.0 };
        format!("{what} {} ({})", seconds(ns), percent(share, 1))
    };
    let of = |kind: Kind| &waits.by_kind[kind as usize];
    let queued = of(Kind::Blocked).queued_ns;
    let blocked = of(Kind::Blocked).ns - queued.min(of(Kind::Blocked).ns);
    let mut parts = vec![part(wall.running_ns, "on CPU"), part(blocked, "blocked")];
    if waits.has_wakings {
        parts.push(part(queued, "woken, on a run queue"));
    }
    parts.push(part(of(Kind::Preempted).ns, "preempted"));
    if of(Kind::New).ns > 0 {
        parts.push(part(of(Kind::New).ns, "new, not yet run"));
    }
    if of(Kind::Unknown).ns > 0 {
        parts.push(part(of(Kind::Unknown).ns, "off since before"));
    }
    if wall.unknown_ns > 0 {
        parts.push(part(wall.unknown_ns, "not known"));
    }
    format!("threads' time {} = {}", seconds(total), parts.join(" + "))
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
    let longest = row
        .sums
        .longest_ns()
        .map(|(ns, is_cut)| if is_cut { format!(">{}", seconds(ns)) } else { seconds(ns) });
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

/// Time on a run queue; at least so long where wakings are missing.
fn queued(sums: &WaitSums) -> Option<String> {
    let at_least = if sums.without_waking.0 > 0 { ">" } else { "" };
    (sums.woken > 0).then(|| format!("{at_least}{}", seconds(sums.queued_ns)))
}

/// Who ended most of the time, and which part; and how many waits nobody is known to have ended.
fn wakers(row: &WaitRow) -> Option<String> {
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

/// What changes the reading: warnings and notes.
fn notes(waits: &Waits) -> Vec<(bool, String)> {
    let mut notes = Vec::new();
    notes.extend(broken(waits).map(|note| (true, note)));
    let sum = |of: fn(&WaitSums) -> (u64, u64)| {
        let each = waits.by_kind.iter().map(of);
        each.fold((0, 0_u64), |sum: (u64, u64), one| (sum.0 + one.0, sum.1.saturating_add(one.1)))
    };
    let (before, past) = (sum(|sums| sums.begun_before), sum(|sums| sums.last_past));
    if before.0 > 0 || past.0 > 0 {
        notes.push((
            false,
            format!(
                "{} ({}) had begun before the recording, {} ({}) last past its end: what lies within counts as \
                 time, not for median and p99",
                counted(before.0, "wait"),
                seconds(before.1),
                count(past.0),
                seconds(past.1)
            ),
        ));
    }
    notes.extend(without_waking(waits).map(|note| (false, note)));
    if waits.silent > 0 {
        notes.push((
            false,
            format!(
                "{} did not switch in all the time: nothing tells whether it was on a CPU or off it, so that time \
                 is in no sum",
                counted(waits.silent, "thread")
            ),
        ));
    }
    if !waits.has_wakings {
        notes.push((
            false,
            "who woke threads was not recorded, so time on a run queue after a waking is part of the waits. It \
             takes root, or CAP_PERFMON and a readable tracefs: sudo pmuscope record --off-cpu"
                .into(),
        ));
    }
    if !waits.has_stacks {
        notes.push((
            false,
            "switches were recorded without stacks. They take sudo sysctl kernel.perf_event_paranoid=1, or root"
                .into(),
        ));
    }
    notes
}

/// What records do not tell that should.
fn broken(waits: &Waits) -> Option<String> {
    let broken = &waits.broken;
    if waits.wall.unknown_ns == 0 && *broken == Default::default() {
        return None;
    }
    let (why, what_to_do) = match waits.profile.lost.count {
        0 => ("records are missing, though none is counted as lost", ""),
        _ => ("records were lost", ". Try: pmuscope record -m 8M"),
    };
    Some(format!(
        "{why}: how {} left a CPU and how {} came to one is not known, and {} lasted while records were lost. That \
         time ({}) is in no row{what_to_do}",
        counted(broken.beginnings, "thread"),
        counted(broken.ends, "thread"),
        counted(broken.uncertain, "wait"),
        seconds(waits.wall.unknown_ns)
    ))
}

/// How many waits nobody is known to have ended, where wakings were recorded.
fn without_waking(waits: &Waits) -> Option<String> {
    let blocked = &waits.by_kind[Kind::Blocked as usize];
    let (number, ns) = blocked.without_waking;
    (waits.has_wakings && number > 0).then(|| {
        format!(
            "{} of {} ({}) ended with no record of a waking, which the kernel can leave out without counting \
             it: who ended them is not known, and their time on a run queue counts as blocked, so times with > \
             are at least so long",
            count(number),
            counted(blocked.lengths.n(), "blocked wait"),
            seconds(ns)
        )
    })
}

fn seconds(ns: u64) -> String {
    duration(ns as f64 / 1e9)
}
