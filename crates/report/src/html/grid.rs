//! A heat map: rows over time, the stronger the shade the more.
//!
//! The picture is one path for each of [`LEVELS`] shades, however many cells there are. For the script that
//! tells the numbers under the pointer they are in JSON beside it.

use std::fmt::Write as _;

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
    /// Adds the picture, in a part of class `heat-part`.
    pub(crate) fn push(&self, out: &mut String) {
        let rows = self.rows.len();
        let columns = self.cells.values.first().map_or(0, Vec::len);
        let pixels = (320 / rows.max(1)).clamp(4, 22);
        let every = rows.div_ceil(MOST_LABELS).max(1);
        // Writing to a String does not fail, here and below.
        let _ = write!(
            out,
            "<div class=\"heat\">\n<div class=\"cpus\" aria-hidden=\"true\" style=\"--row:{pixels}px\">"
        );
        for (row, label) in self.rows.iter().enumerate() {
            let _ = write!(out, "<span>{}</span>", if row % every == 0 { label } else { "" });
        }
        let _ = write!(
            out,
            "</div>\n<svg class=\"map\" viewBox=\"0 0 {columns} {rows}\" preserveAspectRatio=\"none\" \
             height=\"{}\" role=\"img\" aria-label=\"{}\">",
            rows * pixels,
            self.told
        );
        for (level, path) in self.paths().iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let strength = 0.10 + 0.90 * (level + 1) as f64 / LEVELS as f64;
            let _ = write!(out, "<path fill-opacity=\"{strength:.2}\" d=\"{path}\"/>");
        }
        let stripes = self.stripes();
        if !stripes.is_empty() {
            let _ = write!(out, "<path class=\"lost\" d=\"{stripes}\"/>");
        }
        out.push_str("</svg>\n<div></div><div class=\"axis\" aria-hidden=\"true\">");
        for mark in 0..=MARKS {
            let at = self.column_s * columns as f64 * f64::from(mark) / f64::from(MARKS);
            let _ = write!(out, "<span>{}</span>", duration(at));
        }
        if !stripes.is_empty() {
            let _ = write!(out, "</div><div></div><div class=\"dim\">{}", self.legend);
        }
        out.push_str("</div>\n</div>\n<p class=\"detail mono\" aria-live=\"polite\"></p>\n");
        self.push_data(out);
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

    fn push_data(&self, out: &mut String) {
        let data = serde_json::json!({
            "row": self.row,
            "rows": self.rows,
            "column_s": self.column_s,
            "unit": self.cells.unit,
            "values": self.cells.values,
            "mark": self.marks.as_ref().map(|marks| marks.unit),
            "marks": self.marks.as_ref().map(|marks| marks.values),
        });
        let _ =
            writeln!(out, "<script type=\"application/json\" class=\"heat-data\">{data}</script>");
    }
}
