//! A function from inside as a part of a result: its source lines, then its instructions.
//!
//! ```text
//!   self  95% CI  of function  samples  line  a.c
//!                                         11  line11();     ─┐ lines around those with samples
//! 60.00%   ±1.20        74.1%       60    12  line12();      │
//!                                         13  line13();     ─┘
//!                                             …             ── a gap
//! ```

use std::collections::BTreeMap;

use pmuscope_profile::views::{FunctionHits, Hit};
use pmuscope_profile::{Annotation, EventProfile, Line, Listing, SourceFile};
use pmuscope_stats::Interval;

use super::{by_address, outside};
use crate::Paint;
use crate::number::{counted, percent, percent_estimate};
use crate::recording::event_name;
use crate::section::{Body, Section};
use crate::sheet::{Field, FieldKind, Sheet, Value};

/// Lines and instructions without samples that are shown around those with some.
const AROUND: usize = 3;

/// Samples at a place.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    share: f64,
    interval: Option<Interval>,
    /// Part of the function's samples, 0 to 1.
    of_function: f64,
    samples: u64,
}

/// A line of a table.
#[derive(Debug, Default)]
struct CodeRow {
    numbers: Option<Numbers>,
    /// The number of a source line.
    line: Option<u32>,
    /// Where an instruction is.
    address: Option<u64>,
    text: Option<String>,
    /// It stands for what is left out, or says where instructions are from.
    is_aside: bool,
    /// It is of the inlined function that is marked.
    is_marked: bool,
}

impl CodeRow {
    fn aside(text: String) -> Self {
        Self { text: Some(text), is_aside: true, ..Self::default() }
    }
}

impl Numbers {
    fn new<K>(hit: &Hit<K>, own: &Hit<()>) -> Self {
        Self {
            share: hit.share,
            interval: hit.interval,
            of_function: hit.sums.weight as f64 / own.sums.weight.max(1) as f64,
            samples: hit.sums.samples,
        }
    }
}

/// The function's part for one of its events. `all`: what is far from samples too.
pub(super) fn section(
    annotation: &Annotation<'_>,
    (event, hits): (&EventProfile, &FunctionHits),
    all: bool,
) -> Section<'static> {
    let Hit { sums, share, interval, .. } = &hits.own;
    let share = match interval {
        Some(of) => percent_estimate(*share, of.low, of.high),
        None => percent(*share, 2),
    };
    let marked = annotation.marked.map_or(String::new(), |name| format!(" (> marks {name})"));
    let title = format!(
        "{}{marked} in {}: {share} of {}, {}",
        annotation.function,
        annotation.module.path,
        event_name(event),
        counted(sums.samples, "sample"),
    );
    let tables =
        sources(annotation, hits, all).into_iter().chain([instructions(annotation, hits, all)]);
    let tables = tables.filter(|table| !table.is_empty());
    tables.fold(Section::new("", title), |section, table| section.with(Body::Gap).sheet(table))
}

/// The numbers, then where it is, then what it is.
fn table<'a>(rows: &'a [CodeRow], place: Field<'a, CodeRow>, head: String) -> Sheet<'static> {
    type Row = CodeRow;
    let number =
        |row: &Row, of: fn(Numbers) -> Value<'static>| row.numbers.map_or(Value::Missing, of);
    let paint = |row: &Row| if row.is_aside { Paint::Dim } else { Paint::Plain };
    let fields = vec![
        Field::new("share", FieldKind::Share, move |row: &Row| {
            number(row, |of| Value::Share(of.share, of.interval))
        })
        .head("self")
        .missing_as(""),
        Field::new("of_function", FieldKind::Number, move |row: &Row| {
            number(row, |of| Value::Share(of.of_function, None))
        })
        .head("of function")
        .missing_as("")
        .optional(3),
        Field::new("samples", FieldKind::Number, move |row: &Row| {
            number(row, |of| Value::Count(of.samples))
        })
        .missing_as("")
        .optional(4),
        place.missing_as(""),
        Field::text("marked", |row: &Row| row.is_marked.then_some(">"))
            .head("")
            .missing_as("")
            .rigid()
            .only_if_measured(),
        Field::text("text", |row: &Row| row.text.as_deref()).head(head).sentence().painted(paint),
    ];
    Sheet::new(fields, rows, rows.len()).in_lines().into_owned()
}

