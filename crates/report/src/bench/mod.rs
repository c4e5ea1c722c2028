//! What benchmarks came to, for people: sentences, tables whose columns are declared, notes.
//!
//! ```text
//!            head            what was measured, how often
//!            table, table    rows: arms; columns: labels, means of runs or medians of rounds, ratios
//!            notes           what was left out, what failed, what makes times vary
//! ```

mod breakpoint;
mod capture;
mod functions;
mod memory;
mod numa;
mod region;
mod ring;
mod slots;
mod slots_plot;

use std::borrow::Cow;

use pmuscope_events::metrics::Metrics;
use pmuscope_measure::summary::{RunSummary, SummaryRow, summary};
use pmuscope_measure::versus::{Arm, Figure};
use pmuscope_measure::{Estimated, Labels, RunFile, metric};

use crate::escape::escape;
use crate::number;
use crate::runs::{distinct, scaled, value};
use crate::sheet::{Field, FieldKind, Sheet, Value};
use crate::style::{Paint, Style, wrap, wrap_lines};

pub use slots_plot::{slots_page, slots_svg};

/// Label of arms that have a name.
const ARM: &str = pmuscope_measure::arms::ARM;

/// A benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchKind {
    /// `bench capture`.
    Capture,
    /// `bench functions`.
    Functions,
    /// `bench breakpoint thread`.
    BreakpointThread,
    /// `bench breakpoint enable`.
    BreakpointEnable,
    /// `bench breakpoint hit`.
    BreakpointHit,
    /// `bench memory`.
    Memory,
    /// `bench numa`.
    Numa,
    /// `bench region`.
    Region,
    /// `bench ring`.
    Ring,
    /// `bench slots`.
    Slots,
}

impl BenchKind {
    /// What its runs came to.
    #[must_use]
    pub fn text(self, file: &RunFile, style: &Style) -> String {
        let show = match self {
            Self::Capture => capture::show,
            Self::Functions => functions::show,
            Self::BreakpointThread => breakpoint::show_thread,
            Self::BreakpointEnable => breakpoint::show_enable,
            Self::BreakpointHit => breakpoint::show_hit,
            Self::Memory => memory::show,
            Self::Numa => numa::show,
            Self::Region => region::show,
            Self::Ring => ring::show,
            Self::Slots => slots::show,
        };
        let mut text = BenchText { style, out: String::new(), notes: Vec::new() };
        show(file, &mut text);
        text.end(file)
    }
}

/// The text, as it grows.
struct BenchText<'s> {
    style: &'s Style,
    out: String,
    /// What is to be said at the end.
    notes: Vec<String>,
}

impl BenchText<'_> {
    /// Adds lines as they are.
    fn lines(&mut self, lines: &str) {
        self.out.push_str(&wrap_lines(lines, self.style.width, 2));
        self.out.push('\n');
    }

    /// Adds a table under its title, if there are rows; without a title under an empty line.
    fn table<'r, R: 'r>(
        &mut self,
        title: &str,
        fields: Vec<Field<'r, R>>,
        rows: impl IntoIterator<Item = &'r R>,
    ) {
        let sheet = Sheet::new(fields, rows, 0);
        if sheet.is_empty() {
            return;
        }
        self.lines("");
        if !title.is_empty() {
            let title = self.style.paint(Paint::Bold, &escape(title)).into_owned();
            self.lines(&title);
        }
        self.out.push_str(&sheet.text(self.style));
    }

    /// Adds sentences, if there are any, under an empty line.
    fn sentences(&mut self, sentences: &[String]) {
        for (at, sentence) in sentences.iter().enumerate() {
            self.out.push_str(if at == 0 { "\n" } else { "" });
            let wrapped = wrap(&escape(sentence), self.style.width, 2);
            self.lines(&wrapped);
        }
    }

    /// Adds notes: those of the benchmark, then what is to be said of any file.
    fn end(mut self, file: &RunFile) -> String {
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(file.notices.iter().cloned());
        notes.extend(failures(file));
        notes.extend(file.concerns.iter().map(|concern| {
            let fix = concern.fix.as_ref().map_or(String::new(), |fix| format!(" Try: {fix}"));
            format!("{}: {}.{fix}", concern.why, concern.effect)
        }));
        notes.extend(file.why.as_ref().map(|why| format!("Some runs are missing: {why}.")));
        self.sentences(&notes);
        self.style.text(&self.out).into_owned()
    }
}

