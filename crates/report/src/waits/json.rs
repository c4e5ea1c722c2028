//! The result for programs.

use pmuscope_profile::ModuleSummary;
use pmuscope_profile::waits::{Kind, WaitBy, WaitKey, WaitRow, WaitSums, Waker};
use serde::Serialize;

use super::{WaitsView, key_text, kind_word, word};
use crate::recording::Head;

/// The schema of [`WaitsReport`] in its envelope.
pub const WAITS_SCHEMA: &str = "pmuscope/waits/1";
/// Wakers of a row that are listed.
const MOST_WAKERS: usize = 20;

/// Where threads wait.
#[derive(Debug, Serialize)]
pub struct WaitsReport<'a> {
    recording: Head<'a>,
    threads: u64,
    threads_without_switch: u64,
    wall_s: f64,
    on_cpu_s: f64,
    off_cpu_s: f64,
    not_known_s: f64,
    states: Vec<State>,
    broken: BrokenReport,
    has_stacks: bool,
    has_wakings: bool,
    /// Why wakers are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    by: Vec<&'static str>,
    rows: Vec<Row>,
    rows_left_out: usize,
}

#[derive(Debug, Serialize)]
struct BrokenReport {
    beginnings: u64,
    ends: u64,
    uncertain: u64,
}

#[derive(Debug, Serialize)]
struct State {
    state: &'static str,
    #[serde(flatten)]
    sums: Sums,
}

#[derive(Debug, Serialize)]
struct Sums {
    waits: u64,
    off_cpu_s: f64,
    woken: u64,
    without_waking: Option<u64>,
    without_waking_s: Option<f64>,
    blocked_s: Option<f64>,
    run_queue_s: Option<f64>,
    whole: u64,
    median_s: Option<f64>,
    p99_s: Option<f64>,
    longest_s: Option<f64>,
    longest_is_cut: bool,
    begun_before: u64,
    begun_before_s: f64,
    last_past: u64,
    last_past_s: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    keys: Vec<Key>,
    state: Option<&'static str>,
    share: f64,
    low: Option<f64>,
    high: Option<f64>,
    #[serde(flatten)]
    sums: Sums,
    wakers: Vec<WakerRow>,
    wakers_left_out: usize,
}

#[derive(Debug, Serialize)]
struct Key {
    by: &'static str,
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<String>,
}

#[derive(Debug, Serialize)]
struct WakerRow {
    interrupt: bool,
    command: Option<String>,
    pid: Option<i32>,
    tid: Option<i32>,
    function: Option<String>,
    waits: u64,
    off_cpu_s: f64,
}

impl<'a> WaitsReport<'a> {
    /// The rows that are shown.
    #[must_use]
    pub fn new(view: &WaitsView<'a>) -> Self {
        let waits = view.waits;
        let (shown, hidden) = view.split();
        let state = |kind: &Kind| State {
            state: kind_word(*kind),
            sums: Sums::new(&waits.by_kind[*kind as usize], waits.has_wakings),
        };
        let missing = "sched:sched_waking was not recorded";
        Self {
            recording: Head::new(&waits.profile, view.file),
            threads: waits.threads,
            threads_without_switch: waits.silent,
            wall_s: seconds(waits.wall.total_ns()),
            on_cpu_s: seconds(waits.wall.running_ns),
            off_cpu_s: seconds(waits.wall.off_ns),
            not_known_s: seconds(waits.wall.unknown_ns),
            states: Kind::ALL.iter().map(state).collect(),
            broken: BrokenReport {
                beginnings: waits.broken.beginnings,
                ends: waits.broken.ends,
                uncertain: waits.broken.uncertain,
            },
            has_stacks: waits.has_stacks,
            has_wakings: waits.has_wakings,
            why: (!waits.has_wakings).then_some(missing),
            by: view.by.iter().map(|by| word(*by)).collect(),
            rows: shown.iter().map(|row| Row::new(row, view)).collect(),
            rows_left_out: hidden.len(),
        }
    }
}

impl Sums {
    fn new(sums: &WaitSums, has_wakings: bool) -> Self {
        let longest = sums.longest_ns();
        let without = has_wakings.then_some(sums.without_waking);
        let known = |ns: u64| (sums.woken > 0).then(|| seconds(ns));
        Self {
            waits: sums.waits,
            off_cpu_s: seconds(sums.ns),
            woken: sums.woken,
            without_waking: without.map(|(waits, _)| waits),
            without_waking_s: without.map(|(_, ns)| seconds(ns)),
            blocked_s: known(sums.blocked_ns),
            run_queue_s: known(sums.queued_ns),
            whole: sums.lengths.n(),
            median_s: sums.lengths.quantile_ns(0.5).map(seconds),
            p99_s: sums.lengths.quantile_ns(0.99).map(seconds),
            longest_s: longest.map(|(ns, _)| seconds(ns)),
            longest_is_cut: longest.is_some_and(|(_, is_cut)| is_cut),
            begun_before: sums.begun_before.0,
            begun_before_s: seconds(sums.begun_before.1),
            last_past: sums.last_past.0,
            last_past_s: seconds(sums.last_past.1),
        }
    }
}

impl Row {
    fn new(row: &WaitRow, view: &WaitsView<'_>) -> Self {
        let modules = &view.waits.profile.modules;
        let key = |(by, key): (&WaitBy, &WaitKey)| Key {
            by: word(*by),
            value: raw_text(key, modules),
            module: match key {
                WaitKey::Function(_, module) | WaitKey::Unnamed(module) => {
                    modules.get(*module as usize).map(|module| module.path.clone())
                }
                _ => None,
            },
        };
        let wakers = row.wakers.iter().take(MOST_WAKERS).map(WakerRow::new);
        Self {
            keys: view.by.iter().zip(&row.keys).map(key).collect(),
            state: row.kind.map(kind_word),
            share: row.share,
            low: row.interval.map(|interval| interval.low),
            high: row.interval.map(|interval| interval.high),
            sums: Sums::new(&row.sums, view.waits.has_wakings),
            wakers: wakers.collect(),
            wakers_left_out: row.wakers.len().saturating_sub(MOST_WAKERS),
        }
    }
}

impl WakerRow {
    fn new(waker: &Waker) -> Self {
        Self {
            interrupt: waker.command.is_none(),
            command: waker.command.as_deref().map(str::to_owned),
            pid: waker.task.map(|(pid, _)| pid),
            tid: waker.task.map(|(_, tid)| tid),
            function: waker.function.as_deref().map(str::to_owned),
            waits: waker.waits,
            off_cpu_s: seconds(waker.ns),
        }
    }
}

/// JSON has escapes of its own.
fn raw_text(key: &WaitKey, modules: &[ModuleSummary]) -> Option<String> {
    match key {
        WaitKey::Function(name, _) | WaitKey::Name(name) => Some(name.to_string()),
        WaitKey::Unnamed(_) => None,
        _ => key_text(key, modules),
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
