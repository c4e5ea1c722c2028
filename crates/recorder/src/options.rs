//! What to record and how: validated, with nothing left to guess.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use pmuscope_abi::{BranchSampleType, SampleType};
use pmuscope_events::{CallGraph as EventCallGraph, Event, Group};
use pmuscope_machine::{CpuSet, FileKind, Replace, Target};

/// Everything [`crate::record`] needs to know.
#[derive(Debug)]
pub struct RecordOptions {
    /// Whose events.
    pub target: Target,
    /// A command to run while recording; with [`Target::Command`] it is what is recorded.
    pub command: Vec<OsString>,
    /// Follow children and new threads.
    pub inherit: bool,
    /// The events, grouped.
    pub groups: Vec<Group>,
    /// Events of the whole machine, whoever is recorded: what others do to the target.
    pub of_all: Vec<Event>,
    /// Short windows between two samples, which the first event makes.
    pub strobe: Option<StrobeOptions>,
    /// For events that do not say themselves.
    pub sampling: Sampling,
    /// For events that do not say themselves.
    pub call_graph: CallGraph,
    /// Fields beside the usual ones.
    pub extras: Extras,
    /// Clock of time stamps, `CLOCK_*`.
    pub clockid: i32,
    /// Data area of each ring.
    pub ring_size: RingChoice,
    /// Which rings are read by whom.
    pub readers: Readers,
    /// Where a reader runs.
    pub affinity: Affinity,
    /// Buffers in flight per reader and node for asynchronous writes; `None` writes from the ring.
    pub aio: Option<u32>,
    /// zstd level.
    pub compression: Option<i32>,
    /// The file; one that exists is renamed to `.old`.
    pub output: PathBuf,
    /// What it may replace, and `.old` with it.
    pub replace: Replace,
    /// The file may grow to so many bytes.
    pub max_size: Option<u64>,
    /// Flight recorder: rings keep the newest records; they are written out when asked and at the end.
    pub overwrite: bool,
    /// Begin a new file when this happens.
    pub switch: Option<Switch>,
    /// Keep only so many of the files that were switched away from.
    pub max_files: Option<usize>,
    /// Commands while recording.
    pub control: Option<Control>,
    /// User and group the file belongs to, where not our own (under sudo).
    pub owner: Option<(u32, u32)>,
    /// Milliseconds between the start of the command and the first sample; negative: never enabled.
    pub delay_ms: Option<i64>,
    /// Keep the cost of recording below this share of the machine, 0 to 1.
    pub budget: Option<f64>,
    /// Measure what a sample costs in the kernel before recording.
    pub sampling_cost: bool,
    /// One ring per thread in place of one per CPU, children not followed.
    pub per_thread: bool,
    /// Let the kernel put build ids into mappings, and look up those it does not know.
    pub build_ids: bool,
    /// Copy files of what is recorded that are not at their paths when the recording ends (containers, deleted and replaced
    /// programs), for reports.
    pub keep_files: bool,
    /// The recorder's own command line, for the file.
    pub own_command_line: Vec<String>,
}

/// Windows of a strobed recording, in units of the event that makes them.
#[derive(Debug, Clone, PartialEq)]
pub struct StrobeOptions {
    /// Length of a window.
    pub window: u64,
    /// From one window to the next; `None`: about a millisecond of a busy CPU.
    pub period: Option<u64>,
    /// Windows are up to so much longer, drawn anew for each epoch.
    pub jitter: u64,
    /// Windows in a row.
    pub burst: u32,
    /// Whose windows are wanted, where the events are those of whole CPUs; all if `None`.
    pub only: Option<Target>,
    /// What is counted in windows: events of a set are counted in the same ones.
    pub sets: Vec<Vec<Event>>,
}

impl Default for StrobeOptions {
    fn default() -> Self {
        Self { window: 300, period: None, jitter: 0, burst: 1, only: None, sets: Vec::new() }
    }
}

/// When a new file begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// When the user signals.
    Signal,
    /// When the file has so many bytes, looked at ten times a second.
    Bytes(u64),
    /// When so much time has passed.
    Time(Duration),
}

/// Where commands come from while recording, and where they are acknowledged.
#[derive(Debug)]
pub struct Control {
    /// Commands, one per line.
    pub commands: OwnedFd,
    /// Gets `ack` and a newline for each command that was carried out.
    pub acknowledgements: Option<OwnedFd>,
}

/// How often to sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// Samples per second and CPU.
    Frequency(u64),
    /// Events (nanoseconds for software clocks) per sample.
    Period(u64),
}

/// Call chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallGraph {
    /// None.
    None,
    /// By frame pointers, so many frames deep at most.
    FramePointer {
        /// 0 takes the system's limit.
        depth: u16,
    },
    /// A copy of so many bytes of the user stack and of the registers, unwound when reported.
    Dwarf {
        /// Bytes, a multiple of 8.
        stack_bytes: u32,
    },
    /// The branch records of the CPU in call stack mode.
    Lbr,
}