/// A table for each source file with samples, the one with the most first.
fn sources(annotation: &Annotation<'_>, hits: &FunctionHits, all: bool) -> Vec<Sheet<'static>> {
    let mut files: BTreeMap<&str, u64> = BTreeMap::new();
    for hit in &hits.lines {
        *files.entry(&hit.key.file).or_default() += hit.sums.weight;
    }
    let mut files: Vec<(&str, u64)> = files.into_iter().collect();
    files.sort_by_key(|(path, weight)| (std::cmp::Reverse(*weight), *path));
    let sheet = |(path, _): (&str, u64)| {
        let source = annotation.sources.iter().find(|source| *source.path == *path);
        let rows = source_rows(annotation, hits, path, source, all);
        table(&rows, Field::id("line", |row: &CodeRow| row.line), path.to_owned())
    };
    files.into_iter().map(sheet).collect()
}

fn source_rows(
    annotation: &Annotation<'_>,
    hits: &FunctionHits,
    path: &str,
    source: Option<&SourceFile>,
    all: bool,
) -> Vec<CodeRow> {
    let here: BTreeMap<u32, &Hit<Line>> = hits
        .lines
        .iter()
        .filter(|hit| *hit.key.file == *path)
        .filter_map(|hit| Some((hit.key.number?, hit)))
        .collect();
    let text = source.and_then(|source| source.text.as_ref().ok());
    let shown = match text {
        // Without text only what has samples is worth a line.
        None => here.keys().copied().collect(),
        Some(text) => {
            let (Some(first), Some(last)) = extent(annotation, path, &here) else {
                return Vec::new();
            };
            // Debug information may name any number; lines are there as far as the text goes.
            let last = last.min(text.len().try_into().unwrap_or(u32::MAX));
            let has_hit = |line: u32| here.contains_key(&line);
            near(first, last, if all { None } else { Some(AROUND as u32) }, has_hit)
        }
    };
    let mut rows = Vec::new();
    let mut before = None;
    for line in shown {
        if text.is_some() && before.is_some_and(|before| before + 1 < line) {
            rows.push(CodeRow::aside("…".into()));
        }
        before = Some(line);
        let words = text.and_then(|text| text.get((line as usize).checked_sub(1)?));
        rows.push(CodeRow {
            numbers: here.get(&line).map(|hit| Numbers::new(hit, &hits.own)),
            line: Some(line),
            text: words.map(|words| source_text(words)),
            is_marked: annotation.marks_line(&Line { file: path.into(), number: Some(line) }),
            ..CodeRow::default()
        });
    }
    rows
}

/// The first and last line of a file that the function has code of, or samples in.
fn extent(
    annotation: &Annotation<'_>,
    path: &str,
    here: &BTreeMap<u32, &Hit<Line>>,
) -> (Option<u32>, Option<u32>) {
    let of_code = annotation
        .listings
        .iter()
        .flatten()
        .flat_map(|listing| &listing.instructions)
        .filter_map(|one| one.line.as_ref())
        .filter(|line| *line.file == *path)
        .filter_map(|line| line.number.filter(|number| *number > 0));
    let lines: Vec<u32> = of_code.chain(here.keys().copied()).collect();
    (lines.iter().min().copied(), lines.iter().max().copied())
}

/// Those of `first` to `last` with something, and so many around each; all where that is not given.
fn near(first: u32, last: u32, around: Option<u32>, has: impl Fn(u32) -> bool) -> Vec<u32> {
    let Some(around) = around else { return (first..=last).collect() };
    let close = |line: &u32| {
        let from = line.saturating_sub(around).max(first);
        let to = line.saturating_add(around).min(last);
        (from..=to).any(&has)
    };
    (first..=last).filter(close).collect()
}

/// With tabs as terminals show them, since columns are counted.
fn source_text(line: &str) -> String {
    line.trim_end().replace('\t', "        ")
}

/// Instructions with samples and those around them, then sampled addresses without one.
fn instructions(annotation: &Annotation<'_>, hits: &FunctionHits, all: bool) -> Sheet<'static> {
    let listings = annotation.listings.as_deref().unwrap_or_default();
    let here = by_address(&hits.addresses);
    let mut rows = Vec::new();
    for listing in listings {
        // A function of this name that this event has no samples in.
        if listing.instructions.iter().any(|one| here.contains_key(&one.at)) {
            listing_rows(&mut rows, annotation, listing, hits, all);
        }
    }
    for hit in outside(&hits.addresses, listings) {
        rows.push(CodeRow {
            numbers: Some(Numbers::new(hit, &hits.own)),
            address: Some(hit.key),
            is_marked: annotation.marks_address(hit.key),
            ..CodeRow::default()
        });
    }
    table(&rows, Field::address("address", |row: &CodeRow| row.address), "instruction".into())
}

fn listing_rows(
    rows: &mut Vec<CodeRow>,
    annotation: &Annotation<'_>,
    listing: &Listing,
    hits: &FunctionHits,
    all: bool,
) {
    let here = by_address(&hits.addresses);
    let has_hit = |at: u32| here.contains_key(&listing.instructions[at as usize].at);
    let Some(last) = listing.instructions.len().checked_sub(1) else { return };
    let shown = near(0, last as u32, if all { None } else { Some(AROUND as u32) }, has_hit);
    let (mut next, mut line) = (0, None);
    for at in shown {
        rows.extend(left_out(at - next));
        next = at + 1;
        let one = &listing.instructions[at as usize];
        if one.line.is_some() && one.line != line {
            rows.push(CodeRow::aside(place_text(one.line.as_ref())));
            line.clone_from(&one.line);
        }
        rows.push(CodeRow {
            numbers: here.get(&one.at).map(|hit| Numbers::new(hit, &hits.own)),
            address: Some(one.address),
            text: Some(format!("  {}", one.text)),
            is_marked: annotation.marks_address(one.at),
            ..CodeRow::default()
        });
    }
    rows.extend(left_out(last as u32 + 1 - next));
}

fn left_out(instructions: u32) -> Option<CodeRow> {
    let what = counted(u64::from(instructions), "instruction");
    (instructions > 0).then(|| CodeRow::aside(format!("  … {what} without samples")))
}

/// `file.c:12`, the last part of the path only: the tables above have all of it.
fn place_text(line: Option<&Line>) -> String {
    let Some(line) = line else { return String::new() };
    let file = line.file.rsplit('/').next().unwrap_or(&line.file);
    match line.number {
        Some(number) => format!("{file}:{number}"),
        None => file.to_owned(),
    }
}
