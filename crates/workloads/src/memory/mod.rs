//! Processes and threads that go through memory: shared by all, by a process, or private; as fast as the machine
//! can, in any order, wherever they are put. For measuring memory and how it is placed.
//!
//! ```text
//! parent: control file ── starts ──► process 0 … P-1: map ─► threads: place, touch ─► wait ─┐
//!           ▲   ▲                                                                           │
//!   reads ──┘   └── all ready: go at this time ─────────────────────────────────────────────┘
//! a watcher (pread)                         thread: piece of memory ─► record ─► time? ─► …
//! ```
//!
//! - **A round** of a thread: once through all memory that it uses, first what all share, then its process's,
//!   then its own. What is shared every thread goes through as a whole, each from another place on.
//! - **Bytes** are those loaded and stored: what is read and written counts twice. A chase loads from each cache
//!   line once, and counts lines.
//! - **Speed** of a thread is its bytes by its own time; of all, their bytes by the time from the first start to
//!   the last end. **Spread**: the fastest thread's speed less the slowest's, as a share of the fastest's.
//! - An emulated machine has no speed: its times are the emulator's.

mod areas;
pub mod control;
mod loops;
mod options;
mod order;
mod parent;
mod process;
mod room;
mod sum;
mod sys;
mod tasks;
mod worker;

pub use options::{Access, BATCH, FirstTouch, Init, LINE, Options, Order, Sizes, Thp};
pub use parent::{run, run_held};
pub use process::attach;
pub use tasks::parse_tasks;

/// Name on the command line.
pub const NAME: &str = "memory";
