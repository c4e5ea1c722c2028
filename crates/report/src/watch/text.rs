//! Hits for people.

use super::WatchView;
use super::words::{first_line, second_line};
use crate::recording::{paint_line, push_all_notes, push_wrapped};
use crate::{Style, escape};

/// Head, parts, notes.
#[must_use]
pub(super) fn watch_text(view: &WatchView<'_>, style: &Style) -> String {
    let file = view.file.map_or_else(String::new, |file| format!("    {}", escape(file)));
    let mut out = paint_line(style, &format!("{}{file}", first_line(view)));
    let second = second_line(view).join(" · ");
    push_wrapped(&mut out, &second, style);
    view.parts().iter().for_each(|part| part.push_text(&mut out, style));
    push_all_notes(&mut out, view.notes(), style);
    out
}
