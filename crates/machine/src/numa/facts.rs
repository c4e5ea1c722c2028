//! All that the machine tells of placement, in one value.

use serde::Serialize;

use super::{NumaBalancing, NumaCounters, NumaNode, NumaSettings};
use crate::{Machine, Topology};

/// All that the machine tells of placement on nodes, at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NumaFacts {
    /// Its nodes, ascending.
    pub nodes: Vec<NumaNode>,
    /// Bytes of memory that the kernel manages; see [`Machine::memory_bytes`].
    pub memory_bytes: Option<u64>,
    /// How the kernel's own balancing is set.
    pub balancing: NumaBalancing,
    /// Why the settings of its scans are not told; `None` where they are.
    pub balancing_why: Option<String>,
    /// Other settings that decide where memory comes from.
    pub settings: NumaSettings,
    /// What was counted since the machine started.
    pub counters: NumaCounters,
    /// Why nothing is counted; `None` where something is.
    pub counters_why: Option<String>,
    /// Share of hint faults, 0 to 1, that were local.
    pub local_share: Option<f64>,
    /// Share of pages, 0 to 1, that were taken from the node of the CPU that asked.
    pub allocated_locally: Option<f64>,
    /// Seconds since the machine started.
    pub uptime_s: Option<f64>,
}

impl Machine {
    /// All that the machine tells of placement. What it does not tell is `None`.
    pub fn numa_facts(&self, topology: &Topology) -> NumaFacts {
        let (counters, counters_why) = match self.numa_counters() {
            Ok(counters) => (counters, None),
            Err(error) => (NumaCounters::default(), Some(error.to_string())),
        };
        NumaFacts {
            nodes: self.numa_nodes(topology),
            memory_bytes: self.memory_bytes(),
            balancing: self.numa_balancing(),
            balancing_why: self.scan_settings_hidden(),
            settings: self.numa_settings(),
            local_share: counters.local_share(),
            allocated_locally: counters.allocated_locally(),
            counters,
            counters_why,
            uptime_s: self.uptime_s(),
        }
    }
}
