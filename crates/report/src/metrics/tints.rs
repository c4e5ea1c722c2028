//! Which color a function has by one of its metrics, and what is said of it.

use pmuscope_profile::metrics::MetricCell;
use pmuscope_profile::windows::{By, WindowRow};
use rustc_hash::FxHashMap;

use super::figure::{figure, relied_on};
use super::{MetricsView, Named};
use crate::flame::{Frame, Legend, Painter, Tint};
use crate::tint::{Scale, WITHHELD};

/// Colors by a metric.
#[derive(Debug)]
pub struct Tints<'a> {
    /// Number of its column.
    column: usize,
    name: &'a str,
    unit: &'a str,
    scale: Option<Scale>,
    /// By function and module.
    cells: FxHashMap<(&'a str, &'a str), MetricCell>,
    by: By,
}

impl<'a> Tints<'a> {
    /// By the column of that name; `None` where there is none whose events were counted.
    pub(super) fn new(view: &'a MetricsView<'a>, name: &str) -> Option<Self> {
        let columns = view.table.columns();
        let column = columns
            .iter()
            .position(|column| column.metric.name == name && column.formula.is_some())?;
        let metric = columns[column].metric;
        // Of all rows, whatever the table shows.
        let rows = view.windows.rows.iter().map(|row| (row, view.table.cells(row)[column]));
        let rows: Vec<(&WindowRow, MetricCell)> = rows.collect();
        let scale = Scale::of(rows.iter().filter_map(|(_, cell)| relied_on(cell)));
        let cell = |(row, cell): &(&'a WindowRow, MetricCell)| {
            let named = Named::of_key(view.windows, &row.key);
            Some(((named.function?, named.module.unwrap_or_default()), *cell))
        };
        let cells = rows.iter().filter_map(cell).collect();
        let (name, unit) = (&metric.name[..], &metric.unit[..]);
        Some(Self { column, name, unit, scale, cells, by: view.windows.by })
    }

    /// Number of the column.
    pub(super) fn column(&self) -> usize {
        self.column
    }

    /// The color of a cell of that column.
    pub(super) fn color(&self, cell: &MetricCell) -> &'static str {
        let value = relied_on(cell).zip(self.scale);
        value.map_or(WITHHELD, |(value, scale)| scale.color(value))
    }

    /// Name and unit of the metric.
    pub(super) fn title(&self) -> String {
        if self.unit.is_empty() {
            self.name.into()
        } else {
            format!("{} [{}]", self.name, self.unit)
        }
    }

    /// What the colors stand for.
    pub(super) fn legend(&self) -> Legend {
        let steps = self.scale.map(|scale| scale.steps()).unwrap_or_default();
        let steps = steps.into_iter().map(|step| (step.color.to_owned(), step.values));
        let grey = (WITHHELD.to_owned(), "no reliable value".to_owned());
        Legend { title: self.title(), steps: steps.chain([grey]).collect() }
    }

    /// What flame graphs are painted with.
    #[must_use]
    pub fn painter<'p>(&self, tint: &'p dyn Fn(&Frame<'_>) -> Tint) -> Painter<'p> {
        Painter { tint, legend: self.legend() }
    }

    /// The color of a frame of the flame graph: by the windows that end in the function itself,
    /// whoever called it.
    #[must_use]
    pub fn tint(&self, frame: &Frame<'_>) -> Tint {
        // Without rows of their own, inlined functions belong to those that hold them.
        let has_row = !frame.inlined || self.by == By::Inlined;
        let known = frame.function.filter(|_| has_row);
        let cell = known.and_then(|function| self.cells.get(&(function, frame.module)));
        let note = match cell {
            Some(cell) => format!("{} {}", self.name, figure(cell)),
            None => format!("{} -", self.name),
        };
        Tint { color: cell.map_or(WITHHELD, |cell| self.color(cell)).to_owned(), note }
    }
}
