//! `pmuscope numa show`.

use std::io::Write as _;

use anyhow::Context as _;
use pmuscope_machine::{Machine, MachineError};
use pmuscope_report::{NUMA_SCHEMA, NumaShow, numa_text};

use crate::commands::answer::Begun;
use crate::commands::doctor;
use crate::exit::{Exit, failure};
use crate::terminal;

/// Flags of `pmuscope numa show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope numa show          nodes, distances, settings, counters
  pmuscope numa show --json")]
pub(crate) struct Args {
    /// Print everything as one JSON object (schema pmuscope/numa/1)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    of_machine(&Machine::host(), args)
}

/// Nodes and settings, without a process.
fn of_machine(machine: &Machine, args: &Args) -> anyhow::Result<Exit> {
    let begun = Begun::now();
    let told = |error: MachineError| failure(Exit::NotPossible, error.to_string());
    let topology = machine.topology().map_err(told)?;
    let kernel = machine.kernel().map_err(told)?;
    let surroundings = machine.surroundings(&machine.processor());
    let show = NumaShow {
        facts: &machine.numa_facts(&topology),
        topology: &topology,
        kernel: &kernel,
        emulator: surroundings.emulator.as_ref(),
    };
    let text = if args.json {
        begun.json(NUMA_SCHEMA, Some(&doctor::facts()?), &Exit::Done, &show)?
    } else {
        numa_text(&show, &terminal::style())
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(Exit::Done)
}
