//! Event names to attributes: generic, sysfs PMU, raw, tracepoint, breakpoint; modifiers and groups.
//!
//! [`parse`] turns the text of `-e` into [`Group`]s of [`Event`]s, each with the [`Attr`](pmuscope_abi::Attr) that selects
//! it. What an event is comes from the name; how it is sampled (fields, ring, inheritance) is decided
//! by whoever opens it, except for what the text itself asks (`period=`, `freq=`, `call-graph=`, …).
//!
//! The road: the text is split into pieces that know their place, [`names`] and [`Format`] turn pieces
//! into numbers, and whatever does not fit becomes an [`EventError`] that names
//! the piece, its position, the reason and what to type instead.
//!
//! [`schedule`] spreads events over as few runs as count them all without taking turns. [`topdown`] has the
//! formulas of top-down analysis.
//!
//! No system call is made here: what the machine has is asked of a [`Catalog`].

#![forbid(unsafe_code)]

mod branch;
mod breakpoint;
mod catalog;
mod default;
mod describe;
mod error;
mod event;
mod format;
mod glob;
mod group;
pub mod inventory;
mod known_cpus;
mod list;
pub mod lists;
mod memory_accesses;
pub mod metrics;
mod modifiers;
pub mod names;
mod naming;
mod pmu;
mod resolve;
pub mod schedule;
mod suggest;
mod syntax;
mod terms;
pub mod topdown;
mod tracepoint;

pub use branch::{BranchFilterError, parse_branch_filter};
pub use catalog::{Catalog, MachineCatalog};
pub use default::{Notice, default_event};
pub use describe::describe;
pub use error::{EventError, Reason};
pub use event::{CallGraph, Event, Group, Origin, Sampling};
pub use format::{Format, Word};
pub use known_cpus::{KnownCatalog, KnownCpu};
pub use list::{Known, NameKind, list_known};
pub use memory_accesses::{
    LEAST_LATENCY, NoMemoryEvents, memory_event_texts, memory_events, memory_population,
};
pub use resolve::{parse, split};
