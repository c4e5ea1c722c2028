//! Always-on recording of one host.
//!
//! ```text
//!  live::Ticker ─► Profile of a bin ─► rows by service ─► spool (bounded, on disk) ─► sinks: a folder, S3
//!                                        ▲                  oldest samples dropped,      pmuscope-delivery: whole
//!                  /proc/PID/cgroup ─────┘                  and counted                  files, each there once
//!  now and then, a process of its own: a recording of waits ─► rows ─┘
//! ```
//! Nothing is lost silently: a bin is in the spool before it is delivered, files have names that follow from host, boot
//! and bin, so that what is delivered twice is there once, and what was dropped is a number in the table `agent`.

#![forbid(unsafe_code)]

mod agent;
mod config;
mod delivery_name;
mod health;
mod off_cpu;
mod rate;
mod schedule;
mod service;
mod spool;

pub use agent::{AgentEnd, AgentError, BinReport, RunOptions, Wish, run};
pub use config::{AgentConfig, ConfigError, OffCpuConfig, SinkConfig, SpoolConfig};
pub use off_cpu::{OffCpuSummary, record_off_cpu};
pub use service::{CgroupIdentity, Services};
pub use spool::{Backlog, Delivery, Spool, SpoolError};
