//! `pmuscope bench ring`.

use pmuscope_bench::Repetition;
use pmuscope_bench::ring::RingBench;
use pmuscope_counters::Host;
use pmuscope_report::BenchKind;
use pmuscope_workloads::ring::Mode;

use super::runs::RunOutputArgs;
use super::{BenchJob, Here, this_program};
use crate::commands::counting::by_default;
use crate::exit::{Exit, failure};

/// Flags of `pmuscope bench ring`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench ring                            both ways to tell what is full, in one process and in two
  pmuscope bench ring --bytes-written 64 --bytes-read 64 -r 10 --json=ring.json
  pmuscope stat -- pmuscope workload ring --mode fastforward

In ring-N of the table, ring is basic (indices of both sides, on one cache line) or fastforward (the
slot itself tells whether it is full), N is the number of processes.")]
pub(crate) struct Args {
    /// Ways to tell what is full
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "basic,fastforward",
        value_parser = ["basic", "fastforward"]
    )]
    modes: Vec<String>,
    /// Numbers of processes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2")]
    processes: Vec<usize>,
    /// Packets of each run
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    packets: u64,
    /// Packets in a row before the other side has its turn, with one process
    #[arg(long, value_name = "N", default_value_t = 100)]
    burst: u64,
    /// Bytes of each packet that the producer writes
    #[arg(long, value_name = "N", default_value_t = 0)]
    bytes_written: usize,
    /// Bytes of each packet that the consumer reads
    #[arg(long, value_name = "N", default_value_t = 0)]
    bytes_read: usize,
    /// Events to count [default: as pmuscope stat]
    #[arg(short, long, value_name = "EVENT,…")]
    event: Vec<String>,
    /// How often each runs
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    repeat: usize,
    /// Seed of the random order of runs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    output: RunOutputArgs,
}

pub(super) fn run(args: &Args, here: &Here) -> anyhow::Result<Exit> {
    if args.repeat == 0 || args.processes.iter().any(|n| !(1..=2).contains(n)) {
        return Err(failure(Exit::BadInput, "-r from 1; --processes 1, 2 or both"));
    }
    let asked = by_default(&args.event, &here.machine)?;
    let mode = |name: &String| match name.as_str() {
        "fastforward" => Mode::FastForward,
        _ => Mode::Basic,
    };
    let benchmark = RingBench {
        kernel: &Host,
        machine: &here.machine,
        modes: args.modes.iter().map(mode).collect(),
        processes: args.processes.clone(),
        packets: args.packets,
        burst: args.burst,
        bytes_written: args.bytes_written,
        bytes_read: args.bytes_read,
        groups: asked.groups,
        program: this_program()?,
    };
    let absent = asked.absent.iter().map(|(event, why)| format!("{event} is not counted: {why}"));
    let notices: Vec<String> = absent.collect();
    let missing = !args.event.is_empty() && !notices.is_empty();
    let rounds = Repetition::new(args.repeat, args.seed);
    let job = BenchJob::new(benchmark, rounds, BenchKind::Ring, &args.output);
    BenchJob { notices, ..job }.run_to(here, |_| Ok(!missing))
}
