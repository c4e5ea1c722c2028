//! The named benchmarks: what runs, in which arms; hands back runs.

#![forbid(unsafe_code)]

pub mod breakpoint;
pub mod capture;
mod count;
pub mod functions;
pub mod memory;
pub mod numa;
mod observer;
mod recording;
pub mod region;
pub mod ring;
mod scratch;
pub mod slots;
