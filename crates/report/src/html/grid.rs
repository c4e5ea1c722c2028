//! A heat map: rows over time, the stronger the shade the more.
//!
//! The picture is one path for each of [`LEVELS`] shades, however many cells there are. For the script that
//! tells the numbers under the pointer they are in JSON beside it.

use std::fmt::Write as _;

use crate::markup::{Markup, PreEscaped, html};
use crate::number::duration;

/// Shades.
const LEVELS: u64 = 12;
/// Labels beside the rows.
const MOST_LABELS: usize = 24;
/// Marks below the columns.
const MARKS: u32 = 6;

/// Numbers of cells, row by row.
pub(crate) struct Cells<'a> {
    /// What is counted, in words: `samples`.
    pub(crate) unit: &'a str,
    /// As many in each row.
    pub(crate) values: &'a [Vec<u64>],
}

/// What a heat map shows. Labels and words are ours or numbers: none of them is foreign text.
pub(crate) struct Grid<'a> {
    /// What a row is: `CPU`.
    pub(crate) row: &'a str,
    /// Labels of the rows.
    pub(crate) rows: Vec<String>,
    /// Seconds of a column.
    pub(crate) column_s: f64,
    /// What has the strongest shade.
    pub(crate) most: u64,
    /// The shades.
    pub(crate) cells: Cells<'a>,
    /// Cells above 0 here have a stripe.
    pub(crate) marks: Option<Cells<'a>>,
    /// What stripes are.
    pub(crate) legend: &'a str,
    /// For those who do not see it.
    pub(crate) told: &'a str,
}

impl Grid<'_> {
    /// The picture, for a part of class `heat-part`.
    pub(crate) fn html(&self) -> Markup {
        let rows = self.rows.len();
        let columns = self.cells.values.first().map_or(0, Vec::len);
        let pixels = (320 / rows.max(1)).clamp(4, 22);
        let every = rows.div_ceil(MOST_LABELS).max(1);
        let stripes = self.stripes();
        let mark = |mark| self.column_s * columns as f64 * f64::from(mark) / f64::from(MARKS);
        let shade = |level: usize| 0.10 + 0.90 * (level + 1) as f64 / LEVELS as f64;
        let paths = self.paths().into_iter().enumerate().filter(|(_, path)| !path.is_empty());
        html! {
            div class="heat" {
                div class="cpus" aria-hidden="true" style=(format!("--row:{pixels}px")) {
                    @for (row, label) in self.rows.iter().enumerate() {
                        span { @if row % every == 0 { (label) } }
                    }
                }
                svg class="map" viewBox=(format!("0 0 {columns} {rows}")) preserveAspectRatio="none"
                    height=(rows * pixels) role="img" aria-label=(self.told) {
                    @for (level, path) in paths {
                        path fill-opacity=(format!("{:.2}", shade(level))) d=(path) {}
                    }
                    @if !stripes.is_empty() { path class="lost" d=(stripes) {} }
                }
                div {}
                div class="axis" aria-hidden="true" {
                    @for at in 0..=MARKS { span { (duration(mark(at))) } }
                }
                @if !stripes.is_empty() { div {} div class="dim" { (self.legend) } }
            }
            p class="detail mono" aria-live="polite" {}
            script type="application/json" class="heat-data" { (PreEscaped(self.data().to_string())) }
            "\n"
        }
    }

    /// Paths, the palest first; cells with nothing are not drawn.
    fn paths(&self) -> Vec<String> {
        let mut paths = vec![String::new(); LEVELS as usize];
        for (y, row) in self.cells.values.iter().enumerate() {
            let mut x = 0;
            while x < row.len() {
                let level = self.level(row[x]);
                // Neighbours of one shade are one rectangle.
                let run = row[x..].iter().take_while(|&&value| self.level(value) == level).count();
                if let Some(level) = level {
                    let _ = write!(paths[level], "M{x} {y}h{run}v1h-{run}z");
                }
                x += run;
            }
        }
        paths
    }

    fn level(&self, value: u64) -> Option<usize> {
        let level = || (u128::from(value) * u128::from(LEVELS)).div_ceil(self.most.max(1).into());
        (value > 0).then(|| level().clamp(1, LEVELS.into()) as usize - 1)
    }

    /// A path of the cells that are marked.
    fn stripes(&self) -> String {
        let mut path = String::new();
        for (y, row) in self.marks.iter().flat_map(|marks| marks.values).enumerate() {
            for x in (0..row.len()).filter(|&x| row[x] > 0) {
                // At the lower edge: the shade stays to be seen.
                let _ = write!(path, "M{x} {y}.7h1v.3h-1z");
            }
        }
        path
    }

    /// What the script reads: numbers, and words of ours.
    fn data(&self) -> serde_json::Value {
        serde_json::json!({
            "row": self.row,
            "rows": self.rows,
            "column_s": self.column_s,
            "unit": self.cells.unit,
            "values": self.cells.values,
            "mark": self.marks.as_ref().map(|marks| marks.unit),
            "marks": self.marks.as_ref().map(|marks| marks.values),
        })
    }
}
