//! The same for programs: the result of `pmuscope/annotate/1`.

use pmuscope_profile::{Annotation, Profile};
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
    /// Why there are no instructions; absent where there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions_why: Option<String>,
    events: Vec<AnnotatedEvent<'a>>,
    notes: Vec<String>,
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
            notes: missing(annotation),
        }
    }
}
