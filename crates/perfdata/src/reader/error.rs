//! Why a file cannot be read at all. A damaged file is read as far as possible; see
//! [`Tally`](super::Tally).

use std::io;
use std::path::{Path, PathBuf};

/// Failures of opening and reading a recording; each names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done, as a verb ("open", "read").
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A directory that is none of `perf record --threads`.
    #[error(
        "{} is a directory without a \"data\" file: not a recording of perf record --threads",
        .0.display()
    )]
    Directory(PathBuf),
    /// A stream that was read already.
    #[error(
        "{} is a stream, which can be read only once. Try: save it to a file first",
        .0.display()
    )]
    Stream(PathBuf),
    /// It could not be put into a temporary file, for want of room or because it is damaged.
    #[error("{} cannot be {what}: {source}. Try: {instead}", path.display())]
    Spool {
        /// The file.
        path: PathBuf,
        /// The operation that failed, as a participle.
        what: &'static str,
        /// The command to type instead.
        instead: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Compressed data that end too early.
    #[error(
        "{} is cut off: its compressed data end too early. Try: copy it again",
        .0.display()
    )]
    CutOff(PathBuf),
    /// The file starts with something else.
    #[error("{} is not a perf.data file: {found}{hint}", path.display())]
    Magic {
        /// The file.
        path: PathBuf,
        /// What was found instead, as a clause; the first bytes are escaped.
        found: String,
        /// What to do with a file of this kind, as another sentence; else empty.
        hint: &'static str,
    },
    /// A field of the header contradicts the file or itself.
    #[error("{}: invalid {field} in the header: {problem}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// The field.
        field: &'static str,
        /// Both values.
        problem: String,
    },
    /// The file describes no event, so its records cannot be decoded.
    #[error(
        "{}: the file describes no events, so its samples cannot be decoded. Try: record again; \
         the recorder may have ended too early",
        .0.display()
    )]
    NoEvents(PathBuf),
    /// Several events with samples that do not identify their event.
    #[error(
        "{}: its samples do not identify which of {events} events they belong to. Try: record \
         again with pmuscope record or a current perf",
        path.display()
    )]
    NoCommonId {
        /// The file.
        path: PathBuf,
        /// Number of events.
        events: usize,
    },
}

impl ReadError {
    pub(super) fn magic(path: &Path, front: &[u8]) -> Self {
        let front = &front[..front.len().min(8)];
        let found = if front.is_empty() {
            "it is empty".into()
        } else {
            format!("it starts with \"{}\", not \"PERFILE2\"", front.escape_ascii())
        };
        // Results of runs are JSON.
        let hint = if front.starts_with(b"{") {
            ". To compare two results of stat, sweep or bench: pmuscope compare BEFORE AFTER"
        } else {
            ""
        };
        Self::Magic { path: path.to_path_buf(), found, hint }
    }
}
