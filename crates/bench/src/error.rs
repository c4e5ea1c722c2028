//! Why a benchmark ends without results.

use std::io;
use std::path::PathBuf;

use pmuscope_bpf::BpfError;
use pmuscope_counters::{CountersError, errno_name, open_refusal};
use pmuscope_machine::MachineError;
use pmuscope_measure::MeasureError;
use pmuscope_region::RegionError;
use pmuscope_watch::kernel::KernelError;
use pmuscope_workloads::WorkloadError;

use crate::numa::RunError;

/// Where there is no PMU.
const EMULATED_PMU: &str = "Try: an emulated machine, which has a PMU (exact counts, meaningless \
    times): pmuscope lab run --arch aarch64 --icount 1 -- bench functions --quick";

/// Why a benchmark ends without results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// An option leaves nothing to measure.
    #[error("{0}")]
    Options(String),
    /// An arm that does not exist.
    #[error("unknown arm {name}. Try: {known}")]
    UnknownArm {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The folder for files of runs cannot be used.
    #[error(
        "cannot write files of runs to {}: {source}. Try: --tmp DIR, or TMPDIR=DIR",
        path.display()
    )]
    Scratch {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file to continue holds runs of another kind.
    #[error(
        "cannot resume {}: it has other tests, policies, sizes or times. Try: without --resume, or \
         another file", path.display()
    )]
    Resume {
        /// The file.
        path: PathBuf,
    },
    /// The workload does not run even without a recorder.
    #[error("the workload fails without a recorder: {why}")]
    Alone {
        /// What it said.
        why: String,
    },
    /// No recorder works here.
    #[error("no recorder works here: {notice}. Try: pmuscope doctor")]
    NoRecorder {
        /// Which were left out first, and why.
        notice: String,
    },
    /// Functions alone cannot be recorded, so there is no truth.
    #[error("cannot record cycles and instructions: {why}. {EMULATED_PMU}")]
    NoTruth {
        /// What the recorder said.
        why: String,
    },
    /// Times are not the machine's.
    #[error(
        "cannot measure memory speed: {0} emulates this machine, so bandwidth and latency would be \
         the emulator's. Try: on a real machine, or pmuscope workload memory, which counts bytes \
         and faults here too"
    )]
    Emulated(String),
    /// More breakpoints than there are slots.
    #[error(
        "-b {asked}: {asked} breakpoints do not fit; a thread has {slots} free debug registers \
         here. Try: -b {slots}"
    )]
    Slots {
        /// How many were asked for.
        asked: u32,
        /// How many fit.
        slots: u32,
    },
    /// More threads than there can be.
    #[error(
        "-t {asked}: cannot run {asked} threads at once: {limit}. Try: -t {room}, or raise that \
         limit"
    )]
    Threads {
        /// How many were asked for.
        asked: usize,
        /// How many there can be.
        room: u64,
        /// What does not allow more.
        limit: String,
    },
    /// A breakpoint cannot be opened.
    #[error("cannot open {what}: {}. Try: pmuscope doctor", open_refusal(.source))]
    Open {
        /// Which.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// An open breakpoint does not do what it should.
    #[error("cannot {what} a breakpoint: {}", errno_name(.source))]
    Call {
        /// What it was to do.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A binding that takes two nodes.
    #[error(
        "policy {0} needs two NUMA nodes with CPUs and memory, and this machine has one. Try: \
         --policies without it"
    )]
    Bound(&'static str),
    /// The user's program cannot be started or waited for.
    #[error("cannot run {command}: {source}")]
    Start {
        /// The program.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// A test or a program cannot run under a policy.
    #[error("{test}: {source}")]
    Policy {
        /// Name of the test or the program.
        test: String,
        /// Why not.
        source: RunError,
    },
    /// Breakpoints cannot be had.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A ring for records cannot be had.
    #[error(transparent)]
    Counters(#[from] CountersError),
    /// The CPUs of the machine cannot be read.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A program's counts cannot be read.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Counters of regions cannot be had.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A workload cannot run.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A run cannot be made, or results cannot be kept.
    #[error(transparent)]
    Measure(#[from] MeasureError),
}

impl BenchError {
    /// Whether what was asked for is wrong; otherwise this machine does not allow it.
    #[must_use]
    pub fn is_of_request(&self) -> bool {
        match self {
            Self::Options(_)
            | Self::UnknownArm { .. }
            | Self::Scratch { .. }
            | Self::Resume { .. }
            | Self::Alone { .. }
            | Self::Slots { .. }
            | Self::Threads { .. }
            | Self::Bound(_) => true,
            Self::Workload(error) | Self::Policy { source: RunError::Workload(error), .. } => {
                matches!(error, WorkloadError::Options { .. })
            }
            _ => false,
        }
    }
}
