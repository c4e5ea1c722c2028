//! What runs now: one interval of a machine that is being followed, as text and as JSON.

mod json;
#[cfg(feature = "screen")]
mod screen;
#[cfg(test)]
pub(crate) mod tests;
mod text;

use pmuscope_profile::views::{Dimension, Row, rows};
use pmuscope_profile::{EventProfile, Profile};

pub use json::{TOP_SCHEMA, TopReport};
#[cfg(feature = "screen")]
pub use screen::{Key, Next, Screen};
pub use text::top_text;

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
}
