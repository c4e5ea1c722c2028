//! `pmuscope bench`: one file per benchmark.

mod breakpoint;
mod capture;
mod functions;
mod memory;
mod numa;
mod region;
mod ring;
pub(super) mod runs;
mod slots;
mod watch;

use clap::Subcommand;

use crate::exit::Exit;

/// Flags of `pmuscope bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// What recording costs the recorded program, by every way to read the rings, and by perf's.
    Capture(capture::Args),
    /// What a packet costs on its way through a ring, within one process and between two.
    Ring(ring::Args),
    /// What it costs a program to count a part of itself, by the way counters are read.
    Region(region::Args),
    /// What it takes to keep account of breakpoint slots, by the way that is done.
    Slots(slots::Args),
    /// What breakpoints cost on this kernel: threads that inherit them, switching them, hits.
    Breakpoint(breakpoint::Args),
    /// How fast memory is, from the CPUs of each node to the memory of each: bandwidth, latency, latency under load.
    Memory(memory::Args),
    /// What placement on nodes yields and costs: convergence, speed, faults, under the kernel's policies and bound.
    Numa(Box<numa::Args>),
    /// How true metrics of functions are, in windows of several kinds, against each function alone.
    Functions(functions::Args),
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.benchmark {
        Benchmark::Capture(args) => capture::run(args),
        Benchmark::Ring(args) => ring::run(args),
        Benchmark::Region(args) => region::run(args),
        Benchmark::Slots(args) => slots::run(args),
        Benchmark::Breakpoint(args) => breakpoint::run(args),
        Benchmark::Memory(args) => memory::run(args),
        Benchmark::Numa(args) => numa::run(&args),
        Benchmark::Functions(args) => functions::run(args),
    }
}
