//! What [`super::run`] sees and acts on: this machine, or a simulated one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::judge::Judge;
use super::owed::Owed;
use super::view::View;

/// A block of time.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeBlock {
    /// What was seen in it.
    pub view: View,
    /// How fast the processes went in it, in whatever unit the judge has; more is better. `None` if that was
    /// not measured.
    pub speed: Option<f64>,
}

/// Where pages are to go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "goal")]
pub enum Goal {
    /// Those on one node to another; numbers of nodes.
    To {
        /// From this node.
        from: u32,
        /// To this one.
        to: u32,
    },
    /// All of them to these nodes in turn, as [`super::Turns`] says.
    Interleave {
        /// Numbers of nodes.
        nodes: Vec<u32>,
    },
    /// Those on one node back to the nodes where they were.
    Back {
        /// From this node.
        from: u32,
        /// Bytes to move to each node.
        owed: Owed,
    },
}

/// What one call moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slice {
    /// Bytes moved, by (from, to).
    pub moved: Vec<((u32, u32), u64)>,
    /// Bytes that did not move: in use, shared with others, no room.
    pub refused: u64,
    /// There is nothing more to move.
    pub done: bool,
}

impl Slice {
    /// Bytes moved.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.moved.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Why to end before all is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Somebody asked: a signal.
    Asked,
    /// The time is up.
    Time,
    /// All processes have ended.
    Gone,
}

/// What sees and acts.
pub trait World {
    /// What can go wrong.
    type Error: std::error::Error;

    /// Whether an error only says that the process has ended: that is no refusal.
    fn is_gone(_error: &Self::Error) -> bool {
        false
    }

    /// Time since it began.
    fn now(&self) -> Duration;

    /// What speed is judged by.
    fn judge(&self) -> Judge;

    /// Whether to end now.
    fn stop(&mut self) -> Option<Stop>;

    /// Watches for this long, less if [`World::stop`] says so meanwhile. Processes that have ended are not in
    /// the view any more.
    ///
    /// # Errors
    /// Nothing can be seen at all.
    fn observe(&mut self, length: Duration) -> Result<TimeBlock, Self::Error>;

    /// Lets time pass, less if [`World::stop`] says so meanwhile.
    fn wait(&mut self, length: Duration);

    /// Time until [`World::stop`] says that the time is up; `None` without a limit.
    fn left(&self) -> Option<Duration>;

    /// Lets time pass also after [`World::stop`] said to end: pages of a change that was not kept go back. False once
    /// the processes are gone, or somebody who had asked to end asks again.
    fn wait_for_undo(&mut self, length: Duration) -> bool;

    /// Lets all threads of a process run on these nodes only, as far as it was allowed there before. Tells
    /// how many threads it has.
    ///
    /// # Errors
    /// That process cannot be pinned; others may.
    fn pin(&mut self, pid: u32, nodes: &[u32]) -> Result<usize, Self::Error>;

    /// Lets the threads of a process run where they could before.
    ///
    /// # Errors
    /// As [`World::pin`].
    fn unpin(&mut self, pid: u32) -> Result<(), Self::Error>;

    /// Moves no more than so many bytes of a process. `cursor` starts at 0 and says how far earlier calls with
    /// the same goal came. Every call gets further, or is done.
    ///
    /// # Errors
    /// That process's pages cannot be moved; others' may.
    fn move_slice(
        &mut self,
        pid: u32,
        goal: &Goal,
        cursor: &mut u64,
        bytes: u64,
    ) -> Result<Slice, Self::Error>;
}
