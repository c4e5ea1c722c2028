//! Why a recording could not begin or could not be finished.

use std::io;
use std::path::PathBuf;

use pmuscope_counters::{CountersError, errno_name};
use pmuscope_machine::MachineError;

/// What to say where there is no PMU for windows.
pub const INSTEAD_OF_WINDOWS: &str = "Windows need a hardware PMU; software timers are not exact \
    enough. Try: pmuscope record -e cpu-clock (time per function, no counters), or an emulated \
    machine: pmuscope lab run --arch aarch64 --icount 1 -- record --strobe -- COMMAND";

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecorderError {
    /// Events or rings could not be opened, or the command not be started.
    #[error(transparent)]
    Counters(#[from] CountersError),
    /// The machine could not be read.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The kernel is older than what pmuscope is made for.
    #[error("Linux {0} is too old: pmuscope needs Linux 5.10 or later to record")]
    OldKernel(String),
    /// The readers do not cover the rings.
    #[error("--readers: {0}")]
    Readers(String),
    /// The output file could not be created or closed.
    #[error("cannot {action} {}: {}", .path.display(), errno_name(.source))]
    Output {
        /// What was to be done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Where the output is to go is a link to a file, or to nothing.
    #[error(
        "cannot write to {}: it is a symbolic link, and recordings are not written through links. \
         Try: -o FILE",
        .path.display()
    )]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A cgroup for the command could not be made.
    #[error(
        "--own-cgroup: cannot put the command into {}: {}. Try: run as root on a machine with \
         cgroups, or without --own-cgroup",
        .path.display(),
        errno_name(.source)
    )]
    OwnCgroup {
        /// The cgroup.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A buffer could not be placed on its node.
    #[error(
        "cannot bind a buffer of {kib} KiB to NUMA node {node}: mbind: {}. Try: without --aio, or \
         allow that node's memory in the cpuset", errno_name(.source)
    )]
    Bind {
        /// Size in KiB.
        kib: usize,
        /// The node.
        node: u32,
        /// Why not.
        source: io::Error,
    },
    /// What makes samples beside the kernel could not go on.
    #[error(transparent)]
    Source(Box<dyn std::error::Error + Send + Sync>),
    /// A system call that does not fail in order.
    #[error("{call}: {}", errno_name(.source))]
    System {
        /// The call and what it was for.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A period that the kernel's clocks do not take.
    #[error(
        "{event} every {period_ns} ns: the kernel's software timers have no period below 10000 ns, \
         so each sample would be counted as less time than it stands for. Try: -F 10000 or lower, \
         or -c 100000 or higher"
    )]
    ClockPeriod {
        /// The event.
        event: String,
        /// What was asked for, nanoseconds.
        period_ns: u64,
    },
    /// A clock that would leave a CPU nothing but sampling.
    #[error(
        "{event} every {} µs: a sample takes {cost_us:.1} µs of CPU time here, so sampling would \
         take nearly all of it and the machine might hang. Try: -F {} or lower, or -c {:.0} or \
         higher",
        *.period_ns as f64 / 1e3,
        (1e6 / (2.0 * .cost_us)) as u64,
        2e3 * .cost_us
    )]
    ClockTooFast {
        /// The event.
        event: String,
        /// What was asked for, nanoseconds.
        period_ns: u64,
        /// What a sample takes, microseconds.
        cost_us: f64,
    },
    /// The event that should make windows cannot be counted.
    #[error(
        "--strobe: cannot count {event}, which defines the windows: {}. {INSTEAD_OF_WINDOWS}",
        errno_name(.source)
    )]
    NoWindowEvent {
        /// The event.
        event: String,
        /// Why not.
        source: io::Error,
    },
    /// It could be opened, but stays at 0.
    #[error(
        "--strobe: {event}, which defines the windows, counts nothing in a busy loop. Try: another \
         event, or pmuscope doctor"
    )]
    NothingCounted {
        /// The event.
        event: String,
    },
    /// The PMU has too few counters.
    #[error(
        "--strobe: {event} does not fit on the PMU together with the {edges} events that bound \
         windows. Try: other events (-e), or stop other users of the PMU"
    )]
    StrobeFit {
        /// The event.
        event: String,
        /// Events that bound windows.
        edges: usize,
    },
    /// Samples that come this often could be throttled, which loses the phase.
    #[error(
        "--strobe: with period={period} and an event that occurs up to {fastest} times a second, \
         the sampling rate exceeds a quarter of kernel.perf_event_max_sample_rate ({limit}); the \
         kernel could throttle, and windows would lose their phase. Try: period={enough}, or sudo \
         sysctl kernel.perf_event_max_sample_rate=…"
    )]
    StrobeRate {
        /// Asked for.
        period: u64,
        /// Samples per second that the kernel allows.
        limit: u64,
        /// Events per second.
        fastest: u64,
        /// A period that would do.
        enough: u64,
    },
    /// On no CPU could the two events be brought into their phase.
    #[error("--strobe: cannot set the phase on any CPU: CPU {cpu}: {why}")]
    StrobePhase {
        /// The first one.
        cpu: u32,
        /// Why not there.
        why: String,
    },
    /// Settings that exclude each other.
    #[error("{0}")]
    Options(String),
}

impl RecorderError {
    /// For `map_err` on calls that do not fail in order.
    pub(crate) fn system(call: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { call, source }
    }

    /// What was asked for is wrong; found before anything is started.
    #[must_use]
    pub fn is_input(&self) -> bool {
        matches!(
            self,
            Self::Options(_)
                | Self::Readers(_)
                | Self::Link { .. }
                | Self::ClockPeriod { .. }
                | Self::ClockTooFast { .. }
                | Self::StrobeRate { .. }
                | Self::Output { action: "create" | "rename" | "write", .. }
                | Self::Machine(_)
                | Self::Counters(CountersError::RingSize(_) | CountersError::Vanished(_))
        )
    }

    /// The machine or its settings refuse what was asked; other arguments would not help.
    #[must_use]
    pub fn is_machine(&self) -> bool {
        matches!(
            self,
            Self::Counters(
                CountersError::Open { .. }
                    | CountersError::OpenFiles { .. }
                    | CountersError::Map { .. }
            ) | Self::OldKernel(_)
                | Self::Bind { .. }
                | Self::NoWindowEvent { .. }
                | Self::NothingCounted { .. }
                | Self::StrobeFit { .. }
                | Self::StrobePhase { .. }
        )
    }
}
