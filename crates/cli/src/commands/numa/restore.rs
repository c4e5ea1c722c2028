//! `pmuscope numa restore`.

use pmuscope_console::exit::{Exit, not_possible};
use pmuscope_console::output::OutputArgs;
use pmuscope_machine::Machine;
use pmuscope_numa::act::{Restored, folder, restore};
use pmuscope_report::{RestoredProcess, RestoredProcesses};

pmuscope_console::forms!(RestoreFormats: Text Json, "pmuscope/numa-restore/1");

/// Flags of `pmuscope numa restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope numa restore           all processes that a killed numa balance left pinned
  pmuscope numa restore -p 4242")]
pub(crate) struct Args {
    /// Restore only these processes
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    pid: Vec<u32>,
    #[command(flatten)]
    output: OutputArgs<RestoreFormats>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let form = args.output.form()?;
    let restored = match folder() {
        Some(folder) => restore(&Machine::host(), &folder, &args.pid).map_err(not_possible)?,
        None => Vec::new(),
    };
    let processes: Vec<RestoredProcess> =
        restored.into_iter().map(|(pid, restored)| RestoredProcess { pid, restored }).collect();
    let refused = |it: &RestoredProcess| {
        matches!(it.restored, Restored::Refused { .. } | Restored::Held { .. })
    };
    let exit = if processes.iter().any(refused) { Exit::Incomplete } else { Exit::Done };
    form.show(&RestoredProcesses { processes }, &exit)?;
    Ok(exit)
}
