//! `pmuscope events`.

use std::path::PathBuf;

use clap::Subcommand;
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::say;
use pmuscope_events::lists::{Identity, Imported, import};
use pmuscope_machine::Machine;
use pmuscope_report::escape;
use pmuscope_report::number::counted;

use super::event_lists;
use crate::terminal;

/// Flags of `pmuscope events`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: EventsCommand,
}

#[derive(Debug, Subcommand)]
enum EventsCommand {
    /// Import vendors' event lists from files; downloads nothing
    Import(ImportArgs),
}

/// Flags of `pmuscope events import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope events import perfmon            a download of https://github.com/intel/perfmon
  pmuscope events import neoverse-n1.json   an Arm telemetry specification
  pmuscope events import list.json          output of perf list -j
  pmuscope list l2                          lists the imported events, too")]
struct ImportArgs {
    /// Folders or files with event lists
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Import lists of all CPUs, not only this one's
    #[arg(long)]
    all: bool,
    /// Store the lists in DIR
    ///
    /// [default: $PMUSCOPE_EVENTS, or pmuscope/events in $XDG_DATA_HOME]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        EventsCommand::Import(args) => take_over(&args),
    }
}

fn take_over(args: &ImportArgs) -> anyhow::Result<Exit> {
    let into = event_lists::place(args.to.as_deref())?;
    let identity = Some(Identity::of(&Machine::host())).filter(|_| !args.all);
    let mut exit = Exit::Done;
    for path in &args.paths {
        let done = import(path, &into, identity.as_ref())
            .map_err(|error| bad_input(format!("events import: {error}")))?;
        for note in &done.notes {
            exit = Exit::Incomplete;
            say!("warning: {}", escape(note));
        }
        for newer in &done.newer {
            say!(
                "note: list for {}: it may have events that this CPU does not count",
                escape(newer)
            );
        }
        let text = said(&done, identity.as_ref());
        terminal::print(&text)?;
    }
    Ok(exit)
}

fn said(done: &Imported, identity: Option<&Identity>) -> String {
    let of = identity.map_or_else(String::new, |identity| format!(" for {identity}"));
    let others = match done.left_out {
        0 => String::new(),
        number => format!("; {} for other CPUs left out", counted(number, "file")),
    };
    let to = done.to.display().to_string();
    let (events, files) = (counted(done.events, "event"), counted(done.files, "file"));
    format!("{events} in {files}{} -> {}{others}\n", escape(&of), escape(&to))
}
