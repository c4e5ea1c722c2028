//! `pmuscope numa simulate`.

use pmuscope_numa::simulate::{RUNS, SEED, machine, table};
use pmuscope_report::NumaSimulation;

use crate::commands::output::Form;
use crate::exit::Exit;

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
    let form = Form::printed(args.json);
    let simulation = NumaSimulation {
        simulated: machine(),
        runs: args.runs,
        seed: args.seed,
        tests: table(args.runs, args.seed),
    };
    form.show(&simulation, &Exit::Done)?;
    Ok(Exit::Done)
}
