//! How nodes perform, by what firmware and kernel tell: attributes of memory (ACPI HMAT), tiers, weights.

use serde::Serialize;

use super::NumaCounters;
use crate::{CpuSet, Machine, Node, Topology};

const NODE: &str = "sys/devices/system/node";
const TIERS: &str = "sys/devices/virtual/memory_tiering";
const WEIGHTS: &str = "sys/kernel/mm/mempolicy/weighted_interleave";

/// All that is told of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NumaNode {
    /// Its number, CPUs, memory and distances.
    #[serde(flatten)]
    pub node: Node,
    /// Whether a CPU of it is online.
    pub has_cpus: bool,
    /// Whether it has memory that programs can get: `/sys/devices/system/node/has_memory`.
    pub has_memory: bool,
    /// How its memory performs for those nearest to it, where firmware tells; at most one for each class.
    pub access: Vec<AccessClass>,
    /// The memory tier of the kernel that it is in, a lower number being faster (Linux 6.1).
    pub tier: Option<u32>,
    /// Pages in a row that weighted interleaving puts on it (Linux 6.9).
    pub interleave_weight: Option<u32>,
    /// Of where pages were taken from since the machine started; the other counters are the machine's only.
    pub counters: NumaCounters,
}

/// How a node's memory performs when those nearest to it use it: `accessN/initiators`
/// (Documentation/admin-guide/mm/numaperf.rst). Bandwidth is in MB/s and latency in ns, as
/// Documentation/ABI/stable/sysfs-devices-node has them. It is what firmware says, not measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AccessClass {
    /// 0: the nearest of any kind, devices too; 1: the nearest with CPUs.
    pub class: u32,
    /// Nodes that these numbers hold for.
    pub initiators: CpuSet,
    /// Bandwidth of reads, MB/s.
    pub read_bandwidth_mb_s: Option<u64>,
    /// Bandwidth of writes, MB/s.
    pub write_bandwidth_mb_s: Option<u64>,
    /// Latency of reads, ns.
    pub read_latency_ns: Option<u64>,
    /// Latency of writes, ns.
    pub write_latency_ns: Option<u64>,
}

impl Machine {
    /// What firmware and kernel tell of each node of `topology`, in its order.
    pub fn numa_nodes(&self, topology: &Topology) -> Vec<NumaNode> {
        let with_memory = self.cpu_list(format!("{NODE}/has_memory"));
        let tiers = self.tiers();
        let describe = |node: &Node| NumaNode {
            node: node.clone(),
            has_cpus: !node.cpus.is_empty(),
            has_memory: match &with_memory {
                Some(nodes) => nodes.contains(node.id),
                None => node.memory_bytes.is_some_and(|bytes| bytes > 0),
            },
            access: (0..2).filter_map(|class| self.access(node.id, class)).collect(),
            tier: tiers.iter().find(|(_, nodes)| nodes.contains(node.id)).map(|(tier, _)| *tier),
            interleave_weight: self.number(format!("{WEIGHTS}/node{}", node.id)),
            counters: self.node_counters(node.id).unwrap_or_default(),
        };
        topology.nodes.iter().map(describe).collect()
    }

    /// `None` where firmware tells nothing of this class; a zero is what the kernel has where firmware left it out.
    fn access(&self, node: u32, class: u32) -> Option<AccessClass> {
        let folder = format!("{NODE}/node{node}/access{class}/initiators");
        let value =
            |name: &str| self.number::<u64>(format!("{folder}/{name}")).filter(|value| *value > 0);
        let found = AccessClass {
            class,
            initiators: self.numbered(&folder, "node").ok()?.into_iter().collect(),
            read_bandwidth_mb_s: value("read_bandwidth"),
            write_bandwidth_mb_s: value("write_bandwidth"),
            read_latency_ns: value("read_latency"),
            write_latency_ns: value("write_latency"),
        };
        let told =
            AccessClass { class, initiators: found.initiators.clone(), ..Default::default() };
        (found != told).then_some(found)
    }

    /// Memory tiers, the fastest first, with their nodes: `memory_tierN/nodelist`.
    fn tiers(&self) -> Vec<(u32, CpuSet)> {
        let ids = self.numbered(TIERS, "memory_tier").unwrap_or_default();
        let nodes = |id: u32| self.cpu_list(format!("{TIERS}/memory_tier{id}/nodelist"));
        ids.into_iter().filter_map(|id| Some((id, nodes(id)?))).collect()
    }
}
