//! Why there is no table.

use std::path::PathBuf;

use arrow_schema::ArrowError;
use pmuscope_measure::MeasureError;
use pmuscope_measure::compare::CompareError;
use pmuscope_perfdata::reader::ReadError;
use pmuscope_profile::FilterError;

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
    /// The recording cannot be filtered as asked.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A filter that the recording has already.
    #[error(
        "the profile is filtered by {0} already. Try: read the recording again without that filter"
    )]
    FilteredTwice(&'static str),
    /// The folder to look for binaries in is not there.
    #[error("symfs {}: there is no such folder", .0.display())]
    NoSymfs(PathBuf),
    /// Two sides without an event that both have.
    #[error(
        "the two sides have no event in common: {}. Try: record both with the same events",
        if one_sided.is_empty() { "neither has samples".to_owned() } else { one_sided.join(", ") }
    )]
    NothingInCommon {
        /// Events of one side or the other.
        one_sided: Vec<String>,
    },
    /// A side without a recording.
    #[error("diff needs a recording or more on each side; got {before} and {after}")]
    NoSide {
        /// Recordings before.
        before: usize,
        /// Recordings after.
        after: usize,
    },
    /// A column that is not there.
    #[error("no column {column:?}; there are {}", known.join(", "))]
    NoSuchColumn {
        /// What was asked for.
        column: String,
        /// Columns of the table.
        known: Vec<String>,
    },
    /// A column whose values cannot be added up.
    #[error("the sum of column {column:?} means nothing. Try: {}", known.join(", "))]
    NotAdditive {
        /// What was asked for.
        column: String,
        /// Columns that can be added up.
        known: Vec<String>,
    },
    /// A sum over events that are counted in different units.
    #[error(
        "column {column:?} of several events does not add up. Try: groupby({:?}), or the rows of one event: \
         filter(event={event:?})",
        [&["event".to_owned()][..], &by[..]].concat()
    )]
    SeveralEvents {
        /// The column.
        column: String,
        /// One of the events.
        event: String,
        /// What was grouped by.
        by: Vec<String>,
    },
    /// A row that is not there.
    #[error("no row {row}; there are {rows}")]
    NoSuchRow {
        /// What was asked for.
        row: usize,
        /// Rows of the table.
        rows: usize,
    },
    /// Columns that do not fit together: too many rows for Arrow.
    #[error("cannot make a table: {0}")]
    Arrow(#[from] ArrowError),
}
