//! The named benchmarks: what runs, in which arms; hands back runs.

#![forbid(unsafe_code)]

pub mod capture;
pub mod ring;
