//! `pmuscope bench memory`.

use pmuscope_bench::Repetition;
use pmuscope_bench::memory::{MemoryBench, Options, bytes_by_default};
use pmuscope_console::exit::{Exit, failure};
use pmuscope_report::BenchKind;
use pmuscope_workloads::memory::{Access, Thp};

use super::runs::RunOutputArgs;
use super::{BenchJob, Here, this_program};
use crate::commands::duration;
use crate::commands::record::size;

/// Flags of `pmuscope bench memory`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench memory                          read, write, copy, idle and loaded latency
  pmuscope bench memory --access read,stream --no-latency -r 20 --json=memory.json
  pmuscope compare before.json after.json        compare two such files

docs/memory.md explains the method, and what the numbers are not.")]
pub(crate) struct Args {
    /// Set what all CPUs of a node do
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "read,write,copy",
        value_parser = Access::NAMES.to_vec()
    )]
    access: Vec<String>,
    /// Skip latency, idle and loaded
    #[arg(long)]
    no_latency: bool,
    /// Set pauses for loaded latency, in ns per 64 KiB
    ///
    /// How long the other threads pause after each 64 KiB that they read.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "100000,30000,10000,3000,1000,0",
        conflicts_with = "no_latency"
    )]
    pauses: Vec<u64>,
    /// Use SIZE of memory per run, over all threads
    ///
    /// [default: four times the caches, at least 256M, at most a quarter of available memory]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Run each measurement for DURATION
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds, default_value = "1s")]
    seconds: f64,
    /// Run N threads per node [default: one per CPU]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Use transparent huge pages
    #[arg(long, value_name = "WHEN", default_value = "always", value_parser = Thp::NAMES.to_vec())]
    thp: String,
    /// Run each measurement N times
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    repeat: usize,
    /// Seed the random order of runs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    output: RunOutputArgs,
}

pub(super) fn run(args: &Args, here: &Here) -> anyhow::Result<Exit> {
    let machine = &here.machine;
    if args.repeat == 0 || args.threads == Some(0) {
        return Err(failure(Exit::BadInput, "-r and --threads from 1"));
    }
    let size = args.size.as_ref().map(|text| size::bytes("--size", text)).transpose();
    let options = Options {
        accesses: args.access.iter().filter_map(|name| Access::named(name)).collect(),
        latency: !args.no_latency,
        pauses: if args.no_latency { Vec::new() } else { args.pauses.clone() },
        bytes: size
            .map_err(|why| failure(Exit::BadInput, why))?
            .unwrap_or_else(|| bytes_by_default(machine)),
        seconds: args.seconds,
        threads: args.threads,
        thp: Thp::named(&args.thp).unwrap_or(Thp::Always),
        program: this_program()?,
        scratch: std::env::temp_dir(),
    };
    let rounds = Repetition::new(args.repeat, args.seed);
    let benchmark = MemoryBench { machine, options };
    BenchJob::new(benchmark, rounds, BenchKind::Memory, &args.output)?.run(here)
}
