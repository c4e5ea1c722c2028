//! The result for programs.

use serde::Serialize;

use super::{WaitsView, word};
use crate::recording::Head;
use crate::sheet::Sheet;

/// The schema of [`WaitsReport`] in its envelope.
pub(super) const WAITS_SCHEMA: &str = "pmuscope/waits/2";

/// Where threads wait.
#[derive(Debug, Serialize)]
pub(super) struct WaitsReport<'a> {
    recording: Head<'a>,
    threads: u64,
    threads_without_switch: u64,
    wall_s: f64,
    on_cpu_s: f64,
    off_cpu_s: f64,
    not_known_s: f64,
    states: Sheet<'a>,
    broken: BrokenReport,
    has_stacks: bool,
    has_wakings: bool,
    /// Why wakers are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    by: Vec<&'static str>,
    rows: Sheet<'a>,
    rows_left_out: usize,
}

#[derive(Debug, Serialize)]
struct BrokenReport {
    beginnings: u64,
    ends: u64,
    uncertain: u64,
}

impl<'a> WaitsReport<'a> {
    /// The rows that are shown.
    #[must_use]
    pub(super) fn new(view: &WaitsView<'a>) -> Self {
        let waits = view.waits;
        let rows = view.sheet(usize::MAX);
        let missing = "sched:sched_waking was not recorded";
        Self {
            recording: Head::new(&waits.profile, view.file),
            threads: waits.threads,
            threads_without_switch: waits.silent,
            wall_s: seconds(waits.wall.total_ns()),
            on_cpu_s: seconds(waits.wall.running_ns),
            off_cpu_s: seconds(waits.wall.off_ns),
            not_known_s: seconds(waits.wall.unknown_ns),
            states: view.states(),
            broken: BrokenReport {
                beginnings: waits.broken.beginnings,
                ends: waits.broken.ends,
                uncertain: waits.broken.uncertain,
            },
            has_stacks: waits.has_stacks,
            has_wakings: waits.has_wakings,
            why: (!waits.has_wakings).then_some(missing),
            by: view.by.iter().map(|by| word(*by)).collect(),
            rows_left_out: rows.left_out(),
            rows,
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
