//! Tables: source lines, then instructions.

use std::collections::BTreeMap;

use pmuscope_profile::views::{FunctionHits, Hit};
use pmuscope_profile::{Annotation, Line, Listing, Profile, SourceFile};

use super::missing::missing;
use super::{by_address, outside};
use crate::number::{count, counted, fixed, percent};
use crate::recording::event_name;
use crate::{Cell, Column, Paint, Style, Table, escape, head_text, warnings_text, wrap};

/// Lines and instructions without samples that are shown around those with some.
const AROUND: usize = 3;

/// The function under the recording's head. `all` shows what is far from samples too.
#[must_use]
pub(super) fn annotate_text(
    annotation: &Annotation<'_>,
    profile: &Profile,
    file: &str,
    all: bool,
    style: &Style,
) -> String {
    let (head, warnings) = (head_text(profile, file, style), warnings_text(profile, style));
    format!("{head}{}{warnings}", body(annotation, all, style))
}

/// What stands below the head.
pub(super) fn body(annotation: &Annotation<'_>, all: bool, style: &Style) -> String {
    let mut out = String::new();
    for (event, hits) in &annotation.events {
        let Hit { sums, share, interval, .. } = &hits.own;
        let interval = interval
            .map(|interval| format!(" ± {}", fixed(interval.half_width() * 100.0, 2)))
            .unwrap_or_default();
        let line = format!(
            "{} in {}: {}{interval} of {}, {}",
            escape(annotation.function),
            escape(&annotation.module.path),
            percent(*share, 2),
            event_name(event),
            counted(sums.samples, "sample"),
        );
        out.push_str(&format!("\n{}\n", style.paint(Paint::Bold, &style.text(&line))));
        sources(&mut out, annotation, hits, all, style);
        instructions(&mut out, annotation, hits, all, style);
    }
    let missing = missing(annotation);
    if !missing.is_empty() {
        out.push('\n');
    }
    for line in missing {
        out.push_str(&wrap(&style.text(&format!("note: {}", escape(&line))), style.width, 0));
        out.push('\n');
    }
    out
}

/// Columns of the numbers in front of a line.
fn numbers() -> [Column; 4] {
    [("self", 0), ("95% CI", 1), ("of function", 3), ("samples", 4)]
        .map(|(head, rank)| Column::number(head).optional(rank))
}

/// The numbers of a hit; four empty fields where there is none.
fn number_cells<K>(hit: Option<&Hit<K>>, own: &Hit<()>) -> Vec<Cell> {
    let Some(hit) = hit else { return vec![Cell::new(""); 4] };
    let of_function = hit.sums.weight as f64 / own.sums.weight.max(1) as f64;
    vec![
        Cell::new(percent(hit.share, 2)),
        Cell::measured(hit.interval, |interval| fixed(interval.half_width() * 100.0, 2)),
        Cell::new(percent(of_function, 1)),
        Cell::new(count(hit.sums.samples)),
    ]
}

fn gap(table: &mut Table, text: String) {
    let cells = std::iter::repeat_n(Cell::new(""), 5);
    table.row(cells.chain([Cell::new(text).paint(Paint::Dim)]));
}

/// A table for each source file with samples, the one with the most first.
fn sources(
    out: &mut String,
    annotation: &Annotation<'_>,
    hits: &FunctionHits,
    all: bool,
    style: &Style,
) {
    let mut files: BTreeMap<&str, u64> = BTreeMap::new();
    for hit in &hits.lines {
        *files.entry(&hit.key.file).or_default() += hit.sums.weight;
    }
    let mut files: Vec<(&str, u64)> = files.into_iter().collect();
    files.sort_by_key(|(path, weight)| (std::cmp::Reverse(*weight), *path));
    for (path, _) in files {
        let text = annotation.sources.iter().find(|source| *source.path == *path);
        let mut table = Table::new(
            numbers()
                .into_iter()
                .chain([Column::number("line"), Column::text(&*escape(path)).shrink_end()]),
        );
        source_rows(&mut table, annotation, hits, path, text, all);
        out.push_str(&format!("\n{}", table.render(style)));
    }
}

