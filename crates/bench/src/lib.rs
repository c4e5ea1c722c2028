//! The named benchmarks: what runs, in which arms; hands back runs.

#![forbid(unsafe_code)]

pub mod breakpoint;
pub mod capture;
mod count;
mod error;
pub mod functions;
pub mod memory;
pub mod numa;
mod recording;
pub mod region;
pub mod ring;
mod runner;
mod scratch;
pub mod slots;

pub use error::BenchError;
pub use runner::{Bench, Benchmark, Repetition, run};
