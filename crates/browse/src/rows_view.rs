//! A table by function, thread, CPU or whatever rows can be by.

use std::cmp::Ordering;

use pmuscope_profile::views::{Dimension, Key as RowKey, Row};
use pmuscope_report::{Key, RowsBy, Style, TableLines, rows_lines};

use crate::command::CommandLine;
use crate::list::ListPosition;
use crate::seen::SeenCounts;
use crate::subject::Subject;

/// Rows that have an interval: some 100 µs each, and nobody scrolls further to see one.
const INTERVALS: usize = 250;
/// Rows that columns are made wide enough for, wherever the reader is.
const STEADY: usize = 500;

/// What rows are by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowsKind {
    Functions,
    Threads,
    Processes,
    Comms,
    Cpus,
    Dsos,
}

impl RowsKind {
    pub(crate) fn dimensions(self) -> &'static [Dimension] {
        match self {
            Self::Functions => &[Dimension::Command, Dimension::Module, Dimension::Function],
            Self::Threads => &[Dimension::Process, Dimension::Thread, Dimension::Command],
            Self::Processes => &[Dimension::Process, Dimension::Command],
            Self::Comms => &[Dimension::Command],
            Self::Cpus => &[Dimension::Node, Dimension::Cpu],
            Self::Dsos => &[Dimension::Module],
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Functions => "functions",
            Self::Threads => "threads",
            Self::Processes => "processes",
            Self::Comms => "comms",
            Self::Cpus => "CPUs",
            Self::Dsos => "DSOs",
        }
    }

    /// The value of `--by`.
    fn by(self) -> String {
        let word = |of: &Dimension| {
            Dimension::ALL.iter().find(|(_, one)| one == of).map(|(word, _)| *word)
        };
        self.dimensions().iter().filter_map(word).collect::<Vec<_>>().join(",")
    }
}

/// The column that rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Own,
    Interval,
    Total,
    Samples,
    /// A key, by its number.
    Key(usize),
}

/// The table.
#[derive(Clone)]
pub(crate) struct RowsView {
    kind: RowsKind,
    sort: Sort,
    reversed: bool,
    filter: String,
    list: ListPosition,
    /// Those that the filter leaves, sorted.
    rows: Vec<Row>,
    /// All of them.
    all: Vec<Row>,
}

impl RowsView {
    pub(crate) fn new(kind: RowsKind) -> Self {
        let (list, rows, all) = (ListPosition::default(), Vec::new(), Vec::new());
        Self { kind, sort: Sort::Own, reversed: false, filter: String::new(), list, rows, all }
    }

    /// SeenCounts anew; the chosen row stays where it is there.
    pub(crate) fn count(&mut self, counts: &SeenCounts) {
        self.all = counts.rows(self.kind.dimensions(), INTERVALS);
        self.arrange(counts);
    }

    /// Sorts and filters.
    fn arrange(&mut self, counts: &SeenCounts) {
        let chosen = self.rows.get(self.list.at).map(|row| row.keys.clone());
        let wanted = self.filter.to_lowercase();
        let holds = |row: &&Row| row.keys.iter().any(|key| holds(key, counts, &wanted));
        self.rows = self.all.iter().filter(holds).cloned().collect();
        let (sort, reversed) = (self.sort, self.reversed);
        self.rows.sort_by(|a, b| {
            let order = compare(sort, a, b);
            if reversed { order.reverse() } else { order }
        });
        let found = chosen.and_then(|keys| self.rows.iter().position(|row| row.keys == keys));
        self.list.at = found.unwrap_or(0);
    }

    /// The filter that is typed.
    pub(crate) fn set_filter(&mut self, filter: &str, counts: &SeenCounts) {
        filter.clone_into(&mut self.filter);
        self.arrange(counts);
        self.list.at = 0;
    }

    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    /// Whether the key was one of the table's.
    pub(crate) fn key(&mut self, key: Key, counts: &SeenCounts) -> bool {
        match key {
            Key::Char('s') => self.sort_by_next(counts, 1),
            Key::Char('S') => self.sort_by_next(counts, usize::MAX),
            Key::Char('R') => {
                self.reversed = !self.reversed;
                self.arrange(counts);
            }
            key => return self.list.moves(key, self.rows.len()),
        }
        true
    }

    /// Whether a row can have more below it than in it: a thread has not, a function has what it calls.
    fn has_totals(&self, counts: &SeenCounts) -> bool {
        counts.has_calls() && self.kind.dimensions().iter().any(|dimension| dimension.is_place())
    }

