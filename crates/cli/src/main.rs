//! `pmuscope`: flags become validated options, options become one call into a crate.
#![forbid(unsafe_code)]
#![deny(clippy::print_stderr)]

#[macro_use]
mod say;

mod commands;
mod exit;
#[cfg(test)]
mod interface;
mod memory;
mod perf_words;
mod replace;
mod signals;
mod terminal;
mod usage;
mod version;

use clap::Parser;

use crate::commands::Command;

/// Performance toolkit for Linux: where the time goes, without the profiler changing the answer.
#[derive(Debug, Parser)]
#[command(name = "pmuscope", version, long_version = version::LONG)]
#[command(propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Replace existing output files of any kind; without it, only files of the same kind.
    #[arg(long, global = true)]
    force: bool,
}

fn main() -> std::process::ExitCode {
    // Without /dev/full there is nothing that could be done.
    let _ = pmuscope_machine::stdout::refuse_if_closed();
    let words = commands::lab::of_first_process(std::env::args_os().collect(), std::process::id());
    let cli = match usage::parse(words) {
        Ok(cli) => cli,
        Err(error) => return exit::of_usage(&error),
    };
    replace::force(cli.force);
    let ended = memory::limit().and_then(|()| cli.command.run());
    if pmuscope_machine::used_detached_tracefs() {
        say!("note: tracefs is not mounted; read it through a private mount, now gone");
    }
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error),
    }
}
