//! `pmuscope`: flags become validated options, options become one call into a crate.
#![forbid(unsafe_code)]
#![deny(clippy::print_stderr)]

mod commands;
mod flag_table;
mod help;
#[cfg(test)]
mod interface;
mod memory;
mod perf_words;
mod signals;
mod usage;
mod version;

use clap::Parser;
use pmuscope_console::program::{self, ProgramInfo};
use pmuscope_console::{exit, replace, say, terminal};

use crate::commands::Command;

/// A Linux profiler that reports its own overhead and lost samples
#[derive(Debug, Parser)]
#[command(name = "pmuscope", version, long_version = version::LONG)]
#[command(propagate_version = true, max_term_width = 100)]
#[command(disable_help_flag = true, disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Overwrite existing files of any kind
    ///
    /// Without it, an output replaces only files of the same kind.
    #[arg(long, global = true, help_heading = GLOBAL)]
    force: bool,
    /// Show all columns of tables, however narrow the terminal
    #[arg(long, global = true, help_heading = GLOBAL)]
    wide: bool,
    /// Color text: auto, always or never
    ///
    /// auto colors on a terminal, unless NO_COLOR is set or TERM is dumb.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true,
        hide_possible_values = true, help_heading = GLOBAL)]
    color: terminal::Color,
    /// Print details on standard error
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = GLOBAL)]
    verbose: u8,
    /// Show help: -h in short, --help in full
    #[arg(short, long, global = true, action = clap::ArgAction::Help, help_heading = GLOBAL)]
    help: Option<bool>,
    /// Show the version; --version shows the build too
    #[arg(short = 'V', long, global = true, action = clap::ArgAction::Version, help_heading = GLOBAL)]
    version: Option<bool>,
}

/// Flags of every command, which help shows last.
const GLOBAL: &str = "Global options";

fn main() -> std::process::ExitCode {
    // Without /dev/full there is nothing that could be done.
    let _ = pmuscope_machine::stdout::refuse_if_closed();
    let words = commands::lab::of_first_process(std::env::args_os().collect(), std::process::id());
    let cli = match usage::parse(words) {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    program::set(ProgramInfo { commit: version::COMMIT, facts: Some(commands::facts) });
    replace::force(cli.force);
    say::set_verbose(cli.verbose > 0);
    terminal::set(cli.wide, cli.color);
    let ended = memory::limit().and_then(|()| cli.command.run());
    if pmuscope_machine::used_detached_tracefs() {
        say!("note: tracefs is not mounted; read through a temporary private mount");
    }
    if let Some(why) = pmuscope_symbols::debuginfod_failure() {
        let why = pmuscope_report::escape(why);
        say!("warning: --debuginfod: a server in DEBUGINFOD_URLS could not be asked: {why}");
    }
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error),
    }
}
