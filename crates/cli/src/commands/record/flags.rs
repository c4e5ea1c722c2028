//! The flags of `pmuscope record`, as typed. perf's words wherever perf has one.

// What documents a flag is its help, where brackets hold what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use std::ffi::OsString;
use std::path::PathBuf;

use pmuscope_events::KnownCpu;

use crate::commands::choice::one_of;
use crate::commands::duration;
use crate::commands::target::{COMMAND, RUNNING, TargetArgs, WHILE};

/// Values of `--as`.
fn known_cpus() -> impl Iterator<Item = (&'static str, &'static str, &'static KnownCpu)> {
    KnownCpu::ALL.iter().map(|cpu| (cpu.name, cpu.title, cpu))
}

/// Flags of `pmuscope record`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope record -- make -j8                  a command and its children
  pmuscope record -a -- sleep 10               the whole machine for ten seconds
  pmuscope record -g -p 4711                   a running process with callchains, until Ctrl-C
  pmuscope record -g --open -- ./a             and the page in the browser
  pmuscope record -g --open --serve -- ./a     and the page with the Firefox Profiler
  pmuscope record --off-cpu -p 4711            where it waits too, and what wakes it
  pmuscope record -F 25000 -a --aio -z -- CMD  fast, compressed, written asynchronously