    fn sorts(&self, counts: &SeenCounts) -> Vec<Sort> {
        let mut all = vec![Sort::Own, Sort::Interval];
        all.extend(self.has_totals(counts).then_some(Sort::Total));
        all.push(Sort::Samples);
        all.extend((0..self.kind.dimensions().len()).map(Sort::Key));
        all
    }

    fn sort_by_next(&mut self, counts: &SeenCounts, step: usize) {
        let all = self.sorts(counts);
        let at = all.iter().position(|sort| *sort == self.sort).unwrap_or(0);
        self.sort = all[at.wrapping_add(step).wrapping_add(all.len()) % all.len()];
        (self.reversed, self.list.at) = (false, 0);
        self.arrange(counts);
        self.list.at = 0;
    }

    pub(crate) fn subject(&self) -> Subject {
        let row = self.rows.get(self.list.at);
        row.map(|row| Subject::of_row(self.kind.dimensions(), &row.keys)).unwrap_or_default()
    }

    /// `functions by self, rows 1-18 of 214`.
    pub(crate) fn state(&self) -> String {
        let sort = match self.sort {
            Sort::Own if self.kind == RowsKind::Functions => "self".to_owned(),
            Sort::Own => "share".to_owned(),
            Sort::Interval => "width of the 95% CI".to_owned(),
            Sort::Total => "total".to_owned(),
            Sort::Samples => "samples".to_owned(),
            Sort::Key(at) => {
                let of = self.kind.dimensions()[at];
                let word = Dimension::ALL.iter().find(|(_, one)| *one == of);
                word.map_or("", |(word, _)| word).to_owned()
            }
        };
        let order = if self.reversed { ", reversed" } else { "" };
        format!("{} by {sort}{order}", self.kind.title())
    }

    /// Number of rows, and the chosen one.
    pub(crate) fn position(&self) -> (usize, usize) {
        (self.list.at, self.rows.len())
    }

    /// The lines that are seen, and which of them is chosen.
    pub(crate) fn lines(
        &mut self,
        counts: &SeenCounts,
        height: usize,
        style: &Style,
    ) -> (TableLines, usize) {
        let children = self.has_totals(counts);
        let by = RowsBy { dimensions: self.kind.dimensions(), modules: counts.modules(), children };
        // The head may take two lines where it is narrow.
        let heads = rows_lines(&self.rows[..self.rows.len().min(1)], by, style).head.len();
        let seen = self.list.seen(self.rows.len(), height.saturating_sub(heads));
        let chosen = self.list.line(&seen);
        let (from, skipped) = if seen.end <= STEADY { (0, seen.start) } else { (seen.start, 0) };
        let steady = if from == 0 { self.rows.len().min(STEADY) } else { seen.end };
        let mut lines = rows_lines(&self.rows[from..steady.max(seen.end)], by, style);
        lines.rows = lines.rows.drain(..).skip(skipped).take(seen.len()).collect();
        (lines, chosen)
    }

    pub(crate) fn command(&self, line: CommandLine) -> CommandLine {
        line.with(["--by".to_owned(), self.kind.by()])
    }
}

/// The largest first; names in their order.
fn compare(sort: Sort, a: &Row, b: &Row) -> Ordering {
    let width = |row: &Row| row.interval.map_or(-1.0, |interval| interval.half_width());
    let first = match sort {
        Sort::Own => b.own.weight.cmp(&a.own.weight),
        Sort::Interval => width(b).total_cmp(&width(a)),
        Sort::Total => b.total.weight.cmp(&a.total.weight),
        Sort::Samples => b.own.samples.cmp(&a.own.samples),
        Sort::Key(at) => a.keys[at].cmp(&b.keys[at]),
    };
    first
        .then_with(|| b.own.weight.cmp(&a.own.weight))
        .then_with(|| b.total.weight.cmp(&a.total.weight))
        .then_with(|| a.keys.cmp(&b.keys))
}

/// Whether what is shown for a key holds a text, in lower case.
fn holds(key: &RowKey, counts: &SeenCounts, wanted: &str) -> bool {
    let holds = |text: &str| text.to_lowercase().contains(wanted);
    match key {
        RowKey::Name(name) => holds(name),
        RowKey::Module(module) => {
            counts.modules().get(*module as usize).is_some_and(|module| holds(&module.path))
        }
        RowKey::Number(number) => holds(&number.to_string()),
        RowKey::Unknown => holds("[unknown]"),
        RowKey::Line(_) | RowKey::Address(_) => false,
    }
}
