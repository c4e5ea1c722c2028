//! A table by function, thread, CPU or whatever rows can be by.

use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::Arc;

use pmuscope_profile::views::{Dimension, Key as RowKey, Row};
use pmuscope_report::{Key, RowsBy, Style, TableLines, functions_lines, rows_lines};

use crate::command::CommandLine;
use crate::list::ListPosition;
use crate::rows_table::{RowsTable, TableRows};
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
        let chosen = self.left_at.take().or_else(|| self.chosen_keys(counts));
        self.all = counts.rows(self.kind, INTERVALS);
        self.arrange(counts, chosen.as_deref());
    }

    /// Goes to the first row.
    pub(crate) fn choose_first(&mut self) {
        self.list.jump(0);
    }

    /// Of one that was put aside: the numbers of DSOs are others now, what each was is in `modules`.
    pub(crate) fn renumber(&mut self, modules: &[u32]) {
        for key in self.left_at.iter_mut().flatten() {
            if let RowKey::Module(module) = key {
                *module = modules.get(*module as usize).copied().unwrap_or(u32::MAX);
            }
        }
    }

    /// Without its rows, to be kept while others are looked at. `counts` are those that they were made of.
    pub(crate) fn put_aside(&mut self, counts: &SeenCounts) {
        self.left_at = self.chosen_keys(counts);
        (self.shown, self.all) = (Vec::new(), Rc::default());
    }

    fn chosen_keys(&self, counts: &SeenCounts) -> Option<Vec<RowKey>> {
        let at = self.shown.get(self.list.at)?;
        self.all.rows.keys(counts.seen(), *at)
    }

    /// Sorts and filters; `chosen` are the keys of the row to be chosen, where it is left.
    fn arrange(&mut self, counts: &SeenCounts, chosen: Option<&[RowKey]>) {
        let (all, seen) = (&self.all.rows, counts.seen());
        let mut shown: Vec<u32> = match &*self.filter {
            "" => (0..all.len() as u32).collect(),
            text => {
                let text = text.to_lowercase();
                all.with_key(seen, |key| is_in(key, &text, counts))
            }
        };
        // They are in the order of their own share, and equal ones stay so.
        match self.sort {
            Sort::Own => {}
            Sort::Interval => {
                counts.count_intervals();
                let width = |at: &u32| -> f64 {
                    self.all.interval(*at).map_or(-1.0, |interval| interval.half_width())
                };
                shown.sort_by(|a, b| width(b).total_cmp(&width(a)));
            }
            Sort::Total => {
                let total = |at: u32| all.size(at).total;
                shown.sort_by(|&a, &b| total(b).total_cmp(&total(a)));
            }
            Sort::Samples => shown.sort_by_key(|&at| Reverse(all.size(at).samples)),
            Sort::Key(dimension) => {
                let ranks = all.key_ranks(seen, dimension);
                shown.sort_by_key(|&at| ranks[at as usize]);
            }
        }
        if self.reversed {
            shown.reverse();
        }
        let found = chosen.and_then(|keys| all.position(seen, keys));
        let found = found.and_then(|found| shown.iter().position(|at| *at as usize == found));
        (self.list.at, self.shown) = (found.unwrap_or(0), shown);
    }

    /// Sorts and filters; the chosen row stays where it is there.
    fn arrange_again(&mut self, counts: &SeenCounts) {
        let chosen = self.chosen_keys(counts);
        self.arrange(counts, chosen.as_deref());
    }

    /// The filter that is typed.
    pub(crate) fn set_filter(&mut self, filter: &str, counts: &SeenCounts) {
        // Who finds a row so and drops the filter finds it among the others.
        let chosen = filter.is_empty().then(|| self.chosen_keys(counts)).flatten();
        filter.clone_into(&mut self.filter);
        self.arrange(counts, chosen.as_deref());
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

    pub(crate) fn subject(&self, counts: &SeenCounts) -> Subject {
        let Some(keys) = self.chosen_keys(counts) else { return Subject::default() };
        let subject = Subject::of_row(self.kind.dimensions(), &keys);
        match keys.get(self.kind.dimensions().len()) {
            Some(RowKey::Name(outer)) => {
                Subject { inlined_into: Some(Arc::clone(outer)), ..subject }
            }
            _ => subject,
        }
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
        let all = self.shown.len();
        // The head may take two lines where it is narrow.
        let heads = self.table_lines(counts, 0..all.min(1), style).head.len();
        let seen = self.list.seen(all, height.saturating_sub(heads));
        let chosen = self.list.line(&seen);
        let (from, skipped) = if seen.end <= STEADY { (0, seen.start) } else { (seen.start, 0) };
        let steady = if from == 0 { all.min(STEADY) } else { seen.end };
        let mut lines = self.table_lines(counts, from..steady.max(seen.end), style);
        lines.rows = lines.rows.drain(..).skip(skipped).take(seen.len()).collect();
        (lines, chosen)
    }

    /// Some of the rows as lines.
    fn table_lines(
        &self,
        counts: &SeenCounts,
        range: std::ops::Range<usize>,
        style: &Style,
    ) -> TableLines {
        let (shown, modules) = (&self.shown[range], counts.modules());
        if let (TableRows::Functions(table), Some(event)) = (&self.all.rows, counts.event()) {
            let rows: Vec<_> = shown.iter().filter_map(|&at| self.all.function(at)).collect();
            return functions_lines(table, &rows, event, modules, style);
        }
        let rows: Vec<Row> =
            shown.iter().filter_map(|&at| self.all.row(counts.seen(), at)).collect();
        let children = self.has_totals(counts);
        rows_lines(&rows, RowsBy { dimensions: self.kind.dimensions(), modules, children }, style)
    }

    pub(crate) fn command(&self, line: CommandLine) -> CommandLine {
        match self.kind {
            RowsKind::Functions => line,
            kind => line.with(["--by".to_owned(), kind.by()]),
        }
    }
}

/// Whether what is shown for a key holds a text in lower case, whatever its own case.
fn is_in(key: &RowKey, text: &str, counts: &SeenCounts) -> bool {
    let holds = |shown: &str| shown.to_lowercase().contains(text);
    match key {
        RowKey::Name(name) => holds(name),
        RowKey::Module(module) => {
            let module = counts.modules().get(*module as usize);
            module.is_some_and(|module| holds(&module.path))
        }
        RowKey::Number(number) => holds(&number.to_string()),
        RowKey::Unknown => holds("[unknown]"),
        RowKey::Line(_) | RowKey::Address(_) => false,
    }
}
