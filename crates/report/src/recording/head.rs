//! What every view of a recording tells programs before its own rows: of what they are, what that cost, what is
//! missing.

use pmuscope_perfdata::info::Cost;
use pmuscope_profile::{FileState, Lost, LostSource, Profile};
use serde::Serialize;

use super::json::Count;

/// Why a row's share has no interval.
pub(crate) const NO_INTERVAL: &str = "samples in fewer than 30 blocks of time, phases too long for the recording, or not among the largest rows";
/// The same where it is known to be for its phases.
pub(crate) const LONG_PHASES: &str = "the program's phases are too long for this recording";

/// The recording that rows are of.
#[derive(Debug, Serialize)]
pub(crate) struct Head<'a> {
    file: &'a str,
    /// `complete`, `not_closed` (killed, or still running), `cut_off`.
    state: &'static str,
    scope: Option<&'a str>,
    duration_s: Option<f64>,
    cost: Option<&'a Cost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_why: Option<&'static str>,
    lost: Count,
    /// `exact` or `at_least`.
    lost_is: &'static str,
    throttled: Count,
    /// What was left out; absent where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<FilteredOut<'a>>,
}

impl<'a> Head<'a> {
    /// Of `profile`, which was read from `file`.
    pub(crate) fn new(profile: &'a Profile, file: &'a str) -> Self {
        let info = profile.info();
        Self {
            file,
            state: match profile.state {
                FileState::Closed if profile.tally.stopped.is_none() => "complete",
                FileState::NotClosed => "not_closed",
                _ => "cut_off",
            },
            scope: info.map(|info| info.scope.as_str()),
            duration_s: profile.duration_s,
            cost: info.map(|info| &info.cost),
            cost_why: info.is_none().then_some("not recorded by pmuscope"),
            lost: Count(profile.lost.count),
            lost_is: lost_is(profile.lost),
            throttled: Count(profile.throttled),
            filter: FilteredOut::of(profile),
        }
    }
}

/// How a number of lost records is to be read.
pub(crate) fn lost_is(lost: Lost) -> &'static str {
    match lost.source {
        LostSource::Kernel => "exact",
        LostSource::Records => "at_least",
    }
}

/// A filter, and what it left.
#[derive(Debug, Serialize)]
pub(crate) struct FilteredOut<'a> {
    /// Flags and their values, in order.
    by: Vec<Flag<'a>>,
    samples_kept: Count,
    samples_read: Count,
}

#[derive(Debug, Serialize)]
struct Flag<'a> {
    flag: &'static str,
    value: &'a str,
}

impl<'a> FilteredOut<'a> {
    /// `None` where nothing was to be left out.
    pub(crate) fn of(profile: &'a Profile) -> Option<Self> {
        let filtered = profile.filtered.as_ref()?;
        let flag = |(flag, value): &'a (&'static str, String)| Flag { flag, value };
        Some(Self {
            by: filtered.filter.asked.iter().map(flag).collect(),
            samples_kept: Count(profile.samples()),
            samples_read: Count(profile.samples_read()),
        })
    }
}
