//! `pmuscope numa`: one file per command.

mod advise;
mod balance;
mod busiest;
mod follow;
mod restore;
mod show;
mod simulate;

use clap::Subcommand;
use pmuscope_console::exit::{Exit, bad_input, not_possible};
use pmuscope_machine::{Machine, MachineError};
use pmuscope_numa::observe::Family;

/// These processes, with what they start if `follow`.
fn family(machine: &Machine, pids: &[u32], follow: bool) -> anyhow::Result<Family> {
    Family::new(machine, pids, follow).map_err(|error| refused(&error))
}

/// Why processes cannot be looked at.
fn refused(error: &MachineError) -> anyhow::Error {
    match error {
        MachineError::Gone { pid } => {
            bad_input(format!("there is no process {pid}. Try: pgrep -l NAME"))
        }
        MachineError::Cgroup { .. } => bad_input(error),
        _ => not_possible(error),
    }
}

/// Flags of `pmuscope numa`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: NumaCommand,
}

#[derive(Debug, Subcommand)]
enum NumaCommand {
    /// Show nodes, or where processes run and hold memory
    Show(show::Args),
    /// Recommend a placement for a process, with evidence
    Advise(advise::Args),
    /// Move threads and pages closer together, and verify
    ///
    /// Undoes what does not help.
    Balance(Box<balance::Args>),
    /// Unpin processes that a killed balance left pinned
    Restore(restore::Args),
    /// Simulate placement policies, compared with published results
    Simulate(simulate::Args),
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        NumaCommand::Show(args) => show::run(&args),
        NumaCommand::Advise(args) => advise::run(&args),
        NumaCommand::Balance(args) => balance::run(&args),
        NumaCommand::Restore(args) => restore::run(&args),
        NumaCommand::Simulate(args) => simulate::run(&args),
    }
}
