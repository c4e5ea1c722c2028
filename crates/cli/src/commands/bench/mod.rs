//! `pmuscope bench`: one file per benchmark.

mod capture;
pub(super) mod runs;

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
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.benchmark {
        Benchmark::Capture(args) => capture::run(args),
    }
}
