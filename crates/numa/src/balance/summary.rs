//! What came of balancing: of each process, and why it is over.

use serde::Serialize;

use super::budget::TooSmall;
use super::decide::Decision;
use super::judge::Judge;
use super::world::Stop;

/// Why it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Somebody asked.
    Asked,
    /// The time is up.
    Time,
    /// All processes have ended.
    Gone,
    /// Nothing was left to change.
    Settled,
    /// Only a plan was asked for.
    DryRun,
    /// Pages of every process that is left go back and forth.
    PingPong,
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Asked => Self::Asked,
            Stop::Time => Self::Time,
            Stop::Gone => Self::Gone,
        }
    }
}

/// What came of a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProcessSummary {
    /// Its id.
    pub pid: u32,
    /// Locality as found: the mean over the first blocks. `None` if it has no memory or did not run.
    pub before: Option<f64>,
    /// Locality in the last blocks that it was there for.
    pub after: Option<f64>,
    /// Bytes moved, those that were moved back included.
    pub moved: u64,
    /// Bytes that did not move.
    pub stayed: u64,
    /// Bytes of changes that were not kept and have not gone back to where they came from.
    pub not_back: u64,
    /// Nodes that its threads are on as the last decision left it; `None`: they were left alone.
    pub nodes: Option<Vec<u32>>,
    /// Why it was left alone by the last decision; `None`: it was not, or there was none.
    pub reason: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BalanceSummary {
    /// What changes were judged by.
    pub judge: Judge,
    /// Why it is over.
    pub ended: Ended,
    /// Seconds.
    pub seconds: f64,
    /// Decisions.
    pub rounds: u64,
    /// Changes to processes that were kept.
    pub kept: u64,
    /// Changes to processes that were undone.
    pub undone: u64,
    /// Each process, in the order in which they were seen first.
    pub processes: Vec<ProcessSummary>,
    /// The last plan.
    pub plan: Decision,
}

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BalanceError<E: std::error::Error> {
    /// The budget.
    #[error(transparent)]
    Budget(#[from] TooSmall),
    /// Nothing could be seen.
    #[error(transparent)]
    World(E),
}
