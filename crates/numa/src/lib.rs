//! Placement of processes on NUMA nodes: what it is ([`placement`]), what it costs, what would
//! be better; acting on it.

#![forbid(unsafe_code)]

pub mod placement;
