//! What can go wrong.

use std::io;

use rustix::io::Errno;
use thiserror::Error;

/// Why the kernel rejected a call or a program.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BpfError {
    /// A call failed.
    #[error("{call}: {source}")]
    Call {
        /// The call ("bpf(BPF_MAP_CREATE)").
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The verifier refused a program.
    #[error("the kernel rejected the BPF program ({source}): {said}")]
    Refused {
        /// What the kernel said.
        source: io::Error,
        /// The last lines of the verifier's log.
        said: String,
    },
}

impl BpfError {
    /// The kernel's error.
    #[must_use]
    pub fn source_error(&self) -> &io::Error {
        match self {
            Self::Call { source, .. } | Self::Refused { source, .. } => source,
        }
    }

    /// Whether a capability is missing: `CAP_BPF` and `CAP_PERFMON`, or root.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        let errno = Errno::from_io_error(self.source_error());
        match self {
            Self::Call { .. } => matches!(errno, Some(Errno::PERM | Errno::ACCESS)),
            // The verifier says EACCES of accesses to memory.
            Self::Refused { .. } => errno == Some(Errno::PERM),
        }
    }
}
