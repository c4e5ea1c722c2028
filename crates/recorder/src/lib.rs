//! Rings to perf.data: what happens between the kernel's buffers and the file.
//!
//! ```text
//!   ring of CPU 0 ─┐                    ┌─ direct: pwritev from the ring
//!   ring of CPU 1 ─┼─ reader thread ──► ┼─ compressed: whole zstd frames      ──► Output (one file)
//!   …              │  (one per node,    └─ asynchronous: node-bound buffers,
//!                  │   or as asked for)    io_uring or a writer thread
//!   another node ──┴─ reader thread …
//! ```
//!
//! [`record`] is the whole: it opens, drains, names what already runs, starts the command, waits,
//! stops, and closes the file. [`follow`] does the same without a file: records go to who counts them,
//! as they come. Neither prints anything.

mod affinity;
pub mod allocations;
mod attributes;
mod buffer;
mod clock;
mod compress;
mod control;
mod cpu_time;
mod deadline;
mod error;
mod keep;
mod mapped;
mod metadata;
mod notice;
pub mod off_cpu;
mod options;
mod output;
mod plan;
mod reader;
mod sampling_cost;
mod session;
mod sink;
mod source;
mod strobe;
mod synthesize;
mod sys;
mod tally;
mod wake;
mod write;

pub use attributes::SIDEBAND;
pub use deadline::Deadline;
pub use error::{INSTEAD_OF_WINDOWS, RecorderError};
pub use notice::Notice;
pub use options::{
    Affinity, CallGraph, Control, Extras, Readers, RecordOptions, RingChoice, Sampling,
    StrobeOptions, Switch,
};
pub use sampling_cost::SamplingCost;
pub use session::{
    EndReason, FollowOptions, Following, Piece, Preview, Signals, Summary, follow, preview, record,
    record_with, reduced,
};
pub use source::{Feed, Source, SourceReading};
pub use strobe::{
    ChosenEvents, CpuCheck, Disturb, Disturbance, Lacking, Left, StrobeCheck, StrobeTrial,
    choose_events, strobe_check,
};
pub use sys::local_time;
