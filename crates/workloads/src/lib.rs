//! Programs under test whose behaviour is known, so that a measurement of them can be checked.
//!
//! - [`mix`]: three functions with set shares of CPU time; tells the true shares by its own clock.
//! - [`stencil`]: all threads in step, a barrier after each sweep, so that one thread held up
//!   holds up all; tells time and operations per second by its own clock.
//! - [`command`]: any other program; tells what it used.
//!
//! Each runs to its end in the calling process and hands back [`Facts`].

#![forbid(unsafe_code)]

pub mod command;
mod error;
mod facts;
pub mod mix;
mod place;
pub mod stencil;

pub use error::WorkloadError;
pub use facts::{Facts, FunctionFacts, SCHEMA, StencilFacts};
