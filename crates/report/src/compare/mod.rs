//! Run files side by side, what explains a difference, and metrics over time.

mod by_run;
mod dots;
mod explain;
mod notes;
mod page;
mod scale;
mod sheet;
mod single;
mod trend;

use pmuscope_measure::arms::join;
use std::fmt::Write as _;

use pmuscope_measure::compare::{
    Column as Measured, ComparedMetric, Comparison, FileHead, Pair, Verdict,
};
use pmuscope_measure::{Estimated, Limits, Origin, arms};
use serde::Serialize;

use crate::Separator;
use crate::escape::escape;
use crate::markup::{cut, html};
use crate::number;
use crate::report::Report;
use crate::runs::{beyond, depends_on_speed, value};
use crate::section::Section;
use crate::style::{Paint, Style, wrap};
use notes::{is_cut, of_comparison, short_names};
use scale::Scale;

pub use page::figures_page;
pub(crate) use sheet::label_fields;
pub use single::{figures_delimited, figures_head};

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
        Some(sheet::delimited(self, separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        Some(page::compare_page(self, (Vec::new(), html! {}), commit))
    }
}

/// The tables of `pmuscope compare`.
pub(crate) fn compare_text(comparison: &Comparison, style: &Style) -> String {
    let names = short_names(&comparison.files);
    let mut out = String::new();
    if names.len() == 2 {
        let line = wrap(&conclusion(comparison, &names), style.width, 0);
        out += &format!("{}\n", style.paint(Paint::Bold, &line));
    }
    for line in head(comparison, &names).lines() {
        out += &format!("{}\n", wrap(line, style.width, 2));
    }
    out += "\n";
    out += &sheet::figures(comparison, &names).text(style);
    // Side by side there is only room for percentages.
    let each = names.len() > 2 && (comparison.base.is_none() || is_paired(comparison));
    for pair in 0..comparison.rows.first().filter(|_| each).map_or(0, |row| row.pairs.len()) {
        differences(comparison, &names, pair).push_text(&mut out, style);
    }
    for explanation in &comparison.explanations {
        explain::section(explanation, &names).push_text(&mut out, style);
    }
    push_notes(&mut out, &of_comparison(comparison), style);
    style.text(&out).into_owned()
}

/// Appends notes, each after an empty line.
pub(crate) fn push_notes(out: &mut String, notes: &[String], style: &Style) {
    for note in notes {
        *out += &format!("\n{}\n", wrap(note, style.width, 0));
    }
}

/// Metrics that a conclusion names.
const MOST_NAMED: usize = 3;

/// What two sides come to: `B vs A: 1 of 2 metrics differs: time 1.097 ± 0.006 times (more)`.
fn conclusion(comparison: &Comparison, names: &[String]) -> String {
    let pairs = || comparison.rows.iter().filter_map(|row| Some((row, row.pairs.first()?)));
    let size = |pair: &Pair| pair.ratio.map_or(0.0, |ratio| ratio.value.max(1e-9).ln().abs());
    let mut found: Vec<_> = pairs().filter(|(_, pair)| sheet::is_claimed(pair)).collect();
    found.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
    let sides = format!("{} vs {}", names[1], names[0]);
    let unclear = pairs().filter(|(_, pair)| pair.verdict == Verdict::CannotTell).count();
    let all = number::counted(comparison.rows.len(), "metric");
    if found.is_empty() {
        return match unclear {
            0 => format!("{sides}: no difference in {all}"),
            _ if unclear == comparison.rows.len() => format!("{sides}: {all}, all inconclusive"),
            _ => format!("{sides}: no difference shown in {all}, {unclear} of them inconclusive"),
        };
    }
    let one = |(row, pair): &(&ComparedMetric, &Pair)| {
        let by = match pair.ratio {
            Some(ratio) => format!(" ×{}", value(&ratio, "")),
            None => String::new(),
        };
        format!("{}{by} ({})", escape(&row.metric), verdict_words(pair.verdict))
    };
    let mut parts: Vec<String> = found.iter().take(MOST_NAMED).map(one).collect();
    let more = found.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    format!(
        "{sides}: {} of {all} {}: {}",
        found.len(),
        number::agree(found.len(), "differs", "differ"),
        parts.join(", ")
    )
}

/// Whether runs are compared pair by pair.
fn is_paired(comparison: &Comparison) -> bool {
    comparison.rows.iter().flat_map(|row| &row.pairs).any(|pair| pair.paired)
}

