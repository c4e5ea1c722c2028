//! What `stat` and `sweep` have in common: events, units of work, and how they end.

mod events;
mod progress;
mod select;
mod user_mode;

use std::path::PathBuf;

pub(super) use events::{Absent, Asked, by_default};
use pmuscope_console::exit::{Exit, bad_input, failure};
use pmuscope_counters::CountersError;
use pmuscope_events::Event;
use pmuscope_measure::units::{Unit, UnitSource, Units};
use pmuscope_measure::{Extract, MeasureError, RunFile};
pub(super) use progress::CountingProgress;
pub(super) use select::select;
pub(super) use user_mode::UserMode;

use super::program::not_started;

/// What work the program does.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct UnitArgs {
    /// Divide by a unit of work: packet=10e6; repeatable
    ///
    /// Each run does N of them.
    #[arg(long, value_name = "NAME=N", help_heading = "Units of work")]
    per: Vec<String>,
    /// Take the number of units from the program's output
    ///
    /// The first group of the last match, as in 'request=handled ([0-9.]+) requests'.
    #[arg(long, value_name = "NAME=REGEX", help_heading = "Units of work")]
    per_from: Vec<String>,
    /// Take the number of units from FILE, written by the program
    ///
    /// Lines such as packet=10000000. With -p the growth of these numbers counts.
    #[arg(long, value_name = "FILE", help_heading = "Units of work")]
    per_file: Vec<PathBuf>,
    /// Count EVENT as units: write=syscalls:sys_enter_write
    #[arg(long, value_name = "NAME=EVENT", help_heading = "Units of work")]
    per_event: Vec<String>,
    /// Add a metric from the program's output, such as Mpps
    #[arg(long, value_name = "NAME=REGEX", help_heading = "Units of work")]
    metric_from: Vec<String>,
}

impl UnitArgs {
    /// Units of work and the program's own figures.
    pub(super) fn units(&self) -> anyhow::Result<Units> {
        self.parse().map_err(bad_input)
    }

    fn parse(&self) -> Result<Units, String> {
        let mut units = Units { files: self.per_file.clone(), ..Units::default() };
        for text in &self.per {
            let wrong = || format!("--per {text}: expected NAME=NUMBER, as in packet=10e6");
            let (name, number) = text.split_once('=').ok_or_else(wrong)?;
            let number: f64 = number.parse().map_err(|_| wrong())?;
            if name.is_empty() || !number.is_finite() || number <= 0.0 {
                return Err(wrong());
            }
            units.list.push(Unit { name: name.to_owned(), source: UnitSource::Number(number) });
        }
        let extract = |flag: &str, text: &String| {
            Extract::named(text).map_err(|error| format!("{flag} {error}"))
        };
        for text in &self.per_from {
            let extract = extract("--per-from", text)?;
            units
                .list
                .push(Unit { name: extract.metric.clone(), source: UnitSource::Output(extract) });
        }
        for text in &self.per_event {
            let wrong = || {
                format!(
                    "--per-event {text}: expected NAME=EVENT, as in write=syscalls:sys_enter_write"
                )
            };
            let (name, event) =
                text.split_once('=').filter(|(n, _)| !n.is_empty()).ok_or_else(wrong)?;
            let source = UnitSource::Event { typed: event.into(), names: Vec::new() };
            units.list.push(Unit { name: name.into(), source });
        }
        let figures = self.metric_from.iter().map(|text| extract("--metric-from", text));
        units.figures = figures.collect::<Result<_, _>>()?;
        Ok(units)
    }
}

/// Tells units that are events what those are called where they are counted; the same event is in no two of them.
pub(super) fn name_units(units: &mut Units, events: &[&Event]) {
    units.name_events(|typed| {
        let mut found: Vec<&Event> = Vec::new();
        for &event in events.iter().filter(|event| event.typed == typed.trim()) {
            if !found.iter().any(|known| known.pmu == event.pmu && known.attr == event.attr) {
                found.push(event);
            }
        }
        found.into_iter().map(|event| event.name.clone()).collect()
    });
}

/// What has the same reason, together: pairs are of a name and why it cannot be had.
pub(super) fn by_reason<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, why) in pairs {
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    reasons
}

/// Names in a run what this machine does not have, with the reason.
pub(super) fn add_absent(file: &mut RunFile, run: usize, absent: &[(String, String)]) {
    let labels = file.arm_of(run);
    for (event, why) in absent {
        let kind = ("", pmuscope_measure::Origin::Hardware);
        file.add(run, &labels, event, kind, Err(why.clone()));
    }
}

/// As env(1) has it where the command cannot be started. What is wrong with arguments or the machine is found
/// before that, and has the same status with and without a command.
pub(super) fn refused(error: &MeasureError, has_command: bool) -> anyhow::Error {
    let exit = match error {
        MeasureError::Counters(error @ CountersError::Spawn { .. }) => return not_started(error),
        MeasureError::Machine(_) => Exit::BadInput,
        MeasureError::NothingCounted { .. }
        | MeasureError::Counters(CountersError::Open { .. } | CountersError::OpenFiles { .. }) => {
            Exit::NotPossible
        }
        _ if has_command => Exit::Target(125),
        _ => Exit::NotPossible,
    };
    failure(exit, error.to_string())
}
