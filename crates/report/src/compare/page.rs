//! A comparison as one page: dots with intervals, ratios on one axis, what explains the change.

use std::collections::BTreeSet;

use pmuscope_measure::RunFile;
use pmuscope_measure::compare::{Comparison, FileHead, Trend};

use super::dots::{LARGEST_RATIO, chip};
use super::notes::{of_comparison, of_files, short_names};
use super::sheet::figures;
use super::{COMPARE_SCHEMA, TREND_SCHEMA, by_run, explain, method, of_file, trend};
use crate::Note;
use crate::counts::of_runs;
use crate::html::{Fact, PageFrame, Summary};
use crate::markup::{Markup, html};
use crate::number;
use crate::section::Section;
use crate::title;

/// The page of one file's figures: `comparison` is of it alone; `commit` is what the program was built from.
#[must_use]
pub fn figures_page(comparison: &Comparison, file: &RunFile, commit: &str) -> String {
    compare_page(comparison, (of_runs(file).collect(), by_run::charts(file)), commit)
}

/// The page of a comparison, with `more` notes and `charts`.
pub(super) fn compare_page(
    comparison: &Comparison,
    (more, charts): (Vec<String>, Markup),
    commit: &str,
) -> String {
    let names = short_names(&comparison.files);
    let mut facts = vec![number_of(comparison.rows.len())];
    let mut about = "Means with 95% CI".to_owned();
    if names.len() > 1 {
        let tests = number::counted(comparison.tests as u64, "test");
        let claimed = number::percent(comparison.alpha, 0);
        facts.push(Fact::new(
            "Claimed at",
            claimed,
            format!("of {tests} together ({})", method(comparison)),
        ));
        about += &format!(
            ", each metric on its own scale; ratios of means on one scale, from 1/{LARGEST_RATIO} to {LARGEST_RATIO}"
        );
    }
    let mut notes = of_comparison(comparison);
    notes.extend(more);
    let title = title::of_runs(&comparison.files, &names, &extents(comparison));
    let summary = summary(title, facts, notes, &comparison.files);
    let all = Section::new("figures", "Metrics").about(about + ".");
    let body = html! {
        ul class="files" {
            @for (at, (name, file)) in names.iter().zip(&comparison.files).enumerate() {
                li { (chip(at)) (of_file(name, file)) }
            }
        }
        @for explanation in &comparison.explanations { (explain::section(explanation, &names).html()) }
        (charts)
        (all.sheet(figures(comparison, &names)).html())
    };
    PageFrame { schema: COMPARE_SCHEMA, commit }.page(&summary, &body)
}

/// The page of figures over time.
pub(super) fn trend_page(of: &Trend, commit: &str) -> String {
    let names = short_names(&of.files);
    let claimed = Fact::new(
        "Claimed at",
        number::percent(of.alpha, 0),
        "level changes, for all metrics together",
    );
    let facts = vec![number_of(of.rows.len()), claimed];
    let columns = number::counted(names.len(), "file");
    let title = title::over_time(&of.files, &[format!("{columns} over time")]);
    let summary = summary(title, facts, of_files(&of.files), &of.files);
    let end = |name: Option<&String>| name.map_or("-", String::as_str).to_owned();
    let section = Section::new("figures", "Metrics over time").about(format!(
        "{} to {}: means with 95% CI, each metric on its own scale. A line marks where the level changed.",
        end(names.first()),
        end(names.last())
    ));
    let body = section.sheet(trend::sheet(of, &names)).html();
    PageFrame { schema: TREND_SCHEMA, commit }.page(&summary, &body)
}

/// How often one file's command ran, and which metrics the page has; each once, whatever it is of.
fn extents(comparison: &Comparison) -> Vec<String> {
    let runs = match &comparison.files[..] {
        [file] => Some(number::counted(file.runs, "run")),
        _ => None,
    };
    let mut metrics: Vec<&str> = comparison.rows.iter().map(|row| &*row.metric).collect();
    let mut known = BTreeSet::new();
    metrics.retain(|metric| known.insert(*metric));
    runs.into_iter().chain([title::some(&metrics, "metric")]).collect()
}

fn number_of(figures: usize) -> Fact {
    Fact::new("Metrics", number::count(figures as u64), "means with 95% CI")
}

/// The head: what is compared, and whether a machine was measured at all.
fn summary(title: String, mut facts: Vec<Fact>, notes: Vec<String>, files: &[FileHead]) -> Summary {
    let emulators: BTreeSet<&str> =
        files.iter().filter_map(|file| file.emulator.as_deref()).collect();
    if !emulators.is_empty() {
        facts.push(Fact::emulated(&emulators.into_iter().collect::<Vec<_>>().join(", ")));
    }
    let notes = notes.into_iter().map(Note::plain).collect();
    Summary { title, facts, notes, command: String::new() }
}
