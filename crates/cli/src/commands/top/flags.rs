//! The flags of `pmuscope top`, as typed.

use pmuscope_report::TopBy;

use crate::commands::choice::one_of;
use crate::commands::report::Limit;
use crate::commands::symbols::SymbolArgs;
use crate::commands::target::{RUNNING, TargetArgs};

/// Flags of `pmuscope top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope top                            what the whole machine does, every two seconds
  pmuscope top -p 4711                    one process and its children
  pmuscope top --by cpu -d 1              which CPUs are busy, every second
  pmuscope top --once                     one interval as a table, for a log
  pmuscope top --once --json | jq '.events[0].functions[0]'")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) target: TargetArgs<RUNNING>,

    /// Events, as perf writes them; may be given several times
    #[arg(short, long, value_name = "EVENT,…", help_heading = "Events")]
    pub(super) event: Vec<String>,
    /// Samples per second and CPU ("max": what the kernel allows) [default: 1000]
    #[arg(short = 'F', long, value_name = "HZ", help_heading = "Events")]
    pub(super) freq: Option<String>,
    /// One sample per so many events (nanoseconds for software clocks)
    #[arg(short, long, value_name = "N", conflicts_with = "freq", help_heading = "Events")]
    pub(super) count: Option<String>,

    /// Length of an interval in seconds
    #[arg(short, long, value_name = "SECONDS", default_value_t = 2.0)]
    pub(super) delay: f64,
    /// What rows are by: function, command, process, cpu or node
    #[arg(long, value_name = "WHAT", default_value = "function", value_parser = one_of(TopBy::ALL.map(|(word, by)| (word, "", by))))]
    pub(super) by: TopBy,
    /// Print one interval and end
    #[arg(long)]
    pub(super) once: bool,
    /// Print everything as one JSON object (schema pmuscope/top/1)
    #[arg(long, requires = "once")]
    pub(super) json: bool,
    /// Most rows of --once, or "all" [default: 40; with --json all]
    #[arg(long, value_name = "N", requires = "once")]
    pub(super) limit: Option<Limit>,
    #[command(flatten)]
    pub(super) symbols: SymbolArgs,
}
