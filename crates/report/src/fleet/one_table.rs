//! Answers that are one table of rows: all their forms, declared once.

use serde::Serialize;

use super::FleetHead;
use crate::Style;
use crate::html::PageFrame;
use crate::markup::html;
use crate::report::Report;
use crate::sheet::{Separator, Sheet};

/// An answer that is one table of rows.
pub(super) trait OneTable {
    /// Kind and version of the result.
    const SCHEMA: &'static str;
    /// Title of its page.
    const TITLE: &'static str;
    /// What the table is of, for its heading on a page.
    const HEADING: &'static str;
    /// What its columns mean, for a page.
    const ABOUT: &'static str;

    /// What it covers.
    fn head(&self) -> &FleetHead;

    /// What rows are by: names of columns.
    fn by(&self) -> &[&'static str];

    /// The rows.
    fn sheet(&self) -> Sheet<'_>;
}

#[derive(Serialize)]
struct TableJson<'a> {
    #[serde(flatten)]
    head: &'a FleetHead,
    by: &'a [&'static str],
    rows: Sheet<'a>,
}

impl<T: OneTable> Report for T {
    fn schema(&self) -> &'static str {
        T::SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        let mut out = String::new();
        self.head().push_text(&mut out, style);
        out.push_str(&self.sheet().text(style));
        out
    }

    fn json(&self) -> impl Serialize {
        TableJson { head: self.head(), by: self.by(), rows: self.sheet() }
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(self.sheet().delimited(separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        let body = html! {
            section class="table-part" {
                h2 { (T::HEADING) " by " (self.by().join(", ")) }
                p class="dim" { (T::ABOUT) }
                (self.sheet().html())
            }
        };
        let summary = self.head().summary(T::TITLE);
        Some(PageFrame { schema: T::SCHEMA, commit }.page(&summary, &body))
    }
}
