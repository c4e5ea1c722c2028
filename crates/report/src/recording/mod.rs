//! A recording's profile as text and as JSON.

pub(crate) mod causes;
mod head;
mod json;
mod losses;
mod notes;
mod other_data;
mod stacks;
pub(crate) mod symbols;
#[cfg(test)]
mod tests;
mod text;

use pmuscope_profile::{Profile, RankBy};

pub(crate) use head::{FilteredOut, Head, LONG_PHASES, NO_INTERVAL, lost_is};
pub(crate) use json::{Count, NoteOut};
pub use json::{RECORDING_SCHEMA, RecordingReport};
pub use notes::{Note, browser_notes, notes, order_note};
pub(crate) use notes::{Taken, long_phases_text, no_interval_note, notes_on_file};
pub use other_data::other_data_text;
pub(crate) use text::{
    asked, event_name, extent, kept, lost_text, paint_line, push_account, push_all_notes,
    push_notes, push_wrapped,
};
pub use text::{head_text, kept_text, modules_text, recording_text, warnings_text};

/// Which rows of a profile are shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowLimits {
    /// Most rows per event; `None` shows all.
    pub rows: Option<usize>,
    /// Smallest share, 0 to 1.
    pub share: f64,
    /// By which share functions are ranked.
    pub rank: RankBy,
}

impl RowLimits {
    /// No limit, ranked by own samples.
    pub const ALL: Self = Self { rows: None, share: 0.0, rank: RankBy::Own };
}

/// CPUs and nodes of the recording's machine, as far as the file says.
pub(crate) fn machine_size(profile: &Profile) -> (Option<u32>, Option<u32>) {
    let told = profile.info().map(|info| &info.machine);
    let known = |number: u32| (number > 0).then_some(number);
    (
        told.and_then(|machine| known(machine.cpus)).or(profile.metadata.cpus),
        told.and_then(|machine| known(machine.nodes)).or(profile.metadata.nodes),
    )
}
