//! Run files side by side, what explains a difference, and figures over time.

mod delimited;
mod explain;
pub(crate) mod notes;
pub(crate) mod scale;
mod trend;

use crate::Separator;
use crate::report::Report;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use pmuscope_measure::compare::{
    Column as Measured, ComparedMetric, Comparison, FileHead, Pair, Verdict,
};
use pmuscope_measure::{Estimated, Limits, arms};

use crate::escape::escape;
use crate::markup::cut;
use crate::number;
use crate::runs::{beyond, marked, value};
use crate::style::{Paint, Style, wrap};
use crate::table::{Cell, Column, Table};
use notes::{is_cut, of_comparison, short_names};
use scale::Scale;

pub(crate) use trend::unit as trend_unit;

/// Kind and version of `pmuscope compare --json`.
pub(crate) const COMPARE_SCHEMA: &str = "pmuscope/compare/2";
/// Kind and version of `pmuscope compare --trend DIR --json`.
pub(crate) const TREND_SCHEMA: &str = "pmuscope/trend/1";

/// Characters of a command line that are shown.
const LONGEST_COMMAND: usize = 100;

impl Report for Comparison {
    fn schema(&self) -> &'static str {
        COMPARE_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        compare_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        self
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(delimited::compare_delimited(self, separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        Some(crate::html::compare_page(self, commit))
    }
}

/// The tables of `pmuscope compare`.
pub(crate) fn compare_text(comparison: &Comparison, style: &Style) -> String {
    let names = short_names(&comparison.files);
    let mut out = head(comparison, &names);
    out += "\n";
    out += &table(comparison, &names).render(style);
    // Side by side there is only room for percentages.
    let each = names.len() > 2 && (comparison.base.is_none() || is_paired(comparison));
    for pair in 0..comparison.rows.first().filter(|_| each).map_or(0, |row| row.pairs.len()) {
        out += &differences(comparison, &names, pair, style);
    }
    for explanation in &comparison.explanations {
        out += "\n";
        out += &explain::text(explanation, &names, style);
    }
    for note in of_comparison(comparison) {
        out += "\n";
        out += &wrap(&note, style.width, 0);
        out += "\n";
    }
    style.text(&out).into_owned()
}

/// Whether runs are compared pair by pair.
fn is_paired(comparison: &Comparison) -> bool {
    comparison.rows.iter().flat_map(|row| &row.pairs).any(|pair| pair.paired)
}

fn head(comparison: &Comparison, names: &[String]) -> String {
    let figures = number::count(comparison.rows.len() as u64);
    let per: Vec<String> = comparison
        .per
        .iter()
        .map(|per| per.as_ref().map_or("run".to_owned(), |per| escape(per).into_owned()))
        .collect();
    let mut out = format!("{figures} figures per {}: mean ±95 %", per.join(", "));
    if names.len() > 1 {
        let pairs = if is_paired(comparison) { " of pairs" } else { "" };
        let _ = write!(
            out,
            ", differences{pairs} claimed at {} of {} tests together (Holm)",
            number::percent(comparison.alpha, 0),
            number::count(comparison.tests as u64)
        );
    }
    out.push('\n');
    for (name, file) in names.iter().zip(&comparison.files) {
        out += &of_file(name, file);
    }
    out
}

/// `a.json: 15 runs of 10,000,000 packet on Xeon E5, pmuscope sweep …`.
pub(crate) fn of_file(name: &str, file: &FileHead) -> String {
    let machine = file.processor.as_deref().map_or(String::new(), |p| format!(" on {}", escape(p)));
    let command = match &file.arm {
        Some(words) => arms::join(words),
        None => file.command.join(" "),
    };
    let command = cut(&command, LONGEST_COMMAND);
    let units: Vec<String> = file
        .units
        .iter()
        .map(|(unit, n)| {
            let whole = n.fract() == 0.0;
            let n = if whole { number::fixed(*n, 0) } else { number::significant(*n, 6) };
            format!("{n} {}", escape(unit))
        })
        .collect();
    let units = if units.is_empty() { String::new() } else { format!(" of {}", units.join(", ")) };
    format!(
        "{name}: {}{units}{machine}, {}\n",
        number::counted(file.runs - file.failed, "run"),
        escape(&command)
    )
}

/// All figures.
fn table(comparison: &Comparison, names: &[String]) -> Table {
    let keys = label_keys(comparison.rows.iter().map(|row| &row.labels));
    let with_totals = comparison.per.iter().any(Option::is_some);
    let two = names.len() == 2;
    let mut columns: Vec<Column> = keys.iter().map(|key| Column::text(escape(key))).collect();
    columns.extend([Column::text("metric"), Column::text("unit")]);
    for (at, name) in names.iter().enumerate() {
        if with_totals {
            columns.push(Column::number("TOTAL"));
        }
        columns.extend([Column::number("n"), Column::number(name)]);
        if !two && comparison.base.is_some_and(|base| base != at) {
            columns.extend([Column::number("change"), Column::text("")]);
        }
    }
    if two {
        columns.extend(pair_columns(is_paired(comparison)));
    }
    let mut table = Table::new(columns);
    for row in &comparison.rows {
        let scale = Scale::of_row(row);
        let mut cells = front(row, &keys, &comparison.files);
        for (at, column) in row.columns.iter().enumerate() {
            let measured = column.as_ref();
            if with_totals {
                let total = measured.and_then(|column| column.total);
                cells.push(Cell::measured(total, |total| exact(total, &row.unit)));
            }
            cells.push(Cell::new(measured.map_or(0, runs_of).to_string()));
            let is_known = |c: &&Measured| c.mean.is_some() || c.beyond.is_some();
            cells.push(Cell::measured(measured.filter(is_known), |c| mean_text(c, &scale)));
            if !two && comparison.base.is_some_and(|base| base != at) {
                let pair = row.pairs.iter().find(|pair| pair.other == at);
                cells.push(Cell::measured(pair.and_then(|pair| pair.ratio), |r| percent(&r)));
                cells.push(pair.map_or_else(Cell::default, verdict));
            }
        }
        if two {
            let paired = is_paired(comparison);
            cells.extend(row.pairs.iter().flat_map(|pair| pair_cells(pair, &scale, paired)));
        }
        table.row(cells);
    }
    table
}

/// Labels, name and unit.
fn front(row: &ComparedMetric, keys: &[&str], files: &[FileHead]) -> Vec<Cell> {
    let label = |key: &&str| row.labels.get(*key).map_or(String::new(), |v| escape(v).into_owned());
    let mut cells: Vec<Cell> = keys.iter().map(|key| Cell::new(label(key))).collect();
    cells.push(Cell::new(escape(&row.metric)));
    cells.push(Cell::new(unit_text(row, files)));
    cells
}

/// `s/packet`, `/packet`; with the mark of emulated counters and machines.
pub(crate) fn unit_text(row: &ComparedMetric, files: &[FileHead]) -> String {
    let emulated = files.iter().any(|file| file.emulator.is_some());
    let origins = || row.columns.iter().flatten().map(|column| column.origin);
    let mut unit = marked(&Scale::of_row(row).unit, origins(), emulated);
    if let Some(per) = &row.per {
        let (plain, mark) = unit.split_once(" (").map_or((&*unit, None), |(u, m)| (u, Some(m)));
        let mark = mark.map_or(String::new(), |mark| format!(" ({mark}"));
        unit = format!("{plain}/{}{mark}", escape(per));
    }
    if !unit.ends_with("(emu)") && origins().any(|o| o == pmuscope_measure::Origin::Emulated) {
        unit += " (emu)";
    }
    unit.trim().to_owned()
}

/// Runs that a figure has, those above a limit too.
pub(crate) fn runs_of(column: &Measured) -> usize {
    column.mean.map_or(0, |mean| mean.n)
        + column.beyond.map_or(0, |beyond| beyond.runs + column.reached)
}

/// What was not counted all of the time is an estimate; of runs above a limit there is none.
pub(crate) fn mean_text(column: &Measured, scale: &Scale) -> String {
    if let Some(limit) = &column.beyond {
        return beyond(limit, column.median, column.reached);
    }
    let show = |mean| value(&scale.apply(&mean), &scale.unit);
    let text = column.mean.map_or("-".to_owned(), show);
    if is_cut(column) { format!("~{text}") } else { text }
}

fn exact(total: f64, unit: &str) -> String {
    match unit {
        "" if total.abs() >= 1000.0 => number::fixed(total, 0),
        "" if total.fract() == 0.0 => number::fixed(total, 0),
        "B" => number::bytes(total.max(0.0).round() as u64),
        "s" => number::duration(total),
        "ms" | "msec" => number::duration(total / 1e3),
        _ => number::significant(total, 4),
    }
}

/// What is shown of a pair of columns; of pairs of runs with their number.
fn pair_columns(paired: bool) -> Vec<Column> {
    let mut columns = if paired { vec![Column::number("pairs")] } else { Vec::new() };
    columns.extend(["difference", "ratio", "g", "p"].map(Column::number));
    columns.push(Column::text(""));
    columns
}

fn pair_cells(pair: &Pair, scale: &Scale, paired: bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    if paired {
        let n = pair.difference.map_or(0, |difference| difference.n);
        cells.push(Cell::new(n.to_string()));
    }
    cells.extend([
        Cell::measured(pair.difference, |d| signed(&scale.apply(&d), &scale.unit)),
        Cell::measured(pair.ratio, |ratio| value(&ratio, "")),
        Cell::measured(pair.g, |g| number::significant(g.value, 2)),
        Cell::measured(pair.p_adjusted, p_text),
        verdict(pair),
    ]);
    cells
}

/// A difference with its sign; a size in binary units has none else.
pub(crate) fn signed(difference: &Estimated, unit: &str) -> String {
    if unit != "B" {
        return number::signed(&value(difference, unit), difference.value);
    }
    // Sizes themselves are never negative.
    let sign = if difference.value < 0.0 { "-" } else { "+" };
    let interval = difference.interval.map(|of| match difference.value < 0.0 {
        true => Limits { low: -of.high, high: -of.low, level: of.level },
        false => of,
    });
    let size = Estimated { value: difference.value.abs(), interval, ..*difference };
    let text = value(&size, unit);
    if size.value.round() == 0.0 { text } else { format!("{sign}{text}") }
}

/// A ratio as percentage of change.
fn percent(ratio: &Estimated) -> String {
    let half = ratio.interval.map(|i| 50.0 * (i.high - i.low)).filter(|half| *half > 0.0);
    let change = 100.0 * (ratio.value - 1.0);
    let text = half.map_or(number::significant(change, 3), |half| number::interval(change, half));
    format!("{}{text} %", if change > 0.0 { "+" } else { "" })
}

pub(crate) fn p_text(p: f64) -> String {
    if p < 1e-4 { "<0.0001".to_owned() } else { number::significant(p, 2) }
}

pub(crate) fn verdict_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::More => "more",
        Verdict::Less => "less",
        Verdict::Equal => "equal in all runs",
        Verdict::CannotTell => "cannot tell",
        Verdict::Unmeasured => "-",
    }
}

