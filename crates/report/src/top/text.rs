//! An interval for people, once.

use super::{LIVE, TopBy, TopView};
use crate::recording::{RowLimits, Taken, event_name, head_text, push_notes};
use crate::views::{RowsBy, rows_text};
use crate::{Paint, Style, number};

/// Header; for each event its functions, and where CPUs differ; notes.
pub(super) fn top_text(view: &TopView<'_>, by: TopBy, limits: RowLimits, style: &Style) -> String {
    let profile = view.profile;
    let mut out = head_text(profile, LIVE, style);
    for event in &profile.events {
        out.push('\n');
        if profile.events.len() > 1 {
            let title =
                format!("{}, {}", event_name(event), number::counted(event.samples, "sample"));
            out.push_str(&style.paint(Paint::Bold, &style.text(&title)));
            out.push('\n');
        }
        let rows = view.rows(event, by, limits.rows.unwrap_or(usize::MAX));
        let by = RowsBy { dimensions: by.dimensions(), modules: &profile.modules, children: false };
        out.push_str(&rows_text(&rows, by, limits, style));
    }
    push_notes(&mut out, profile, Taken::Live, style);
    out
}
