//! The table for people.

use std::collections::BTreeMap;

use pmuscope_profile::waits::{WaitRow, WaitSums, Waits};

use super::notes::notes;
use super::{WaitsView, seconds, waker_text, wall_parts};
use crate::number::{count, counted, percent};
use crate::recording::{asked, extent, paint_line, push_account, push_all_notes, push_wrapped};
use crate::{Style, escape};

/// Head, all threads' time, the table, notes.
#[must_use]
pub(super) fn waits_text(view: &WaitsView<'_>, style: &Style) -> String {
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
    push_account(&mut out, &waits.profile, style);
    if let Some(filtered) = &waits.profile.filtered {
        push_wrapped(&mut out, &format!("only {}", asked(&filtered.filter)), style);
    }
    push_wrapped(&mut out, &wall_text(waits), style);
    out.push('\n');
    match view.rows.is_empty() {
        true => out.push_str("no waits\n"),
        false => out.push_str(&view.sheet(usize::MAX).text(style)),
    }
    push_all_notes(&mut out, notes(view), style);
    out
}

/// All threads' time, as a sum of what they did.
fn wall_text(waits: &Waits) -> String {
    let part = |(what, ns, share): (&str, u64, f64)| {
        format!("{what} {} ({})", seconds(ns), percent(share, 1))
    };
    let parts: Vec<String> = wall_parts(waits).into_iter().map(part).collect();
    format!("thread time {} = {}", seconds(waits.wall.total_ns()), parts.join(" + "))
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
        text.push_str(&format!(", {} of {} unknown", count(without), count(ended)));
    }
    Some(text)
}
