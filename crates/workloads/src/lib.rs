//! Programs under test whose behavior is known, so that a measurement of them can be checked.
//!
//! - [`function_mix`]: functions that each do one thing, with known instructions, in an order that never
//!   repeats; any of them alone.
//! - [`mix`]: three functions with set shares of CPU time; tells the true shares by its own clock.
//! - [`stencil`]: all threads in step, a barrier after each sweep, so that one thread held up
//!   holds up all; tells time and operations per second by its own clock.
//! - [`exact`]: a loop with a known number of instructions.
//! - [`orders`]: a small order service, for a profile that shows what a reader recognizes.
//! - [`memory`]: processes and threads that go through memory, as fast as the machine can, wherever they are.
//! - [`ring`]: packets through a ring in shared memory, within a process or between two.
//! - [`crowd`]: threads that are created, wait and end, with nothing around them.
//! - [`waits`]: threads that sleep, wait for a futex and for a pipe, for set times, woken by a known thread.
//! - [`command`]: any other program; tells what it used.
//!
//! Each but [`crowd`] runs to its end in the calling process and hands back [`WorkloadFacts`].

pub mod command;
pub mod crowd;
mod error;
pub mod exact;
mod facts;
pub mod function_mix;
pub mod memory;
pub mod mix;
pub mod orders;
mod place;
pub mod ring;
mod shared;
pub mod stencil;
pub mod waits;

pub use error::WorkloadError;
pub use facts::{
    FunctionFacts, LoadTimes, MemoryFacts, MemoryProcess, MemoryThread, MixFacts, MixFunction,
    OrdersFacts, RingFacts, SCHEMA, StencilFacts, WaitingThread, WaitsFacts, WorkloadFacts,
};