/// Which arms failed how often, and why: a sentence per arm and reason.
fn failures(file: &RunFile) -> Vec<String> {
    let mut counts: Vec<((&str, &str), u64)> = Vec::new();
    for run in &file.runs {
        let (Some(why), Some(arm)) = (&run.why, run.labels.get(ARM)) else { continue };
        let key = (arm.as_str(), why.as_str());
        match counts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += 1,
            None => counts.push((key, 1)),
        }
    }
    let sentence = |((arm, why), count): ((&str, &str), u64)| {
        format!("{} of {arm} failed: {why}", number::counted(count, "run"))
    };
    counts.into_iter().map(sentence).collect()
}

/// What all runs have in common, by its name in the file.
fn parameter<'f>(file: &'f RunFile, key: &str) -> Cow<'f, str> {
    file.parameters.get(key).map_or("-".into(), |text| escape(text))
}

/// As [`parameter`], a number with commas.
fn counted(file: &RunFile, key: &str) -> String {
    parameter(file, key).parse().map_or("-".to_owned(), number::count)
}

/// Rounds of which at least one run was made.
fn rounds(file: &RunFile) -> usize {
    file.runs.iter().filter_map(|run| run.round).max().map_or(0, |last| last + 1)
}

fn failed(file: &RunFile) -> usize {
    file.runs.iter().filter(|run| run.exit != Some(0)).count()
}

/// A column of numbers in the form that people see.
fn figure<'a, R>(
    head: impl Into<Cow<'static, str>>,
    get: impl Fn(&'a R) -> Option<String> + 'a,
) -> Field<'a, R> {
    Field::new(head, FieldKind::Number, move |row| {
        get(row).map_or(Value::Missing, |text| Value::Text(text.into()))
    })
    // Of a table that is too wide, the last columns are left out.
    .optional(1)
}

/// A column of names.
fn name<'a, R>(head: &'static str, get: impl Fn(&'a R) -> &'a str + 'a) -> Field<'a, R> {
    Field::text(head, move |row| Some(get(row))).rigid()
}

/// Figures of a row by rounds.
trait OfRounds {
    /// The figure of this metric.
    fn figure(&self, metric: &str) -> Option<&Figure>;
}

impl OfRounds for Arm {
    fn figure(&self, metric: &str) -> Option<&Figure> {
        Self::figure(self, metric)
    }
}

/// A column of medians.
fn median<'a, R: OfRounds>(
    head: impl Into<Cow<'static, str>>,
    metric: impl Into<Cow<'static, str>>,
    format: impl Fn(f64) -> String + 'a,
) -> Field<'a, R> {
    let metric = metric.into();
    figure(head, move |row: &R| Some(format(row.figure(&metric)?.median?)))
}

/// A column of ratios to the arm that others are compared with.
fn ratio<'a, R: OfRounds>(head: &'static str, metric: &'static str) -> Field<'a, R> {
    figure(head, move |row: &R| Some(value(&row.figure(metric)?.ratio?, "")))
}

/// An arm, or several that differ in one label.
struct BenchArm {
    labels: Labels,
    /// Of its runs.
    summary: RunSummary,
    /// Arms side by side.
    cells: Vec<BenchArm>,
}

impl BenchArm {
    fn new(labels: Labels, part: &RunFile) -> Self {
        Self { labels, summary: summary(part, &Metrics::default()), cells: Vec::new() }
    }

    /// The arm with this value of a label, whether it has runs or not.
    fn named(file: &RunFile, key: &str, name: &str) -> Self {
        let labels = Labels::from([(key.to_owned(), name.to_owned())]);
        Self::new(labels, &file.part(key, name))
    }

