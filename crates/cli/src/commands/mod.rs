//! One file per command: its flags, and their conversion into options of a crate.

mod annotate;
mod answer;
mod bench;
mod bundle;
mod choice;
mod compare;
mod counting;
mod details;
mod diff;
mod doctor;
mod empty;
mod event_lists;
mod events;
mod figures_page;
mod filter;
mod generate;
mod input;
pub(crate) mod lab;
mod list;
mod load;
mod metrics;
mod metrics_flame;
mod numa;
mod output;
mod program;
mod progress;
mod record;
mod report;
mod script;
mod stat;
mod strobe_check;
mod sweep;
mod symbols;
mod target;
mod times;
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

use crate::exit::Exit;

/// What pmuscope can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell what this machine can measure, what not, why, and what to type.
    Doctor(doctor::Args),
    /// List the events that can be counted here, and why others cannot.
    List(list::Args),
    /// Manage event lists of vendors.
    Events(events::Args),
    /// Record samples of a program, of processes, or of the whole machine.
    Record(Box<record::Args>),
    /// Show where the samples of a recording went.
    Report(Box<report::Args>),
    /// Show what runs now: functions, processes, CPUs and nodes, interval by interval.
    Top(Box<top::Args>),
    /// Show metrics of each function, from short counter windows: cycles per instruction, misses.
    Metrics(Box<metrics::Args>),
    /// Tell what changed between two recordings, or between two sets of them.
    Diff(Box<diff::Args>),
    /// Put a recording and the symbols it needs into one file, to read on another machine.
    Bundle(bundle::Args),
    /// Show every sample and record of a recording, one by one.
    Script(Box<script::Args>),
    /// Count events of a program, of processes, or of the whole machine.
    Stat(Box<stat::Args>),
    /// Count any number of events by running again, per unit of work, without taking turns.
    Sweep(Box<sweep::Args>),
    /// Tell who touches a variable: each hit with its thread, place, old and new value.
    Watch(Box<watch::Args>),
    /// Tell where memory and threads are on NUMA nodes, and what the kernel does about it.
    Numa(numa::Args),
    /// Run a benchmark of the measuring itself.
    Bench(bench::Args),
    /// Put result files of repeated runs side by side.
    Compare(compare::Args),
    /// Run pmuscope in small virtual machines: other kernels, nodes, CPUs.
    Lab(lab::Args),
    /// Run one of the built-in programs under test.
    Workload(workload::Args),
    /// Write files for packagers.
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
            Self::Top(args) => top::run(*args),
            Self::Metrics(args) => metrics::run(*args),
            Self::Diff(args) => diff::run(*args),
            Self::Bundle(args) => bundle::run(args),
            Self::Script(args) => script::run(*args),
            Self::Stat(args) => stat::run(*args),
            Self::Sweep(args) => sweep::run(*args),
            Self::Watch(args) => watch::run(&args),
            Self::Numa(args) => numa::run(args),
            Self::Bench(args) => bench::run(args),
            Self::Compare(args) => compare::run(args),
            Self::Lab(args) => lab::run(args),
            Self::Workload(args) => workload::run(args),
            Self::Generate(args) => generate::run(args),
        }
    }
}
