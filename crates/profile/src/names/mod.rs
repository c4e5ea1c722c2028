//! Counted addresses to functions, and counts to the [`Aggregate`](crate::aggregate::Aggregate).
//!
//! ```text
//!  counts: distinct places ─► naming: one symbol each ─► paths: frames ─► assemble: stacks, cells
//! ```

mod assemble;
pub(crate) mod naming;
mod paths;
