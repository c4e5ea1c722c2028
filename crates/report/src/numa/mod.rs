//! `pmuscope numa`: placement on nodes, for people and programs.

mod advice;
#[cfg(test)]
mod advice_tests;
mod balance;
mod bench;
mod followed;
mod followed_page;
#[cfg(test)]
mod followed_tests;
mod machine;
mod simulate;

pub use advice::{AdviceReport, advice_text};
pub use balance::{
    Balanced, NUMA_BALANCE_SCHEMA, NUMA_RESTORE_SCHEMA, RestoredProcess, balanced_text,
    restored_text, told,
};
pub use bench::bench_numa_text;
pub use followed::{Followed, followed_text};
pub use followed_page::followed_page;
pub use machine::{NumaShow, numa_text};
pub use simulate::{NUMA_SIMULATE_SCHEMA, NumaSimulation, numa_simulation_text};

/// Schema of what `pmuscope numa show` prints of the machine as JSON.
pub const NUMA_SCHEMA: &str = "pmuscope/numa/1";
/// Schema of what `pmuscope numa show` prints of processes as JSON.
pub const FOLLOWED_SCHEMA: &str = "pmuscope/numa-show/1";
/// Schema of what `pmuscope numa advise` prints as JSON.
pub const ADVICE_SCHEMA: &str = "pmuscope/numa-advice/1";

/// Bytes of a mebibyte.
const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests;
