//! The function under the head of its recording.

use pmuscope_profile::{Annotation, Profile};

use super::missing::missing;
use super::sections::section;
use crate::{Style, escape, head_text, warnings_text, wrap};

/// Head, function, notes. `all` shows what is far from samples too.
#[must_use]
pub(super) fn annotate_text(
    annotation: &Annotation<'_>,
    profile: &Profile,
    file: &str,
    all: bool,
    style: &Style,
) -> String {
    let (head, warnings) = (head_text(profile, file, style), warnings_text(profile, style));
    format!("{head}{}{warnings}", body(annotation, all, style))
}

/// What stands below the head.
pub(super) fn body(annotation: &Annotation<'_>, all: bool, style: &Style) -> String {
    let mut out = String::new();
    for (event, hits) in &annotation.events {
        section(annotation, (event, hits), all).push_text(&mut out, style);
    }
    let missing = missing(annotation);
    if !missing.is_empty() {
        out.push('\n');
    }
    for line in missing {
        out.push_str(&wrap(&style.text(&format!("note: {}", escape(&line))), style.width, 0));
        out.push('\n');
    }
    out
}
