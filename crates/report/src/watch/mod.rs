//! Hits of watchpoints: who touched what, from where, from which value to which, how often.

mod charts;
mod html;
mod json;
mod notes;
mod often;
mod parts;
mod sheets;
#[cfg(test)]
mod tests;
mod text;
mod words;

use crate::Style;
use crate::report::Report;
use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::watch::{Access, WatchTarget};
use pmuscope_profile::hits::{HitRecord, Hits, Site, TargetHits};
use serde::Serialize;

use crate::recording::Note;
use crate::sheet::{Separator, delimited_by};

use json::{WATCH_SCHEMA, WatchReport};

pub(crate) use html::summary;
pub(crate) use json::watch as watch_json;
pub(crate) use words::{consequence, place, second_line, thread, verdict, verdict_word};

/// How much is shown of each target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchLimits {
    /// Rows of places.
    pub rows: usize,
    /// Columns of threads, which only people see.
    pub threads: usize,
    /// First and last hits.
    pub history: usize,
    /// Values, and changes of values.
    pub values: usize,
    /// Cache lines.
    pub lines: usize,
}

impl WatchLimits {
    /// For a terminal.
    pub const TEXT: Self = Self { rows: 20, threads: 4, history: 5, values: 8, lines: 8 };
    /// For a page.
    pub const PAGE: Self = Self { rows: 100, threads: 24, history: 20, values: 20, lines: 50 };
    /// For programs: all there is.
    pub const ALL: Self = Self {
        rows: usize::MAX,
        threads: 0,
        history: usize::MAX,
        values: usize::MAX,
        lines: usize::MAX,
    };
}

/// What is shown of a recording of hits.
#[derive(Debug, Clone, Copy)]
pub struct WatchView<'a> {
    hits: &'a Hits,
    file: Option<&'a str>,
    limits: WatchLimits,
}

impl<'a> WatchView<'a> {
    /// Hits that were read from `file`; `None` of a recording that is not kept.
    #[must_use]
    pub fn new(hits: &'a Hits, file: Option<&'a str>, limits: WatchLimits) -> Self {
        Self { hits, file, limits }
    }

    fn recording(&self) -> Option<&'a RecordingInfo> {
        self.hits.metadata.info.as_ref()
    }

    fn target(&self, at: usize) -> Option<&'a WatchTarget> {
        self.hits.info.targets.get(at)
    }

    /// Targets with their hits.
    fn targets(&self) -> impl Iterator<Item = (&'a WatchTarget, &'a TargetHits)> {
        self.hits.info.targets.iter().zip(&self.hits.targets)
    }

    fn site(&self, at: u32) -> Option<&'a Site> {
        self.hits.sites.get(at as usize)
    }

    /// Seconds from the start to a hit.
    fn seconds(&self, hit: &HitRecord) -> f64 {
        hit.time_ns.saturating_sub(self.hits.start_ns) as f64 / 1e9
    }

    /// Sentences that change the reading.
    fn notes(&self) -> Vec<Note> {
        notes::notes(self)
    }

    /// Those about counts.
    pub(crate) fn notes_of_counts(&self) -> Vec<Note> {
        notes::of_counts(self)
    }

    /// Whether hits of a target have values to tell of.
    fn has_values(&self, target: &TargetHits) -> bool {
        target.values.total > 0 || target.history.iter().any(|hit| hit.old.is_some())
    }

    /// Whether its values are numbers that can step.
    fn steps(&self, at: usize) -> bool {
        use pmuscope_perfdata::watch::ValueKind as Kind;
        self.target(at).is_some_and(|target| {
            let points = self.hits.targets[at].points.len();
            points == 1
                && target.access != Access::Execute
                && matches!(target.value, Kind::Unsigned | Kind::Signed | Kind::Other)
        })
    }
}

impl Report for WatchView<'_> {
    fn schema(&self) -> &'static str {
        WATCH_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        text::watch_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        WatchReport::new(self)
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        let call_sites = |hits| sheets::call_sites(self, hits);
        let sheets = self.targets().map(|(target, hits)| (&*target.name, call_sites(hits)));
        Some(delimited_by("target", &sheets.collect::<Vec<_>>(), separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        Some(html::watch_page(self, commit))
    }
}

/// A stretch of time with its rate.
struct RateStretch {
    from_s: f64,
    until_s: f64,
    hits_per_s: Option<f64>,
}

/// Hits that a stretch should have on average: with fewer, rates show where blocks end.
const HITS_OF_STRETCH: u64 = 30;

/// Blocks of a target, neighbors together so far that rates mean something.
fn stretches(hits: &TargetHits) -> Vec<RateStretch> {
    let blocks = hits.blocks.len() as u64;
    let together = (blocks * HITS_OF_STRETCH).div_ceil(hits.hits.max(1)).clamp(1, blocks.max(1));
    let one = |blocks: &[pmuscope_profile::hits::Block]| {
        let armed = |block: &pmuscope_profile::hits::Block| {
            (block.until_s - block.from_s) * block.armed.unwrap_or(1.0)
        };
        let known = || blocks.iter().filter_map(|block| Some((armed(block), block.hits_per_s?)));
        let (time, hits) =
            known().fold((0.0, 0.0), |sum, (time, rate)| (sum.0 + time, sum.1 + time * rate));
        RateStretch {
            from_s: blocks[0].from_s,
            until_s: blocks[blocks.len() - 1].until_s,
            hits_per_s: (time > 0.0).then(|| hits / time),
        }
    };
    hits.blocks.chunks(together as usize).map(one).collect()
}
