//! Rows by any dimensions and events side by side, as pages.

use pmuscope_profile::views::SideRow;

use super::json::ROWS_SCHEMA;
use super::rows::{EventRows, RowsBy, balance_text, side_by_side};
use crate::document::RecordingView;
use crate::html::{PageFrame, Summary};
use crate::markup;
use crate::sheet::Sheet;

/// A table of rows for each event; `commit` is what the program was built from.
#[must_use]
pub fn rows_page(
    events: &[EventRows<'_>],
    by: RowsBy<'_>,
    view: RecordingView<'_>,
    commit: &str,
) -> String {
    page(view, commit, |out| {
        for event in events {
            push_table(out, event.name, &event.sheet(by, view.limits));
            for (of, balance) in &event.balance {
                out.push_str(&format!("<p class=\"dim\">{}</p>\n", balance_text(*of, balance)));
            }
        }
    })
}

/// One table with columns for each of `events`, their names.
#[must_use]
pub fn side_by_side_page(
    rows: &[SideRow],
    events: &[&str],
    by: RowsBy<'_>,
    view: RecordingView<'_>,
    commit: &str,
) -> String {
    let sheet = side_by_side(rows, events, by, view.limits, false);
    page(view, commit, |out| push_table(out, "Events side by side", &sheet))
}

fn page(view: RecordingView<'_>, commit: &str, body: impl FnOnce(&mut String)) -> String {
    let summary = Summary::new(view.profile, view.file);
    PageFrame { schema: ROWS_SCHEMA, commit }.page(&summary, body)
}

fn push_table(out: &mut String, title: &str, sheet: &Sheet<'_>) {
    out.push_str(&format!("<section class=\"table-part\">\n<h2>{}</h2>\n", markup::text(title)));
    sheet.push_html(out);
    out.push_str("</section>\n");
}
