//! The only crate that calls `perf_event_open(2)`.
//!
//! ```text
//!  Scope ─┐
//!         ├─► SamplingSet::open ──► one ring per CPU (or thread), all events of that CPU write to it
//!  Event ─┘        │
//!                  └─► enable · disable · read (count, enabled, running, lost)
//!
//!         CountingSet::open ──► no ring: descriptors to read
//!         OwnGroup::open ─────► of this thread: counters to read without a system call where allowed
//! ```
//!
//! The kernel is reached through the trait [`Kernel`]; [`Host`] is the real one, [`fake::FakeKernel`] a
//! table for tests. `unsafe` is in `sys.rs` (system calls, the mapped ring), `page/sys.rs` (counters
//! read in user space) and `spawn/sys.rs` (fork).

#![deny(missing_docs)]
mod counting;
mod error;
pub mod fake;
mod host;
mod kernel;
mod limits;
mod open;
mod page;
mod probe;
mod ring;
mod scope;
mod self_monitoring;
pub mod spawn;
mod sys;
mod trial;
mod value;

pub use counting::{CountingSet, Reading};
pub use error::{CountersError, errno_name, open_refusal};
pub use host::Host;
pub use kernel::Kernel;
pub use limits::{ResourceNeed, raise_open_files};
pub use open::{EventRequest, OpenOptions, OpenedEvent, RingSize, SamplingSet, offline_notice};
pub use page::EventPage;
pub use probe::probe;
pub use ring::{Pending, Ring};
pub use scope::Scope;
pub use self_monitoring::{MAX_OWN_EVENTS, OwnCounts, OwnGroup};
pub use sys::RingMemory;
pub use trial::{Fit, try_group};
pub use value::Value;

/// The program of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
