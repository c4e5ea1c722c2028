//! `pmuscope bench breakpoint`.

use std::num::NonZeroUsize;
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use clap::Subcommand;
use pmuscope_bench::breakpoint::{BreakpointError, Runs, enable, hit, thread};
use pmuscope_counters::Host;
use pmuscope_machine::Machine;
use pmuscope_measure::counting::Signal;
use pmuscope_measure::{Plan, RunFile, RunObserver};
use pmuscope_report::{Style, breakpoint_enable_text, breakpoint_hit_text, breakpoint_thread_text};

use super::runs::{PreflightCpus, RunOutputArgs, begin, tell_concerns};
use crate::commands::counting::{CountingProgress, refused};
use crate::commands::doctor;
use crate::exit::{Exit, failure};
use crate::signals::stop_pipe;

/// Flags of `pmuscope bench breakpoint`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Creating and joining threads that inherit breakpoints, beside threads that inherit none.
    Thread(ThreadArgs),
    /// Switching a breakpoint off and on in all threads that have inherited it.
    Enable(EnableArgs),
    /// A hit: counted, recorded, recorded with its call chain.
    Hit(HitArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench breakpoint thread -r 30 -b 4 -p 64 -t 64
  pmuscope bench breakpoint thread -b 1,2,4 -p 1,2 -t 1,16,64 --json=threads.json

The options are those of perf bench breakpoint thread, where each takes one value and -r comes before the
name. µs/op is the time of a run divided by its threads (batches times -t), µs/op/cpu is that times -p.")]
struct ThreadArgs {
    /// Numbers of breakpoints that each thread inherits; 0 is always measured too
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    breakpoints: Vec<u32>,
    /// Numbers of threads that create batches at the same time
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    parallelism: Vec<NonZeroUsize>,
    /// Numbers of threads of a batch
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    threads: Vec<NonZeroUsize>,
    /// Batches of each run
    #[arg(short, long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    runs: RunsArgs,
    #[command(flatten)]
    output: RunOutputArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench breakpoint enable -p 16 -a 1
  pmuscope bench breakpoint enable -p 0,1,16,256 -a 0,1,2 --json=enable.json

The options are those of perf bench breakpoint enable, where each takes one value and -r comes before the
name. An operation is off and on together.")]
struct EnableArgs {
    /// Numbers of threads that wait
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "0")]
    passive: Vec<usize>,
    /// Numbers of threads that run
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "0")]
    active: Vec<usize>,
    /// Times off and on in each run
    #[arg(short, long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    runs: RunsArgs,
    #[command(flatten)]
    output: RunOutputArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench breakpoint hit
  pmuscope bench breakpoint hit -r 100000 --runs 20 --json=hit.json")]
struct HitArgs {
    /// Hits of each run
    #[arg(short, long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,
    #[command(flatten)]
    runs: RunsArgs,
    #[command(flatten)]
    output: RunOutputArgs,
}

/// How often all of it runs.
#[derive(Debug, clap::Args)]
struct RunsArgs {
    /// Runs of each combination
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Runs of each combination before, that do not count
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm_up: u16,
    /// Seed of the random order of runs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl From<&RunsArgs> for Runs {
    fn from(args: &RunsArgs) -> Self {
        Self {
            rounds: args.runs.into(),
            warm_up: args.warm_up.into(),
            seed: args.seed.unwrap_or_else(Plan::random_seed),
        }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let machine = Machine::host();
    match args.benchmark {
        Benchmark::Thread(args) => {
            let options = thread::Options {
                breakpoints: args.breakpoints,
                parallelism: args.parallelism,
                threads: args.threads,
                batches: args.repeat,
                runs: (&args.runs).into(),
            };
            make(&machine, &args.output, breakpoint_thread_text, |file, stop, watch| {
                thread::thread((&Host, &machine), &options, file, stop, watch)
            })
        }
        Benchmark::Enable(args) => {
            let options = enable::Options {
                passive: args.passive,
                active: args.active,
                switches: args.repeat,
                runs: (&args.runs).into(),
            };
            make(&machine, &args.output, breakpoint_enable_text, |file, stop, watch| {
                enable::enable(&Host, &options, file, stop, watch)
            })
        }
        Benchmark::Hit(args) => {
            let options = hit::Options { hits: args.repeat, runs: (&args.runs).into() };
            make(&machine, &args.output, breakpoint_hit_text, |file, stop, watch| {
                hit::hit((&Host, &machine), &options, file, stop, watch)
            })
        }
    }
}

/// Makes all runs and shows what they came to.
fn make(
    machine: &Machine,
    output: &RunOutputArgs,
    text: fn(&RunFile, &Style) -> String,
    runs: impl FnOnce(
        &mut RunFile,
        &dyn Fn() -> bool,
        &mut dyn RunObserver,
    ) -> Result<bool, BreakpointError>,
) -> anyhow::Result<Exit> {
    let mut file = begin(machine, &doctor::facts()?, PreflightCpus::Allowed)?;
    tell_concerns(&file);
    let stop = stop_pipe().context("cannot listen for signals")?;
    let stop = || Signal(stop.as_fd()).is_given();
    let mut watch = CountingProgress::new(output.path());
    let whole = runs(&mut file, &stop, &mut watch).map_err(|error| match error {
        BreakpointError::Measure(error) => refused(&error, false),
        BreakpointError::Slots { .. } | BreakpointError::Threads { .. } => {
            failure(Exit::BadInput, error.to_string())
        }
        error => failure(Exit::NotPossible, error.to_string()),
    })?;
    let counts = file.runs.iter().all(|run| run.why.is_none());
    output.finish(file, !whole, counts, text)
}