fn source_rows(
    table: &mut Table,
    annotation: &Annotation<'_>,
    hits: &FunctionHits,
    path: &str,
    source: Option<&SourceFile>,
    all: bool,
) {
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
            let (Some(first), Some(last)) = extent(annotation, path, &here) else { return };
            // Debug information may name any number; lines are there as far as the text goes.
            let last = last.min(text.len().try_into().unwrap_or(u32::MAX));
            let has_hit = |line: u32| here.contains_key(&line);
            near(first, last, if all { None } else { Some(AROUND as u32) }, has_hit)
        }
    };
    let mut before = None;
    for line in shown {
        if text.is_some() && before.is_some_and(|before| before + 1 < line) {
            gap(table, "…".into());
        }
        before = Some(line);
        let hit = here.get(&line).copied();
        let words = text.and_then(|text| text.get((line as usize).checked_sub(1)?));
        let mut cells = number_cells(hit, &hits.own);
        cells.push(Cell::new(line.to_string()));
        cells.push(Cell::measured(words, |words| source_text(words)));
        table.row(cells);
    }
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
    escape(&line.trim_end().replace('\t', "        ")).into_owned()
}

/// A table of instructions with samples and of those around them.
fn instructions(
    out: &mut String,
    annotation: &Annotation<'_>,
    hits: &FunctionHits,
    all: bool,
    style: &Style,
) {
    let mut table = Table::new(
        numbers()
            .into_iter()
            .chain([Column::number("address"), Column::text("instruction").shrink_end()]),
    );
    let listings = annotation.listings.as_deref().unwrap_or_default();
    let here = by_address(&hits.addresses);
    for listing in listings {
        // A function of this name that this event has no samples in.
        if listing.instructions.iter().any(|one| here.contains_key(&one.at)) {
            listing_rows(&mut table, listing, hits, all);
        }
    }
    for hit in outside(&hits.addresses, listings) {
        let mut cells = number_cells(Some(hit), &hits.own);
        cells.extend([Cell::new(format!("{:x}", hit.key)), Cell::new("-")]);
        table.row(cells);
    }
    out.push_str(&format!("\n{}", table.render(style)));
}

fn listing_rows(table: &mut Table, listing: &Listing, hits: &FunctionHits, all: bool) {
    let here = by_address(&hits.addresses);
    let has_hit = |at: u32| here.contains_key(&listing.instructions[at as usize].at);
    let Some(last) = listing.instructions.len().checked_sub(1) else { return };
    let shown = near(0, last as u32, if all { None } else { Some(AROUND as u32) }, has_hit);
    let (mut next, mut line) = (0, None);
    for at in shown {
        left_out(table, at - next);
        next = at + 1;
        let one = &listing.instructions[at as usize];
        if one.line.is_some() && one.line != line {
            gap(table, place_text(one.line.as_ref()));
            line.clone_from(&one.line);
        }
        let mut cells = number_cells(here.get(&one.at).copied(), &hits.own);
        cells.push(Cell::new(format!("{:x}", one.address)));
        cells.push(Cell::new(format!("  {}", escape(&one.text))));
        table.row(cells);
    }
    left_out(table, last as u32 + 1 - next);
}

fn left_out(table: &mut Table, instructions: u32) {
    if instructions > 0 {
        let s = if instructions == 1 { "" } else { "s" };
        gap(table, format!("  … {} instruction{s} without samples", count(instructions.into())));
    }
}

/// `file.c:12`, the last part of the path only: the tables above have all of it.
fn place_text(line: Option<&Line>) -> String {
    let Some(line) = line else { return String::new() };
    let file = line.file.rsplit('/').next().unwrap_or(&line.file);
    match line.number {
        Some(number) => format!("{}:{number}", escape(file)),
        None => escape(file).into_owned(),
    }
}