fn verdict(pair: &Pair) -> Cell {
    let words = verdict_words(pair.verdict);
    match pair.verdict {
        Verdict::More | Verdict::Less => Cell::new(words).paint(Paint::Bold),
        _ => Cell::new(words).paint(Paint::Dim),
    }
}

/// What differs between two of several files; of arms all figures.
fn differences(comparison: &Comparison, names: &[String], pair: usize, style: &Style) -> String {
    let keys = label_keys(comparison.rows.iter().map(|row| &row.labels));
    let mut columns: Vec<Column> = keys.iter().map(|key| Column::text(escape(key))).collect();
    columns.extend([Column::text("metric"), Column::text("unit")]);
    let paired = is_paired(comparison);
    columns.extend(pair_columns(paired));
    let mut table = Table::new(columns).indent(2);
    let (mut found, mut rest, mut ends) = (0, 0, (0, 0));
    for row in &comparison.rows {
        let one = &row.pairs[pair];
        ends = (one.base, one.other);
        let is_claimed = matches!(one.verdict, Verdict::More | Verdict::Less);
        if is_claimed || one.paired {
            let mut cells = front(row, &keys, &comparison.files);
            cells.extend(pair_cells(one, &Scale::of_row(row), paired));
            table.row(cells);
        }
        found += u64::from(is_claimed);
        rest += u64::from(one.verdict == Verdict::CannotTell);
    }
    let mut out = format!("\n{} to {}", names[ends.0], names[ends.1]);
    let (found, rest) = (number::count(found), number::count(rest));
    let _ = writeln!(out, ": figures that differ: {found}, that cannot be told: {rest}");
    if !table.is_empty() {
        out += &table.render(style);
    }
    out
}

/// An explanation as text of any width.
pub(crate) fn explanation_text(
    explanation: &pmuscope_measure::compare::Explanation,
    names: &[String],
) -> String {
    explain::text(explanation, names, &Style::PLAIN)
}

/// Names of labels that any row has.
pub(crate) fn label_keys<'a>(
    rows: impl Iterator<Item = &'a pmuscope_measure::Labels>,
) -> Vec<&'a str> {
    let keys: BTreeSet<&str> = rows.flat_map(|labels| labels.keys()).map(String::as_str).collect();
    keys.into_iter().collect()
}

#[cfg(test)]
mod tests;
