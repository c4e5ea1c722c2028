//! Always-on recording of one host.
//!
//! ```text
//!  live::Ticker ─► Profile of a bin ─► rows by service ─► spool (bounded, on disk) ─► sink: a folder
//!                                        ▲                  oldest samples dropped,      written under another name,
//!                  /proc/PID/cgroup ─────┘                  and counted                  then linked: whole or not there
//! ```
//! Nothing is lost silently: a bin is in the spool before it is delivered, files have names that follow from host, boot
//! and bin, so that what is delivered twice is there once, and what was dropped is a number in the table `agent`.

#![forbid(unsafe_code)]

mod agent;
mod config;
mod rate;
mod service;
mod sink;
mod spool;

pub use agent::{AgentEnd, AgentError, BinReport, Wish, run};
pub use config::{AgentConfig, ConfigError};
pub use service::{CgroupIdentity, Services};
pub use sink::{FolderSink, SinkError};
pub use spool::{Backlog, Spool, SpoolError};
