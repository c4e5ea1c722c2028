//! The program `pmuscope-fleet`, which `pmuscope fleet` runs.

#![forbid(unsafe_code)]

mod agent;
mod diff;
mod hosts;
mod import;
mod locality;
mod metrics;
mod runs;
mod select;
mod shares;
mod sql;
mod symbolize;
mod upkeep;
mod waits;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pmuscope_console::exit::{self, Exit};
use pmuscope_console::program::{self, ProgramInfo};
use pmuscope_console::{replace, terminal};

/// The allocator of static programs: musl's has one lock for all threads, and the engine has many.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The commit, or why it is not known.
const COMMIT: &str = env!("PMUSCOPE_BUILD_COMMIT");

/// Profiles of many machines, in Parquet files that any engine reads
#[derive(Debug, Parser)]
#[command(name = "pmuscope fleet", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: FleetCommand,
    /// Overwrite existing files of any kind
    #[arg(long, global = true, help_heading = GLOBAL)]
    force: bool,
    /// Show all columns of tables, however narrow the terminal
    #[arg(long, global = true, help_heading = GLOBAL)]
    wide: bool,
    /// Color text: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true,
        hide_possible_values = true, help_heading = GLOBAL)]
    color: terminal::Color,
}

/// Flags of every command, which help shows last.
const GLOBAL: &str = "Global options";

#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// Record this host all the time, by service, and deliver to a dataset
    Agent(agent::Args),
    /// Add recordings and run files of single machines to a dataset
    Import(import::Args),
    /// Show which services use the CPUs of all hosts
    Top(shares::TopArgs),
    /// Show which functions use the CPUs of all hosts
    ///
    /// Shares and CPUs have 95% CIs over hosts. A page has a flame graph.
    Report(shares::ReportArgs),
    /// Compare two versions, or any two sides, function by function
    Diff(diff::Args),
    /// Show CPI, misses and other metrics of functions, or of services
    Metrics(metrics::Args),
    /// Show how much memory is local to the threads that use it, by service or host
    Locality(locality::Args),
    /// Show what threads wait for, how many at a time, and for how long
    Waits(waits::Args),
    /// Show how long benchmarks take, and what else was measured in runs
    Runs(runs::Args),
    /// Show what was recorded of each host, and what is missing
    Hosts(hosts::Args),
    /// Put a question in SQL, or print the SQL of a named one for other engines
    Sql(sql::Args),
    /// Look up names for functions that had none where they were recorded
    Symbolize(symbolize::Args),
    /// Merge the files of past days into few
    Compact(upkeep::CompactArgs),
    /// Remove old days
    Retain(upkeep::RetainArgs),
}

fn main() -> ExitCode {
    // Without /dev/full there is nothing that could be done.
    let _ = pmuscope_machine::stdout::refuse_if_closed();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::BadInput.into() } else { Exit::Done.into() };
        }
    };
    program::set(ProgramInfo { commit: COMMIT, facts: None });
    replace::force(cli.force);
    terminal::set(cli.wide, cli.color);
    let ended = match &cli.command {
        FleetCommand::Agent(args) => agent::run(args),
        FleetCommand::Import(args) => import::run(args),
        FleetCommand::Top(args) => shares::top(args),
        FleetCommand::Report(args) => shares::report(args),
        FleetCommand::Diff(args) => diff::run(args),
        FleetCommand::Metrics(args) => metrics::run(args),
        FleetCommand::Locality(args) => locality::run(args),
        FleetCommand::Waits(args) => waits::run(args),
        FleetCommand::Runs(args) => runs::run(args),
        FleetCommand::Hosts(args) => hosts::run(args),
        FleetCommand::Sql(args) => sql::run(args),
        FleetCommand::Symbolize(args) => symbolize::run(args),
        FleetCommand::Compact(args) => upkeep::compact(args),
        FleetCommand::Retain(args) => upkeep::retain(args),
    };
    match ended {
        Ok(()) => Exit::Done.into(),
        Err(error) => exit::report(&error),
    }
}