    fn label(&self, key: &str) -> &str {
        self.labels.get(key).map_or("-", |text| text)
    }

    fn row(&self, metric: &str) -> Option<&SummaryRow> {
        self.summary.rows.iter().find(|row| row.metric == metric)
    }

    /// The mean of a metric.
    fn mean(&self, metric: &str) -> Option<Estimated> {
        self.row(metric)?.per_run
    }

    /// Seconds for a unit of work.
    fn per_unit(&self) -> Option<Estimated> {
        *self.row(metric::TIME)?.per_unit.first()?
    }
}

/// All arms that have runs, by these labels.
fn arms(file: &RunFile, keys: &[&str]) -> Vec<BenchArm> {
    parts(file, keys).into_iter().map(|(labels, part)| BenchArm::new(labels, &part)).collect()
}

/// The same with all these values of one more label side by side.
fn matrix(file: &RunFile, keys: &[&str], (across, values): (&str, &[String])) -> Vec<BenchArm> {
    let row = |(labels, part): (Labels, RunFile)| BenchArm {
        cells: values.iter().map(|name| BenchArm::named(&part, across, name)).collect(),
        ..BenchArm::new(labels, &part)
    };
    parts(file, keys).into_iter().map(row).collect()
}

fn parts(file: &RunFile, keys: &[&str]) -> Vec<(Labels, RunFile)> {
    let mut parts = vec![(Labels::new(), file.clone())];
    for key in keys {
        let split = |(labels, part): (Labels, RunFile)| {
            distinct(&part, key).into_iter().map(move |name| {
                let of_name = part.part(key, &name);
                let labels = labels.clone().into_iter().chain([((*key).to_owned(), name)]);
                (labels.collect(), of_name)
            })
        };
        parts = parts.into_iter().flat_map(split).collect::<Vec<_>>();
    }
    parts
}

/// A column of a label that is a number.
fn label<'a>(head: &'static str, key: &'static str) -> Field<'a, BenchArm> {
    figure(head, move |arm: &BenchArm| {
        let text = arm.label(key);
        Some(text.parse().map_or_else(|_| text.to_owned(), number::count))
    })
}

/// The column of the number of runs.
fn runs<'a>() -> Field<'a, BenchArm> {
    figure("n", |arm: &BenchArm| Some(arm.summary.runs.to_string()))
}

/// A column of times for a unit of work, in a unit of which a second has `factor`.
fn per_unit<'a>(head: &'static str, factor: f64) -> Field<'a, BenchArm> {
    figure(head, move |arm: &BenchArm| Some(value(&scaled(arm.per_unit()?, factor), "s")))
}

/// A column of means.
fn mean<'a>(head: &'static str, metric: &'static str) -> Field<'a, BenchArm> {
    figure(head, move |arm: &BenchArm| Some(value(&arm.mean(metric)?, "s")))
}

/// Columns of the cells of a [`matrix`].
fn across<'a>(
    heads: impl IntoIterator<Item = String>,
    show: impl Fn(&BenchArm) -> Option<String> + Copy + 'a,
) -> impl Iterator<Item = Field<'a, BenchArm>> {
    let column = move |(at, head)| figure(head, move |row: &BenchArm| show(&row.cells[at]));
    heads.into_iter().enumerate().map(column)
}

/// What an arm is, by its name.
fn what<'a>(words: &'static [(&'static str, &'static str)]) -> Field<'a, BenchArm> {
    Field::text("what", move |arm: &BenchArm| {
        words.iter().find(|(name, _)| *name == arm.label(ARM)).map(|(_, what)| *what)
    })
    .sentence()
}

fn three_digits(value: f64) -> String {
    number::significant(value, 3)
}

fn exact(value: f64) -> String {
    number::fixed(value, 0)
}

/// Sizes are not negative and far below 2^64.
fn bytes(value: f64) -> String {
    number::bytes(value.max(0.0).round() as u64)
}
