//! Settings of the kernel that decide where memory comes from.

use serde::Serialize;

use crate::{CpuSet, Machine};

/// Settings of the kernel that decide where memory comes from, and what holds for programs started from here.
/// `None` where the kernel does not have or show it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NumaSettings {
    /// `vm.zone_reclaim_mode`: other than 0, a full node is emptied before memory is taken from another one.
    pub zone_reclaim_mode: Option<u32>,
    /// `vm.numa_stat`: whether it is counted from which node memory is taken (Linux 4.15).
    pub counts_allocations: Option<bool>,
    /// `/sys/kernel/mm/numa/demotion_enabled`: whether reclaim moves pages to slower memory (Linux 5.15).
    pub demotion: Option<bool>,
    /// `/sys/kernel/mm/transparent_hugepage/enabled`: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// Whether programs can have pages interleaved by weight: `/sys/kernel/mm/mempolicy/weighted_interleave`.
    pub weighted_interleave: bool,
    /// The memory policy of this process, which programs started from it inherit: `default`, `bind:0`, …
    pub own_policy: Option<String>,
    /// Nodes that this process may take memory from, by its cpuset.
    pub allowed_nodes: Option<CpuSet>,
}

impl Machine {
    /// Settings that decide where memory comes from.
    pub fn numa_settings(&self) -> NumaSettings {
        NumaSettings {
            zone_reclaim_mode: self.number("proc/sys/vm/zone_reclaim_mode"),
            counts_allocations: self.number::<u32>("proc/sys/vm/numa_stat").map(|value| value != 0),
            demotion: self.text_if_any("sys/kernel/mm/numa/demotion_enabled").and_then(|text| {
                match text.as_str() {
                    "true" | "1" => Some(true),
                    "false" | "0" => Some(false),
                    _ => None,
                }
            }),
            transparent_huge_pages: self.huge_pages(),
            weighted_interleave: self.path("sys/kernel/mm/mempolicy/weighted_interleave").is_dir(),
            own_policy: self.own_policy(),
            allowed_nodes: self.allowed_nodes("self"),
        }
    }

    /// Nodes that a process may take memory from, by its cpuset: `Mems_allowed_list` of `/proc/PID/status`.
    pub fn allowed_nodes_of(&self, pid: u32) -> Option<CpuSet> {
        self.allowed_nodes(&pid.to_string())
    }

    fn allowed_nodes(&self, process: &str) -> Option<CpuSet> {
        let text = self.text(format!("proc/{process}/status")).ok()?;
        let list = text.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"))?;
        CpuSet::parse(list).ok()
    }

    /// That of the first mapping: nobody gives the text of a program a policy of its own.
    fn own_policy(&self) -> Option<String> {
        const FIRST_LINES: u64 = 1 << 14;
        let text = self.beginning("proc/self/numa_maps", FIRST_LINES).ok()?;
        super::maps::policy(text.lines().next()?)
    }
}
