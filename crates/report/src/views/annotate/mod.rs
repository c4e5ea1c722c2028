//! One function from inside: its samples by source line and by instruction.

mod json;
mod missing;
mod page;
mod sections;
mod sheet;
#[cfg(test)]
mod tests;
mod text;

use pmuscope_profile::views::Hit;
use pmuscope_profile::{Annotation, Listing, Profile};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::report::Report;
use crate::sheet::delimited_by;
use crate::{Separator, Style};

pub(crate) use page::CodePart;

use json::{ANNOTATE_SCHEMA, AnnotateReport};

/// A function from inside, and the recording that it was sampled in.
#[derive(Debug, Clone, Copy)]
pub struct AnnotateView<'a> {
    /// Its samples by line and by instruction.
    pub annotation: &'a Annotation<'a>,
    /// The recording's profile.
    pub profile: &'a Profile,
    /// Where it was read from.
    pub file: &'a str,
    /// Text has what is far from samples too.
    pub all: bool,
}

impl Report for AnnotateView<'_> {
    fn schema(&self) -> &'static str {
        ANNOTATE_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        text::annotate_text(self.annotation, self.profile, self.file, self.all, style)
    }

    fn json(&self) -> impl Serialize {
        AnnotateReport::new(self.annotation, self.profile, self.file)
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        let events = self.annotation.events.iter();
        let sheets: Vec<_> = events
            .map(|(event, hits)| (&*event.name, sheet::instructions(self.annotation, hits)))
            .collect();
        Some(delimited_by("event", &sheets, separator))
    }
}

/// Hits by address.
fn by_address(hits: &[Hit<u64>]) -> FxHashMap<u64, &Hit<u64>> {
    hits.iter().map(|hit| (hit.key, hit)).collect()
}

/// Hits at addresses where no instruction of the listings begins: all, where there is no listing.
fn outside<'a>(hits: &'a [Hit<u64>], listings: &[Listing]) -> Vec<&'a Hit<u64>> {
    let begins_at = |listing: &Listing, address: u64| {
        listing.instructions.binary_search_by_key(&address, |one| one.at).is_ok()
    };
    hits.iter().filter(|hit| !listings.iter().any(|one| begins_at(one, hit.key))).collect()
}
