//! The same for programs: the result of `pmuscope/annotate/1`.

use std::collections::BTreeMap;

use pmuscope_profile::{Annotation, Line, Profile};
use serde::Serialize;

use super::missing::{missing, no_instructions};
use super::sheet::{instructions, lines, own_object};
use crate::recording::Head;
use crate::sheet::{Sheet, SheetObject};

/// The schema of [`AnnotateReport`] in its envelope.
pub(super) const ANNOTATE_SCHEMA: &str = "pmuscope/annotate/1";

/// A function from inside.
#[derive(Debug, Serialize)]
pub(super) struct AnnotateReport<'a> {
    recording: Head<'a>,
    function: &'a str,
    module: &'a str,
    build_id: Option<String>,
    /// The inlined function that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    marked: Option<&'a str>,
    /// Why there are no instructions; absent where there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions_why: Option<String>,
    events: Vec<AnnotatedEvent<'a>>,
    sources: Vec<SourceExtract<'a>>,
    notes: Vec<String>,
}

/// Lines of a source file, from the first to the last of the function.
#[derive(Debug, Serialize)]
struct SourceExtract<'a> {
    file: &'a str,
    first_line: u32,
    lines: &'a [String],
}

/// Samples of an event in the function.
#[derive(Debug, Serialize)]
struct AnnotatedEvent<'a> {
    name: &'a str,
    #[serde(flatten)]
    own: SheetObject<'a>,
    lines: Sheet<'a>,
    instructions: Sheet<'a>,
}

impl<'a> AnnotateReport<'a> {
    /// All that is known of the function, in the recording read from `file`.
    #[must_use]
    pub(super) fn new(annotation: &'a Annotation<'a>, profile: &'a Profile, file: &'a str) -> Self {
        let why = annotation.listings.as_ref().err();
        Self {
            recording: Head::new(profile, file),
            function: annotation.function,
            module: &annotation.module.path,
            build_id: annotation.module.build_id.as_ref().map(ToString::to_string),
            marked: annotation.marked,
            instructions_why: why.map(|why| no_instructions(annotation, why)),
            events: annotation
                .events
                .iter()
                .map(|(event, hits)| AnnotatedEvent {
                    name: &event.name,
                    own: own_object(&hits.own),
                    lines: lines(annotation, hits),
                    instructions: instructions(annotation, hits),
                })
                .collect(),
            sources: extracts(annotation),
            notes: missing(annotation),
        }
    }
}

/// The part of each source file that the function has code of, or samples in.
fn extracts<'a>(annotation: &'a Annotation<'a>) -> Vec<SourceExtract<'a>> {
    let of_hits = annotation.events.iter().flat_map(|(_, hits)| &hits.lines).map(|hit| &hit.key);
    let of_code = annotation.listings.iter().flatten().flat_map(|listing| &listing.instructions);
    let mut ends: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for Line { file, number } in of_hits.chain(of_code.filter_map(|one| one.line.as_ref())) {
        if let Some(number) = number.filter(|number| *number > 0) {
            let (first, last) = ends.entry(file).or_insert((number, number));
            (*first, *last) = ((*first).min(number), (*last).max(number));
        }
    }
    let extract = |(file, (first, last)): (&'a str, (u32, u32))| {
        let source = annotation.sources.iter().find(|source| *source.path == *file)?;
        let text = source.text.as_ref().ok()?;
        // Debug information may name any number; lines are there as far as the text goes.
        let lines = text.get(first as usize - 1..(last as usize).min(text.len()))?;
        Some(SourceExtract { file, first_line: first, lines })
    };
    ends.into_iter().filter_map(extract).collect()
}
