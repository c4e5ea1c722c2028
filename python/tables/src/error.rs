//! Why there is no table.

use arrow_schema::ArrowError;
use pmuscope_measure::MeasureError;
use pmuscope_measure::compare::CompareError;
use pmuscope_perfdata::reader::ReadError;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// A recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A run file cannot be read.
    #[error(transparent)]
    Runs(#[from] MeasureError),
    /// Run files cannot be compared as asked.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// The column to compare with is not there.
    #[error("no column is called {base:?}. Try: base={:?}", known.first().map_or("", |name| name.as_str()))]
    NoSuchBase {
        /// What was asked for.
        base: String,
        /// Names of the columns that are there.
        known: Vec<String>,
    },
    /// An event that the recording does not have.
    #[error(
        "{file} has no samples of event {event:?}; it has {}",
        if known.is_empty() { "no samples".to_owned() } else { known.join(", ") }
    )]
    NoSuchEvent {
        /// The recording.
        file: String,
        /// What was asked for.
        event: String,
        /// Events with samples.
        known: Vec<String>,
    },
    /// Columns that do not fit together: too many rows for Arrow.
    #[error("cannot make a table: {0}")]
    Arrow(#[from] ArrowError),
}
