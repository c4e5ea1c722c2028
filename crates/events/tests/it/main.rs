//! Events as a user types them, on machines that the tests make up and on this one.

// A helper outside a `#[test]` function is test code too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod errors;
mod fixtures;
mod grammar;
mod lists;
mod machines;
mod memory_accesses;
mod needs;
mod perf;
mod random;
mod schedule;
