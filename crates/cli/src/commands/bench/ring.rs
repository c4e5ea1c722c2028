//! `pmuscope bench ring`.

use pmuscope_bench::Repetition;
use pmuscope_bench::ring::RingBench;
use pmuscope_console::exit::{Exit, failure};
use pmuscope_counters::Host;
use pmuscope_report::BenchKind;
use pmuscope_workloads::ring::Mode;

use super::runs::RunOutputArgs;
use super::{BenchJob, Here, this_program};
use crate::commands::counting::by_default;

/// Flags of `pmuscope bench ring`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench ring                            both modes, with one process and with two
  pmuscope bench ring --bytes-written 64 --bytes-read 64 -r 10 --json=ring.json
  pmuscope stat -- pmuscope workload ring --mode fastforward

In the table, ring-N names the mode (basic: indices of both sides, on one cache line; fastforward: a flag
in each slot) and the number of processes.")]
pub(crate) struct Args {
    /// Set how a side detects full slots
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "basic,fastforward",
        value_parser = ["basic", "fastforward"]
    )]
    modes: Vec<String>,
    /// Set numbers of processes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2")]
    processes: Vec<usize>,
    /// Send N packets per run
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    packets: u64,
    /// With one process: switch sides every N packets
    #[arg(long, value_name = "N", default_value_t = 100)]
    burst: u64,
    /// Make the producer write N bytes per packet
    #[arg(long, value_name = "N", default_value_t = 0)]
    bytes_written: usize,
    /// Make the consumer read N bytes per packet
    #[arg(long, value_name = "N", default_value_t = 0)]
    bytes_read: usize,
    /// Count these events [default: those of stat]
    #[arg(short, long, value_name = "EVENT")]
    event: Vec<String>,
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
    let job = BenchJob::new(benchmark, rounds, BenchKind::Ring, &args.output)?;
    BenchJob { notices, ..job }.run_to(here, |_| Ok(!missing))
}
