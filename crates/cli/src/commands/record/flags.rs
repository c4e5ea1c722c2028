//! The flags of `pmuscope record`, as typed. perf's words wherever perf has one.

// What documents a flag is its help, where brackets hold what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use std::ffi::OsString;
use std::path::PathBuf;

use crate::commands::target::{COMMAND, RUNNING, TargetArgs, WHILE};

/// Flags of `pmuscope record`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pmuscope record -- make -j8                  a command and its children\n  \
    pmuscope record -a -- sleep 10               the whole machine for ten seconds\n  \
    pmuscope record -g -p 4711                   a running process with call chains, until Ctrl-C\n  \
    pmuscope record --off-cpu -p 4711            where it waits too, and who wakes it\n  \
    pmuscope record -F 25000 -a --aio -z -- CMD  fast, compressed, written asynchronously\n\n\
    Then: pmuscope report, or perf report -i pmuscope.data")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) target: TargetArgs<{ RUNNING | COMMAND | WHILE }>,
    /// Record the command on all CPUs in a cgroup made for it (root): a clock then samples its
    /// short-lived processes too.
    #[arg(
        long,
        requires = "command",
        conflicts_with_all = ["all_cpus", "cpu", "cgroup", "pid", "tid", "per_thread", "no_inherit"],
        help_heading = "Target"
    )]
    pub(crate) own_cgroup: bool,
    /// One ring per thread in place of one per CPU; children are not followed.
    #[arg(long, conflicts_with_all = ["all_cpus", "cpu", "cgroup"], help_heading = "Target")]
    pub(crate) per_thread: bool,
    /// Do not follow children.
    #[arg(short = 'i', long, help_heading = "Target")]
    pub(crate) no_inherit: bool,
    /// Milliseconds to wait before sampling; -1 starts with sampling off.
    #[arg(
        short = 'D',
        long,
        value_name = "MS",
        allow_negative_numbers = true,
        help_heading = "Target"
    )]
    pub(crate) delay: Option<i64>,

    /// Events, as perf writes them; may be given several times.
    #[arg(short, long, value_name = "EVENT,…", help_heading = "Events")]
    pub(crate) event: Vec<String>,
    /// Count in short windows, for metrics of functions: WINDOW[,period=P][,jitter=J][,burst=N]
    /// [,event=EVENT], in units of the event [default: 300 cycles, about every millisecond].
    #[arg(
        long,
        value_name = "WINDOW,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        help_heading = "Events"
    )]
    pub(crate) strobe: Option<String>,
    /// Count in windows what these metrics, or groups of them, are computed from; "pmuscope metrics
    /// --list" shows all [default: basic,branches].
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Events")]
    pub(crate) metrics: Vec<String>,
    /// Record where threads wait, too: each switch with its stack, and who woke; then report --by wait.
    #[arg(
        long,
        conflicts_with_all = ["strobe", "budget", "overwrite", "cgroup", "own_cgroup"],
        help_heading = "Events"
    )]
    pub(crate) off_cpu: bool,
    /// Samples per second and CPU ("max": what the kernel allows) [default: 1000].
    #[arg(short = 'F', long, value_name = "HZ", help_heading = "Events")]
    pub(crate) freq: Option<String>,
    /// One sample per so many events (nanoseconds for software clocks).
    #[arg(short, long, value_name = "N", conflicts_with = "freq", help_heading = "Events")]
    pub(crate) count: Option<String>,
    /// Keep the cost of recording below so many per cent of the machine.
    #[arg(long, value_name = "PCT", conflicts_with = "overwrite", help_heading = "Events")]
    pub(crate) budget: Option<f64>,
    /// Measure first what a sample costs in the kernel (about a second).
    #[arg(long, help_heading = "Events")]
    pub(crate) sampling_cost: bool,
    /// Refuse to record if anything asked for is reduced.
    #[arg(long, help_heading = "Events")]
    pub(crate) strict: bool,

    /// Call chains by frame pointers.
    #[arg(short = 'g', help_heading = "Fields")]
    pub(crate) call_chains: bool,
    /// Call chains: fp[,DEPTH], dwarf[,BYTES], lbr or no.
    #[arg(long, value_name = "HOW", help_heading = "Fields")]
    pub(crate) call_graph: Option<String>,
    /// Branch stacks of any branch.
    #[arg(short = 'b', long, help_heading = "Fields")]
    pub(crate) branch_any: bool,
    /// Branch stacks of these branches (any_call,u …).
    #[arg(short = 'j', long, value_name = "FILTER", help_heading = "Fields")]
    pub(crate) branch_filter: Option<String>,
    /// Data addresses, and mappings of data.
    #[arg(short = 'd', long, help_heading = "Fields")]
    pub(crate) data: bool,
    /// Physical data addresses.
    #[arg(long, help_heading = "Fields")]
    pub(crate) phys_data: bool,
    /// Cost of the sampled access.
    #[arg(short = 'W', long, help_heading = "Fields")]
    pub(crate) weight: bool,
    /// The CPU of each sample (always recorded).
    #[arg(long, help_heading = "Fields")]
    pub(crate) sample_cpu: bool,
    /// Time stamps (always recorded).
    #[arg(short = 'T', long, help_heading = "Fields")]
    pub(crate) timestamp: bool,
    /// Raw data of tracepoints (always recorded).
    #[arg(short = 'R', long, help_heading = "Fields")]
    pub(crate) raw_samples: bool,
    /// No kernel frames in call chains.
    #[arg(long, help_heading = "Fields")]
    pub(crate) user_callchains: bool,
    /// The period in each sample, also where it is fixed.
    #[arg(short = 'P', long, help_heading = "Fields")]
    pub(crate) period: bool,
    /// Clock of the time stamps (monotonic, `monotonic_raw`, boottime, realtime, tai).
    #[arg(short = 'k', long, value_name = "CLOCK", help_heading = "Fields")]
    pub(crate) clockid: Option<String>,

    /// Size of each ring: pages, or bytes with B, K, M, G.
    #[arg(short = 'm', long, value_name = "SIZE", help_heading = "Streaming")]
    pub(crate) mmap_pages: Option<String>,
    /// Who reads the rings: auto, serial, cpu, core, l3, die, package, node, or RINGS/CPUS:…
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Streaming")]
    pub(crate) readers: String,
    /// perf's word for --readers.
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
    /// Where a reader drains a ring: auto, sys, node, cpu.
    #[arg(long, value_name = "WHERE", default_value = "auto", help_heading = "Streaming")]
    pub(crate) affinity: String,
    /// Asynchronous writes, so many in flight per reader and node.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "4",
        help_heading = "Streaming"
    )]
    pub(crate) aio: Option<u32>,
    /// Compress with zstd at this level.
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

    /// The file.
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "pmuscope.data",
        help_heading = "Output"
    )]
    pub(crate) output: PathBuf,
    /// End when the file has this size (B, K, M, G).
    #[arg(long, value_name = "SIZE", help_heading = "Output")]
    pub(crate) max_size: Option<String>,
    /// Begin a new file, named by the time, on SIGUSR2, at a size (100M) or after a time (30s, 5m).
    #[arg(
        long,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "signal",
        help_heading = "Output"
    )]
    pub(crate) switch_output: Option<String>,
    /// Keep only so many of those files.
    #[arg(long, value_name = "N", requires = "switch_output", help_heading = "Output")]
    pub(crate) switch_max_files: Option<usize>,
    /// Flight recorder: keep the newest samples in the rings; write them on SIGUSR2 and at the end.
    #[arg(long, conflicts_with_all = ["aio", "compression_level"], help_heading = "Output")]
    pub(crate) overwrite: bool,
    /// Take commands while recording: fifo:CTL[,ACK] or fd:N[,M]; enable, disable, snapshot, stop …
    #[arg(long, value_name = "CHANNEL", help_heading = "Output")]
    pub(crate) control: Option<String>,
    /// No build ids.
    #[arg(short = 'B', long, help_heading = "Output")]
    pub(crate) no_buildid: bool,
    /// Do not touch perf's build id cache (we never do).
    #[arg(short = 'N', long, help_heading = "Output")]
    pub(crate) no_buildid_cache: bool,
    /// Show each attribute and ring as opened.
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Output")]
    pub(crate) verbose: u8,
    /// Say nothing but what goes wrong.
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Show each attribute and ring, and open nothing.
    #[arg(long, help_heading = "Output")]
    pub(crate) dry_run: bool,

    /// The command to run while recording.
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
