//! A result that is one table of a recording, in every form.

use pmuscope_profile::Profile;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::Style;
use crate::html::{PageFrame, Summary};
use crate::markup::html;
use crate::recording::{Head, RowLimits, head_text, kept_text, push_wrapped, warnings_text};
use crate::report::Report;
use crate::sheet::{Separator, Sheet};
use crate::title;

/// The recording that rows are of, and which of them to show.
#[derive(Debug, Clone, Copy)]
pub struct RecordingView<'a> {
    /// Where it was read from.
    pub file: &'a str,
    /// What it is, its overhead and losses, and what a filter left out.
    pub profile: &'a Profile,
    /// Which rows are shown.
    pub limits: RowLimits,
}

/// A table of a recording, with its head and notes.
#[derive(Debug)]
pub struct Document<'a> {
    pub(crate) schema: &'static str,
    pub(crate) title: &'static str,
    pub(crate) view: RecordingView<'a>,
    /// What the rows are of, in a line.
    pub(crate) line: String,
    /// The same as numbers: fields of the JSON before its rows.
    pub(crate) sums: Vec<(&'static str, u64)>,
    pub(crate) sheet: Sheet<'a>,
    /// Why there are no rows, and what to type; `None` where there are.
    pub(crate) nothing: Option<&'static str>,
}

impl Document<'_> {
    /// Why there are no rows, and what to type; `None` where there are.
    #[must_use]
    pub fn nothing(&self) -> Option<&'static str> {
        self.nothing
    }

    /// What a filter left of the recording; `None` without one.
    #[must_use]
    pub fn kept_text(&self) -> Option<String> {
        kept_text(self.view.profile)
    }
}

impl Report for Document<'_> {
    fn schema(&self) -> &'static str {
        self.schema
    }

    fn text(&self, style: &Style) -> String {
        let mut out = head_text(self.view.profile, self.view.file, style);
        push_wrapped(&mut out, &self.line, style);
        out.push('\n');
        match self.nothing {
            Some(why) => push_wrapped(&mut out, why, style),
            None => out.push_str(&self.sheet.text(style)),
        }
        out.push_str(&warnings_text(self.view.profile, style));
        out
    }

    fn json(&self) -> impl Serialize {
        Json(self)
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(self.sheet.delimited(separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        let mut summary = Summary::new(self.view.profile, self.view.file);
        summary.title = title::about_profile(self.view.profile, self.title, self.view.file);
        let body = html! {
            section class="table-part" {
                h2 { (self.title) }
                p class="dim" { (self.line) }
                @match self.nothing {
                    Some(why) => p { (why) },
                    None => (self.sheet.html()),
                }
            }
        };
        Some(PageFrame { schema: self.schema, commit }.page(&summary, &body))
    }
}

struct Json<'d, 'a>(&'d Document<'a>);

impl Serialize for Json<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Document { view, sums, sheet, .. } = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("recording", &Head::new(view.profile, view.file))?;
        for (name, sum) in sums {
            map.serialize_entry(name, sum)?;
        }
        map.serialize_entry("rows", sheet)?;
        map.serialize_entry("rows_left_out", &sheet.left_out())?;
        map.end()
    }
}
