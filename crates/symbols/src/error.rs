//! Errors of reading symbols from a file.

use std::path::PathBuf;

/// Failures of this crate; each names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read as ELF.
    #[error("cannot read {} as ELF: {reason}", path.display())]
    Elf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A build id has an impossible length.
    #[error("a build ID of {length} bytes: expected 1 to {} bytes", crate::BuildId::MAX)]
    BuildIdLength {
        /// Bytes found.
        length: usize,
    },
}
