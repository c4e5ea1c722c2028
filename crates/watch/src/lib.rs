//! Watchpoints: which fit on the hardware, before any is opened.
//!
//! A CPU has few registers for addresses to stop at ([`slots`]), and the kernel takes one for each
//! breakpoint when it is opened, even while it is disabled. What does not fit ends in ENOSPC, without a
//! word about who holds what. Here is the kernel's arithmetic as a library, so that a plan can be made
//! first.
//!
//! What users type ([`target`]) becomes addresses in a process ([`resolve`]).

#![forbid(unsafe_code)]

pub mod argument;
pub mod condition;
mod cost;
mod hits;
pub mod kernel;
mod pace;
pub mod plan;
pub mod points;
pub mod prepare;
mod program;
pub mod resolve;
pub mod session;
pub mod slots;
pub mod target;

pub use pace::ALLOWANCE_NS;
