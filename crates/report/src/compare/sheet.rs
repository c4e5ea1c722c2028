//! The tables of a comparison: their fields, for all forms.
//!
//! In text and CSV each file has columns or lines of its own; a page has them below each other in a cell, beside a
//! picture of them.

use std::collections::BTreeSet;

use pmuscope_measure::compare::{Column as Measured, ComparedMetric, Comparison, Pair, Verdict};
use pmuscope_measure::{Estimated, Labels};
use pmuscope_stats::Interval;

use super::dots::{chip, ratios, values};
use super::scale::Scale;
use super::{exact, is_paired, mean_text, p_text, percent, signed, unit_text, verdict_words};
use crate::Paint;
use crate::markup::html;
use crate::number;
use crate::runs::value;
use crate::sheet::{Field, Separator, Sheet, SheetForm};

const TEXT: &[SheetForm] = &[SheetForm::Text];
const PAGE: &[SheetForm] = &[SheetForm::Page];

/// All metrics.
pub(super) fn figures<'a>(comparison: &'a Comparison, names: &'a [String]) -> Sheet<'a> {
    let with_totals = comparison.per.iter().any(Option::is_some);
    let mut fields = front(comparison);
    // What decides comes first: a reader may stop there.
    if names.len() == 2 {
        fields.extend(decisive_fields(0));
    }
    for (at, name) in names.iter().enumerate() {
        let has_change = names.len() != 2 && comparison.base.is_some_and(|base| base != at);
        fields.extend(file_fields(at, name, with_totals, has_change));
    }
    if names.len() == 2 {
        fields.extend(pair_fields(0, is_paired(comparison)));
    }
    fields.extend(page_fields(names));
    Sheet::new(fields, &comparison.rows, comparison.rows.len())
}

/// What differs between two of several files; of arms all figures.
pub(super) fn differences(comparison: &Comparison, pair: usize) -> Sheet<'_> {
    let mut fields = front(comparison);
    fields.extend(decisive_fields(pair));
    fields.extend(pair_fields(pair, is_paired(comparison)));
    let is_shown = |row: &&ComparedMetric| row.pairs[pair].paired || is_claimed(&row.pairs[pair]);
    let rows: Vec<&ComparedMetric> = comparison.rows.iter().filter(is_shown).collect();
    let number = rows.len();
    Sheet::new(fields, rows, number)
}

pub(super) fn is_claimed(pair: &Pair) -> bool {
    matches!(pair.verdict, Verdict::More | Verdict::Less)
}

/// A column for each label that any row has.
pub(crate) fn label_fields<'a, R>(
    rows: &'a [R],
    of: impl Fn(&'a R) -> &'a Labels + Copy + 'a,
) -> Vec<Field<'a, R>> {
    let keys: BTreeSet<&str> =
        rows.iter().flat_map(|row| of(row).keys()).map(|key| &**key).collect();
    let field = |key: &'a str| {
        let label = move |row: &'a R| of(row).get(key).map(|label| &**label);
        Field::text(key.to_owned(), label).missing_as("").rigid()
    };
    keys.into_iter().map(field).collect()
}

/// Labels, name and unit.
fn front(comparison: &Comparison) -> Vec<Field<'_, ComparedMetric>> {
    let mut fields = label_fields(&comparison.rows, |row| &row.labels);
    let unit = |row: &ComparedMetric| Some(unit_text(row, &comparison.files));
    fields.push(Field::text("metric", |row: &ComparedMetric| Some(&*row.metric)));
    fields.push(Field::text("unit", unit).rigid());
    fields
}

/// The columns of a file, in text.
fn file_fields<'a>(
    at: usize,
    name: &str,
    with_totals: bool,
    has_change: bool,
) -> Vec<Field<'a, ComparedMetric>> {
    let column = move |row: &'a ComparedMetric| row.columns[at].as_ref();
    let pair = move |row: &'a ComparedMetric| row.pairs.iter().find(|pair| pair.other == at);
    let total = move |row| Some(exact(column(row)?.total?, &row.unit));
    let n = move |row| Some(column(row).map_or(0, runs_of).to_string());
    let mean = move |row| {
        let known = column(row).filter(|of| of.mean.is_some() || of.beyond.is_some());
        Some(mean_text(known?, &Scale::of_row(row)))
    };
    let change = move |row| Some(percent(&pair(row)?.ratio?));
    // Of several files the last ones are left out first.
    let rank = |first: usize| (first + at).try_into().unwrap_or(u8::MAX);
    let changes = has_change.then(|| {
        [verdict_field(pair).optional(rank(2)), Field::figure("change", change).optional(rank(2))]
    });
    let totals = with_totals.then(|| Field::figure("total", total).optional(rank(200)));
    let values = [
        Field::figure(name.to_owned(), mean).optional(rank(2)),
        Field::figure("n", n).optional(rank(150)),
    ];
    let fields = changes.into_iter().flatten().chain(values).chain(totals);
    fields.map(|field| field.only_in(TEXT)).collect()
}

