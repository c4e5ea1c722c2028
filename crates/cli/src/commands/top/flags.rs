//! The flags of `pmuscope top`, as typed.

use pmuscope_console::limit::Limit;
use pmuscope_console::output::OutputArgs;
use pmuscope_report::TopBy;

use crate::commands::choice::one_of;
use crate::commands::duration;
use crate::commands::symbols::SymbolArgs;
use crate::commands::target::{RUNNING, TargetArgs};

pmuscope_console::forms!(TopFormats: Text Json Csv Tsv Html, "pmuscope/top/1");

/// Flags of `pmuscope top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope top                            the whole machine, every two seconds
  pmuscope top -p 4711                    one process and its children
  pmuscope top --by cpu -d 500ms          busy CPUs, twice a second
  pmuscope top --once                     one interval as a table, for a log
  pmuscope top --once --json | jq '.events[0].functions[0]'")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) target: TargetArgs<RUNNING>,

    /// Sample these events, in perf's syntax; repeatable
    #[arg(short, long, value_name = "EVENT", help_heading = "Events")]
    pub(super) event: Vec<String>,
    /// Take HZ samples per second and CPU [default: 1000]
    ///
    /// "max" is the highest rate that the kernel allows.
    #[arg(short = 'F', long, value_name = "HZ", help_heading = "Events")]
    pub(super) freq: Option<String>,
    /// Take a sample every N events (sample period)
    ///
    /// Nanoseconds for software timers.
    #[arg(short, long, value_name = "N", conflicts_with = "freq", help_heading = "Events")]
    pub(super) count: Option<String>,

    /// Refresh every DURATION (a plain number: seconds)
    #[arg(short, long, value_name = "DURATION", value_parser = duration::seconds, default_value = "2s", help_heading = "Display")]
    pub(super) delay: f64,
    /// Group rows by this
    #[arg(long, value_name = "WHAT", default_value = "function", value_parser = one_of(TopBy::ALL.map(|(word, by)| (word, "", by))), help_heading = "Display")]
    pub(super) by: TopBy,
    /// Print one interval and exit
    #[arg(long, help_heading = "Display")]
    pub(super) once: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs<TopFormats>,
    /// With --once: show at most N rows, or "all" [default: 40]
    ///
    /// All in JSON.
    #[arg(long, value_name = "N", requires = "once", help_heading = "Display")]
    pub(super) limit: Option<Limit>,
    #[command(flatten)]
    pub(super) symbols: SymbolArgs,
}
