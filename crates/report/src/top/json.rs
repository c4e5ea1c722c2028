//! An interval for programs: the result of `pmuscope/top/1`.

use pmuscope_profile::{EventProfile, LostSource};
use serde::Serialize;

use super::{TopBy, TopView};
use crate::recording::{Count, NoteOut, RowLimits, Taken};
use crate::sheet::Sheet;

/// An interval.
#[derive(Debug, Serialize)]
pub(super) struct IntervalReport<'a> {
    interval: IntervalOut<'a>,
    events: Vec<TopEvent<'a>>,
    notes: Vec<NoteOut>,
}

/// The interval itself.
#[derive(Debug, Serialize)]
struct IntervalOut<'a> {
    scope: &'a str,
    /// Nanoseconds since 1970-01-01 UTC, as text.
    started: String,
    duration_s: f64,
    cost: CostOut,
    lost: Count,
    /// `exact` or `at_least`.
    lost_is: &'static str,
    throttled: Count,
}

/// CPU time of the program itself.
#[derive(Debug, Serialize)]
struct CostOut {
    user_s: f64,
    system_s: f64,
    machine_share: Option<f64>,
}

#[derive(Debug, Serialize)]
struct TopEvent<'a> {
    name: &'a str,
    samples: Count,
    frequency_hz: Option<u64>,
    fixed_period: Option<Count>,
    /// What shares are of: `period` or `samples`.
    share_of: &'static str,
    functions: Sheet<'static>,
    functions_left_out: usize,
    commands: Sheet<'static>,
    processes: Sheet<'static>,
    cpus: Sheet<'static>,
    nodes: Sheet<'static>,
}

impl<'a> IntervalReport<'a> {
    /// What is known of an interval; `None` where nothing is known of how it was followed.
    pub(super) fn new(view: &TopView<'a>, limits: RowLimits) -> Option<Self> {
        let profile = view.profile;
        let info = profile.info()?;
        let interval = IntervalOut {
            scope: &info.scope,
            started: info.started_unix_ns.to_string(),
            duration_s: info.duration_s,
            cost: CostOut {
                user_s: info.cost.user_s,
                system_s: info.cost.system_s,
                machine_share: info.cost.machine_share,
            },
            lost: Count(profile.lost.count),
            lost_is: match profile.lost.source {
                LostSource::Kernel => "exact",
                LostSource::Records => "at_least",
            },
            throttled: Count(profile.throttled),
        };
        let events =
            profile.events.iter().map(|event| TopEvent::new(view, event, limits)).collect();
        Some(Self { interval, events, notes: NoteOut::all(profile, Taken::Live) })
    }
}

impl<'a> TopEvent<'a> {
    fn new(view: &TopView<'a>, event: &'a EventProfile, limits: RowLimits) -> Self {
        let rows = |by, limits| view.sheet(event, by, limits);
        let functions = rows(TopBy::Function, limits);
        // These are few.
        let all = |by| rows(by, RowLimits::ALL);
        Self {
            name: &event.name,
            samples: Count(event.samples),
            frequency_hz: event.frequency,
            fixed_period: event.fixed_period.map(Count),
            share_of: if event.by_period { "period" } else { "samples" },
            functions_left_out: functions.left_out(),
            functions,
            commands: all(TopBy::Command),
            processes: all(TopBy::Process),
            cpus: all(TopBy::Cpu),
            nodes: all(TopBy::Node),
        }
    }
}
