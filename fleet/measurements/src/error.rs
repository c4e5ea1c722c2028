//! Why a measurement failed.

use std::io;
use std::path::PathBuf;

use pmuscope_dataset::{DatasetError, ImportError};
use pmuscope_events::EventError;
use pmuscope_machine::MachineError;
use pmuscope_perfdata::reader::ReadError;
use pmuscope_profile::waits::WaitsError;
use pmuscope_profile::windows::WindowsError;
use pmuscope_recorder::RecorderError;

/// Why something could not be measured, or a recording not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasurementError {
    /// What the machine has.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// An event.
    #[error(transparent)]
    Event(#[from] EventError),
    /// Recording.
    #[error(transparent)]
    Recorder(#[from] RecorderError),
    /// A recording that cannot be read.
    #[error(transparent)]
    Recording(#[from] ReadError),
    /// Waits that cannot be read.
    #[error(transparent)]
    Waits(#[from] WaitsError),
    /// Windows that cannot be read.
    #[error(transparent)]
    Windows(#[from] WindowsError),
    /// A recording has no rows.
    #[error(transparent)]
    Rows(#[from] ImportError),
    /// Rows cannot be written.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// There is nothing to measure here.
    #[error("{0}")]
    Nothing(String),
    /// A file or folder.
    #[error("cannot use {path}: {source}")]
    Io {
        /// It.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
