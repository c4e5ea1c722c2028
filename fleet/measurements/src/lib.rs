//! What a host measures now and then: what is too expensive to be measured all the time.
//!
//! ```text
//!  Measurement ── measure(context, folder) ─► rows as a dataset in the folder ─► MeasurementSummary
//!   off_cpu    records every context switch ──────────► waits, and stacks by time off the CPU
//!   windows    counter windows of functions (a PMU) ──► sums by function and event
//!   counts     perf events of each service's cgroup ──► counts by service
//!   locality   pages and running time by NUMA node ───► memory by service and node
//!      each: /proc/PID/cgroup ─► Services ─► what a process belongs to
//! ```
//! An agent runs each in a process of its own: what takes memory, names above all, is gone with the process.

#![forbid(unsafe_code)]

mod config;
mod counts;
mod delivery_name;
mod error;
mod hardware;
mod locality;
mod measurement;
mod off_cpu;
mod record;
mod recording;
mod services;
mod span;
mod windows;

pub use config::{CountsConfig, LocalityConfig, OffCpuConfig, SettingError, WindowsConfig};
pub use delivery_name::DeliveryName;
pub use error::MeasurementError;
pub use measurement::{Measurement, MeasurementContext, MeasurementSummary, MeasurementTimes};
pub use recording::LoadedRecording;
pub use services::{CgroupIdentity, Services};
