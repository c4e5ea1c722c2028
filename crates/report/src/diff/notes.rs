//! What limits the reading of two sides, whatever is compared.

use pmuscope_profile::LongPhases;

use crate::number::duration;
use crate::recording::long_phases_text;

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
