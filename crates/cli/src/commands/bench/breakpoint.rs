//! `pmuscope bench breakpoint`.

use std::num::NonZeroUsize;

use clap::Subcommand;
use pmuscope_bench::breakpoint::{enable::EnableBench, hit::HitBench, thread::ThreadBench};
use pmuscope_bench::{Benchmark, Repetition};
use pmuscope_console::exit::Exit;
use pmuscope_counters::Host;
use pmuscope_report::BenchKind;

use super::runs::RunOutputArgs;
use super::{BenchJob, Here, not_measured};

/// Flags of `pmuscope bench breakpoint`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    benchmark: BreakpointCommand,
}

#[derive(Debug, Subcommand)]
enum BreakpointCommand {
    /// Time creating threads that inherit breakpoints
    Thread(ThreadArgs),
    /// Time enabling and disabling an inherited breakpoint
    Enable(EnableArgs),
    /// Time breakpoint hits: counted, recorded, with callchain
    Hit(HitArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench breakpoint thread -r 30 -b 4 -p 64 -t 64
  pmuscope bench breakpoint thread -b 1,2,4 -p 1,2 -t 1,16,64 --json=threads.json

Options are those of perf bench breakpoint thread, where each takes one value and -r precedes the name.
µs/op is the time of a run divided by its threads (batches times -t); µs/op/cpu is that times -p.")]
struct ThreadArgs {
    /// Set numbers of breakpoints per thread; 0 is the baseline
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    breakpoints: Vec<u32>,
    /// Set numbers of threads that create batches concurrently
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    parallelism: Vec<NonZeroUsize>,
    /// Set numbers of threads per batch
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    threads: Vec<NonZeroUsize>,
    /// Create N batches per run
    #[arg(short, long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    runs: RunsArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench breakpoint enable -p 16 -a 1
  pmuscope bench breakpoint enable -p 0,1,16,256 -a 0,1,2 --json=enable.json

Options are those of perf bench breakpoint enable, where each takes one value and -r precedes the name.
One operation is a disable and an enable.")]
struct EnableArgs {
    /// Set numbers of waiting threads
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "0")]
    passive: Vec<usize>,
    /// Set numbers of running threads
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "0")]
    active: Vec<usize>,
    /// Disable and enable N times per run
    #[arg(short, long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    runs: RunsArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench breakpoint hit
  pmuscope bench breakpoint hit -r 100000 --runs 20 --json=hit.json")]
struct HitArgs {
    /// Hit the breakpoint N times per run
    #[arg(short, long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,
    #[command(flatten)]
    runs: RunsArgs,
}

/// How often all of it runs, and where results go.
#[derive(Debug, clap::Args)]
struct RunsArgs {
    /// Run each combination N times
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Run each combination N times first, uncounted
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm_up: u16,
    /// Seed the random order of runs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    output: RunOutputArgs,
}

impl RunsArgs {
    fn make<B: Benchmark>(
        &self,
        here: &Here,
        benchmark: B,
        kind: BenchKind,
    ) -> anyhow::Result<Exit> {
        let rounds = Repetition::new(self.runs.into(), self.seed);
        let rounds = Repetition { warm_up: self.warm_up.into(), ..rounds };
        BenchJob::new(benchmark, rounds, kind, &self.output)?.run(here)
    }
}

pub(super) fn run(args: &Args, here: &Here) -> anyhow::Result<Exit> {
    let (kernel, machine) = (&Host, &here.machine);
    match &args.benchmark {
        BreakpointCommand::Thread(args) => {
            let benchmark = ThreadBench {
                kernel,
                machine,
                breakpoints: args.breakpoints.clone(),
                parallelism: args.parallelism.clone(),
                threads: args.threads.clone(),
                batches: args.repeat,
            };
            args.runs.make(here, benchmark, BenchKind::BreakpointThread)
        }
        BreakpointCommand::Enable(args) => {
            let (passive, active) = (args.passive.clone(), args.active.clone());
            let benchmark = EnableBench { kernel, passive, active, switches: args.repeat };
            args.runs.make(here, benchmark, BenchKind::BreakpointEnable)
        }
        BreakpointCommand::Hit(args) => {
            let benchmark = HitBench::new(kernel, machine, args.repeat).map_err(not_measured)?;
            args.runs.make(here, benchmark, BenchKind::BreakpointHit)
        }
    }
}
