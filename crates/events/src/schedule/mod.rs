//! Scheduling of events to counters: which events can be counted at the same time, and how few runs
//! count them all without taking turns.
//!
//! A unit has few counters, and not every event can use every one: [`Constraint`] says what an event
//! needs, [`Shape`] what a unit has, [`plan`] spreads events over runs, and [`prove`] tries each group
//! on the machine.
//!
//! ```text
//! plan(shapes, references, events)
//!
//!               run 1                        run 2                        run 3
//! cpu           F0 instructions (reference)  F0 instructions (reference)  F0 instructions (reference)
//!               F1 cycles       (reference)  F1 cycles       (reference)  F1 cycles       (reference)
//!               0  l2_rqsts.miss             0  offcore v=0x10001 [1a6]   3  load_latency_gt_8 [3f6=8]
//!               2  l1d_pend_miss             1  offcore v=0x10002 [1a7]      taken alone: 0 to 2 stay free
//!               3  load_latency_gt_4 [3f6=4] 2  l2_trans.rfo
//! uncore_imc_0  0  cas_count_read            -                            -
//!
//! refused       frontend_retired…: it counts only on general counter 5, and cpu has 0 to 3
//! ```
//!
//! A run is one execution of what is measured. In each run a unit has at most one group, since two
//! would take turns on its counters; groups of different units are open at the same time. Each group
//! names the counter of every event, and so is its own proof: no counter twice, each one allowed.
//!
//! The counters alone are a matching problem, solved exactly for all groups at once. Extra registers
//! (one value each) and events that are taken alone are placed before, by a search that begins at a
//! number of groups below which none can do, and is bounded: [`EventPlan::least`] says how far from it the
//! plan can be. Kernels place events more simply than by matching; so a group that they leave off its
//! counters is not an error of the plan, and [`prove`] splits it.
//!
//! ```
//! use pmuscope_events::schedule::{Constraint, Request, Shape, plan};
//!
//! // Four general counters and two fixed ones, of which cycles and instructions have one each.
//! let cpu = Shape { fixed: 0b11, ..Shape::new("cpu", 4) };
//! let on = |constraint| Request { unit: 0, constraint };
//! let references = [on(Constraint::any().or_fixed(1)), on(Constraint::any().or_fixed(0))];
//! let events = vec![on(Constraint::any()); 9];
//! let plan = plan(&[cpu], &references, &events);
//! assert_eq!(plan.runs.len(), 3);
//! assert_eq!(plan.least, 3);
//! ```

mod fill;
mod group;
mod pack;
mod plan;
mod prove;
mod shape;

pub use plan::{EventPlan, PlannedGroup, Refused, RefusedBecause, Run, Slot, plan};
pub use prove::{Trial, prove};
pub use shape::{Constraint, Counter, Extra, Request, Shape};
