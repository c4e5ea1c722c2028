//! `pmuscope numa restore`.

use std::io::Write as _;

use anyhow::Context as _;
use pmuscope_machine::Machine;
use pmuscope_numa::act::{Restored, folder, restore};
use pmuscope_report::{NUMA_RESTORE_SCHEMA, RestoredProcess, restored_text};
use serde::Serialize;

use crate::commands::answer::Invocation;
use crate::exit::{Exit, failure};
use crate::terminal;

/// Flags of `pmuscope numa restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope numa restore           all processes that a killed numa balance left pinned
  pmuscope numa restore -p 4242")]
pub(crate) struct Args {
    /// Only these processes
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pid: Vec<u32>,
    /// Print everything as one JSON object (schema pmuscope/numa-restore/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    processes: &'a [RestoredProcess],
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let begun = Invocation::now();
    let restored = match folder() {
        Some(folder) => restore(&Machine::host(), &folder, &args.pid)
            .map_err(|error| failure(Exit::NotPossible, error.to_string()))?,
        None => Vec::new(),
    };
    let processes: Vec<RestoredProcess> =
        restored.into_iter().map(|(pid, restored)| RestoredProcess { pid, restored }).collect();
    let refused = |it: &RestoredProcess| {
        matches!(it.restored, Restored::Refused { .. } | Restored::Held { .. })
    };
    let exit = if processes.iter().any(refused) { Exit::Incomplete } else { Exit::Done };
    let text = if args.json {
        begun.json(NUMA_RESTORE_SCHEMA, None, &exit, Answer { processes: &processes })?
    } else {
        restored_text(&processes, &terminal::style())
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(exit)
}
