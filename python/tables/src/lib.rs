//! Results as Arrow tables: recordings, run files, comparisons of these.
//!
//! ```text
//!  recording ─► Profile ─┬─► functions, stacks, frames, events, losses
//!            └► Samples ─┴─► samples, a batch after the other, on all CPUs       columns of Arrow, to be exported
//!  run files ─► RunFile ───► runs                                                without copies
//!            └► Comparison ► compare
//!  recordings ─► EventDiff ► diff
//! ```
//! What was not measured or not recorded is null. Text that repeats is a dictionary.

mod columns;
mod comparison;
mod dictionary;
mod difference;
mod error;
mod functions;
mod losses;
mod recording;
mod runs;
mod samples;
mod selection;
mod stacks;
mod table;

pub use comparison::{CompareOptions, compare};
pub use dictionary::text_of;
pub use difference::diff;
pub use error::TableError;
pub use pmuscope_machine::CpuSet;
pub use pmuscope_measure::MeasureError;
pub use pmuscope_perfdata::reader::ReadError;
pub use pmuscope_profile::diff::Order;
pub use pmuscope_profile::{FileState, FilterError, FilterRequest, Times};
pub use recording::{OpenRecording, ReadOptions};
pub use runs::runs;
pub use table::ArrowTable;