Then: pmuscope report, pmuscope browse (with keys), or perf report -i pmuscope.data")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) target: TargetArgs<{ RUNNING | COMMAND | WHILE }>,
    /// Record the command in a cgroup of its own (root)
    ///
    /// Opens the events on all CPUs for that cgroup, so that a software timer samples short-lived
    /// processes too.
    #[arg(
        long,
        requires = "command",
        conflicts_with_all = ["all_cpus", "cpu", "cgroup", "pid", "tid", "per_thread", "no_inherit"],
        help_heading = "Target"
    )]
    pub(crate) own_cgroup: bool,
    /// Open one ring buffer per thread, not per CPU
    ///
    /// Children are not recorded.
    #[arg(long, conflicts_with_all = ["all_cpus", "cpu", "cgroup"], help_heading = "Target")]
    pub(crate) per_thread: bool,
    /// Do not record children
    #[arg(short = 'i', long, help_heading = "Target")]
    pub(crate) no_inherit: bool,
    /// Start sampling after DURATION (a plain number: ms)
    ///
    /// -1 starts with sampling off; --control turns it on.
    #[arg(
        short = 'D',
        long,
        value_name = "DURATION",
        allow_negative_numbers = true,
        value_parser = duration::delay,
        help_heading = "Target"
    )]
    pub(crate) delay: Option<i64>,

    /// Sample these events, in perf's syntax; repeatable
    #[arg(short, long, value_name = "EVENT", help_heading = "Events")]
    pub(crate) event: Vec<String>,
    /// Count in short windows, for metrics of functions
    ///
    /// WINDOW[,period=P][,jitter=J][,burst=N][,event=EVENT], in units of the event [default: 300
    /// cycles, about once per millisecond]. Then: pmuscope metrics.
    #[arg(
        long,
        value_name = "WINDOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        help_heading = "Events"
    )]
    pub(crate) strobe: Option<String>,
    /// Count what these metrics need, in windows
    ///
    /// Metrics or groups [default: basic,branches]; pmuscope metrics --list shows them.
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Events")]
    pub(crate) metrics: Vec<String>,
    /// Record where threads block, and what wakes them
    ///
    /// Each context switch with its call stack. Then: pmuscope report --by wait.
    #[arg(
        long,
        conflicts_with_all = ["strobe", "budget", "overwrite", "cgroup", "own_cgroup"],
        help_heading = "Events"
    )]
    pub(crate) off_cpu: bool,
    /// Record loads and stores, for cache lines that threads share
    ///
    /// With addresses, data sources and latencies; events of the CPU: PEBS or IBS. Then: pmuscope sharing.
    #[arg(
        long,
        conflicts_with_all = ["strobe", "off_cpu", "event"],
        help_heading = "Events"
    )]
    pub(crate) sharing: bool,
    /// Record allocations of heap memory, to name objects by allocation site
    ///
    /// Calls of malloc, free and others, by uprobes (root); a malloc with its free takes about 8 µs longer. --alloc=FILE
    /// takes the allocator of a library that the program loads. Then: pmuscope sharing.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with_all = [
            "strobe", "budget", "overwrite", "switch_output", "branch_any", "branch_filter",
        ],
        help_heading = "Events"
    )]
    pub(crate) alloc: Vec<OsString>,
    /// Take HZ samples per second and CPU [default: 1000]
    ///
    /// "max" is the highest rate that the kernel allows.
    #[arg(short = 'F', long, value_name = "HZ", help_heading = "Events")]
    pub(crate) freq: Option<String>,
    /// Take a sample every N events (sample period)
    ///
    /// Nanoseconds for software timers.
    #[arg(short, long, value_name = "N", conflicts_with = "freq", help_heading = "Events")]
    pub(crate) count: Option<String>,
    /// Limit overhead to PERCENT% of CPU time
    #[arg(long, value_name = "PERCENT", conflicts_with = "overwrite", help_heading = "Events")]
    pub(crate) budget: Option<f64>,
    /// Measure the kernel's cost per sample first (1 s)
    #[arg(long, help_heading = "Events")]
    pub(crate) sampling_cost: bool,
    /// Fail instead of falling back
    #[arg(long, help_heading = "Events")]
    pub(crate) strict: bool,

    /// Record callchains by frame pointer
    #[arg(short = 'g', help_heading = "Fields")]
    pub(crate) call_chains: bool,
    /// Record callchains: fp[,DEPTH], dwarf[,BYTES], lbr or no
    #[arg(long, value_name = "HOW", help_heading = "Fields")]
    pub(crate) call_graph: Option<String>,
    /// Record branch stacks of any branch
    #[arg(short = 'b', long, help_heading = "Fields")]
    pub(crate) branch_any: bool,
    /// Record branch stacks of these branches, as in any_call,u
    #[arg(short = 'j', long, value_name = "FILTER", help_heading = "Fields")]
    pub(crate) branch_filter: Option<String>,
    /// Record data addresses, and mmap events of data
    #[arg(short = 'd', long, help_heading = "Fields")]
    pub(crate) data: bool,
    /// Record physical data addresses
    #[arg(long, help_heading = "Fields")]
    pub(crate) phys_data: bool,
    /// Record the latency of sampled accesses
    #[arg(short = 'W', long, help_heading = "Fields")]
    pub(crate) weight: bool,
    /// Record the CPU of each sample (always on)
    #[arg(long, help_heading = "Fields")]
    pub(crate) sample_cpu: bool,
    /// Record time stamps (always on)
    #[arg(short = 'T', long, help_heading = "Fields")]
    pub(crate) timestamp: bool,
    /// Record raw tracepoint data (always on)
    #[arg(short = 'R', long, help_heading = "Fields")]
    pub(crate) raw_samples: bool,
    /// Leave kernel frames out of callchains
    #[arg(long, help_heading = "Fields")]
    pub(crate) user_callchains: bool,
    /// Record the period in each sample, even if fixed
    #[arg(short = 'P', long, help_heading = "Fields")]
    pub(crate) period: bool,
    /// Use this clock for time stamps
    ///
    /// monotonic, monotonic_raw, boottime, realtime or tai.
    #[arg(short = 'k', long, value_name = "CLOCK", help_heading = "Fields")]
    pub(crate) clockid: Option<String>,

    /// Set the size of each ring buffer: pages, or 512K, 4M
    #[arg(short = 'm', long, value_name = "SIZE", help_heading = "Streaming")]
    pub(crate) mmap_pages: Option<String>,
    /// Set reader threads: auto, serial, cpu, core, l3, die, package, node
    ///
    /// Or BUFFERS/CPUS:…, as in 0-3/4:8-11/12.
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Streaming")]
    pub(crate) readers: String,
    /// Set reader threads, in perf's spelling (see --readers)
    #[arg(
        long,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "cpu",
        conflicts_with = "readers",
        help_heading = "Streaming"
    )]
    pub(crate) threads: Option<String>,
    /// Set where readers run: auto, sys, node or cpu
    #[arg(long, value_name = "WHERE", default_value = "auto", help_heading = "Streaming")]
    pub(crate) affinity: String,
    /// Write asynchronously, N writes in flight per reader [default: 4]
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "4",
        help_heading = "Streaming"
    )]
    pub(crate) aio: Option<u32>,
    /// Compress with zstd, level 1 to 22 [default: 1]
    #[arg(
        short = 'z',
        long,
        value_name = "LEVEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        help_heading = "Streaming"
    )]
    pub(crate) compression_level: Option<i32>,

    /// Write the recording to FILE
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "pmuscope.data",
        help_heading = "Output"
    )]
    pub(crate) output: PathBuf,
    /// Stop when the file reaches SIZE, as in 100M
    #[arg(long, value_name = "SIZE", help_heading = "Output")]
    pub(crate) max_size: Option<String>,
    /// Start a new file on SIGUSR2, by size or by time
    ///
    /// signal, a size such as 100M, or a time such as 30s. Files are named by the time.
    #[arg(
        long,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "signal",
        help_heading = "Output"
    )]
    pub(crate) switch_output: Option<String>,
    /// Keep only the last N of those files
    #[arg(long, value_name = "N", requires = "switch_output", help_heading = "Output")]
    pub(crate) switch_max_files: Option<usize>,
    /// Keep only the newest samples in memory (flight recorder)
    ///
    /// Writes them on SIGUSR2 and at the end.
    #[arg(long, conflicts_with_all = ["aio", "compression_level"], help_heading = "Output")]
    pub(crate) overwrite: bool,
    /// Accept commands while recording: fifo:CTL[,ACK] or fd:N[,M]
    ///
    /// enable, disable, snapshot, stop and others.
    #[arg(long, value_name = "CHANNEL", help_heading = "Output")]
    pub(crate) control: Option<String>,
    /// Skip build ids
    #[arg(short = 'B', long, help_heading = "Output")]
    pub(crate) no_buildid: bool,
    /// Keep no copies of binaries that are gone when recording ends
    ///
    /// Files of containers, and deleted or replaced ones, are copied so that reports have symbols.
    #[arg(short = 'N', long, alias = "no-keep", help_heading = "Output")]
    pub(crate) no_buildid_cache: bool,
    /// Print only errors
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Then open the page of the recording in the browser
    ///
    /// As report --open does; with --serve, the served page.
    #[arg(long, conflicts_with = "dry_run", help_heading = "Output")]
    pub(crate) open: bool,
    /// Then serve the page and the Firefox Profiler's data, until Ctrl-C
    ///
    /// As report --serve does, on this machine only.
    #[arg(
        long,
        value_name = "ADDR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "dry_run",
        help_heading = "Output"
    )]
    pub(crate) serve: Option<String>,
    /// Show attributes and ring buffers; record nothing
    #[arg(short = 'n', long, help_heading = "Output")]
    pub(crate) dry_run: bool,
    /// Show what --sharing would open on another CPU model
    ///
    /// Only with --sharing --dry-run.
    #[arg(long = "as", value_name = "CPU", value_parser = one_of(known_cpus()), help_heading = "Output")]
    pub(crate) as_cpu: Option<&'static KnownCpu>,

    /// Command to run while recording
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
