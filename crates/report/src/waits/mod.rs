//! Where threads wait, as text, as a page and as JSON.

mod html;
mod json;
mod notes;
mod sheet;
mod text;

use crate::Style;
use crate::html::PageLimits;
use crate::report::Report;
use pmuscope_profile::ModuleSummary;
use pmuscope_profile::waits::{OffCpuKind, WaitBy, WaitKey, WaitRow, Waits, Waker};
use serde::Serialize;

use crate::escape;
use crate::number::duration;
use crate::recording::RowLimits;
use crate::sheet::Separator;

pub use html::waits_summary;
use json::{WAITS_SCHEMA, WaitsReport};

/// Rows of waits, and how they are shown.
#[derive(Debug, Clone, Copy)]
pub struct WaitsView<'a> {
    /// Where the recording was read from.
    pub file: &'a str,
    /// All of it.
    pub waits: &'a Waits,
    /// What rows are by.
    pub by: &'a [WaitBy],
    /// The rows.
    pub rows: &'a [WaitRow],
    /// Which of them are shown.
    pub limits: RowLimits,
}

impl WaitsView<'_> {
    /// The table for spreadsheets and scripts.
    #[must_use]
    pub fn delimited(&self, separator: Separator) -> String {
        self.sheet(usize::MAX).delimited(separator)
    }
}

impl Report for WaitsView<'_> {
    fn schema(&self) -> &'static str {
        WAITS_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        text::waits_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        WaitsReport::new(self)
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(self.sheet(usize::MAX).delimited(separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        Some(html::waits_page(self, PageLimits::of(self.limits), commit))
    }
}

fn word(by: WaitBy) -> &'static str {
    WaitBy::ALL.iter().find(|(_, one)| *one == by).map_or("", |(word, _)| word)
}

fn kind_word(kind: OffCpuKind) -> &'static str {
    match kind {
        OffCpuKind::Blocked => "blocked",
        OffCpuKind::Preempted => "preempted",
        OffCpuKind::New => "new",
        OffCpuKind::Unknown => "unknown",
    }
}

/// What a key says, escaped; `None` where there is nothing.
fn key_text(key: &WaitKey, modules: &[ModuleSummary]) -> Option<String> {
    Some(match key {
        WaitKey::None => return None,
        WaitKey::Function(name, _) | WaitKey::Name(name) => escape(name).into_owned(),
        WaitKey::Unnamed(module) => match modules.get(*module as usize) {
            Some(module) => format!("[unknown] {}", escape(module.short_name())),
            None => "[unknown]".into(),
        },
        WaitKey::State(OffCpuKind::Preempted) => "[preempted]".into(),
        WaitKey::State(OffCpuKind::New) => "[start of the thread]".into(),
        WaitKey::State(_) => "[begun before the recording]".into(),
        WaitKey::NoStack => "[no stack]".into(),
        WaitKey::Number(number) => number.to_string(),
    })
}

/// `redis-server epoll_wait`, escaped; an interrupt has no name.
fn waker_text(waker: &Waker) -> String {
    let who = waker.command.as_deref().map_or("[interrupt]".into(), escape);
    let function = escape(waker.function.as_deref().unwrap_or("[unknown]"));
    format!("{who}: {function}")
}

/// What all threads did all the time, nanoseconds and shares: the parts of [`Waits::wall`].
fn wall_parts(waits: &Waits) -> Vec<(&'static str, u64, f64)> {
    let of = |kind: OffCpuKind| &waits.by_kind[kind as usize];
    let queued = of(OffCpuKind::Blocked).queued_ns;
    let blocked = of(OffCpuKind::Blocked).ns - queued.min(of(OffCpuKind::Blocked).ns);
    let mut parts = vec![("on CPU", waits.wall.running_ns), ("blocked", blocked)];
    if waits.has_wakings {
        parts.push(("run-queue latency", queued));
    }
    parts.push(("preempted", of(OffCpuKind::Preempted).ns));
    let rare = [
        ("new, not yet run", of(OffCpuKind::New).ns),
        ("off CPU since before the recording", of(OffCpuKind::Unknown).ns),
        ("unknown", waits.wall.unknown_ns),
    ];
    parts.extend(rare.into_iter().filter(|(_, ns)| *ns > 0));
    let total = waits.wall.total_ns().max(1) as f64;
    parts.into_iter().map(|(what, ns)| (what, ns, ns as f64 / total)).collect()
}

fn seconds(ns: u64) -> String {
    duration(ns as f64 / 1e9)
}

#[cfg(test)]
mod tests;
