//! What was seen, decided, done and why: one line each.

use serde::Serialize;

use super::decide::Decision;
use super::judge::{BeforeAfter, Judge};
use super::summary::Ended;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogLine {
    /// Seconds since the beginning.
    pub t: f64,
    /// What happened.
    #[serde(flatten)]
    pub event: LogEvent,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum LogEvent {
    /// It begins.
    Began {
        /// What changes are judged by.
        judge: Judge,
        /// Whether speed is measured, so that "not slower" can be claimed.
        judges_speed: bool,
        /// Bytes per second that may be moved.
        budget: u64,
    },
    /// What the last blocks amount to, and what is to be done.
    Decided {
        /// Number of the decision.
        round: u64,
        /// Locality of all processes together; `None` if none has memory and ran.
        locality: Option<f64>,
        /// CPUs wanted on each node.
        load: Vec<f64>,
        /// What to do, and why.
        plan: Decision,
    },
    /// A process's threads may run on these nodes only.
    Pinned {
        /// The process.
        pid: u32,
        /// Numbers of nodes.
        nodes: Vec<u32>,
        /// Threads that it has.
        threads: usize,
    },
    /// A process's threads may run where they could before.
    Unpinned {
        /// The process.
        pid: u32,
    },
    /// Pages were moved: by the time of this line.
    Moved {
        /// The process.
        pid: u32,
        /// From this node.
        from: u32,
        /// To this node.
        to: u32,
        /// Bytes.
        bytes: u64,
    },
    /// Pages did not move.
    Stayed {
        /// The process.
        pid: u32,
        /// Bytes.
        bytes: u64,
    },
    /// The system refused; the process is left alone from now on.
    Refused {
        /// The process.
        pid: u32,
        /// What it said.
        why: String,
    },
    /// A process's pages go back and forth; it is left alone from now on.
    PingPong {
        /// The process.
        pid: u32,
        /// What was seen.
        why: String,
    },
    /// What changed for one process.
    Judged {
        /// The process; `None`: all together.
        pid: Option<u32>,
        /// What was compared.
        by: Judge,
        /// After against before.
        comparison: BeforeAfter,
    },
    /// What was done to a process stays.
    Kept {
        /// The process.
        pid: u32,
        /// Why.
        why: String,
    },
    /// What was done to a process is undone.
    Undone {
        /// The process.
        pid: u32,
        /// Why.
        why: String,
        /// Bytes that are to go back to where they were.
        bytes: u64,
    },
    /// It is over.
    Over {
        /// Why.
        why: Ended,
    },
}
