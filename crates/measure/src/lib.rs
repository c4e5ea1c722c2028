//! Repeated runs: plan, order, repeat, environment check, the run file, comparison.
//!
//! A benchmark makes a [`Plan`] of arms and rounds, runs each with [`child::run`], takes figures
//! from its output with [`Extract`], and keeps everything in a [`RunFile`], which [`save`] writes
//! after every run. [`counting`] counts events over a command, processes or CPUs, once or in every run.
//! [`arms`] are commands that are compared by interleaved runs. [`versus`] sets arms of one file against its base, [`compare`] sets files
//! side by side.

#![forbid(unsafe_code)]

pub mod accuracy;
pub mod arms;
mod censored;
pub mod child;
pub mod compare;
pub mod counting;
mod error;
mod estimate;
mod extract;
mod merge;
mod plan;
mod rounds;
mod run_file;
mod store;
pub mod summary;
pub mod sweep;
pub mod topdown;
pub mod units;
pub mod versus;

pub use censored::Beyond;
pub use error::MeasureError;
pub use estimate::{Estimated, Limits};
pub use extract::{Extract, ExtractError};
pub use plan::{Plan, Planned};
pub use rounds::{RunDone, RunObserver};
pub use run_file::{
    Arm, Concern, Drift, Guest, Labels, Origin, Program, RawReading, Run, RunFile, RunValue,
    SCHEMA, Series, Timeline, TimelineColumn, metric, unix_ns,
};
pub use store::{can_save, load, parse, read, save};
