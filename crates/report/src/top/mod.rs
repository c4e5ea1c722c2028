//! What runs now: one interval of a machine that is being followed, in every form.

mod json;
#[cfg(feature = "screen")]
mod screen;
#[cfg(test)]
pub(crate) mod tests;
mod text;

use pmuscope_profile::views::{Dimension, Row, rows};
use pmuscope_profile::{EventProfile, Intervals, Profile};
use serde::Serialize;

use self::json::IntervalReport;
use crate::Style;
use crate::html::{PageFrame, Summary};
use crate::markup::html;
use crate::recording::RowLimits;
use crate::report::Report;
use crate::sheet::{Separator, Sheet, delimited_by};
use crate::title;
use crate::views::{RowsBy, rows_sheet, unit_of};

#[cfg(feature = "screen")]
pub use screen::{Key, Next, Screen};

/// Kind and version of the result.
const TOP_SCHEMA: &str = "pmuscope/top/1";
/// What stands for the file's name.
const LIVE: &str = "now";

/// What rows are by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TopBy {
    /// Function, with its module and command.
    #[default]
    Function,
    /// Name of the thread.
    Command,
    /// Process.
    Process,
    /// CPU, with its node.
    Cpu,
    /// Node.
    Node,
}

impl TopBy {
    /// All of them, with the words for them.
    pub const ALL: [(&'static str, Self); 5] = [
        ("function", Self::Function),
        ("command", Self::Command),
        ("process", Self::Process),
        ("cpu", Self::Cpu),
        ("node", Self::Node),
    ];

    /// The columns of a row.
    #[must_use]
    pub fn dimensions(self) -> &'static [Dimension] {
        match self {
            Self::Function => &[Dimension::Command, Dimension::Module, Dimension::Function],
            Self::Command => &[Dimension::Command],
            Self::Process => &[Dimension::Process, Dimension::Command],
            Self::Cpu => &[Dimension::Node, Dimension::Cpu],
            Self::Node => &[Dimension::Node],
        }
    }
}

/// An interval, and where CPUs are.
pub struct TopView<'a> {
    /// What was counted in it, with processes and CPUs told apart.
    pub profile: &'a Profile,
    /// The node of a CPU.
    pub node_of: &'a dyn Fn(u32) -> Option<u32>,
}

impl TopView<'_> {
    /// Rows of an event, the largest first; the first `intervals` of them with their intervals, some
    /// 100 µs each.
    #[must_use]
    pub fn rows(&self, event: &EventProfile, by: TopBy, intervals: usize) -> Vec<Row> {
        rows(&self.profile.aggregate, event.index, by.dimensions(), self.node_of, intervals)
    }

    /// These rows as a table.
    fn sheet(&self, event: &EventProfile, by: TopBy, limits: RowLimits) -> Sheet<'static> {
        let all = self.rows(event, by, limits.rows.unwrap_or(Intervals::MOST));
        let modules = &self.profile.modules;
        let by = RowsBy { dimensions: by.dimensions(), modules, children: false };
        rows_sheet(&all, unit_of(event), by, limits).into_owned()
    }
}

/// An interval, by one thing; JSON and the page have it by all of them.
pub struct TopReport<'a> {
    /// The interval.
    pub view: TopView<'a>,
    /// What rows of text, CSV and TSV are by.
    pub by: TopBy,
    /// Which rows are shown.
    pub limits: RowLimits,
}

impl Report for TopReport<'_> {
    const IS_OF_THIS_MACHINE: bool = true;

    fn schema(&self) -> &'static str {
        TOP_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        text::top_text(&self.view, self.by, self.limits, style)
    }

    fn json(&self) -> impl Serialize {
        IntervalReport::new(&self.view, self.limits)
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        let events = &self.view.profile.events;
        let sheet = |event| self.view.sheet(event, self.by, self.limits);
        let sheets: Vec<_> = events.iter().map(|event| (&*event.name, sheet(event))).collect();
        Some(delimited_by("event", &sheets, separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        let (profile, all) = (self.view.profile, RowLimits::ALL);
        let mut summary = Summary::new(profile, LIVE);
        summary.title = title::about_profile(profile, "What runs", LIVE);
        let limits = |by| if by == TopBy::Function { self.limits } else { all };
        let body = html! {
            @for event in &profile.events {
                @for (what, by) in TopBy::ALL {
                    section class="table-part" {
                        h2 { (event.name) " by " (what) }
                        (self.view.sheet(event, by, limits(by)).html())
                    }
                }
            }
        };
        Some(PageFrame { schema: TOP_SCHEMA, commit }.page(&summary, &body))
    }
}
