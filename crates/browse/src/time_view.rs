//! Where in time samples fall, line by line, with a span that can be kept.
//!
//! ```text
//!  total   ▂▃▅▇███████▇▅▃▂▂▃▅▇█    one character for one or more blocks of time; as high as the share of the
//!  worker  ▁▁▃▅▇███▇▅▃▁       ▁    largest sum of all lines below "total"
//!                   ├────┤
//!                  mark  cursor
//! ```

use std::ops::Range;

use pmuscope_profile::ModuleSummary;
use pmuscope_profile::aggregate::Timeline;
use pmuscope_profile::views::{Dimension, Row, ranked_rows, rows_over_time};
use pmuscope_report::number::{count as number, fixed};
use pmuscope_report::{Key, Style, keys_text};

use crate::list::ListPosition;
use crate::seen::SeenCounts;
use crate::step::{FilterStep, decimals, span_text};
use crate::subject::Subject;

/// Rows that lines are drawn of.
const MOST_ROWS: usize = 100;
/// Characters from nothing to all, and the same for terminals with ASCII only.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_HEIGHTS: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '%', '#'];
/// Columns of names.
const LABEL: usize = 24;

/// What lines are by, in the order in which `b` turns.
const BY: [(&str, &[Dimension]); 5] = [
    ("thread", &[Dimension::Thread, Dimension::Command]),
    ("CPU", &[Dimension::Cpu]),
    ("function", &[Dimension::Function]),
    ("comm", &[Dimension::Command]),
    ("DSO", &[Dimension::Module]),
];

/// The view.
#[derive(Clone)]
pub(crate) struct TimeView {
    by: usize,
    rows: Vec<Row>,
    /// Number of rows with samples, those that are not drawn too.
    with_samples: usize,
    /// Sums of each row by block, and of all.
    sums: Vec<f64>,
    totals: Vec<f64>,
    list: ListPosition,
    /// Block under the cursor, and where a span begins.
    cursor: u32,
    mark: Option<u32>,
    /// Blocks of one character, as of the last drawing.
    scale: u32,
}

/// What is drawn.
pub(crate) struct TimeLines {
    pub(crate) lines: Vec<String>,
    /// The line that is chosen.
    pub(crate) chosen: Option<usize>,
    /// Columns that the cursor or the span covers.
    pub(crate) span: Range<usize>,
}

