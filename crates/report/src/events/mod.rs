//! The events of a machine: what `pmuscope list` shows.

mod sheet;
mod text;

use pmuscope_events::inventory::{Offer, OfferGroup};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use self::sheet::{Reasons, sheet};
use crate::Style;
use crate::report::Report;
use crate::sheet::Separator;

/// Kind and version of the result.
const LIST_SCHEMA: &str = "pmuscope/list/1";

/// Whether an event can be counted here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Here {
    /// It was opened.
    Yes,
    /// It cannot; the reason, with what to type.
    No(String),
    /// Nobody tried.
    NotTried,
}

/// Events with what trying them told.
#[derive(Debug)]
pub struct ListView<'a> {
    /// What was asked for, if not everything.
    pub pattern: Option<&'a str>,
    /// The events, by kind.
    pub rows: Vec<(Offer, Here)>,
    /// Where event lists come from, and how many events they have for this CPU.
    pub lists: Option<(String, usize)>,
    /// What is missing as a whole, and why.
    pub notes: Vec<String>,
    /// People see everything that is known of each event, not a line of it.
    pub details: bool,
}

impl Report for ListView<'_> {
    const IS_OF_THIS_MACHINE: bool = true;

    fn schema(&self) -> &'static str {
        LIST_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        if self.details { text::details_text(self, style) } else { text::list_text(self, style) }
    }

    fn json(&self) -> impl Serialize {
        Json(self)
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        let reasons = Reasons::of(self.rows.iter());
        Some(sheet(&self.rows, &reasons).delimited(separator))
    }
}

struct Json<'v, 'a>(&'v ListView<'a>);

impl Serialize for Json<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let view = self.0;
        let reasons = Reasons::of(view.rows.iter());
        let lists = view.lists.as_ref();
        let lists = lists.map(|(path, events)| serde_json::json!({"path": path, "events": events}));
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("pattern", &view.pattern)?;
        map.serialize_entry("lists", &lists)?;
        map.serialize_entry("events", &sheet(&view.rows, &reasons))?;
        map.serialize_entry("notes", &view.notes)?;
        map.end()
    }
}

impl ListView<'_> {
    /// Events that cannot be counted here.
    fn refused(&self) -> usize {
        self.rows.iter().filter(|(_, here)| matches!(here, Here::No(_))).count()
    }

    /// Events; ways to write events are none.
    fn events(&self) -> usize {
        self.rows.iter().filter(|(offer, _)| offer.group != OfferGroup::Syntax).count()
    }
}

/// The kind as programs read it.
fn kind_word(group: OfferGroup) -> &'static str {
    match group {
        OfferGroup::Hardware => "hardware",
        OfferGroup::Software => "software",
        OfferGroup::Cache => "cache",
        OfferGroup::Unit => "unit",
        OfferGroup::List => "list",
        OfferGroup::Tracepoint => "tracepoint",
        OfferGroup::Syntax => "syntax",
    }
}
