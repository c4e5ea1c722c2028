//! `pmuscope numa`: placement on nodes, for people and programs.

mod machine;

pub use machine::{NumaShow, numa_text};

/// Schema of what `pmuscope numa` prints as JSON.
pub const NUMA_SCHEMA: &str = "pmuscope/numa/1";

#[cfg(test)]
mod tests;
