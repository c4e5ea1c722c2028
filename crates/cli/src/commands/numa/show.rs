//! `pmuscope numa show`.

use std::io::Write as _;

use anyhow::Context as _;
use pmuscope_machine::{Machine, MachineError};
use pmuscope_report::{NUMA_SCHEMA, NumaShow, numa_text};

use super::follow::{self, FollowArgs};
use crate::commands::answer::Invocation;
use crate::commands::doctor;
use crate::exit::{Exit, failure};
use crate::terminal;

/// Flags of `pmuscope numa show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope numa show                  nodes, distances, settings, counters
  pmuscope numa show -p 4242          where its threads run and its memory lies, for 5 s
  pmuscope numa show -o x.html -- ./bench    the same of a program, from its start to its end, as a page
  pmuscope numa show --json")]
pub(crate) struct Args {
    /// Print everything as one JSON object (schema pmuscope/numa/1; of processes pmuscope/numa-show/1)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    follow: FollowArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let machine = Machine::host();
    if args.follow.is_asked() {
        return follow::run(&machine, &args.follow, args.json);
    }
    if let Some(flag) = args.follow.needs_process() {
        let text = format!("{flag} is of processes. Try: pmuscope numa show {flag} ... -p PID");
        return Err(failure(Exit::BadInput, text));
    }
    of_machine(&machine, args)
}

/// Nodes and settings, without a process.
fn of_machine(machine: &Machine, args: &Args) -> anyhow::Result<Exit> {
    let begun = Invocation::now();
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
