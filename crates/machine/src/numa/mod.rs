//! What the machine tells of placement on NUMA nodes: how nodes perform, what the kernel does by itself,
//! what that has cost so far, and where a process's memory lies by the kernel's own account.

mod balancing;
mod counters;
mod facts;
mod maps;
mod nodes;
mod settings;
mod task;

pub use balancing::{BalancingGuard, NumaBalancing};
pub use counters::NumaCounters;
pub use facts::NumaFacts;
pub use maps::NumaMapping;
pub use nodes::{AccessClass, NumaNode};
pub use settings::NumaSettings;
pub use task::{NodeFaults, NumaTask};