fn head(comparison: &Comparison, names: &[String]) -> String {
    let figures = number::counted(comparison.rows.len(), "metric");
    let per: Vec<String> = comparison
        .per
        .iter()
        .map(|per| per.as_ref().map_or("run".to_owned(), |per| escape(per).into_owned()))
        .collect();
    let mut out = format!("{figures} per {}: mean with 95% CI", per.join(", "));
    if names.len() > 1 {
        let pairs = if is_paired(comparison) { " of pairs" } else { "" };
        let _ = write!(
            out,
            ", differences{pairs} claimed at {} for {} together ({})",
            number::percent(comparison.alpha, 0),
            number::counted(comparison.tests as u64, "test"),
            method(comparison)
        );
    }
    out.push('\n');
    for (name, file) in names.iter().zip(&comparison.files) {
        out += &of_file(name, file);
        out.push('\n');
    }
    out
}

/// How tests are corrected for their number.
fn method(comparison: &Comparison) -> String {
    match &comparison.primary {
        Some(metric) => format!("Holm, half of it for {}", escape(metric)),
        None => "Holm".to_owned(),
    }
}

/// `a.json: 15 runs of 10,000,000 packet on Xeon E5, pmuscope sweep …`.
fn of_file(name: &str, file: &FileHead) -> String {
    let machine = file.processor.as_deref().map_or(String::new(), |p| format!(" on {}", escape(p)));
    let command = match &file.arm {
        Some(words) => arms::join(words),
        None => join(&file.command),
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
        "{name}: {}{units}{machine}, {}",
        number::counted(file.runs - file.failed, "run"),
        escape(&command)
    )
}

/// `s/packet`, `/packet`; with the mark of emulated counters and machines.
fn unit_text(row: &ComparedMetric, files: &[FileHead]) -> String {
    let emulated = files.iter().any(|file| file.emulator.is_some());
    let origins = row.columns.iter().flatten().map(|column| column.origin);
    unit_per(&Scale::of_row(row).unit, row.per.as_deref(), origins, emulated)
}

/// The unit of a metric of these origins, per unit of work.
fn unit_per(
    unit: &str,
    per: Option<&str>,
    origins: impl Iterator<Item = Origin> + Clone,
    emulated: bool,
) -> String {
    let per = per.map_or(String::new(), |per| format!("/{per}"));
    let is_emulated = origins.clone().any(|origin| origin == Origin::Emulated)
        || emulated && depends_on_speed(unit, origins);
    format!("{unit}{per}{}", if is_emulated { " (emu)" } else { "" }).trim().to_owned()
}

/// What was not counted all of the time is an estimate; of runs above a limit there is none.
fn mean_text(column: &Measured, scale: &Scale) -> String {
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

/// A difference with its sign; a size in binary units has none else.
fn signed(difference: &Estimated, unit: &str) -> String {
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
    let change = ratio.value - 1.0;
    let text = match ratio.interval.filter(|of| of.high > of.low) {
        Some(of) => number::percent_estimate(change, of.low - 1.0, of.high - 1.0),
        None => format!("{}%", number::significant(100.0 * change, 3)),
    };
    format!("{}{text}", if change > 0.0 { "+" } else { "" })
}

fn p_text(p: f64) -> String {
    if p < 1e-4 { "<0.0001".to_owned() } else { number::significant(p, 2) }
}

fn verdict_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::More => "more",
        Verdict::Less => "less",
        Verdict::Equal => "identical",
        Verdict::CannotTell => "inconclusive",
        Verdict::Unmeasured => "-",
    }
}

/// What differs between two of several files; of arms all metrics.
fn differences<'a>(comparison: &'a Comparison, names: &[String], at: usize) -> Section<'a> {
    let pairs = || comparison.rows.iter().map(|row| &row.pairs[at]);
    let found = pairs().filter(|pair| sheet::is_claimed(pair)).count();
    let rest = pairs().filter(|pair| pair.verdict == Verdict::CannotTell).count();
    let ends = pairs().next().map_or((0, 0), |pair| (pair.base, pair.other));
    let title = format!(
        "{} vs {}: {} {}, {} inconclusive",
        names[ends.1],
        names[ends.0],
        number::counted(found as u64, "metric"),
        number::agree(found as u64, "differs", "differ"),
        number::count(rest as u64)
    );
    Section::new("", title).sheet(sheet::differences(comparison, at))
}

#[cfg(test)]
mod tests;
