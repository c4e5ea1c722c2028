//! Metrics of two sides of recordings: text, JSON and rows for spreadsheets.

mod json;
mod sheet;
mod text;

use crate::report::Report;
use crate::{Separator, Style};
use pmuscope_profile::LongPhases;
use pmuscope_profile::metrics::diff::MetricDiff;
use pmuscope_profile::metrics::long_phases;
use pmuscope_profile::windows::{By, Windows};
use serde::Serialize;

use crate::diff::apart;
use crate::sheet::delimited_together;

use json::{METRICS_DIFF_SCHEMA, MetricsDiffReport};

/// What was compared, and which rows to show.
#[derive(Debug, Clone, Copy)]
pub struct MetricsDiffView<'a> {
    /// Metrics, those asked for.
    pub diffs: &'a [MetricDiff<'a>],
    /// What rows are of.
    pub by: By,
    /// Windows of the recordings before and after.
    pub windows: [&'a [Windows]; 2],
    /// Their files, in the same order.
    pub files: [&'a [String]; 2],
    /// Most rows per metric; `None` shows all.
    pub rows: Option<usize>,
}

impl<'a> MetricsDiffView<'a> {
    /// Seconds between the sides where one was recorded after the other.
    fn apart(&self) -> Option<f64> {
        let infos = |side: &'a [Windows]| side.iter().map(|one| one.metadata.info.as_ref());
        let [before, after] = self.windows;
        apart(infos(before), infos(after))
    }

    /// With one recording a side: the phases that are too long for one of them, so that nothing is claimed.
    fn long_phases(&self) -> Option<LongPhases> {
        let is_within = self.windows.map(<[Windows]>::len) == [1, 1];
        let all = self.windows.into_iter().flatten().filter(|_| is_within);
        all.filter_map(long_phases).reduce(LongPhases::longer)
    }

    /// Metrics that both sides have.
    fn measured(&self) -> impl Iterator<Item = &'a MetricDiff<'a>> {
        self.diffs.iter().filter(|diff| diff.measured == [true; 2])
    }

    /// Metrics that at least one side lacks.
    fn absent(&self) -> Vec<&'a MetricDiff<'a>> {
        self.diffs.iter().filter(|diff| diff.measured != [true; 2]).collect()
    }
}

impl Report for MetricsDiffView<'_> {
    fn schema(&self) -> &'static str {
        METRICS_DIFF_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        text::metrics_diff_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        MetricsDiffReport::new(self)
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        let sheets: Vec<_> = self.measured().map(|diff| self.sheet(diff)).collect();
        Some(delimited_together(&sheets, separator))
    }
}

#[cfg(test)]
mod tests;
