//! Counts events in regions of a program: per entry, per packet, per row.
//!
//! ```no_run
//! use pmuscope_region::{self as region, Unit};
//!
//! fn main() -> Result<(), region::RegionError> {
//!     let set = region::setup(&["instructions:u", "cycles:u"])?;
//!     let parse = set.region("parse");
//!     for block in 0..1000 {
//!         let mut entry = parse.enter(); // counts from here …
//!         let rows = block % 7; // … the work …
//!         entry.did(rows as f64);
//!     } // … to here
//!     println!("{}", set.report(&[Unit::done("row")]));
//!     Ok(())
//! }
//! ```
//!
//! - [`setup`] verifies that the events can be counted together, enabled 100%; what this machine cannot
//!   count is [refused](CounterSet::refused) with the reason, and `-` in every report.
//! - [`CounterSet::region`] names a region, [`Region::enter`] counts until its [`Entry`] is dropped.
//!   Regions nest; each thread has counters of its own, which its first entry opens.
//! - [`CounterSet::switch_to`] stops the counters of the thread's current set and starts those of another:
//!   two sets can alternate on all counters without multiplexing by the kernel.
//! - [`measure`] is one region around one function; [`CounterSet::report`] gives counts per entry and per
//!   unit of work with their 95% CI, how they were read, and the overhead of reading them.
//!
//! Counters are read without a system call where the kernel allows it (`rdpmc` on x86, user access on
//! arm64), else by `read(2)`; the report says which. Migration between CPUs and descheduling need no
//! special handling: the kernel counts per thread. If the pinned counters of another program displace a
//! group, its counts are not scaled up: entries that were not counted all of the time are left out, and
//! the report says how many.
//!
//! Limits: children are not counted, nor is what other threads do during a thread's region. In a forked
//! child a set of its parent counts nothing: create a new one there. Signal handlers must not enter a
//! region; one that does is not counted.

#![deny(missing_docs)]
mod blocks;
mod calibrate;
mod error;
mod report;
mod set;
mod sys;
mod tally;
mod text;
mod thread;

pub use error::RegionError;
pub use report::{EventRow, Figure, How, Overhead, RegionReport, Report, SCHEMA, Unit, UnitReport};
pub use set::{CounterSet, Options, Refused, Region};
pub use thread::{Entry, OwnedEntry, switch_off};

/// Verifies that `events` (perf's syntax, one or several in each string) can be counted together on
/// this machine, and starts them in the calling thread.
///
/// # Errors
/// [`RegionError`]: a string is not an event, none of the events can be counted here, or there are more
/// than the machine has counters.
pub fn setup(events: &[&str]) -> Result<CounterSet, RegionError> {
    CounterSet::new(events, Options::default())
}

/// Counts `events` while `work` runs, once; see [`setup`].
///
/// # Errors
/// As [`setup`]; `work` has not run then.
pub fn measure<R>(work: impl FnOnce() -> R, events: &[&str]) -> Result<(R, Report), RegionError> {
    let set = setup(events)?;
    let region = set.region("measure");
    let entry = region.enter();
    let result = work();
    drop(entry);
    Ok((result, set.report(&[])))
}

/// Counts into `set` in this thread from now on; see [`CounterSet::switch_to`].
///
/// # Errors
/// As [`CounterSet::switch_to`].
pub fn switch_to(set: &CounterSet) -> Result<(), RegionError> {
    set.switch_to()
}

/// What the current set of this thread has counted so far, in all threads; see [`CounterSet::report`].
///
/// # Errors
/// [`RegionError::NoSet`] if this thread counts for none.
pub fn report(units: &[Unit]) -> Result<Report, RegionError> {
    thread::current().map(|set| set.report(units)).ok_or(RegionError::NoSet)
}

/// Whether hardware counters can be read here, for user code of this process at least. Events that the
/// kernel counts (`task-clock`, `page-faults`, `context-switches`) work without.
///
/// # Errors
/// [`RegionError`] with the reason, and what to type where that helps.
pub fn is_available() -> Result<(), RegionError> {
    set::try_out(&["cycles:u"], Options::default()).map(drop)
}

/// The program of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
