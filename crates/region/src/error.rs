//! Why regions cannot be counted.

use pmuscope_counters::{CountersError, MAX_OWN_EVENTS};
use pmuscope_events::EventError;
use pmuscope_machine::MachineError;

use crate::set::Refused;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// A string is not an event.
    #[error(transparent)]
    Event(#[from] EventError),
    /// What the machine has could not be read.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Counters could not be opened, started or stopped.
    #[error(transparent)]
    Counters(#[from] CountersError),
    /// No event was named.
    #[error("no event to count. Try: task-clock, page-faults or instructions:u")]
    NoEvents,
    /// None of the events can be counted here.
    #[error("none of the events can be counted: {}", list(.0))]
    Refused(Vec<Refused>),
    /// The events cannot be on the counters at the same time.
    #[error(
        "{} cannot be counted at the same time; {fits} of them can, and regions do not multiplex. \
         Try: a second set for the others, and switch_to between them", .events.join(", ")
    )]
    NotTogether {
        /// Their names.
        events: Vec<String>,
        /// How many of them can be, counted from the first.
        fits: usize,
    },
    /// More events than a set may have.
    #[error("{0} events: a set counts at most {MAX_OWN_EVENTS}. Try: a second set")]
    TooMany(usize),
    /// Counters could not be opened in this thread, now or before.
    #[error("{0}")]
    Thread(String),
    /// Regions of this thread are open.
    #[error("cannot change counters while {0} regions of this thread are open: leave them first")]
    RegionOpen(u32),
    /// This thread counts for no set.
    #[error("this thread counts for no set. Try: enter a region, or switch_to a set")]
    NoSet,
    /// The set is of the process that forked this one.
    #[error("this set was created before fork. Try: create a new one in the child")]
    Forked,
}

fn list(refused: &[Refused]) -> String {
    let each = refused.iter().map(|one| format!("{}: {}", one.event, one.why));
    each.collect::<Vec<_>>().join("; ")
}
