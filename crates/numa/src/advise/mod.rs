//! What would be better for a process, and why: compact, spread, interleave, or leave alone.
//!
//! ```text
//! threads, pages (observe) ──┐
//! busy CPUs of nodes ────────┼─► Evidence ─► judge ─► Advice ─► commands to try
//! sampled minor faults ──────┘    a value      a function of it alone
//! ```
//!
//! Locality alone does not tell: memory of private use, spread over nodes with its threads, has a locality of
//! one over the number of nodes, and is where it should be. So who faults on which page is sampled, and
//! whether the page was there before ([`faults`]).

mod commands;
mod evidence;
pub mod faults;
mod gather;
mod judge;
pub mod sharing;

pub use commands::{Suggestion, commands};
pub use evidence::{Evidence, NodeEvidence};
pub use gather::{Cost, Gathered, Options, gather};
pub use judge::{Advice, AdviceReason, Lack, Verdict, judge};
