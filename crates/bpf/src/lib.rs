//! Programs for the kernel's BPF machine, assembled at run time: no compiler, no object file.
//!
//! ```text
//!  Assembler ─► instructions ─┐
//!                             ├─► Program::load ─► a descriptor that an event can be given
//!  Map, RingBuffer ───────────┘        │
//!     ▲                                └ refused: what the verifier said
//!     └─ read and written from here while the program runs
//! ```
//!
//! This crate knows instructions (`Documentation/bpf/standardization/instruction-set.rst`), maps and ring
//! buffers, but not what programs are for. Loading object files would require a compiler on the user's
//! machine; the programs here depend on what the user asks for.

#![deny(missing_docs)]
mod assembler;
mod error;
mod map;
mod program;
mod ring;
mod sys;

pub use assembler::{Alu, Assembler, Compare, Helper, Label, Operand, Register, Width};
pub use error::BpfError;
pub use map::{Map, MapEntry, PerCpuScratch};
pub use program::Program;
pub use ring::RingBuffer;

/// The program of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
