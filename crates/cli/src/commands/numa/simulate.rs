//! `pmuscope numa simulate`.

use pmuscope_console::exit::Exit;
use pmuscope_console::output::OutputArgs;
use pmuscope_numa::simulate::{RUNS, SEED, machine, table};
use pmuscope_report::NumaSimulation;

pmuscope_console::forms!(SimulateFormats: Text Json Csv Tsv, "pmuscope/numa-simulate/1");

/// Flags of `pmuscope numa simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope numa simulate          sixteen tests on 4 nodes, a few seconds
  pmuscope numa simulate --json")]
pub(crate) struct Args {
    /// Run each test N times per policy
    #[arg(long, value_name = "N", default_value_t = RUNS, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Seed the simulation; equal seeds give equal tables
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs<SimulateFormats>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let form = args.output.form()?;
    let simulation = NumaSimulation {
        simulated: machine(),
        runs: args.runs,
        seed: args.seed,
        tests: table(args.runs, args.seed),
    };
    form.show(&simulation, &Exit::Done)?;
    Ok(Exit::Done)
}