impl RecordOptions {
    /// As `pmuscope record` without flags: 1,000 samples per second and CPU, children too, no call chains, time stamps
    /// of `CLOCK_MONOTONIC`. It replaces a recording that is at `output`, nothing else.
    #[must_use]
    pub fn new(target: Target, groups: Vec<Group>, output: PathBuf) -> Self {
        Self {
            target,
            command: Vec::new(),
            inherit: true,
            groups,
            of_all: Vec::new(),
            strobe: None,
            sampling: Sampling::Frequency(1000),
            call_graph: CallGraph::None,
            extras: Extras::default(),
            clockid: libc::CLOCK_MONOTONIC,
            ring_size: RingChoice::Auto,
            readers: Readers::Auto,
            affinity: Affinity::Auto,
            aio: None,
            compression: None,
            output,
            replace: Replace::Own(FileKind::Recording),
            max_size: None,
            overwrite: false,
            switch: None,
            max_files: None,
            control: None,
            owner: None,
            delay_ms: None,
            budget: None,
            sampling_cost: false,
            per_thread: false,
            build_ids: true,
            keep_files: false,
            own_command_line: Vec::new(),
        }
    }

    /// Whose windows are wanted.
    pub(crate) fn only(&self) -> Option<&Target> {
        self.strobe.as_ref()?.only.as_ref()
    }

    /// Whether processes or threads are observed by their number.
    pub(crate) fn is_by_number(&self) -> bool {
        self.target.is_by_number() || self.only().is_some_and(Target::is_by_number)
    }

    /// All events, in their order.
    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.groups.iter().flat_map(|group| &group.events)
    }

    /// How call chains of an event are recorded.
    pub(crate) fn call_graph_of(&self, event: &Event) -> CallGraph {
        match (event.call_graph, self.call_graph) {
            (None, from_options) => from_options,
            (Some(EventCallGraph::None), _) => CallGraph::None,
            (Some(EventCallGraph::FramePointer), _) => {
                CallGraph::FramePointer { depth: event.max_stack.unwrap_or(0) }
            }
            (Some(EventCallGraph::Dwarf), _) => {
                CallGraph::Dwarf { stack_bytes: event.stack_size.unwrap_or(8192) }
            }
            (Some(EventCallGraph::Lbr), _) => CallGraph::Lbr,
        }
    }

    /// Whether mappings of data are recorded: where asked for, and with copies of stacks, since perf
    /// unwinds only through unwind tables that it finds in a recorded mapping, and linkers put these
    /// into one that is not executable.
    pub(crate) fn wants_data_mappings(&self) -> bool {
        let copies = |event: &Event| matches!(self.call_graph_of(event), CallGraph::Dwarf { .. });
        self.extras.data_mappings || self.groups.iter().flat_map(|group| &group.events).any(copies)
    }
}

/// Fields of a sample beside identifier, instruction pointer, thread, time and CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extras {
    /// Further fields.
    pub fields: SampleType,
    /// Branch stacks of these branches.
    pub branches: Option<BranchSampleType>,
    /// Mappings of data too.
    pub data_mappings: bool,
    /// No kernel frames in call chains.
    pub user_callchains: bool,
}

/// Size of each ring's data area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingChoice {
    /// As large as useful, within the memory budget.
    Auto,
    /// Four times that, within the budget: for records that come in bursts of which none may be lost.
    Ample,
    /// Exactly so many bytes, a power of two.
    Bytes(u64),
}

/// Which rings are read by which thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readers {
    /// One per node, or per L3 cache where a node is large.
    Auto,
    /// One for all.
    Serial,
    /// One per CPU.
    Cpu,
    /// One per physical core.
    Core,
    /// One per L3 cache.
    L3,
    /// One per die.
    Die,
    /// One per package.
    Package,
    /// One per node.
    Node,
    /// For each pair: the rings of the first set, read on the CPUs of the second.
    Explicit(Vec<(CpuSet, CpuSet)>),
}

/// Where a reader runs while it drains a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// Where the scheduler puts it.
    Sys,
    /// On the node of the ring.
    Node,
    /// On the CPU of the ring.
    Cpu,
    /// On the node of the ring; on its CPU while the node has no idle CPU and the reader takes enough
    /// of a CPU to be worth spreading.
    Auto,
}

/// Names of the choices, as the command line has them.
impl std::fmt::Display for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Serial => "serial",
            Self::Cpu => "cpu",
            Self::Core => "core",
            Self::L3 => "l3",
            Self::Die => "die",
            Self::Package => "package",
            Self::Node => "node",
            Self::Explicit(pairs) => {
                for (number, (rings, cpus)) in pairs.iter().enumerate() {
                    write!(f, "{}{rings}/{cpus}", if number > 0 { ":" } else { "" })?;
                }
                return Ok(());
            }
        })
    }
}

impl std::fmt::Display for Affinity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sys => "sys",
            Self::Node => "node",
            Self::Cpu => "cpu",
            Self::Auto => "auto",
        })
    }
}
