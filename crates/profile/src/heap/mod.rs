//! Heap objects by allocation site, from recordings with calls of allocator functions (`pmuscope record --alloc`).
//!
//! ```text
//!  records, by time ─┬─ calls and returns ─► pairs ─► HeapMap, as of now
//!                    └─ other samples with an address of data ─► which object has it?
//!  then              stacks of the objects that were found get names; the first frame of the program is the site
//! ```
//! It takes one pass in order over the recording, on one CPU. Only objects that reach into the memory that is asked for
//! are kept, and only their stacks are unwound.

mod accessed;
mod calls;
mod map;
mod pass;
mod sites;

pub use accessed::AccessedObjects;
pub use map::{HeapMap, HeapObject};
pub(crate) use pass::{HeapPass, HeapRecords, WantedMemory};
pub use sites::AllocationStack;
pub(crate) use sites::name_stacks;

use pmuscope_perfdata::allocations::HeapEvent;
use pmuscope_perfdata::reader::Event;

/// Allocations of a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllocationCounts {
    /// Allocations of all processes.
    pub allocations: u64,
    /// Returns whose call is not there: objects without a name.
    pub unpaired: u64,
    /// Allocations that were not kept, as there were too many objects.
    pub left_out: u64,
    /// Records that were lost while allocations were recorded.
    pub lost: u64,
}

/// Whether a recording has allocations.
#[must_use]
pub fn has_allocations(events: &[Event]) -> bool {
    let has = |wanted| events.iter().any(|event| HeapEvent::of(event) == Some(wanted));
    has(HeapEvent::Call) && has(HeapEvent::Return)
}
