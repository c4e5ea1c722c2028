//! A table by function, thread, CPU or whatever rows can be by.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::rc::Rc;

use pmuscope_profile::views::{Dimension, Key as RowKey, Row};
use pmuscope_report::{Key, RowsBy, Style, TableLines, rows_lines};

use crate::command::CommandLine;
use crate::list::ListPosition;
use crate::seen::{RowsTable, SeenCounts};
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
    /// Those that the filter leaves, sorted: places in `all`.
    shown: Vec<u32>,
    /// All of them, the largest first.
    all: Rc<RowsTable>,
    /// The chosen row of a view that holds none, to be chosen again.
    left_at: Option<Vec<RowKey>>,
}

impl RowsView {
    pub(crate) fn new(kind: RowsKind) -> Self {
        Self {
            kind,
            sort: Sort::Own,
            reversed: false,
            filter: String::new(),
            list: ListPosition::default(),
            shown: Vec::new(),
            all: Rc::default(),
            left_at: None,
        }
    }

    /// Counts anew; the chosen row stays where it is there.
    pub(crate) fn count(&mut self, counts: &SeenCounts) {
        let chosen = self.left_at.take().or_else(|| self.chosen().map(|row| row.keys.clone()));
        self.all = counts.rows(self.kind.dimensions(), INTERVALS);
        self.arrange(counts, chosen.as_deref());
    }

    /// The numbers of DSOs are others now: what each was is in `modules`.
    pub(crate) fn renumber(&mut self, modules: &[u32]) {
        let mut chosen = self.left_at.take().or_else(|| self.chosen().map(|row| row.keys.clone()));
        for key in chosen.iter_mut().flatten() {
            if let RowKey::Module(module) = key {
                *module = modules.get(*module as usize).copied().unwrap_or(u32::MAX);
            }
        }
        self.left_at = chosen;
    }

    /// Without its rows, to be kept while others are looked at.
    pub(crate) fn put_aside(&mut self) {
        self.left_at = self.chosen().map(|row| row.keys.clone());
        (self.shown, self.all) = (Vec::new(), Rc::default());
    }

    fn chosen(&self) -> Option<&Row> {
        self.shown.get(self.list.at).map(|&at| &self.all.rows[at as usize])
    }

    /// Sorts and filters; `chosen` are the keys of the row to be chosen, where it is left.
    fn arrange(&mut self, counts: &SeenCounts, chosen: Option<&[RowKey]>) {
        let mut search = TextSearch::new(counts, &self.filter);
        let places = (0..).zip(&self.all.rows);
        let mut shown: Vec<u32> =
            places.filter(|(_, row)| search.finds(&row.keys)).map(|(at, _)| at).collect();
        let row = |at: &u32| &self.all.rows[*at as usize];
        match self.sort {
            // That is their order.
            Sort::Own => {}
            Sort::Interval => {
                counts.count_intervals();
                let width = |at: &u32| -> f64 {
                    self.all.interval(*at).map_or(-1.0, |interval| interval.half_width())
                };
                shown.sort_by(|a, b| width(b).total_cmp(&width(a)));
            }
            sort => shown.sort_by(|a, b| compare(sort, row(a), row(b))),
        }
        if self.reversed {
            shown.reverse();
        }
        let found = chosen.and_then(|keys| shown.iter().position(|at| row(at).keys == keys));
        (self.list.at, self.shown) = (found.unwrap_or(0), shown);
    }

    /// Sorts and filters; the chosen row stays where it is there.
    fn arrange_again(&mut self, counts: &SeenCounts) {
        let chosen = self.chosen().map(|row| row.keys.clone());
        self.arrange(counts, chosen.as_deref());
    }

    /// The filter that is typed.
    pub(crate) fn set_filter(&mut self, filter: &str, counts: &SeenCounts) {
        filter.clone_into(&mut self.filter);
        self.arrange(counts, None);
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
                self.arrange_again(counts);
            }
            key => return self.list.moves(key, self.shown.len()),
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
        self.reversed = false;
        self.arrange(counts, None);
    }

    pub(crate) fn subject(&self) -> Subject {
        let row = self.chosen();
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
        let counting = if self.all.lacks_intervals() { " (CIs are being counted)" } else { "" };
        format!("{} by {sort}{order}{counting}", self.kind.title())
    }

    /// Number of rows, and the chosen one.
    pub(crate) fn position(&self) -> (usize, usize) {
        (self.list.at, self.shown.len())
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
        let rows = |range: std::ops::Range<usize>| -> Vec<Row> {
            self.shown[range].iter().map(|&at| self.all.row(at)).collect()
        };
        let all = self.shown.len();
        // The head may take two lines where it is narrow.
        let heads = rows_lines(&rows(0..all.min(1)), by, style).head.len();
        let seen = self.list.seen(all, height.saturating_sub(heads));
        let chosen = self.list.line(&seen);
        let (from, skipped) = if seen.end <= STEADY { (0, seen.start) } else { (seen.start, 0) };
        let steady = if from == 0 { all.min(STEADY) } else { seen.end };
        let mut lines = rows_lines(&rows(from..steady.max(seen.end)), by, style);
        lines.rows = lines.rows.drain(..).skip(skipped).take(seen.len()).collect();
        (lines, chosen)
    }

    pub(crate) fn command(&self, line: CommandLine) -> CommandLine {
        line.with(["--by".to_owned(), self.kind.by()])
    }
}

/// The largest first; names in their order.
fn compare(sort: Sort, a: &Row, b: &Row) -> Ordering {
    let first = match sort {
        Sort::Own | Sort::Interval => b.own.weight.cmp(&a.own.weight),
        Sort::Total => b.total.weight.cmp(&a.total.weight),
        Sort::Samples => b.own.samples.cmp(&a.own.samples),
        Sort::Key(at) => a.keys[at].cmp(&b.keys[at]),
    };
    first
        .then_with(|| b.own.weight.cmp(&a.own.weight))
        .then_with(|| b.total.weight.cmp(&a.total.weight))
        .then_with(|| a.keys.cmp(&b.keys))
}

/// Looks for a text in rows, whatever its case. Many rows have the same names: each is looked at once.
struct TextSearch<'a> {
    wanted: String,
    counts: &'a SeenCounts,
    modules: HashMap<u32, bool>,
    /// By address of the name, which rows share.
    names: HashMap<*const u8, bool>,
}

impl<'a> TextSearch<'a> {
    fn new(counts: &'a SeenCounts, text: &str) -> Self {
        let (modules, names) = (HashMap::new(), HashMap::new());
        Self { wanted: text.to_lowercase(), counts, modules, names }
    }

    fn finds(&mut self, keys: &[RowKey]) -> bool {
        self.wanted.is_empty() || keys.iter().any(|key| self.is_in(key))
    }

    /// Whether what is shown for a key holds the text.
    fn is_in(&mut self, key: &RowKey) -> bool {
        let holds = |text: &str| text.to_lowercase().contains(&self.wanted);
        match key {
            RowKey::Name(name) => *self.names.entry(name.as_ptr()).or_insert_with(|| holds(name)),
            RowKey::Module(module) => *self.modules.entry(*module).or_insert_with(|| {
                let module = self.counts.modules().get(*module as usize);
                module.is_some_and(|module| holds(&module.path))
            }),
            RowKey::Number(number) => holds(&number.to_string()),
            RowKey::Unknown => holds("[unknown]"),
            RowKey::Line(_) | RowKey::Address(_) => false,
        }
    }
}
