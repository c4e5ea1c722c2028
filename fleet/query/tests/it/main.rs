//! Answers over fleets whose sums are known.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy takes helpers of a test binary for no tests

mod measured;
mod questions;
mod runs;
mod scan;
mod sql;
mod windows;
