//! One file per command: its flags, and their conversion into options of a crate.

mod annotate;
mod bench;
mod browse;
mod browser;
mod bundle;
mod choice;
mod compare;
mod counting;
mod details;
mod diff;
mod doctor;
mod duration;
mod empty;
mod event_lists;
mod events;
mod exports;
mod figures_page;
mod filter;
mod fleet;
mod generate;
mod hooks;
mod input;
pub(crate) mod lab;
mod list;
mod load;
mod metrics;
mod metrics_flame;
mod numa;
mod program;
mod progress;
mod record;
mod report;
#[cfg(feature = "screen")]
mod screen;
mod script;
#[cfg(feature = "serve")]
mod serve;
mod sharing;
mod stat;
mod strobe_check;
mod sweep;
mod symbols;
mod target;
mod top;
mod versus;
mod views;
mod waits;
mod watch;
mod watch_report;
mod windows;
mod workload;
mod workload_memory;
mod workload_regions;

use clap::Subcommand;
use pmuscope_console::exit::Exit;

pub(crate) use self::doctor::facts;

/// What pmuscope can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check what this machine can measure, and how to fix the rest
    Doctor(doctor::Args),
    /// List events that can be counted here
    List(list::Args),
    /// Import vendors' event lists
    Events(events::Args),
    /// Record samples of a program, processes or the whole machine
    ///
    /// Writes perf.data, which `pmuscope report` and perf read. Reports its own overhead and every
    /// lost sample.
    Record(Box<record::Args>),
    /// Show where the samples of a recording fall
    ///
    /// Functions by default; source lines, call trees, threads, CPUs and waits with --by,
    /// --call-tree and --annotate. Every percentage has a 95% CI.
    Report(Box<report::Args>),
    /// Look around in a recording with keys
    ///
    /// Functions, call trees, threads, CPUs and time; filters by key, code of a function, and the
    /// command that prints each view. perf's keys work.
    Browse(Box<browse::Args>),
    /// Show live which functions, processes and CPUs are busy
    Top(Box<top::Args>),
    /// Show metrics per function, such as cycles per instruction
    ///
    /// Metrics come from short counter windows, which `pmuscope record --strobe` takes.
    Metrics(Box<metrics::Args>),
    /// Compare two recordings function by function
    ///
    /// With several recordings on each side, confidence intervals include the variation from run to
    /// run.
    Diff(Box<diff::Args>),
    /// Pack a recording and its symbols into one file
    Bundle(bundle::Args),
    /// List samples and records one by one
    Script(Box<script::Args>),
    /// Count events of a program, processes or the whole machine
    Stat(Box<stat::Args>),
    /// Count more events than there are counters, without multiplexing
    ///
    /// Reruns the program until every event was counted, always enabled 100% of the time.
    Sweep(Box<sweep::Args>),
    /// Trace accesses to a variable (watchpoints)
    ///
    /// Each hit has its thread, call site, old value and new value. Uses the CPU's debug registers.
    Watch(Box<watch::Args>),
    /// Show which cache lines threads fight over
    ///
    /// Functions, threads and offsets of each line, and whether it is true or false sharing, from
    /// loads and stores sampled with their addresses (pmuscope record --sharing, perf c2c record).
    Sharing(Box<sharing::Args>),
    /// Show and improve memory locality on NUMA nodes
    Numa(numa::Args),
    /// Benchmark recorders, counters, breakpoints and memory
    Bench(bench::Args),
    /// Compare run files: ratios, confidence intervals, verdicts
    ///
    /// Reads the run files that stat, sweep, bench and lab run write with --json=FILE.
    Compare(compare::Args),
    /// Collect the profiles of many machines in Parquet files
    ///
    /// Any engine reads them: DuckDB, DataFusion, Spark, ClickHouse, pandas.
    Fleet(fleet::Args),
    /// Run pmuscope in virtual machines: other kernels and topologies
    Lab(lab::Args),
    /// Run a built-in test program with known behavior
    Workload(workload::Args),
    /// Write manual pages, shell completions and the flag table
    #[command(hide = true)]
    Generate(generate::Args),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Doctor(args) => doctor::run(args),
            Self::List(args) => list::run(args),
            Self::Events(args) => events::run(args),
            Self::Record(args) => record::run(*args),
            Self::Report(args) => report::run(*args),
            Self::Browse(args) => browse::run(*args),
            Self::Top(args) => top::run(*args),
            Self::Metrics(args) => metrics::run(*args),
            Self::Diff(args) => diff::run(*args),
            Self::Bundle(args) => bundle::run(args),
            Self::Script(args) => script::run(*args),
            Self::Stat(args) => stat::run(*args),
            Self::Sweep(args) => sweep::run(*args),
            Self::Watch(args) => watch::run(&args),
            Self::Sharing(args) => sharing::run(*args),
            Self::Numa(args) => numa::run(args),
            Self::Bench(args) => bench::run(args),
            Self::Compare(args) => compare::run(args),
            Self::Fleet(args) => fleet::run(&args),
            Self::Lab(args) => lab::run(args),
            Self::Workload(args) => workload::run(args),
            Self::Generate(args) => generate::run(args),
        }
    }
}