impl TimeView {
    pub(crate) fn new() -> Self {
        let (rows, sums, totals) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            by: 0,
            rows,
            with_samples: 0,
            sums,
            totals,
            list: ListPosition::default(),
            cursor: 0,
            mark: None,
            scale: 1,
        }
    }

    pub(crate) fn count(&mut self, counts: &SeenCounts) {
        let Some(event) = counts.event() else { return };
        let (_, by) = BY[self.by];
        let node_of = counts.node_of();
        let (rows, series) = rows_over_time(counts.seen(), event.index, by, &node_of, MOST_ROWS);
        self.with_samples = match rows.len() {
            MOST_ROWS => {
                let (all, _) = ranked_rows(counts.seen(), event.index, by, &node_of, 0);
                (0..all.len()).filter(|&at| all.sums(at).0.samples > 0).count()
            }
            fewer => fewer,
        };
        (self.rows, self.sums, self.totals) = (rows, series.rows, series.totals);
        let blocks = self.totals.len() as u32;
        self.cursor = self.cursor.min(blocks.saturating_sub(1));
        self.mark = self.mark.filter(|mark| *mark < blocks);
    }

    /// Whether the key was one of the view's.
    pub(crate) fn key(&mut self, key: Key, counts: &SeenCounts) -> bool {
        let last = (self.totals.len() as u32).saturating_sub(1);
        match key {
            Key::Left => self.cursor = self.cursor.saturating_sub(self.scale),
            Key::Right => self.cursor = (self.cursor + self.scale).min(last),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = last,
            Key::Char('b') => {
                self.by = (self.by + 1) % BY.len();
                self.list = ListPosition::default();
                self.count(counts);
            }
            Key::Char(' ') => self.mark = Some(self.cursor),
            key => return self.list.moves(key, self.rows.len()),
        }
        true
    }

    /// Whether a span is being chosen; then there is none any more.
    pub(crate) fn forget_mark(&mut self) -> bool {
        self.mark.take().is_some()
    }

    /// Sets the mark, or takes the span from it to the cursor.
    pub(crate) fn enter(&mut self, counts: &SeenCounts) -> Option<FilterStep> {
        if self.mark.is_none() {
            self.mark = Some(self.cursor);
            return None;
        }
        let blocks = self.span();
        self.mark = None;
        // Blocks of what is seen begin where those of all that was read have gone on.
        let (seen, all) = (counts.seen().timeline, counts.time());
        let before =
            seen.start.saturating_sub(all.start).checked_div(all.block_ns).unwrap_or(0) as u32;
        self.cursor = 0;
        Some(FilterStep::Blocks(before + blocks.start..before + blocks.end))
    }

    /// Blocks from the mark to the cursor, or that under the cursor.
    fn span(&self) -> Range<u32> {
        let mark = self.mark.unwrap_or(self.cursor);
        let (first, last) = (mark.min(self.cursor), mark.max(self.cursor));
        let first = first / self.scale * self.scale;
        let end = (last / self.scale + 1) * self.scale;
        first..end.min(self.totals.len() as u32)
    }

    pub(crate) fn subject(&self) -> Subject {
        let (_, by) = BY[self.by];
        self.rows.get(self.list.at).map(|row| Subject::of_row(by, &row.keys)).unwrap_or_default()
    }

    pub(crate) fn state(&self, counts: &SeenCounts) -> String {
        let time = counts.seen().timeline;
        if time.blocks == 0 {
            return "time: samples have no time stamps".into();
        }
        let what = if self.mark.is_some() { "span" } else { "cursor" };
        let start = counts.time().start;
        let shift = time.start.saturating_sub(start) as f64 / 1e9;
        let blocks = self.span();
        let span = if shift == 0.0 {
            span_text(&time, &blocks)
        } else {
            let at = |block: u32| shift + f64::from(block) * time.block_ns as f64 / 1e9;
            let decimals = decimals(&time);
            format!("{}-{} s", fixed(at(blocks.start), decimals), fixed(at(blocks.end), decimals))
        };
        let largest = match self.with_samples > self.rows.len() {
            true => format!(", the {MOST_ROWS} largest of {}", number(self.with_samples as u64)),
            false => String::new(),
        };
        format!("time by {}{largest}, {what} {span}", BY[self.by].0)
    }

    pub(crate) fn position(&self) -> (usize, usize) {
        (self.list.at, self.rows.len())
    }

    pub(crate) fn lines(&mut self, counts: &SeenCounts, height: usize, style: &Style) -> TimeLines {
        let width = style.width.unwrap_or(80);
        let room = width.saturating_sub(LABEL + 1).max(1);
        let blocks = self.totals.len();
        self.scale = blocks.div_ceil(room).max(1) as u32;
        let heights = if style.unicode { HEIGHTS } else { ASCII_HEIGHTS };
        let columns = |sums: &[f64]| -> Vec<f64> {
            sums.chunks(self.scale as usize).map(|part| part.iter().sum()).collect()
        };
        let draw = |sums: &[f64], most: f64| -> String {
            let level = |sum: &f64| match sum / most {
                part if *sum <= 0.0 || !part.is_finite() => 0,
                // What is there is seen.
                part => ((part * 8.0).round() as usize).clamp(1, 8),
            };
            columns(sums).iter().map(|sum| heights[level(sum)]).collect()
        };
        let largest = |sums: &[f64]| columns(sums).into_iter().fold(0.0, f64::max);
        let rows = |at: usize| &self.sums[at * blocks..(at + 1) * blocks];
        let most = (0..self.rows.len()).map(|at| largest(rows(at))).fold(0.0, f64::max);
        let mut lines =
            vec![format!("{:LABEL$} {}", "total", draw(&self.totals, largest(&self.totals)))];
        let seen = self.list.seen(self.rows.len(), height.saturating_sub(2));
        for at in seen.clone() {
            let label = label(&self.rows[at], counts.modules(), style);
            lines.push(format!("{label} {}", draw(rows(at), most)));
        }
        lines.push(axis(&counts.seen().timeline, counts.time().start, room, self.scale));
        let span = self.span();
        let column = |block: u32| LABEL + 1 + (block / self.scale) as usize;
        let span = column(span.start)..column(span.end.saturating_sub(1)) + 1;
        let chosen =
            (!self.rows.is_empty()).then(|| 1 + self.list.at - seen.start.min(self.list.at));
        TimeLines { lines, chosen, span }
    }
}

/// The keys of a row in as many columns as labels have.
fn label(row: &Row, modules: &[ModuleSummary], style: &Style) -> String {
    let text: String = keys_text(&row.keys, modules);
    let cut: String = style.text(&text).chars().take(LABEL).collect();
    format!("{cut:LABEL$}")
}

/// Seconds from the start of the recording, below the first and last column.
fn axis(time: &Timeline, start: u64, room: usize, scale: u32) -> String {
    if time.blocks == 0 {
        return String::new();
    }
    let columns = (time.blocks.div_ceil(scale) as usize).min(room);
    let shift = time.start.saturating_sub(start) as f64 / 1e9;
    let end = shift + f64::from(time.blocks) * time.block_ns as f64 / 1e9;
    let decimals = decimals(time);
    let (first, last) = (fixed(shift, decimals), format!("{} s", fixed(end, decimals)));
    let gap = columns.saturating_sub(first.chars().count()).max(last.chars().count() + 1);
    format!("{:LABEL$} {first}{last:>gap$}", "seconds")
}
