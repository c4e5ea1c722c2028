//! How many distinct stacks the trees of one reading may hold.
//!
//! A recording of ten million distinct stacks would take all memory. So the trees of all threads share room for a limited
//! number of nodes, and each takes some of it when it needs more:
//!
//! ```text
//!  room    ███████░░░░░░░░░  ─┬─ CHUNK ─► tree of thread 1
//!                             └─ CHUNK ─► tree of thread 2
//! ```
//! Where nothing is left, stacks that are in a tree are still counted as before. A sample with any other counts for where
//! it was taken, without its callers, and is counted as such.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pmuscope_perfdata::reader::memory_limit;

/// Bytes that a node takes until its stack is in the profile: with its counts, and what puts them in order (measured: 76
/// where nearly each node has samples, docs/benchmarks.md).
const BYTES_OF_NODE: usize = 80;
/// Nodes that are taken at a time.
const CHUNK: usize = 256;

/// Room for nodes, shared by all its copies.
#[derive(Debug, Clone)]
pub(crate) struct StackRoom {
    left: Arc<AtomicUsize>,
}

impl StackRoom {
    /// As many as the [memory limit](memory_limit) has room for.
    pub(crate) fn of_memory() -> Self {
        Self::of_nodes(memory_limit() / BYTES_OF_NODE)
    }

    pub(crate) fn of_nodes(nodes: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(nodes)) }
    }

    /// Takes room for some nodes: 0 where none is left.
    pub(crate) fn take(&self) -> usize {
        let take = |left: usize| Some(left.saturating_sub(CHUNK));
        // It is a number and guards nothing else.
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(before) => before.min(CHUNK),
            Err(_) => 0,
        }
    }
}
