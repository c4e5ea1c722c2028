//! Where a fleet's profiles go.
//!
//! ```text
//!  files of the spool ─► FileSink: folder, S3   the record: whole files, each there once, tried until it is delivered
//!  rows of a bin      ─► push: OTLP, pprof  best effort: not kept for later, what was refused is counted
//! ```

#![forbid(unsafe_code)]

mod dictionary;
mod folder;
mod group;
#[cfg(test)]
mod made;
mod otlp;
mod pprof;
mod push;
mod s3;

use std::io;
use std::path::{Path, PathBuf};

use pmuscope_store::StoreError;

pub use folder::FolderSink;
pub use otlp::{OTLP_PATH, OTLP_PROTO_VERSION, OtlpRequest, otlp_requests};
pub use pprof::{PprofLimits, PprofProfile, pprof_profiles};
pub use push::{EndpointError, PushCause, PushFailure, PushSink, Pushed};
pub use s3::S3Sink;

/// Why a file was not delivered. It stays in the spool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// A file or folder.
    #[error("cannot write {path}: {source}")]
    Io {
        /// It.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// An object store.
    #[error("cannot write {0}")]
    Store(#[from] StoreError),
    /// Another file has the name: another agent calls its host the same.
    #[error(
        "{0} is there with other contents: another agent has this host name. Try: host = \"ANOTHER NAME\" in the \
         configuration"
    )]
    Taken(String),
}

/// A place where files are delivered.
#[derive(Debug)]
pub enum FileSink {
    /// A folder.
    Folder(FolderSink),
    /// A part of a bucket.
    S3(S3Sink),
}

impl FileSink {
    /// Delivers `source` as `path`; does nothing if it was delivered before.
    ///
    /// # Errors
    /// [`SinkError`]; there is no file of that name then, or another one.
    pub fn deliver(&self, source: &Path, path: &Path) -> Result<(), SinkError> {
        match self {
            Self::Folder(sink) => sink.deliver(source, path),
            Self::S3(sink) => sink.deliver(source, path),
        }
    }
}

impl From<FolderSink> for FileSink {
    fn from(sink: FolderSink) -> Self {
        Self::Folder(sink)
    }
}
