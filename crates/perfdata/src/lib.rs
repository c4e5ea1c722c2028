//! The perf.data format: writing, reading and ordering by time.
//!
//! [`writer`] turns attributes, ids and features into the bytes of a file and says where they go; it does no I/O, so
//! that the recorder can decide when and from which thread bytes are written. [`reader`] reads such files, including
//! perf's, in order of time. [`info`] is pmuscope's own metadata in a recording, [`strobe`] the part of it that
//! identifies windows, [`watch`] the part that describes hits of watchpoints, [`allocations`] what samples of allocator
//! functions carry.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod allocations;
mod clock_data;
pub mod info;
mod info_file;
mod memory_nodes;
pub mod reader;
pub mod strobe;
pub mod watch;
pub mod writer;

pub use clock_data::ClockData;
pub use info_file::read_info;
pub use memory_nodes::MemoryNodes;

/// The program of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