/// Runs that a figure has, those above a limit too.
fn runs_of(column: &Measured) -> usize {
    column.mean.map_or(0, |mean| mean.n)
        + column.beyond.map_or(0, |beyond| beyond.runs + column.reached)
}

/// The verdict on a pair of files, and their ratio.
fn decisive_fields<'a>(at: usize) -> [Field<'a, ComparedMetric>; 2] {
    let pair = move |row: &'a ComparedMetric| &row.pairs[at];
    [
        verdict_field(move |row| Some(pair(row))),
        Field::figure("ratio", move |row| ratio_text(pair(row))),
    ]
    .map(|field| field.only_in(TEXT))
}

/// What else is known of a pair of files, in text; of pairs of runs with their number.
fn pair_fields<'a>(at: usize, paired: bool) -> Vec<Field<'a, ComparedMetric>> {
    let pair = move |row: &'a ComparedMetric| &row.pairs[at];
    let n = move |row| Some(pair(row).difference.map_or(0, |of| of.n).to_string());
    let pairs = paired.then(|| Field::figure("pairs", n).optional(140));
    let fields = [
        Field::figure("difference", move |row| difference_text(row, pair(row))).optional(100),
        Field::figure("p", move |row| pair(row).p_adjusted.map(p_text)).optional(110),
        Field::figure("g", move |row| Some(number::significant(pair(row).g?.value, 2)))
            .optional(120),
    ];
    fields.into_iter().chain(pairs).map(|field| field.only_in(TEXT)).collect()
}

fn verdict_field<'a>(
    of: impl Fn(&'a ComparedMetric) -> Option<&'a Pair> + Copy + 'a,
) -> Field<'a, ComparedMetric> {
    Field::text("verdict", move |row| Some(verdict_words(of(row)?.verdict)))
        .missing_as("")
        .rigid()
        .painted(move |row| if of(row).is_some_and(is_claimed) { Paint::Bold } else { Paint::Dim })
}

fn difference_text(row: &ComparedMetric, pair: &Pair) -> Option<String> {
    let scale = Scale::of_row(row);
    Some(signed(&scale.apply(&pair.difference?), &scale.unit))
}

fn ratio_text(pair: &Pair) -> Option<String> {
    Some(value(&pair.ratio?, ""))
}

/// All files, and all pairs of them, in cells of a page.
fn page_fields(names: &[String]) -> Vec<Field<'_, ComparedMetric>> {
    let first_mean = |row: &ComparedMetric| {
        row.columns.iter().flatten().find_map(|column| Some(rounded(column.mean?.value)))
    };
    let means = Field::drawn("mean (95% CI)", |row: &ComparedMetric| {
        html! {
            @for (at, column) in row.columns.iter().enumerate() {
                div class="line" { (chip(at)) (mean_line(column.as_ref(), &Scale::of_row(row))) }
            }
        }
    })
    .sorted_by(first_mean);
    if names.len() == 1 {
        // One alone has nothing to stand beside.
        return vec![means];
    }
    let first = |row: &ComparedMetric, of: fn(&Pair) -> Option<f64>| {
        row.pairs.first().and_then(of).map(rounded)
    };
    let fields = vec![
        Field::drawn("values", |row| values(row, names)),
        means,
        Field::lines("difference", |row: &ComparedMetric| {
            lines(row, |pair| difference_text(row, pair))
        })
        .sorted_by(move |row| first(row, |pair| Some(pair.difference?.value))),
        Field::drawn("ratios", |row| ratios(row, names)),
        Field::lines("ratio", |row: &ComparedMetric| lines(row, ratio_text))
            .sorted_by(move |row| first(row, |pair| Some(pair.ratio?.value))),
        Field::lines("p", |row: &ComparedMetric| lines(row, |pair| pair.p_adjusted.map(p_text)))
            .sorted_by(move |row| first(row, |pair| pair.p_adjusted)),
        Field::lines("verdict", |row: &ComparedMetric| {
            lines(row, |pair| Some(verdict_words(pair.verdict).to_owned()))
        }),
    ];
    fields.into_iter().map(|field| field.only_in(PAGE)).collect()
}

