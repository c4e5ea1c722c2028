//! Samples to counts, before addresses have names.
//!
//! ```text
//!  sample ─► TaskCache: group ─┐
//!         └► place, or Callers, NamedChains: node of a tree ─┴─► Cells: counts in one block of time ─► Log
//! ```
//! [`collect`] says in which passes that happens.

pub(crate) mod address_to_stack;
pub(crate) mod callers;
pub(crate) mod cells;
pub(crate) mod chains;
pub(crate) mod code_lines;
pub(crate) mod collect;
pub(crate) mod counter;
pub(crate) mod group;
pub(crate) mod log;
pub(crate) mod merge;
pub(crate) mod named_chains;
pub(crate) mod sample_log;
pub(crate) mod sampled_addresses;
pub(crate) mod stack_room;
pub(crate) mod task_cache;
pub(crate) mod tree;
pub(crate) mod unwinding;
