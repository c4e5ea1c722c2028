//! `pmuscope bench memory`.

use std::os::fd::AsFd as _;

use anyhow::Context as _;
use pmuscope_bench::memory::{self, MemoryBenchError, Options, bytes_by_default};
use pmuscope_machine::Machine;
use pmuscope_measure::Plan;
use pmuscope_measure::counting::Signal;
use pmuscope_report::memory_text;
use pmuscope_workloads::WorkloadError;
use pmuscope_workloads::memory::{Access, Thp};

use super::runs::{PreflightCpus, RunOutputArgs, begin, tell_concerns};
use crate::commands::counting::CountingProgress;
use crate::commands::doctor;
use crate::commands::record::size;
use crate::exit::{Exit, failure};
use crate::signals::stop_pipe;

/// Flags of `pmuscope bench memory`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench memory                          read, write, copy, latency, latency under load
  pmuscope bench memory --access read,stream --no-latency -r 20 --json=memory.json
  pmuscope compare before.json after.json        two such files side by side

docs/memory.md tells how it is measured, and what the figures are not.")]
pub(crate) struct Args {
    /// What all CPUs of a node do
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "read,write,copy",
        value_parser = Access::NAMES.to_vec()
    )]
    access: Vec<String>,
    /// No latency, neither at rest nor under load
    #[arg(long)]
    no_latency: bool,
    /// Latency under load: nanoseconds that the others wait after each 64 KiB that they read
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "100000,30000,10000,3000,1000,0",
        conflicts_with = "no_latency"
    )]
    pauses: Vec<u64>,
    /// Memory of each run, over all its threads [default: four times the caches, 256M at least, a fourth of
    /// what is available at most]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Seconds of each run
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Threads of a node [default: one for each of its CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Huge pages
    #[arg(long, value_name = "WHEN", default_value = "always", value_parser = Thp::NAMES.to_vec())]
    thp: String,
    /// How often each runs
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    repeat: usize,
    /// Seed of the random order of runs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    output: RunOutputArgs,
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let machine = Machine::host();
    if args.repeat == 0 || args.threads == Some(0) {
        return Err(failure(Exit::BadInput, "-r and --threads from 1"));
    }
    let options = options(&args, &machine).map_err(|why| failure(Exit::BadInput, why))?;
    let mut file = begin(&machine, &doctor::facts()?, PreflightCpus::Allowed)?;
    tell_concerns(&file);
    let stop = stop_pipe().context("cannot listen for signals")?;
    let stop = || Signal(stop.as_fd()).is_given();
    let mut watch = CountingProgress::new(args.output.path());
    let whole = memory::memory(&machine, &options, &mut file, &stop, &mut watch)
        .map_err(|error| refused(&error))?;
    args.output.finish(file, !whole, true, memory_text)
}

fn options(args: &Args, machine: &Machine) -> Result<Options, String> {
    let bytes = match &args.size {
        Some(text) => size::bytes("--size", text)?,
        None => bytes_by_default(machine),
    };
    Ok(Options {
        accesses: args.access.iter().filter_map(|name| Access::named(name)).collect(),
        latency: !args.no_latency,
        pauses: if args.no_latency { Vec::new() } else { args.pauses.clone() },
        bytes,
        seconds: args.seconds,
        threads: args.threads,
        thp: Thp::named(&args.thp).unwrap_or(Thp::Always),
        rounds: args.repeat,
        seed: args.seed.unwrap_or_else(Plan::random_seed),
        program: std::env::current_exe()
            .map_err(|e| format!("cannot tell where this program is: {e}"))?,
        scratch: std::env::temp_dir(),
    })
}

fn refused(error: &MemoryBenchError) -> anyhow::Error {
    let exit = match error {
        MemoryBenchError::Emulated(_)
        | MemoryBenchError::Workload(WorkloadError::System { .. }) => Exit::NotPossible,
        _ => Exit::BadInput,
    };
    failure(exit, error.to_string())
}
