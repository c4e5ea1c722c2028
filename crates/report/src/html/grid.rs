//! A heat map: rows over time, the stronger the shade the more.
//!
//! The picture is one path for each of [`LEVELS`] shades, however many cells there are. For the script that
//! tells the numbers under the pointer they are in JSON beside it.

use std::fmt::Write as _;

use crate::markup::{Markup, html, json};
use crate::number::count;

/// Shades.
const LEVELS: u64 = 12;
/// Labels beside the rows.
const MOST_LABELS: usize = 24;
/// Marks below the columns, about.
const MARKS: f64 = 6.0;

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
        let whole = self.column_s * columns as f64;
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
                    @for at in ticks(whole) {
                        span style=(format!("left:{:.2}%", at / whole * 100.0)) { (tick(at)) }
                    }
                }
                @if !stripes.is_empty() { div {} div class="dim" { (self.legend) } }
            }
            p class="shades" { "0" span {} (count(self.most)) " " (unit(self.most, self.cells.unit)) }
            p class="detail mono" aria-live="polite" {}
            script type="application/json" class="heat-data" { (json(&self.data())) }
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
                // Neighbors of one shade are one rectangle.
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

/// The unit in the right number: `thread` for 1, else `threads`.
fn unit(number: u64, units: &str) -> &str {
    units.strip_suffix('s').filter(|_| number == 1).unwrap_or(units)
}

/// Round times from 0 to below `whole`, both in seconds: steps of 1, 2 or 5 times a power of ten, about [`MARKS`].
pub(crate) fn ticks(whole: f64) -> Vec<f64> {
    if !whole.is_finite() || whole <= 0.0 {
        return vec![0.0];
    }
    let least = whole / MARKS;
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|of| of * power).into_iter().find(|&of| of >= least);
    let step = step.unwrap_or(least);
    // A label at the very end would stand outside.
    (0..).map(|at| f64::from(at) * step).take_while(|&at| at < whole * 0.97).collect()
}

/// A round time: no digits that say nothing.
pub(crate) fn tick(seconds: f64) -> String {
    let (value, unit) = match seconds {
        0.0 => (0.0, "s"),
        of if of >= 1.0 => (of, "s"),
        of if of >= 1e-3 => (of * 1e3, "ms"),
        of => (of * 1e6, "µs"),
    };
    // What is left over of a sum of floating-point steps is no digit.
    format!("{} {unit}", (value * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_is_no_threads() {
        let words = [(1, "threads"), (2, "threads"), (1, "KiB")].map(|(n, units)| unit(n, units));
        assert_eq!(words, ["thread", "threads", "KiB"]);
    }

    #[test]
    fn an_axis_has_round_times() {
        let labels = |whole| ticks(whole).into_iter().map(tick).collect::<Vec<_>>();
        assert_eq!(labels(3.74), ["0 s", "1 s", "2 s", "3 s"]);
        assert_eq!(labels(6.01), ["0 s", "2 s", "4 s"]);
        assert_eq!(labels(0.009), ["0 s", "2 ms", "4 ms", "6 ms", "8 ms"]);
        assert_eq!(labels(0.0), ["0 s"]);
        for whole in [1e-9, 0.3, 1.0, 7.3, 10.0, 86_400.0] {
            let number = ticks(whole).len();
            assert!((3..=7).contains(&number), "{whole}: {number}");
        }
    }
}
