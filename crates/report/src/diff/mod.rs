//! Two sides of recordings, as text, as JSON, as a page and as a picture.

mod apart;
mod json;
mod notes;
mod page;
mod sheet;
mod text;

use crate::report::Report;
use crate::{Paint, Style};
use pmuscope_profile::Profile;
use pmuscope_profile::diff::{EventDiff, occurrences};
use serde::Serialize;

pub(crate) use apart::apart;
use json::{DIFF_SCHEMA, DiffReport};
pub(crate) use notes::{claims_note, phases_note, runs_note};

/// What was compared, and which rows to show.
#[derive(Debug, Clone, Copy)]
pub struct DiffView<'a> {
    /// Events of both sides.
    pub events: &'a [EventDiff],
    /// Files of the side before and the one after.
    pub files: [&'a [String]; 2],
    /// The recordings of the two sides, in the same order.
    pub recordings: [&'a [Profile]; 2],
    /// Names of events that only one side has.
    pub one_sided: &'a [String],
    /// Most rows per event; `None` shows all.
    pub rows: Option<usize>,
}

impl DiffView<'_> {
    /// The event of formats with room for one: the main one of the first recording, if both sides have it.
    #[must_use]
    pub fn main_event(&self) -> Option<&EventDiff> {
        let main = self.recordings[0].first().and_then(|profile| {
            let sampled = profile.events.iter().filter(|event| event.samples > 0);
            let main = profile.aggregate.main_event(sampled.map(|event| event.index))?;
            let names = profile.events.iter().map(|event| &*event.name);
            let mut events = profile.events.iter().zip(occurrences(names));
            events.find(|(event, _)| event.index == main)
        });
        let found = main.and_then(|(main, occurrence)| {
            let is_main =
                |event: &&EventDiff| event.name == main.name && event.occurrence == occurrence;
            self.events.iter().find(is_main)
        });
        found.or_else(|| self.events.first())
    }

    /// The flame graph of the [main event](Self::main_event) as an SVG file, as wide as the side after; `None` without an
    /// event.
    #[must_use]
    pub fn picture(&self) -> Option<String> {
        self.main_event().map(|event| page::picture(self, event))
    }

    /// Seconds between the sides where one was recorded after the other.
    fn apart(&self) -> Option<f64> {
        let [before, after] = self.recordings.map(|side| side.iter().map(Profile::info));
        apart(before, after)
    }
}

impl Report for DiffView<'_> {
    fn schema(&self) -> &'static str {
        DIFF_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        text::diff_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        DiffReport::new(self)
    }

    fn page(&self, commit: &str) -> Option<String> {
        Some(page::diff_page(self, commit))
    }
}

/// What a change comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeVerdict {
    More,
    Less,
    /// The change is within what chance does.
    Unclear,
    /// Chance is not known.
    Unknown,
}

impl ChangeVerdict {
    fn of(row: &pmuscope_profile::diff::RowDiff) -> Self {
        Self::new(row.differs(), row.share.value)
    }

    /// Of whether something differs, and by how much.
    pub(crate) fn new(differs: Option<bool>, change: f64) -> Self {
        match differs {
            Some(true) if change > 0.0 => Self::More,
            Some(true) => Self::Less,
            Some(false) => Self::Unclear,
            None => Self::Unknown,
        }
    }

    /// For people.
    pub(crate) fn words(self) -> Option<&'static str> {
        match self {
            Self::Unclear => Some("inconclusive"),
            verdict => verdict.known(),
        }
    }

    /// For programs; `None` where nothing is known.
    pub(crate) fn known(self) -> Option<&'static str> {
        match self {
            Self::More => Some("more"),
            Self::Less => Some("less"),
            Self::Unclear => Some("unclear"),
            Self::Unknown => None,
        }
    }

    /// What may be chance stands back.
    pub(crate) fn paint(self) -> Paint {
        match self {
            Self::More | Self::Less => Paint::Plain,
            Self::Unclear | Self::Unknown => Paint::Dim,
        }
    }
}
