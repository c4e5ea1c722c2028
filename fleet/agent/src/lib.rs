//! Always-on recording of one host.
//!
//! ```text
//!  live::Ticker ─► Profile of a bin ─► rows by service ─► spool (bounded, on disk) ─► sinks: a folder, S3
//!                                        ▲                  oldest samples dropped,      pmuscope-delivery: whole
//!                  /proc/PID/cgroup ─────┘                  and counted                  files, each there once
//!  now and then, a process of its own: pmuscope-measurements ─► rows ──┘
//! ```
//! Nothing is lost silently: a bin is in the spool before it is delivered, files have names that follow from host, boot
//! and bin, so that what is delivered twice is there once, and what was dropped is a number in the table `agent`.

#![forbid(unsafe_code)]

mod agent;
mod config;
mod health;
mod known_stacks;
mod rate;
mod schedule;
mod spool;

pub use agent::{AgentEnd, AgentError, BinReport, RunOptions, Wish, run};
pub use config::{AgentConfig, ConfigError, SinkConfig, SpoolConfig};
pub use spool::{Backlog, Delivery, Spool, SpoolError};
