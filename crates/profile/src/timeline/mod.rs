//! What happened besides samples, by time: who ran, what was mapped where, what was lost.
//!
//! ```text
//!  sideband records ─► Tasks ─► Spaces (address spaces)      epochs: one per change
//!                        │         │
//!                        ▼         ▼
//!       Lookup: History (any time) or Current (now) ◄─ Finder, which keeps the last answers ◄─ samples
//! ```

pub(crate) mod areas;
pub(crate) mod blocks;
pub(crate) mod finder;
pub(crate) mod lookup;
pub(crate) mod loss;
pub(crate) mod modules;
pub(crate) mod sideband;
pub(crate) mod spaces;
pub(crate) mod tasks;
pub(crate) mod visit;
