//! Rows by any dimensions and events side by side, as pages.

use pmuscope_profile::views::SideRow;

use super::dimension_head;
use super::json::ROWS_SCHEMA;
use super::rows::{EventRows, RowsBy, balance_text, side_by_side};
use crate::document::RecordingView;
use crate::html::{PageFrame, Summary};
use crate::section::{Section, sections_html};
use crate::title;

/// A table of rows for each event; `commit` is what the program was built from.
#[must_use]
pub fn rows_page(
    events: &[EventRows<'_>],
    by: RowsBy<'_>,
    view: RecordingView<'_>,
    commit: &str,
) -> String {
    let sections = events.iter().enumerate().map(|(at, event)| {
        let section = Section::new(format!("event-{at}"), event.name);
        let lines = event.balance.iter().map(|(of, balance)| balance_text(*of, balance));
        lines.fold(section.sheet(event.sheet(by, view.limits)), |all, line| all.line(Some(line)))
    });
    page(view, by, commit, &sections.collect::<Vec<_>>())
}

/// One table with columns for each of `events`, their names; with a sentence about those that are left out.
#[must_use]
pub fn side_by_side_page(
    rows: &[SideRow],
    (events, left_out): (&[&str], Option<String>),
    by: RowsBy<'_>,
    view: RecordingView<'_>,
    commit: &str,
) -> String {
    let sheet = side_by_side(rows, events, by, view.limits, false);
    let section = Section::new("events", "Events side by side").sheet(sheet).line(left_out);
    page(view, by, commit, &[section])
}

fn page(view: RecordingView<'_>, by: RowsBy<'_>, commit: &str, sections: &[Section<'_>]) -> String {
    let mut summary = Summary::new(view.profile, view.file);
    let dimensions: Vec<&str> = by.dimensions.iter().map(|&one| dimension_head(one)).collect();
    let by = format!("by {}", dimensions.join(", "));
    summary.title = title::of_profile(view.profile, &by, view.file);
    PageFrame { schema: ROWS_SCHEMA, commit }.page(&summary, &sections_html(sections))
}
