//! `pmuscope numa`: one file per command.

mod advise;
mod balance;
mod follow;
mod restore;
mod show;
mod simulate;

use clap::Subcommand;

use crate::exit::Exit;

pub(super) use follow::parse_seconds;

/// Flags of `pmuscope numa`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: NumaCommand,
}

#[derive(Debug, Subcommand)]
enum NumaCommand {
    /// Show nodes and how the kernel places memory on them; of processes, where they run and their memory lies.
    Show(show::Args),
    /// Say where a process had better be: compact, spread, interleave, or leave alone, with the evidence.
    Advise(advise::Args),
    /// Move threads and pages of processes to where they are near to each other, judge, undo what does not help.
    Balance(Box<balance::Args>),
    /// Let processes that a killed balance left pinned run where they could before.
    Restore(restore::Args),
    /// Simulate placement policies and balance on 4 nodes, beside what was published of them.
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
