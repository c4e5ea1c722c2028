//! Flags of `pmuscope watch`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::commands::target::{ALL_CPUS, COMMAND, PROCESSES, TargetArgs};
use crate::commands::watch_report::ReportArgs;

/// Flags of `pmuscope watch`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  pmuscope watch -p 4711 ready_count             who writes this variable, all threads, until Ctrl-C
  pmuscope watch server.clients.len -- ./server  a field, of a program that is started for it
  pmuscope watch -p 4711 'queue.c:head->next:rw' a field behind a pointer, whoever touches it
  pmuscope watch -p 4711 --when 'new > 10' depth only hits that matter are written down
  pmuscope watch -p 4711 main.c:118              who executes this line
  pmuscope watch -p 4711 '$1+0x28/8@queue_push'  behind the first argument of the next call
  pmuscope watch -p 4711 --count-only jobs done  counts only, of two variables
  sudo pmuscope watch -a 'kernel!jiffies/8'      the kernel's own
  pmuscope watch plan -p 4711 ready_count depth  would they fit, and who has the slots
  pmuscope watch -o w.data depth -- ./server     keep the recording, to tell it again:
  pmuscope watch -i w.data --report w.html

TARGET is name[.field|[index]|->field]…, file.c:name, library!name, file.c:line, or 0xADDRESS; behind it
/BYTES and :r, :w, :rw or :x where not writes of the whole object are meant.")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) sub: Option<Sub>,
    /// What to watch
    #[arg(required_unless_present = "input", value_name = "TARGET")]
    pub(super) target: Vec<String>,
    #[command(flatten)]
    pub(super) of: TargetArgs<{ ALL_CPUS | PROCESSES | COMMAND }>,
    /// End after MS milliseconds
    #[arg(long, value_name = "MS", help_heading = "Target")]
    pub(super) timeout: Option<u64>,
    /// The program to start and watch, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,

    /// Write down only hits for which this holds: new, old, step (new - old), numbers or names of an
    /// enumeration, compared by == != < <= > >= &, joined by && and ||; decided in the kernel
    #[arg(long, value_name = "CONDITION", help_heading = "Hits")]
    pub(super) when: Option<String>,
    /// Write down only hits that change the value
    #[arg(long, help_heading = "Hits")]
    pub(super) when_changed: bool,
    /// Only count: by thread and instruction, without values and stacks
    #[arg(long, help_heading = "Hits")]
    pub(super) count_only: bool,
    /// Take call stacks of so many frames, 127 at most, by frame pointers; 0: none
    #[arg(
        long,
        value_name = "FRAMES",
        default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(..=127),
        help_heading = "Hits"
    )]
    pub(super) max_stack: u16,
    /// Write down so many hits a second at most: beyond that every Nth is
    #[arg(long, value_name = "N", default_value_t = 100_000, help_heading = "Hits")]
    pub(super) max_records: u64,
    /// Let hits take no more than PCT percent of the target's work: beyond that points are armed for a
    /// part of the time, and counts are estimates; none: no limit
    #[arg(long, value_name = "PCT", default_value = "10", help_heading = "Hits")]
    pub(super) max_slowdown: String,

    /// Keep the recording: pmuscope report, script and perf read it
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// Watch nothing: tell a recording again that was kept
    #[arg(
        short,
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "target", "pid", "all_cpus", "timeout", "command", "when", "when_changed", "count_only", "max_stack",
            "max_records", "max_slowdown", "output",
        ],
        help_heading = "Output"
    )]
    pub(super) input: Option<PathBuf>,
    #[command(flatten)]
    pub(super) report: ReportArgs,
}

/// What goes with watching.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Sub {
    /// Tell whether watchpoints would fit, where not, who may hold the slots, what to leave out.
    Plan(PlanArgs),
}

/// Flags of `pmuscope watch plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope watch plan -p 4711 ready_count depth  in all threads of a process
  sudo pmuscope watch plan -a 'kernel!jiffies/8' on all CPUs")]
pub(crate) struct PlanArgs {
    /// What is to be watched
    #[arg(required = true, value_name = "TARGET")]
    pub(super) target: Vec<String>,
    #[command(flatten)]
    pub(super) of: TargetArgs<{ ALL_CPUS | PROCESSES }>,
    /// Print the plan as one JSON object (schema pmuscope/watch-plan/1)
    #[arg(long)]
    pub(super) json: bool,
}
