//! `pmuscope lab`: one file per command.

mod kernels;
mod matrix;
mod output;
mod run;

use clap::Subcommand;
use pmuscope_lab::LabError;

use crate::exit::{Exit, failure};

/// Flags of `pmuscope lab`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command of pmuscope in a virtual machine with this kernel and topology.
    Run(Box<run::Args>),
    /// List kernels that guests can boot.
    Kernels(kernels::Args),
    /// What the first process of a guest does.
    #[command(hide = true)]
    Guest,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::Run(args) => run::run(*args),
        Command::Kernels(args) => kernels::run(args),
        Command::Guest => match pmuscope_lab::guest() {
            Ok(never) => match never {},
            Err(error) => Err(failure(Exit::BadInput, error.to_string())),
        },
    }
}

/// Bad input ends with 2; whatever else kept a command from running in a guest with 125, as the
/// command's own status may be any other.
fn refused(error: &LabError) -> anyhow::Error {
    let exit = match error {
        LabError::Arch { .. }
        | LabError::Kernel { .. }
        | LabError::NoKernel { .. }
        | LabError::Program { .. }
        | LabError::Topology(_) => Exit::BadInput,
        _ => Exit::Target(125),
    };
    failure(exit, error.to_string())
}
