//! Why something about the machine could not be told.

use std::io;
use std::path::{Path, PathBuf};

use crate::CpuSet;

/// What mounts tracefs where perf and everyone else looks for it.
pub(crate) const MOUNT_TRACEFS: &str = "sudo mount -t tracefs nodev /sys/kernel/tracing";

/// Why something about the machine could not be told.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A file of `/proc` or `/sys` cannot be read.
    #[error("cannot read {}: {}{}", path.display(), said(source), hint(path, source))]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A setting cannot be written.
    #[error("cannot write {value} to {}: {}", path.display(), said(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// What was to be written.
        value: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel took another value than was written.
    #[error("cannot set {} to {value}: it then read {found}", path.display())]
    NotTaken {
        /// The file.
        path: PathBuf,
        /// What was written.
        value: u64,
        /// What was read back.
        found: u64,
    },
    /// A file does not hold what the kernel documents.
    #[error("cannot parse {}: found {found:?}, expected {expected}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was expected, as a noun phrase.
        expected: &'static str,
        /// The beginning of what was found.
        found: String,
    },
    /// A file is longer than anything a kernel writes there.
    #[error("cannot read {}: it is longer than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Bytes that would have been accepted.
        limit: u64,
    },
    /// The process or thread ended, before or while it was looked at.
    #[error("process {pid} has ended")]
    Gone {
        /// Process id that was asked for.
        pid: u32,
    },
    /// `tracefs` is not mounted.
    #[error(
        "no tracepoints: {}. Try: {}", self.why_no_tracepoints(), MOUNT_TRACEFS
    )]
    NoTracefs,
    /// `tracefs` is mounted and may not be read.
    #[error(
        "no tracepoints: {}. Try: sudo pmuscope ...", self.why_no_tracepoints()
    )]
    TracefsDenied {
        /// The folder or file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel has no such tracepoint.
    #[error("this kernel has no tracepoint {system}:{name}")]
    NoTracepoint {
        /// Subsystem, as in `sched`.
        system: String,
        /// Name, as in `sched_switch`.
        name: String,
    },
    /// A cgroup that cannot be opened.
    #[error(
        "cannot open cgroup {path}: {}. Try: a path below /sys/fs/cgroup, such as \
         system.slice/nginx.service",
        said(source)
    )]
    Cgroup {
        /// As typed.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// CPUs that are not there.
    #[error("CPU {missing} is not online (online: {online})")]
    Offline {
        /// Those of the ones asked for that are not online.
        missing: CpuSet,
        /// Those that are.
        online: CpuSet,
    },
}

/// What to type where a process may not be looked at: that takes the right to trace it (proc(5)).
fn hint(path: &Path, error: &io::Error) -> &'static str {
    let is_of_process = || {
        let rest = path.strip_prefix("/proc").ok()?;
        rest.components().next()?.as_os_str().to_str()?.parse::<u32>().ok()
    };
    match error.kind() {
        io::ErrorKind::PermissionDenied if is_of_process().is_some() => {
            ". The process belongs to another user, or may not be traced. Try: sudo pmuscope ..."
        }
        _ => "",
    }
}

/// `EACCES (Permission denied)`.
fn said(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), errno_text)
}

/// The name of an errno with its text.
pub(crate) fn errno_text(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let name = match errno {
        libc::EPERM => "EPERM",
        libc::EACCES => "EACCES",
        libc::ENOENT => "ENOENT",
        libc::ENOTDIR => "ENOTDIR",
        libc::ENODEV => "ENODEV",
        libc::ENOSYS => "ENOSYS",
        libc::EINVAL => "EINVAL",
        libc::EIO => "EIO",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EMFILE => "EMFILE",
        libc::ENOMEM => "ENOMEM",
        libc::ENOSPC => "ENOSPC",
        libc::EBUSY => "EBUSY",
        other => return format!("errno {other} ({text})"),
    };
    format!("{name} ({text})")
}

impl MachineError {
    /// The reason alone where tracepoints cannot be read; any other error as a whole.
    pub(crate) fn why_no_tracepoints(&self) -> String {
        match self {
            Self::NoTracefs => "tracefs is not mounted".to_owned(),
            Self::TracefsDenied { path, source } => {
                format!("cannot read {}: {}", path.display(), said(source))
            }
            other => other.to_string(),
        }
    }

    pub(crate) fn malformed(path: &Path, expected: &'static str, found: &str) -> Self {
        let found = found.chars().take(60).collect();
        Self::Malformed { path: path.to_owned(), expected, found }
    }

    /// Whether it is only that the process or thread ended meanwhile.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    /// Whether a right is missing, so that the same question may succeed as root.
    pub fn is_denied(&self) -> bool {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            Self::TracefsDenied { .. } => true,
            _ => false,
        }
    }
}
