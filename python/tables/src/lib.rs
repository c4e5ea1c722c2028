//! Results as Arrow tables: recordings, run files, comparisons of these.
//!
//! ```text
//!  recording ─► Profile ─┬─► functions, stacks, frames, events, losses
//!            └► Samples ─┴─► samples, a batch after the other, on all CPUs       columns of Arrow, to be exported
//!  run files ─► RunFile ───► runs                                                without copies
//!            └► Comparison ► compare
//! ```
//! What was not measured or not recorded is null. Text that repeats is a dictionary.

mod columns;
mod comparison;
mod dictionary;
mod error;
mod functions;
mod losses;
mod recording;
mod runs;
mod samples;
mod stacks;
mod table;

pub use comparison::{CompareOptions, compare};
pub use error::TableError;
pub use recording::{OpenRecording, ReadOptions};
pub use runs::runs;
pub use table::ArrowTable;
