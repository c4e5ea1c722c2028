//! `pmuscope numa simulate`.

use std::io::Write as _;

use anyhow::Context as _;
use pmuscope_numa::simulate::{RUNS, SEED, machine, table};
use pmuscope_report::{NUMA_SIMULATE_SCHEMA, NumaSimulation, numa_simulation_text};

use crate::commands::answer::Invocation;
use crate::exit::Exit;
use crate::terminal;

/// Flags of `pmuscope numa simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope numa simulate          sixteen tests on 4 nodes, some seconds
  pmuscope numa simulate --json")]
pub(crate) struct Args {
    /// Runs of each test under each policy
    #[arg(long, value_name = "N", default_value_t = RUNS, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Where chance begins: equal seeds give equal tables
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// Print everything as one JSON object (schema pmuscope/numa-simulate/1)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let begun = Invocation::now();
    let simulation = NumaSimulation {
        simulated: machine(),
        runs: args.runs,
        seed: args.seed,
        tests: table(args.runs, args.seed),
    };
    let text = if args.json {
        begun.json(NUMA_SIMULATE_SCHEMA, None, &Exit::Done, &simulation)?
    } else {
        numa_simulation_text(&simulation, &terminal::style())
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(Exit::Done)
}
