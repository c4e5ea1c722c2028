//! A function between its callers and its callees.

use pmuscope_profile::views::{CallSite, Neighbor, Neighbors, Sums, neighbors};
use pmuscope_report::number::{count, percent};
use pmuscope_report::{Cell, Column, Key, Paint, Style, Table, TableLines, place_text};

use crate::command::CommandLine;
use crate::list::ListPosition;
use crate::seen::SeenCounts;
use crate::subject::Subject;

/// Columns that names get at least.
const NAME: usize = 24;

/// What a line is.
#[derive(Clone)]
enum Line {
    Caller(Neighbor),
    Function(Sums),
    Callee(Neighbor),
}

/// The view.
#[derive(Clone)]
pub(crate) struct NeighborsView {
    site: CallSite,
    lines: Vec<Line>,
    list: ListPosition,
    all: u64,
}

impl NeighborsView {
    pub(crate) fn new(site: CallSite) -> Self {
        Self { site, lines: Vec::new(), list: ListPosition::default(), all: 0 }
    }

    pub(crate) fn count(&mut self, counts: &SeenCounts) {
        self.lines.clear();
        self.all = counts.left().1;
        let Some(event) = counts.event() else { return };
        let is_it = |site: &CallSite| *site == self.site;
        let Some(found) = neighbors(&counts.chains(), event.index, &is_it) else { return };
        let Neighbors { total, callers, callees } = found;
        self.lines.extend(callers.into_iter().map(Line::Caller));
        self.list.at = self.lines.len();
        self.lines.push(Line::Function(total));
        self.lines.extend(callees.into_iter().map(Line::Callee));
    }

    pub(crate) fn key(&mut self, key: Key) -> bool {
        self.list.moves(key, self.lines.len())
    }

    /// The function of the chosen line.
    pub(crate) fn chosen(&self) -> Option<&CallSite> {
        match self.lines.get(self.list.at)? {
            Line::Caller(one) | Line::Callee(one) => one.place.as_ref(),
            Line::Function(_) => Some(&self.site),
        }
    }

    /// Whether the chosen line is the function between the others.
    pub(crate) fn is_at_function(&self) -> bool {
        matches!(self.lines.get(self.list.at), Some(Line::Function(_)) | None)
    }

    pub(crate) fn subject(&self) -> Subject {
        self.chosen().map(Subject::of_site).unwrap_or_default()
    }

    pub(crate) fn state(&self, counts: &SeenCounts) -> String {
        format!("callers and callees of {}", place_text(&self.site, counts.modules()))
    }

    pub(crate) fn position(&self) -> (usize, usize) {
        (self.list.at, self.lines.len())
    }

    pub(crate) fn lines(
        &mut self,
        counts: &SeenCounts,
        height: usize,
        style: &Style,
    ) -> (TableLines, usize) {
        let seen = self.list.seen(self.lines.len(), height.saturating_sub(1));
        let mut table = Table::new([
            Column::number("share"),
            Column::number("samples").optional(1),
            Column::text(""),
            Column::text("function").shrink_to(NAME),
        ]);
        for line in &self.lines[seen.clone()] {
            let (what, sums, site, none) = match line {
                Line::Caller(one) => ("caller", one.sums, one.place.as_ref(), "[no caller]"),
                Line::Function(sums) => ("", *sums, Some(&self.site), ""),
                Line::Callee(one) => ("callee", one.sums, one.place.as_ref(), "[self]"),
            };
            let name =
                site.map_or_else(|| none.to_owned(), |site| place_text(site, counts.modules()));
            let indent = if matches!(line, Line::Callee(_)) { "  " } else { "" };
            let paint = if what.is_empty() { Paint::Bold } else { Paint::Plain };
            let share = percent(sums.weight as f64 / self.all.max(1) as f64, 2);
            let cells = [share, count(sums.samples), what.to_owned(), format!("{indent}{name}")];
            table.row(cells.map(|text| Cell::new(text).paint(paint)));
        }
        let chosen = self.list.line(&seen);
        (table.lines(style), chosen)
    }

    pub(crate) fn command(&self, line: CommandLine) -> CommandLine {
        line.with(["--peek", self.site.function.as_deref().unwrap_or("[unknown]")])
    }
}
