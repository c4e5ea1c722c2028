//! Why a recording could not begin or could not be finished.

use std::io;
use std::path::PathBuf;

use pmuscope_counters::{CountersError, errno_name};
use pmuscope_machine::MachineError;

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
    #[error("Linux {0} is too old: pmuscope records on Linux 5.10 and later")]
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
    /// A cgroup that cannot be opened.
    #[error(
        "cannot open cgroup {path}: {}. Try a path below /sys/fs/cgroup, such as system.slice/nginx.service",
        errno_name(.source)
    )]
    Cgroup {
        /// As typed.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// A cgroup for the command could not be made.
    #[error(
        "--own-cgroup: cannot put the command into {}: {}. Try as root, on a machine with cgroups, or \
         without --own-cgroup",
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
        "cannot bind a buffer of {kib} KiB to node {node}: mbind: {}. \
         Try without --aio, or allow that node's memory in the cpuset", errno_name(.source)
    )]
    Bind {
        /// Size in KiB.
        kib: usize,
        /// The node.
        node: u32,
        /// Why not.
        source: io::Error,
    },
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
        "{event} every {period_ns} ns: the kernel's clocks take no period below 10000 ns, so a sample \
         would stand for more than it says. Try -F 10000 or fewer, or -c 100000 or more"
    )]
    ClockPeriod {
        /// The event.
        event: String,
        /// What was asked for, nanoseconds.
        period_ns: u64,
    },
    /// A clock that would leave a CPU nothing but sampling.
    #[error(
        "{event} every {} µs: a sample takes {cost_us:.1} µs of this machine's CPUs, which leaves them \
         next to nothing else; they might not even answer. Try -F {} or fewer, or -c {:.0} or more",
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
    /// Settings that exclude each other.
    #[error("{0}")]
    Options(String),
}

impl RecorderError {
    /// For `map_err` on calls that do not fail in order.
    pub(crate) fn system(call: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { call, source }
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
        )
    }
}