fn lines(row: &ComparedMetric, of: impl Fn(&Pair) -> Option<String>) -> Vec<String> {
    row.pairs.iter().map(|pair| of(pair).unwrap_or_else(|| "-".to_owned())).collect()
}

/// A number to sort by. Its last digits are none of the figure's: a file that is read again may have others.
fn rounded(value: f64) -> f64 {
    format!("{value:.9e}").parse().unwrap_or(value)
}

/// `665.2 ± 1.0 (n 18)`, or why there is none.
fn mean_line(column: Option<&Measured>, scale: &Scale) -> String {
    match column.map(|column| (column, column.mean)) {
        Some((column, Some(mean))) => format!("{} (n {})", mean_text(column, scale), mean.n),
        Some((column, None)) if column.beyond.is_some() => mean_text(column, scale),
        Some((column, None)) => column.why.as_ref().map_or("-".into(), |why| format!("-: {why}")),
        None => "-".to_owned(),
    }
}

/// A figure of a file in CSV, and what differs from another one.
struct FileLine<'a> {
    row: &'a ComparedMetric,
    file: usize,
    pair: Option<&'a Pair>,
}

impl<'a> FileLine<'a> {
    fn column(&self) -> Option<&'a Measured> {
        self.row.columns[self.file].as_ref()
    }

    fn mean(&self) -> Option<Estimated> {
        self.column()?.mean
    }
}

/// A head, a line per figure and file, and one per further pair of files: the file's values, then what
/// differs from `base`.
pub(super) fn delimited(comparison: &Comparison, separator: Separator) -> String {
    let mut rows = Vec::new();
    for row in &comparison.rows {
        for file in 0..comparison.files.len() {
            let pairs = || row.pairs.iter().filter(|pair| pair.other == file).map(Some);
            let none = pairs().next().is_none().then_some(None);
            rows.extend(pairs().chain(none).map(|pair| FileLine { row, file, pair }));
        }
    }
    Sheet::new(line_fields(comparison), &rows, rows.len()).delimited(separator)
}

fn line_fields<'a>(comparison: &'a Comparison) -> Vec<Field<'a, FileLine<'a>>> {
    let files = &comparison.files;
    let interval = |of: Estimated| {
        of.interval.map(|of| Interval { low: of.low, high: of.high, level: of.level })
    };
    let end = |line: &FileLine<'_>| line.mean()?.interval;
    let pair = |key, of: fn(&Pair) -> Option<Estimated>| {
        Field::estimate(key, move |line: &FileLine<'_>| {
            of(line.pair?).map(|of| (of.value, interval(of)))
        })
    };
    let labels = |line: &FileLine<'_>| {
        let labels = line.row.labels.iter().map(|(key, label)| format!("{key}={label}"));
        Some(labels.collect::<Vec<_>>().join(";"))
    };
    vec![
        Field::text("metric", |line: &'a FileLine<'a>| Some(&*line.row.metric)),
        Field::text("labels", labels),
        Field::text("unit", |line: &'a FileLine<'a>| Some(&*line.row.unit)),
        Field::text("per", |line: &'a FileLine<'a>| line.row.per.as_deref()),
        Field::text("file", |line: &FileLine<'_>| Some(&*files[line.file].name)),
        Field::text("origin", |line: &FileLine<'_>| Some(word(&line.column()?.origin))),
        Field::count("n", |line: &FileLine<'_>| line.mean().map_or(0, |mean| mean.n as u64)),
        Field::number("mean", |line: &FileLine<'_>| Some(line.mean()?.value)),
        Field::number("low", move |line: &FileLine<'_>| Some(end(line)?.low)),
        Field::number("high", move |line: &FileLine<'_>| Some(end(line)?.high)),
        Field::number("median", |line: &FileLine<'_>| line.column()?.median),
        Field::number("total", |line: &FileLine<'_>| line.column()?.total),
        Field::number("counted", |line: &FileLine<'_>| line.column()?.counted),
        Field::text("base", |line: &FileLine<'_>| Some(&*files[line.pair?.base].name)),
        pair("difference", |pair| pair.difference),
        pair("ratio", |pair| pair.ratio),
        pair("g", |pair| pair.g),
        Field::number("p", |line: &FileLine<'_>| line.pair?.p),
        Field::number("p_adjusted", |line: &FileLine<'_>| line.pair?.p_adjusted),
        Field::text("verdict", |line: &FileLine<'_>| Some(word(&line.pair?.verdict))),
        Field::count("pairs", |line: &FileLine<'_>| {
            let pair = line.pair.filter(|pair| pair.paired)?;
            Some(pair.difference?.n as u64)
        }),
    ]
}

/// As JSON has it.
pub(super) fn word(of: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(of).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
