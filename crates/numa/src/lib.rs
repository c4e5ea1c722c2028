//! Placement of processes on NUMA nodes: what it is ([`placement`], [`observe`]), what it costs, what would
//! be better; acting on it.

#![forbid(unsafe_code)]

pub mod act;
pub mod advise;
pub mod balance;
pub mod convergence;
mod nodes;
pub mod observe;
pub mod placement;
pub mod simulate;
pub mod timeline;

pub use nodes::Nodes;
