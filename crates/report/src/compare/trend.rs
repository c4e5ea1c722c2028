//! Figures over commits or days.

use crate::report::Report;
use pmuscope_measure::compare::{Trend, TrendRow};
use serde::Serialize;

use super::notes::{of_files, short_names};
use super::{label_keys, p_text};
use crate::escape::escape;
use crate::number;
use crate::runs::{marked, value};
use crate::style::{Paint, Style, wrap};
use crate::table::{Cell, Column, Table};

/// The table of `pmuscope compare --trend`: a row per figure, its first and last level, and where it
/// changed.
pub(super) fn trend_text(trend: &Trend, style: &Style) -> String {
    let names = short_names(&trend.files);
    let mut out = format!(
        "{} figures over {} files, the earliest first: mean ±95 %, changes of level claimed at {}\n",
        number::count(trend.rows.len() as u64),
        names.len(),
        number::percent(trend.alpha, 0)
    );
    out += &wrap(&names.join(", "), style.width, 0);
    out += "\n\n";
    let keys = label_keys(trend.rows.iter().map(|row| &row.labels));
    let mut columns: Vec<Column> = keys.iter().map(|key| Column::text(escape(key))).collect();
    columns.extend([Column::text("metric"), Column::text("unit"), Column::number("files")]);
    columns.extend([Column::number("first"), Column::number("last"), Column::text("changed at")]);
    let mut table = Table::new(columns);
    let emulated = trend.files.iter().any(|file| file.emulator.is_some());
    for row in &trend.rows {
        let label = |key: &&str| row.labels.get(*key).map_or("".into(), |v| escape(v)).into_owned();
        let mut cells: Vec<Cell> = keys.iter().map(|key| Cell::new(label(key))).collect();
        cells.push(Cell::new(escape(&row.metric)));
        cells.push(Cell::new(unit(row, emulated)));
        let present: Vec<_> = row.points.iter().flatten().collect();
        cells.push(Cell::new(present.len().to_string()));
        for end in [present.first(), present.last()] {
            cells.push(Cell::measured(end, |point| value(point, &row.unit)));
        }
        cells.push(shifts(row, &names));
        table.row(cells);
    }
    out += &table.render(style);
    for note in of_files(&trend.files) {
        out += "\n";
        out += &wrap(&note, style.width, 0);
        out += "\n";
    }
    style.text(&out).into_owned()
}

pub(crate) fn unit(row: &TrendRow, emulated: bool) -> String {
    let unit = marked(&row.unit, row.origin.into_iter(), emulated);
    match &row.per {
        Some(per) => format!("{unit}/{}", escape(per)),
        None => unit,
    }
}

fn shifts(row: &TrendRow, names: &[String]) -> Cell {
    if row.shifts.is_empty() {
        return Cell::new("-").paint(Paint::Dim);
    }
    let one = |shift: &pmuscope_measure::compare::Shift| {
        format!(
            "{}: {} to {} (p {})",
            names[shift.at],
            number::significant(shift.before, 4),
            number::significant(shift.after, 4),
            p_text(shift.p_adjusted)
        )
    };
    Cell::new(row.shifts.iter().map(one).collect::<Vec<_>>().join("; ")).paint(Paint::Bold)
}

impl Report for Trend {
    fn schema(&self) -> &'static str {
        super::TREND_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        trend_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        self
    }

    fn page(&self, commit: &str) -> Option<String> {
        Some(crate::html::trend_page(self, commit))
    }
}
