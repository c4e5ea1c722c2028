//! `pmuscope numa`: placement on nodes, for people and programs.

mod advice;
#[cfg(test)]
mod advice_tests;
mod balance;
mod followed;
mod followed_page;
#[cfg(test)]
mod followed_tests;
mod machine;
mod simulate;

pub use advice::AdviceReport;
pub use balance::{Balanced, RestoredProcess, RestoredProcesses, told};
pub use followed::Followed;
pub use machine::NumaShow;
pub use simulate::NumaSimulation;

/// Schema of what `pmuscope numa show` prints of the machine as JSON.
const NUMA_SCHEMA: &str = "pmuscope/numa/1";
/// Schema of what `pmuscope numa show` prints of processes as JSON.
const FOLLOWED_SCHEMA: &str = "pmuscope/numa-show/1";
/// Schema of what `pmuscope numa advise` prints as JSON.
const ADVICE_SCHEMA: &str = "pmuscope/numa-advice/1";

/// Bytes of a mebibyte.
const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests;
