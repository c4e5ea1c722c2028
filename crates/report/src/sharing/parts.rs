//! The parts of the result: the lines, then each of the first ones by offset.

use pmuscope_profile::hits::SharingVerdict;
use pmuscope_profile::sharing::SharedLine;

use super::advice::{self, Advised};
use super::groups::{self, SharingGroup};
use super::{SharingView, heap, sheets, words};
use crate::section::{Body, Section};
use crate::watch::{consequence, verdict};

impl<'a> SharingView<'a> {
    pub(super) fn parts(&self) -> Vec<Section<'a>> {
        if let Some(nothing) = self.nothing() {
            return vec![Section::new("", "Shared cache lines").line(Some(nothing))];
        }
        let (lines, all) = self.shown();
        let table = Section::new("lines", "Shared cache lines")
            .about(about(self))
            .bare()
            .sheet(sheets::lines(*self, lines, all).limited_by(self.view.limits));
        let detailed = lines.iter().take(self.detailed).enumerate();
        let detailed = detailed.map(|(at, line)| line_part(*self, at, line));
        std::iter::once(table).chain(detailed).collect()
    }
}

impl SharingView<'_> {
    /// The table by function, field or thread.
    pub(super) fn group_part<'a>(&'a self, groups: &'a [SharingGroup]) -> Section<'a> {
        Section::new("groups", format!("Shared cache lines by {}", self.by.word()))
            .about(about(self))
            .bare()
            .sheet(groups::sheet(*self, groups, self.view.limits.rows))
    }
}

/// What columns are, and of which accesses samples are.
fn about(view: &SharingView<'_>) -> String {
    let columns = "Share: of the latency of all contended loads; cycles: their mean latency";
    let population = words::population(view).map_or_else(String::new, |of| format!("; {of}"));
    format!("{columns}{population}.")
}

fn line_part<'a>(view: SharingView<'a>, at: usize, line: &'a SharedLine) -> Section<'a> {
    let of = line.verdict.verdict;
    let title = format!(
        "cache line {}{}, {}: {}",
        words::address(line),
        words::owner(line),
        words::object(view.found, line),
        verdict(of)
    );
    let is_bad = matches!(of, SharingVerdict::FalseSharing | SharingVerdict::Both);
    let advised = advice::of_line(&view, line);
    let bound = match advised.iter().any(advice::is_of_false_sharing) {
        true => None,
        false => words::bound(&view, line),
    };
    let part = Section::new(if at == 0 { "offsets" } else { "" }, title)
        .linked_as("Lines by offset")
        .which_worries(is_bad)
        .line(Some(words::evidence(&view, line)))
        .line(Some(consequence(of).to_owned()))
        .line(bound)
        .line(heap::advice(&view, line))
        .sheet(sheets::rows(&view, line));
    let part = match heap::part(view, line) {
        Some(objects) => part.part(objects),
        None => part,
    };
    let part = part.part(
        Section::new("", "Loads and the writes they waited for")
            .about("An estimate: loads are divided among the sampled writes of other threads.")
            .sheet(sheets::pairs(view, line, view.pairs).all_with("--json")),
    );
    with_advice(part, view, line, &advised)
}

fn with_advice<'a>(
    part: Section<'a>,
    view: SharingView<'a>,
    line: &'a SharedLine,
    advised: &[Advised<'_>],
) -> Section<'a> {
    let part = if advised.is_empty() { part } else { part.with(Body::Gap) };
    advised
        .iter()
        .fold(part, |part, one| part.line(Some(one.text(&view, line))).listing(one.listing(&view)))
}
