//! `pmuscope doctor`.

use pmuscope_console::exit::{Exit, bad_input, not_possible};
use pmuscope_console::output::OutputArgs;
use pmuscope_machine::capabilities::capabilities;
use pmuscope_machine::probe::{self, Probes};
use pmuscope_machine::{Facts, Machine, place};
use pmuscope_recorder::Disturb;
use pmuscope_report::doctor::{self, Diagnosis};

use crate::commands::choice::one_of;
use crate::commands::duration;
use crate::commands::strobe_check;

pmuscope_console::forms!(DoctorFormats: Text Json, "pmuscope/doctor/1");

/// Flags of `pmuscope doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: OutputArgs<DoctorFormats>,
    /// Measure the accuracy of counter windows here [default: 10s]
    ///
    /// For record --strobe. A plain number is seconds.
    #[arg(
        long,
        value_name = "DURATION", value_parser = duration::seconds,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10",
        conflicts_with_all = ["json", "output", "format"]
    )]
    strobe_check: Option<f64>,
    /// With --strobe-check: disturb the windows, and check repair (root)
    ///
    /// Briefly sets another sampling limit, opens a foreign period, and takes the last CPU offline.
    #[arg(
        long,
        value_name = "LIST",
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
            let why = format!("--strobe-check={seconds}: use 0.1 to 3600 seconds");
            return Err(bad_input(why));
        }
        return strobe_check::run(seconds, &args.disturb);
    }
    let form = args.output.form()?;
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
        .map_err(|error| not_possible(format!("cannot read facts about this machine: {error}")))
}
