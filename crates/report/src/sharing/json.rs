//! The same for programs: the result of `pmuscope/sharing/1`.

use pmuscope_profile::sharing::SharedLine;
use serde::Serialize;

use super::groups::{groups, sheet};
use super::{SharingBy, SharingView, sheets, words};
use crate::recording::Head;
use crate::sheet::{Sheet, SheetObject};

/// Shared lines of a recording.
#[derive(Debug, Serialize)]
pub(super) struct SharingReport<'a> {
    recording: Head<'a>,
    line_bytes: u32,
    physical: bool,
    seconds: f64,
    population: Option<String>,
    samples: u64,
    accesses: u64,
    accesses_without_address: u64,
    accesses_without_physical: Option<u64>,
    contended_without_physical: Option<u64>,
    loads: u64,
    stores: u64,
    contended: u64,
    cost: u64,
    contended_cycles: Option<f64>,
    other_cycles: Option<f64>,
    by: &'static str,
    groups: Option<serde_json::Value>,
    lines: Vec<LineOut<'a>>,
    lines_left_out: usize,
    nothing: Option<String>,
}

#[derive(Debug, Serialize)]
struct LineOut<'a> {
    #[serde(flatten)]
    line: SheetObject<'a>,
    offsets: Sheet<'a>,
    rows: Sheet<'a>,
    pairs: Sheet<'a>,
    threads: Sheet<'a>,
}

impl<'a> SharingReport<'a> {
    pub(super) fn new(view: &SharingView<'a>) -> Self {
        let (found, memory) = (view.found, &view.found.memory);
        let (shown, all) = view.shown();
        let line = |line: &'a SharedLine| LineOut {
            line: SheetObject(sheets::lines(*view, std::slice::from_ref(line), 1)),
            offsets: sheets::offsets(*view, line),
            rows: sheets::rows(view, line),
            pairs: sheets::pairs(*view, line, usize::MAX),
            threads: sheets::threads(*view, line),
        };
        Self {
            recording: Head::new(view.view.profile, view.view.file),
            line_bytes: found.line_bytes,
            physical: found.physical,
            seconds: found.seconds,
            population: words::population(view),
            samples: memory.samples,
            accesses: memory.accesses,
            accesses_without_address: memory.without_address,
            accesses_without_physical: found.physical.then_some(memory.without_physical),
            contended_without_physical: found.physical.then_some(memory.contended_without_physical),
            loads: memory.sums.loads(),
            stores: memory.sums.stores(),
            contended: memory.sums.contended(),
            cost: memory.sums.cost,
            contended_cycles: memory.sums.contended_mean(),
            other_cycles: memory.sums.other_mean(),
            by: view.by.word(),
            groups: (view.by != SharingBy::Line).then(|| {
                let groups = groups(view);
                let sheet = sheet(*view, &groups, view.view.limits.rows);
                serde_json::to_value(sheet).unwrap_or_default()
            }),
            lines: shown.iter().map(line).collect(),
            lines_left_out: all - shown.len(),
            nothing: view.nothing(),
        }
    }
}
