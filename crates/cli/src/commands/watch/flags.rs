//! Flags of `pmuscope watch`.

use std::ffi::OsString;
use std::path::PathBuf;

use pmuscope_console::output::OutputArgs;

use crate::commands::duration;
use crate::commands::target::{ALL_CPUS, COMMAND, PROCESSES, TargetArgs};
use crate::commands::watch_report::ReportArgs;

/// Flags of `pmuscope watch`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  pmuscope watch -p 4711 ready_count              trace writes to this variable, until Ctrl-C
  pmuscope watch server.clients.len -- ./server   a field, in a program started for it
  pmuscope watch -p 4711 'queue.c:head->next:rw'  reads and writes of a field through a pointer
  pmuscope watch -p 4711 --when 'new > 10' depth  only hits that meet a condition
  pmuscope watch -p 4711 main.c:118               executions of this line
  pmuscope watch -p 4711 '$1+0x28/8@queue_push'   what the next call's first argument points to
  pmuscope watch -p 4711 --count-only jobs done   counts only, for two variables
  sudo pmuscope watch -a 'kernel!jiffies/8'       a kernel variable
  pmuscope watch plan -p 4711 ready_count depth   check whether they fit the debug registers
  pmuscope watch -o w.data depth -- ./server      keep the recording, and report on it later:
  pmuscope watch -i w.data -o w.html

TARGET is name[.field|[index]|->field]…, file.c:name, library!name, file.c:line or 0xADDRESS, followed by
/BYTES and :r, :w, :rw or :x. Without them, writes to the whole object are watched.")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) sub: Option<Sub>,
    /// Variable, field, line or address to watch
    #[arg(required_unless_present = "input", value_name = "TARGET")]
    pub(super) target: Vec<String>,
    #[command(flatten)]
    pub(super) of: TargetArgs<{ ALL_CPUS | PROCESSES | COMMAND }>,
    /// Stop after DURATION (a plain number: ms)
    #[arg(long, value_name = "DURATION", value_parser = duration::milliseconds, help_heading = "Target")]
    pub(super) timeout: Option<u64>,
    /// Program to start and watch
    #[arg(last = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,

    /// Record only hits that meet CONDITION, such as 'new > 10'
    ///
    /// new, old and step (new - old), with numbers or enumerators, == != < <= > >= &, && and ||;
    /// evaluated in the kernel.
    #[arg(long, value_name = "CONDITION", help_heading = "Hits")]
    pub(super) when: Option<String>,
    /// Record only hits that change the value
    #[arg(long, help_heading = "Hits")]
    pub(super) when_changed: bool,
    /// Count only, by thread and instruction
    ///
    /// Without values and call stacks.
    #[arg(long, help_heading = "Hits")]
    pub(super) count_only: bool,
    /// Record call stacks of at most N frames; 0: none
    ///
    /// By frame pointer, at most 127.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(..=127),
        help_heading = "Hits"
    )]
    pub(super) max_stack: u16,
    /// Record at most N hits per second
    ///
    /// Beyond that every Nth hit is recorded.
    #[arg(long, value_name = "N", default_value_t = 100_000, help_heading = "Hits")]
    pub(super) max_records: u64,
    /// Limit the target's slowdown to PERCENT, or "none"
    ///
    /// Beyond that, watchpoints are enabled part of the time, and counts are estimates.
    #[arg(long, value_name = "PERCENT", default_value = "10", help_heading = "Hits")]
    pub(super) max_slowdown: String,

    /// Write the answer or the recording to FILE; repeatable: .html .json .csv .tsv .txt
    ///
    /// A name that ends in one of these forms gets the answer. Any other name keeps the recording, which
    /// pmuscope report, script and perf read.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Vec<PathBuf>,
    /// Report on a kept recording; watch nothing
    #[arg(
        short,
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "target", "pid", "all_cpus", "timeout", "command", "when", "when_changed", "count_only", "max_stack",
            "max_records", "max_slowdown",
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
    /// Check whether watchpoints fit, and what blocks them
    Plan(PlanArgs),
}

pmuscope_console::forms!(PlanFormats: Text Json, "pmuscope/watch-plan/1");

/// Flags of `pmuscope watch plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope watch plan -p 4711 ready_count depth  in all threads of a process
  sudo pmuscope watch plan -a 'kernel!jiffies/8' on all CPUs")]
pub(crate) struct PlanArgs {
    /// Variable, field, line or address to watch
    #[arg(required = true, value_name = "TARGET")]
    pub(super) target: Vec<String>,
    #[command(flatten)]
    pub(super) of: TargetArgs<{ ALL_CPUS | PROCESSES }>,
    #[command(flatten)]
    pub(super) output: OutputArgs<PlanFormats>,
}
