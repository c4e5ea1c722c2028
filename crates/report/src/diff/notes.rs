//! What limits the reading of two sides, whatever is compared.

use pmuscope_profile::{LongPhases, Profile};

use super::DiffView;
use crate::number::{count, duration};
use crate::recording::{asked, long_phases_text};
use crate::{Note, escape};

/// What so many recordings a side tell of the spread from run to run. `what` varies, `command` compares; `apart` are
/// the seconds between sides that were recorded one after the other.
pub(crate) fn runs_note(
    runs: [usize; 2],
    apart: Option<f64>,
    (what, command): (&str, &str),
) -> Option<String> {
    match runs {
        [1, 1] => Some(format!(
            "one recording per side: the 95% CI covers how {what} vary within the recordings, not from run to run. \
             Record each side three times or more, alternating: pmuscope {command} A1 A2 A3 -- B1 B2 B3."
        )),
        [1, _] | [_, 1] => Some(
            "no CI: a side with one recording has no run-to-run variance. Give both sides two recordings or more, or \
             one each."
                .to_owned(),
        ),
        _ => apart.map(|gap_s| {
            format!(
                "all recordings of one side were made before those of the other ({} apart): a change of the machine \
                 in between counts as a difference. Alternate: A1 B1 A2 B2 A3 B3.",
                duration(gap_s)
            )
        }),
    }
}

/// That phases of the program are too long for its recordings.
pub(crate) fn phases_note(phases: &LongPhases) -> String {
    format!(
        "{}, so no difference is claimed. Record {} or longer, or each side three times or more.",
        long_phases_text(phases),
        duration(phases.enough())
    )
}

/// What verdicts hold for: all rows `of` something.
pub(crate) fn claims_note(of: &str) -> String {
    format!(
        "\"more\" and \"less\" hold for all rows{of} together (Holm, 5%); \"inconclusive\" is within chance."
    )
}

/// What a filter left of each side.
pub(super) fn kept(view: &DiffView<'_>) -> Option<String> {
    let [before, after] = view.recordings;
    let filtered = before.iter().chain(after).find_map(|one| one.filtered.as_ref())?;
    let side = |side: &[Profile]| {
        let kept: u64 = side.iter().map(Profile::samples).sum();
        let read: u64 = side.iter().map(Profile::samples_read).sum();
        format!("{} of {}", count(kept), count(read))
    };
    let flags = asked(&filtered.filter);
    Some(format!("samples kept: {} before, {} after: {flags}", side(before), side(after)))
}

/// What limits the reading: what recordings lack first.
pub(super) fn notes(view: &DiffView<'_>) -> Vec<Note> {
    let runs = [0, 1].map(|side: usize| view.files[side].len());
    let of = ("shares", "diff");
    let mut notes: Vec<String> = runs_note(runs, view.apart(), of).into_iter().collect();
    let all_rows = || view.events.iter().flat_map(|event| &event.rows);
    let long = view.events.iter().filter_map(|event| event.long_phases).reduce(LongPhases::longer);
    if let Some(phases) = long {
        notes.push(phases_note(&phases));
    } else if runs == [1, 1] && all_rows().next().is_some() && all_rows().all(|row| row.p.is_none())
    {
        notes.push("no CI: samples fall in fewer than 30 time blocks. Record longer.".to_owned());
    }
    if all_rows().any(|row| row.p.is_some()) {
        notes.push(claims_note(""));
    }
    if !view.one_sided.is_empty() {
        let names: Vec<_> = view.one_sided.iter().map(|name| escape(name)).collect();
        notes.push(format!("in one side only: {}.", names.join(", ")));
    }
    warnings(view).chain(notes.into_iter().map(Note::plain)).collect()
}

/// What may change the conclusion, of each recording: losses, an end that is missing.
fn warnings(view: &DiffView<'_>) -> impl Iterator<Item = Note> {
    let recordings = view.files.into_iter().zip(view.recordings);
    recordings.flat_map(|(files, profiles)| files.iter().zip(profiles)).flat_map(
        |(file, profile)| {
            let named =
                |note: Note| Note { text: format!("{}: {}", escape(file), note.text), ..note };
            crate::notes(profile).into_iter().filter(|note| note.warning).map(named)
        },
    )
}
