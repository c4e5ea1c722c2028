//! What can go wrong with runs and their files.

use std::path::PathBuf;

/// What can go wrong with runs and their files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// A file could not be read or written.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    File {
        /// What was tried: "read", "write".
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Larger than any run file.
    #[error(
        "cannot read {path}: it has {bytes} bytes, and a run file has at most {limit}",
        path = path.display()
    )]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// What is read at most.
        limit: u64,
    },
    /// A recording, which is no result of runs.
    #[error(
        "{path} is a recording, not a run file. Try: pmuscope diff BEFORE AFTER, which compares \
         recordings",
        path = path.display()
    )]
    Recording {
        /// Which file.
        path: PathBuf,
    },
    /// Not JSON, or not of the shape of its schema.
    #[error("{path} is not a run file: {source}", path = path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// JSON of another kind or of a version this program does not know.
    #[error(
        "{path} has schema {found:?}, but this version reads {expected:?}{hint}",
        path = path.display(),
        expected = crate::SCHEMA
    )]
    Schema {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What to do about it, from a full stop on, or empty.
        hint: &'static str,
    },
    /// A value that refers to a run that the file does not have.
    #[error(
        "{path}: a value of {metric} refers to run {run}, which is not in the file",
        path = path.display()
    )]
    NoSuchRun {
        /// Which file.
        path: PathBuf,
        /// Metric of the series.
        metric: String,
        /// The run named.
        run: usize,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Which program.
        program: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A started program could not be waited for, or its output not kept.
    #[error("cannot {what} of {program}: {source}")]
    Child {
        /// Which program.
        program: String,
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Counting was to begin later than all ended.
    #[error(
        "{what} before counting began, {delay_ms} ms after the start, so nothing was counted. Try: \
         a shorter delay (-D)"
    )]
    NotBegun {
        /// What happened: "it ended", "it was interrupted".
        what: &'static str,
        /// The delay, milliseconds.
        delay_ms: u128,
    },
    /// Events could not be opened or read.
    #[error(transparent)]
    Counters(#[from] pmuscope_counters::CountersError),
    /// The machine does not tell what is needed.
    #[error(transparent)]
    Machine(#[from] pmuscope_machine::MachineError),
    /// None of the events can be counted.
    #[error("none of the events can be counted: {first}")]
    NothingCounted {
        /// The first one's reason, with what to type.
        first: String,
    },
}
