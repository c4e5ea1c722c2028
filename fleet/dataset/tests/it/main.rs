//! Rows of recordings and of run files.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy takes helpers of a test binary for no tests

mod documented;
mod import;
mod runs;
mod waits;
