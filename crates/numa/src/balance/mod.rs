//! Deciding what would be better, and doing it with care.
//!
//! ```text
//!  View ─► decide ─► Plan ─► pin, move in slices ─► View ─► judge ─► keep, or undo
//!  (mean of blocks)   │       (budget)                        │
//!                     └ held back: ping-pong, no gain ◄───────┘
//! ```
//!
//! Decisions are pure functions of what was seen ([`decide()`]); what sees and acts is a [`World`], real or
//! simulated, so that the whole of it ([`run`]) can be tried on machines that nobody has.

mod assign;
mod budget;
mod decide;
#[cfg(test)]
mod decide_tests;
mod judge;
mod left_alone;
mod log;
mod owed;
mod ping_pong;
mod session;
mod summary;
mod trial;
mod turns;
mod view;
mod world;

pub use budget::{Budget, TooSmall};
pub use decide::{Action, Decision, Knowledge, Outlook, decide};
pub use judge::{BeforeAfter, Judge, LOCALITY_STEP, SpeedVerdict, compare_shares, compare_speed};
pub use log::{LogEvent, LogLine};
pub use owed::Owed;
pub use ping_pong::{BackAndForth, PingPong};
pub use session::{Options, run};
pub use summary::{BalanceError, BalanceSummary, Ended, ProcessSummary};
pub use turns::Turns;
pub use view::{NodeView, ProcessView, Sharing, ThreadView, View};
pub use world::{Goal, Slice, Stop, TimeBlock, World};

/// `node 1`, or `nodes 0, 1`.
#[must_use]
pub fn names(nodes: &[u32]) -> String {
    let numbers: Vec<String> = nodes.iter().map(u32::to_string).collect();
    let word = if nodes.len() == 1 { "node" } else { "nodes" };
    format!("{word} {}", numbers.join(", "))
}
