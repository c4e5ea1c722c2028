//! The events of a machine: what `pmuscope list` shows.

mod json;
mod text;

use pmuscope_events::inventory::{Offer, OfferGroup};

pub use json::{LIST_SCHEMA, ListReport};
pub use text::{details_text, list_text};

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
