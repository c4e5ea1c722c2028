//! Tables for spreadsheets and scripts: a head, then a line per row; numbers with all digits, what was not measured
//! is empty.
//!
//! CSV quotes as RFC 4180 says; lines end in a line feed, as they do on Unix. Control characters and line breaks are
//! escaped in both (`\t`, `\x1b`), so that in TSV only a field with a quote needs quotes. A spreadsheet takes text
//! that starts with `=`, `+`, `-` or `@` for a formula, and names come from whoever was recorded: such text gets an
//! apostrophe in front, by which spreadsheets know text. A program that needs names to the letter reads `--json`.

use std::borrow::Cow;

use super::{FieldKind, Heading, Sheet, SheetForm, Value};
use crate::escape;

/// What separates the fields of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separator {
    /// Comma-separated values (.csv)
    Comma,
    /// Tab-separated values (.tsv)
    Tab,
}

impl Separator {
    /// The character.
    #[must_use]
    pub fn char(self) -> char {
        match self {
            Self::Comma => ',',
            Self::Tab => '\t',
        }
    }
}

impl Sheet<'_> {
    /// A head, and a line per row.
    pub(crate) fn delimited(&self, separator: Separator) -> String {
        delimited(None, [("", self)], separator)
    }
}

/// Sheets of the same fields after one another.
pub(crate) fn delimited_together<'s, 'a: 's>(
    sheets: impl IntoIterator<Item = &'s Sheet<'a>>,
    separator: Separator,
) -> String {
    delimited(None, sheets.into_iter().map(|sheet| ("", sheet)), separator)
}

/// The same, each with its name in a first column `key`.
pub(crate) fn delimited_by(
    key: &str,
    sheets: &[(&str, Sheet<'_>)],
    separator: Separator,
) -> String {
    delimited(Some(key), sheets.iter().map(|(name, sheet)| (*name, sheet)), separator)
}

fn delimited<'s, 'a: 's>(
    key: Option<&str>,
    sheets: impl IntoIterator<Item = (&'s str, &'s Sheet<'a>)>,
    separator: Separator,
) -> String {
    let mut lines = Lines::new(separator);
    for (at, (name, sheet)) in sheets.into_iter().enumerate() {
        let fields = sheet.columns(SheetForm::Delimited);
        if at == 0 {
            let names = fields.iter().flat_map(|&at| names(&sheet.headings[at]));
            lines.push(key.map(str::to_owned).into_iter().chain(names));
        }
        for row in sheet.entries() {
            let values = fields.iter().flat_map(|&at| values(&sheet.headings[at], &row[at].value));
            lines.push(key.map(|_| Cow::Borrowed(name)).into_iter().chain(values));
        }
    }
    lines.finish()
}

/// Puts fields together to lines.
#[derive(Debug)]
pub(crate) struct Lines {
    out: String,
    separator: Separator,
}

impl Lines {
    pub(crate) fn new(separator: Separator) -> Self {
        Self { out: String::new(), separator }
    }

    pub(crate) fn push(&mut self, fields: impl IntoIterator<Item = impl AsRef<str>>) {
        for (at, field) in fields.into_iter().enumerate() {
            if at > 0 {
                self.out.push(self.separator.char());
            }
            push_field(&mut self.out, self.separator, field.as_ref());
        }
        self.out.push('\n');
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }
}

fn names(heading: &Heading) -> Vec<String> {
    let key = heading.key.strip_suffix(".value").unwrap_or(&heading.key);
    let name = heading.column.map_or_else(|| key.replace('.', "_"), str::to_owned);
    // Older tables have words in the names of their columns.
    let gap = if heading.spaced { ' ' } else { '_' };
    match heading.kind {
        FieldKind::Share | FieldKind::Estimate => {
            vec![name.clone(), format!("{name}{gap}low"), format!("{name}{gap}high")]
        }
        _ => vec![name],
    }
}

fn values<'a>(heading: &Heading, value: &'a Value<'_>) -> Vec<Cow<'a, str>> {
    let first = match value {
        Value::Missing => Cow::Borrowed(""),
        Value::Text(text) => Cow::Borrowed(&**text),
        Value::Flag(is) => Cow::Borrowed(if *is { "true" } else { "false" }),
        Value::Count(value) => Cow::Owned(value.to_string()),
        Value::Id(id) => Cow::Owned(id.to_string()),
        Value::Address(address) => Cow::Owned(format!("{address:#x}")),
        Value::Lines(lines) => Cow::Owned(lines.join(";")),
        Value::Json(_) | Value::Drawn(_) => Cow::Borrowed(""),
        Value::Number(value, _)
        | Value::Share(value, _)
        | Value::Estimate(value, _)
        | Value::Margin(value)
        | Value::Seconds(value) => Cow::Owned(value.to_string()),
        Value::Limits(_, of) => Cow::Owned(of.half_width().to_string()),
    };
    if !matches!(heading.kind, FieldKind::Share | FieldKind::Estimate) {
        return vec![first];
    }
    let interval = match value {
        Value::Share(_, interval) | Value::Estimate(_, interval) => *interval,
        _ => None,
    };
    let bound = |bound: Option<f64>| bound.map_or(Cow::Borrowed(""), |of| of.to_string().into());
    vec![first, bound(interval.map(|of| of.low)), bound(interval.map(|of| of.high))]
}

/// Appends a field. Numbers stay as they are: a minus is no formula.
pub(crate) fn push_field(out: &mut String, separator: Separator, field: &str) {
    let field = escape(field);
    let is_formula = field.starts_with(['=', '+', '-', '@']) && field.parse::<f64>().is_err();
    let quotes = match separator {
        Separator::Comma => is_formula || field.contains([',', '"']),
        Separator::Tab => field.contains('"'),
    };
    if quotes {
        out.push('"');
    }
    if is_formula {
        out.push('\'');
    }
    if quotes {
        out.push_str(&field.replace('"', "\"\""));
        out.push('"');
    } else {
        out.push_str(&field);
    }
}
