//! The same for programs: the result of `pmuscope/annotate/1`.

use std::collections::HashMap;

use pmuscope_profile::views::{FunctionHits, Hit};
use pmuscope_profile::{Annotation, EventProfile, Line, Listed, Profile};
use serde::Serialize;

use super::missing::{missing, no_instructions};
use super::{by_address, outside};
use crate::recording::Head;

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
    pub(super) events: Vec<AnnotatedEvent<'a>>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct AnnotatedEvent<'a> {
    pub(super) name: &'a str,
    #[serde(flatten)]
    pub(super) own: Numbers,
    pub(super) lines: Vec<SourceLine<'a>>,
    pub(super) instructions: Vec<Instruction<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Numbers {
    pub(super) samples: u64,
    pub(super) share: f64,
    pub(super) share_low: Option<f64>,
    pub(super) share_high: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct SourceLine<'a> {
    pub(super) file: &'a str,
    pub(super) line: Option<u32>,
    /// `null` where the file cannot be read.
    pub(super) text: Option<&'a str>,
    #[serde(flatten)]
    pub(super) numbers: Numbers,
}

#[derive(Debug, Serialize)]
pub(super) struct Instruction<'a> {
    /// As the file's symbol table counts.
    pub(super) address: Option<String>,
    /// As samples count, and `--by address`.
    pub(super) sampled_address: String,
    pub(super) text: Option<&'a str>,
    pub(super) file: Option<&'a str>,
    pub(super) line: Option<u32>,
    #[serde(flatten)]
    pub(super) numbers: Numbers,
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
                .map(|(event, hits)| AnnotatedEvent::new(annotation, event, hits))
                .collect(),
            notes: missing(annotation),
        }
    }
}

impl<'a> AnnotatedEvent<'a> {
    fn new(
        annotation: &'a Annotation<'a>,
        event: &'a EventProfile,
        hits: &'a FunctionHits,
    ) -> Self {
        let texts: HashMap<&str, &[String]> = annotation
            .sources
            .iter()
            .filter_map(|source| Some((&*source.path, source.text.as_deref().ok()?)))
            .collect();
        let line = |hit: &'a Hit<Line>| {
            let text = hit.key.number.and_then(|number| {
                texts.get(&*hit.key.file)?.get((number as usize).checked_sub(1)?)
            });
            SourceLine {
                file: &hit.key.file,
                line: hit.key.number,
                text: text.map(String::as_str),
                numbers: Numbers::of(Some(hit)),
            }
        };
        let here = by_address(&hits.addresses);
        let listings = annotation.listings.as_deref().unwrap_or_default();
        let listed = listings.iter().flat_map(|listing| &listing.instructions);
        let listed =
            listed.map(|one| Instruction::listed(one, Numbers::of(here.get(&one.at).copied())));
        let unlisted = outside(&hits.addresses, listings).into_iter().map(|hit| Instruction {
            address: None,
            sampled_address: format!("{:#x}", hit.key),
            text: None,
            file: None,
            line: None,
            numbers: Numbers::of(Some(hit)),
        });
        Self {
            name: &event.name,
            own: Numbers::of(Some(&hits.own)),
            lines: hits.lines.iter().map(line).collect(),
            instructions: listed.chain(unlisted).collect(),
        }
    }
}

impl<'a> Instruction<'a> {
    fn listed(one: &'a Listed, numbers: Numbers) -> Self {
        Self {
            address: Some(format!("{:#x}", one.address)),
            sampled_address: format!("{:#x}", one.at),
            text: Some(&one.text),
            file: one.line.as_ref().map(|line| &*line.file),
            line: one.line.as_ref().and_then(|line| line.number),
            numbers,
        }
    }
}

impl Numbers {
    /// Nothing was sampled where there is no hit: that is a count of 0.
    fn of<K>(hit: Option<&Hit<K>>) -> Self {
        let interval = hit.and_then(|hit| hit.interval);
        Self {
            samples: hit.map_or(0, |hit| hit.sums.samples),
            share: hit.map_or(0.0, |hit| hit.share),
            share_low: interval.map(|interval| interval.low),
            share_high: interval.map(|interval| interval.high),
        }
    }
}
