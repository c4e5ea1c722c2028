//! Opening sets of events, on a fake kernel and on the real one.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod fake;
mod real;
