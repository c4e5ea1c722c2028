//! Shared cache lines: which ones, who accesses which bytes from where, whether that is true or false sharing.

mod advice;
mod diff;
mod groups;
mod heap;
mod json;
mod listing;
mod parts;
mod sheets;
#[cfg(test)]
mod tests;
mod watched;
mod words;

use std::collections::BTreeMap;

use pmuscope_profile::sharing::{SharedLine, SharedLines};
use serde::Serialize;

use crate::document::RecordingView;
use crate::html::{Fact, PageFrame, Summary};
use crate::recording::{head_text, push_wrapped, warnings_text};
use crate::report::Report;
use crate::section::sections_html;
use crate::sheet::{Separator, delimited_by};
use crate::{Style, title};

pub use diff::SharingDiffView;
pub use groups::SharingBy;
use groups::groups;
use json::SharingReport;
pub use watched::{SampledLine, WatchedLinesView};

/// The schema of the JSON.
const SHARING_SCHEMA: &str = "pmuscope/sharing/1";

/// What is shown of shared cache lines.
#[derive(Debug, Clone, Copy)]
pub struct SharingView<'a> {
    /// What was found.
    pub found: &'a SharedLines,
    /// What it was found in; its limits are those of the table of lines.
    pub view: RecordingView<'a>,
    /// NUMA nodes of CPUs; empty where the recording does not say.
    pub nodes: &'a BTreeMap<u32, u32>,
    /// What rows are of.
    pub by: SharingBy,
    /// Lines that are shown offset by offset.
    pub detailed: usize,
    /// Pairs of reader and writer that are shown of each.
    pub pairs: usize,
}

impl<'a> SharingView<'a> {
    /// Share of a line in what all contended loads cost: of their number, where none says how long it took.
    fn share(&self, line: &SharedLine) -> f64 {
        let all = &self.found.memory.sums;
        match all.cost {
            0 => line.sums.contended() as f64 / all.contended().max(1) as f64,
            all => line.sums.cost as f64 / all as f64,
        }
    }

    /// The lines to show, and all that are large enough.
    fn shown(&self) -> (&'a [SharedLine], usize) {
        let (lines, limits) = (&self.found.lines, self.view.limits);
        let large = lines.iter().take_while(|line| self.share(line) >= limits.share).count();
        // Their number is of groups.
        let rows = limits.rows.filter(|_| self.by == SharingBy::Line);
        let all = lines.len() + self.found.further_lines;
        (&lines[..rows.map_or(large, |most| most.min(large))], all)
    }

    /// NUMA nodes of CPUs, in order; `None` where the recording does not say.
    fn nodes(&self, cpus: &[u32]) -> Option<Vec<u32>> {
        let mut nodes: Vec<u32> =
            cpus.iter().map(|cpu| self.nodes.get(cpu).copied()).collect::<Option<_>>()?;
        nodes.sort_unstable();
        nodes.dedup();
        (!nodes.is_empty()).then_some(nodes)
    }

    /// Why there are no lines, and what to type; `None` where there are.
    #[must_use]
    pub fn nothing(&self) -> Option<String> {
        words::nothing(self.found)
    }
}

impl Report for SharingView<'_> {
    fn schema(&self) -> &'static str {
        SHARING_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        let mut out = head_text(self.view.profile, self.view.file, style);
        if self.found.memory.accesses > 0 {
            push_wrapped(&mut out, &words::summary(self), style);
            if let Some(population) = words::population(self) {
                push_wrapped(&mut out, &population, style);
            }
            if let Some(text) = words::by_code(self.found) {
                push_wrapped(&mut out, &text, style);
            }
            if let Some(text) = heap::summary(self.found) {
                push_wrapped(&mut out, &text, style);
            }
        }
        match self.nothing() {
            Some(why) => {
                out.push('\n');
                push_wrapped(&mut out, &why, style);
            }
            None if self.by == SharingBy::Line => {
                self.parts().iter().for_each(|part| part.push_text(&mut out, style));
            }
            None => {
                let groups = groups(self);
                self.group_part(&groups).push_text(&mut out, style);
            }
        }
        out.push_str(&warnings_text(self.view.profile, style));
        out
    }

    fn json(&self) -> impl Serialize {
        SharingReport::new(self)
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        if self.by != SharingBy::Line {
            let groups = groups(self);
            return Some(groups::sheet(*self, &groups, self.view.limits.rows).delimited(separator));
        }
        let lines = self.shown().0;
        let names: Vec<String> = lines.iter().map(words::name).collect();
        let each = names.iter().zip(lines);
        let sheets = each.map(|(name, line)| (&name[..], sheets::rows(self, line)));
        Some(delimited_by("line", &sheets.collect::<Vec<_>>(), separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        let mut summary = Summary::new(self.view.profile, self.view.file);
        summary.title =
            title::about_profile(self.view.profile, "Shared cache lines", self.view.file);
        if let Some(text) = words::by_code(self.found) {
            summary.facts.push(Fact::new("Fields", text, ""));
        }
        if let Some(text) = heap::summary(self.found) {
            summary.facts.push(Fact::new("Heap", text, ""));
        }
        let groups = groups(self);
        let body = match self.by {
            SharingBy::Line => sections_html(&self.parts()),
            _ => sections_html(&[self.group_part(&groups)]),
        };
        Some(PageFrame { schema: SHARING_SCHEMA, commit }.page(&summary, &body))
    }
}
