//! The program `pmuscope-fleet`, which `pmuscope fleet` runs.

#![forbid(unsafe_code)]

mod agent;
mod import;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Profiles of many machines, in Parquet files that any engine reads
#[derive(Debug, Parser)]
#[command(name = "pmuscope fleet", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// Record this host all the time, by service, and deliver to a dataset
    Agent(agent::Args),
    /// Add recordings of single machines to a dataset
    Import(import::Args),
}

/// Bad arguments or input, as of `pmuscope`.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(BAD_INPUT) } else { ExitCode::SUCCESS };
        }
    };
    let result = match &cli.command {
        FleetCommand::Agent(args) => agent::run(args),
        FleetCommand::Import(args) => import::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(BAD_INPUT)
        }
    }
}
