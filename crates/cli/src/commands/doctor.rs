//! `pmuscope doctor`.

use pmuscope_machine::capabilities::capabilities;
use pmuscope_machine::probe::{self, Probes};
use pmuscope_machine::{Facts, Machine, place};
use pmuscope_recorder::Disturb;
use pmuscope_report::doctor::{self, Diagnosis};

use crate::commands::choice::one_of;
use crate::commands::output::Form;
use crate::commands::strobe_check;
use crate::exit::{Exit, bad_input, not_possible};

/// Flags of `pmuscope doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print everything as one JSON object (schema pmuscope/doctor/1)
    #[arg(long)]
    json: bool,
    /// Measure how exact windows (record --strobe) are here, for so many seconds [default: 10]
    #[arg(
        long,
        value_name = "S",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10",
        conflicts_with = "json"
    )]
    strobe_check: Option<f64>,
    /// And whether what loses their phase is seen and repaired: for moments, another sampling limit,
    /// a foreign period, and the last CPU offline (root)
    #[arg(
        long,
        value_name = "WHAT,…",
        value_parser = one_of(strobe_check::DISTURBANCES),
        value_delimiter = ',',
        num_args = 0..,
        require_equals = true,
        default_missing_values = ["period", "throttle", "hotplug"],
        requires = "strobe_check"
    )]
    disturb: Vec<Disturb>,
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    if let Some(seconds) = args.strobe_check {
        if !(0.1..=3600.0).contains(&seconds) {
            let why = format!("--strobe-check={seconds}: 0.1 to 3600 seconds");
            return Err(bad_input(why));
        }
        return strobe_check::run(seconds, &args.disturb);
    }
    let form = Form::printed(args.json);
    let facts = facts()?;
    let diagnosis = Diagnosis::new(capabilities(&facts));
    form.either((doctor::SCHEMA, Some(&facts)), &Exit::Done, &diagnosis, |style| {
        doctor::text(&facts, &diagnosis, style)
    })?;
    Ok(Exit::Done)
}

/// What is known of this machine, what only trying tells included.
pub(crate) fn facts() -> anyhow::Result<Facts> {
    let others = Probes {
        io_uring: probe::io_uring(),
        kvm: probe::kvm(),
        kvm_boots: pmuscope_lab::kvm_boots(),
        ..Probes::default()
    };
    let probes = pmuscope_counters::probe(&pmuscope_counters::Host, place::current_cpu(), others);
    Machine::host()
        .facts(probes, probe::counters())
        .map_err(|error| not_possible(format!("cannot tell what this machine is: {error}")))
}
