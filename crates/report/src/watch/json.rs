//! The same for programs: the result of `pmuscope/watch/1`.

use pmuscope_profile::hits::{CacheLine, TargetHits, ValueRead};
use serde::Serialize;
use serde_json::json;

use super::often::Often;
use super::{WatchView, sheets};
use crate::recording::NoteOut;
use crate::sheet::{Sheet, SheetObject};

/// The schema of [`WatchReport`] in its envelope.
pub(super) const WATCH_SCHEMA: &str = "pmuscope/watch/1";

/// Hits of a recording.
#[derive(Debug, Serialize)]
pub(super) struct WatchReport<'a> {
    file: Option<&'a str>,
    watch: serde_json::Value,
    targets: Vec<TargetOut<'a>>,
    cache_lines: Vec<LineOut<'a>>,
    notes: Vec<NoteOut>,
}

#[derive(Debug, Serialize)]
struct TargetOut<'a> {
    #[serde(flatten)]
    target: SheetObject<'a>,
    threads: Sheet<'a>,
    places: Sheet<'a>,
    places_left_out: usize,
    values: OftenOut,
    changes: OftenOut,
    history: HistoryOut<'a>,
    blocks: Sheet<'a>,
}

#[derive(Debug, Serialize)]
struct OftenOut {
    hits: u64,
    distinct: Option<u64>,
    short_by: u64,
    others: u64,
    rows: Sheet<'static>,
}

#[derive(Debug, Serialize)]
struct HistoryOut<'a> {
    first: Sheet<'a>,
    between: Sheet<'a>,
    last: Sheet<'a>,
    left_out: u64,
}

#[derive(Debug, Serialize)]
struct LineOut<'a> {
    #[serde(flatten)]
    line: SheetObject<'a>,
    words: Sheet<'a>,
}

impl<'a> WatchReport<'a> {
    /// What is shown.
    #[must_use]
    pub(super) fn new(view: &WatchView<'a>) -> Self {
        let line = |line: &'a CacheLine| LineOut {
            line: SheetObject(sheets::line(line)),
            words: sheets::words(*view, line),
        };
        let targets = view.hits.targets.iter().enumerate();
        Self {
            file: view.file,
            watch: watch(view),
            targets: targets.map(|(at, hits)| target(*view, at, hits)).collect(),
            cache_lines: view.hits.lines.iter().map(line).collect(),
            notes: NoteOut::of(view.notes()),
        }
    }
}

/// What was watched, and how.
pub(crate) fn watch(view: &WatchView<'_>) -> serde_json::Value {
    let (hits, info) = (view.hits, &view.hits.info);
    let about = view.recording();
    let exact = hits.targets.iter().all(|target| target.exact);
    let values_read = match hits.value_read {
        ValueRead::After => Some("after"),
        ValueRead::Before => Some("before"),
        ValueRead::Never => None,
    };
    json!({
        "scope": about.map(|about| &about.scope[..]).filter(|scope| !scope.is_empty()),
        "command": about.map_or(&[][..], |about| &about.command),
        "seconds": hits.seconds,
        "emulated_by": about.and_then(|about| about.machine.emulator.as_deref()),
        "values_read": values_read,
        "counted_by": if exact { "kernel" } else { "records" },
        "every": info.every.max(1),
        "when": info.when,
        "when_changed": info.when_changed,
        "count_only": info.count_only,
        "armed_share": hits.armed,
        "took_turns": hits.took_turns,
        "in_hits": hits.in_hits,
        "most_slowdown": info.most_slowdown,
        "slowdown": info.slowdown,
        "hit_cost_ns": info.hit_cost.map(|cost| cost.ns),
        "hit_cost_margin_ns": info.hit_cost.and_then(|cost| cost.margin_ns),
        "hit_cost_n": info.hit_cost.map(|cost| cost.n),
        "records": hits.records,
        "call_chains": hits.has_chains,
    })
}

fn target<'a>(view: WatchView<'a>, at: usize, hits: &'a TargetHits) -> TargetOut<'a> {
    let history = |hits| sheets::history(view, false, hits);
    let often = |of: Often| OftenOut {
        hits: of.total,
        distinct: of.distinct,
        short_by: of.short_by,
        others: of.others,
        rows: of.sheet(view.hits, hits, &of.rows),
    };
    TargetOut {
        target: SheetObject(sheets::targets(&view, Some(at))),
        threads: sheets::threads(view.hits, hits),
        places: sheets::call_sites(&view, hits),
        places_left_out: hits.matrix.rows.len().saturating_sub(view.limits.rows),
        values: often(Often::values(hits)),
        changes: often(Often::changes(hits)),
        history: HistoryOut {
            first: history(&hits.history.first),
            between: history(&hits.history.between),
            last: history(&hits.history.last),
            left_out: hits.history.left_out,
        },
        blocks: sheets::blocks(hits),
    }
}
