//! The memory limit of reading, for all readers of this program.
//!
//! A recording from elsewhere can demand any amount: records that have to wait for older ones, names, mappings.
//! What is held of them is bounded by parts of one limit, which the program sets by what its machine has to spare.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The limit where none is set, bytes.
pub const DEFAULT_MEMORY: usize = 1 << 30;
/// With less nothing can be read, bytes.
const LEAST: usize = 64 << 20;
/// The sideband needs no more, whatever there is: with more the file is read in order.
const MOST_SIDEBAND: usize = 256 << 20;

static LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT_MEMORY);

/// Sets the limit, bytes; it holds for readers that are opened from now on.
pub fn limit_memory(bytes: usize) {
    LIMIT.store(bytes.max(LEAST), Ordering::Relaxed);
}

/// The limit, bytes: for all that is kept of a recording while it is read.
#[must_use]
pub fn memory_limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Bytes that records may take that wait to be put in order.
#[must_use]
pub fn order_limit() -> usize {
    memory_limit() / 2
}

/// Bytes that records about tasks and mappings may take in the first pass.
pub(super) fn sideband_limit() -> usize {
    (memory_limit() / 4).min(MOST_SIDEBAND)
}
