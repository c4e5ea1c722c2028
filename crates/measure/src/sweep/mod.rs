//! Counting more events than fit, by running again in place of taking turns.
//!
//! ```text
//!  events ─► schedule ─► runs, each with what is counted in it     round 1   round 2 …
//!                          1  cycles instructions │ a b c            3         1
//!                          2  cycles instructions │ d e f            1         2     in random order
//!                          3  cycles instructions │ g, faults        2         3
//! ```
//!
//! In every run the references are counted too: their [drift] over the runs tells how far figures of
//! different runs belong together.

mod drift;
mod run;
mod schedule;

pub use drift::drifts;
pub use run::{After, GROUP, Sweep};
pub use schedule::{Schedule, UncountedEvent, schedule};
