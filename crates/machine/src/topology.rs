//! CPUs, what they share, and NUMA nodes.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{CpuSet, Machine, MachineError};

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";
/// More cache levels than any CPU lists; bounds the search for the third.
const MAX_CACHE_INDEX: u32 = 16;

/// The CPUs and nodes of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// CPU numbers that could ever appear: `/sys/devices/system/cpu/possible`.
    pub possible: CpuSet,
    /// CPUs that run now: `/sys/devices/system/cpu/online`.
    pub online: CpuSet,
    /// One entry per online CPU, ascending.
    pub cpus: Vec<Cpu>,
    /// Every online node, ascending, also those with only memory or only CPUs. Without NUMA in the
    /// kernel: one node 0 with all CPUs.
    pub nodes: Vec<Node>,
}

/// An online CPU: a hardware thread, with what it shares with others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// NUMA node.
    pub node: u32,
    /// Package (socket), `topology/physical_package_id`; 0 where the platform does not tell.
    pub package: u32,
    /// Die within the package, `topology/die_id`; 0 where the platform does not tell.
    pub die: u32,
    /// Core, `topology/core_id`: unique only within its package.
    pub core: u32,
    /// The third-level cache, named by the lowest online CPU that shares it; `None` without one.
    pub l3: Option<u32>,
    /// Online CPUs of the same core, this one included.
    pub siblings: CpuSet,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its online CPUs; empty for a node with only memory.
    pub cpus: CpuSet,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Free memory in bytes, at the time of reading.
    pub free_bytes: Option<u64>,
    /// Distance to each node, in the order of [`Topology::nodes`]; 10 is local. Empty if not told.
    pub distances: Vec<u32>,
}

impl Topology {
    /// The online CPU with this number.
    pub fn cpu(&self, id: u32) -> Option<&Cpu> {
        let index = self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()?;
        self.cpus.get(index)
    }

    /// That all of these CPUs are online.
    ///
    /// # Errors
    /// [`MachineError::Offline`], which names those that are not.
    pub fn check_online(&self, cpus: &CpuSet) -> Result<(), MachineError> {
        let missing = cpus.difference(&self.online);
        if missing.is_empty() {
            return Ok(());
        }
        Err(MachineError::Offline { missing, online: self.online.clone() })
    }

    /// The node of an online CPU.
    pub fn node_of(&self, cpu: u32) -> Option<u32> {
        self.cpu(cpu).map(|cpu| cpu.node)
    }

    /// The distance between two nodes, as the firmware tells it (ACPI SLIT); 10 is local.
    pub fn distance(&self, from: u32, to: u32) -> Option<u32> {
        let column = self.nodes.iter().position(|node| node.id == to)?;
        let row = self.nodes.iter().find(|node| node.id == from)?;
        row.distances.get(column).copied()
    }

    /// Online CPUs by third-level cache; those without one by die.
    pub fn l3_groups(&self) -> Vec<CpuSet> {
        self.groups(|cpu| match cpu.l3 {
            Some(l3) => (0, l3, 0),
            None => (1, cpu.package, cpu.die),
        })
    }

    /// Online CPUs by die.
    pub fn die_groups(&self) -> Vec<CpuSet> {
        self.groups(|cpu| (cpu.package, cpu.die))
    }

    /// Online CPUs by package.
    pub fn package_groups(&self) -> Vec<CpuSet> {
        self.groups(|cpu| cpu.package)
    }

    /// Online CPUs by core.
    pub fn core_groups(&self) -> Vec<CpuSet> {
        self.groups(|cpu| cpu.siblings.first())
    }

    /// Online CPUs by node; nodes without CPUs have no group.
    pub fn node_groups(&self) -> Vec<CpuSet> {
        self.groups(|cpu| cpu.node)
    }

    /// Every online CPU is in exactly one group; groups are ordered by their lowest CPU.
    fn groups<K: Ord>(&self, key: impl Fn(&Cpu) -> K) -> Vec<CpuSet> {
        let mut groups: BTreeMap<K, CpuSet> = BTreeMap::new();
        for cpu in &self.cpus {
            groups.entry(key(cpu)).or_default().insert(cpu.id);
        }
        let mut groups: Vec<CpuSet> = groups.into_values().collect();
        groups.sort();
        groups
    }
}

impl Machine {
    /// CPUs and nodes: `/sys/devices/system/cpu` and `/sys/devices/system/node`.
    ///
    /// # Errors
    /// If the list of online CPUs cannot be read or parsed; whatever else is missing takes the value
    /// that its field documents.
    pub fn topology(&self) -> Result<Topology, MachineError> {
        let online = self.cpu_list_or_error(&format!("{CPU}/online"))?;
        let possible = self.cpu_list(format!("{CPU}/possible")).unwrap_or_else(|| online.clone());
        let nodes = self.nodes(&online);
        let mut node_of = BTreeMap::new();
        for node in &nodes {
            node_of.extend(node.cpus.iter().map(|cpu| (cpu, node.id)));
        }
        let fallback = nodes.first().map_or(0, |node| node.id);
        let mut l3_of = BTreeMap::new();
        let cpus = online
            .iter()
            .map(|id| self.one_cpu(id, &online, &mut l3_of, *node_of.get(&id).unwrap_or(&fallback)))
            .collect();
        Ok(Topology { possible, online, cpus, nodes })
    }

    /// CPUs that run now; `None` if that cannot be read. Cheap, unlike [`Machine::topology`].
    #[must_use]
    pub fn online_cpus(&self) -> Option<CpuSet> {
        self.cpu_list_or_error(&format!("{CPU}/online")).ok()
    }

    fn cpu_list_or_error(&self, relative: &str) -> Result<CpuSet, MachineError> {
        let text = self.text(relative)?;
        let malformed = || MachineError::malformed(&self.path(relative), "a list of CPUs", &text);
        CpuSet::parse(&text).ok().filter(|cpus| !cpus.is_empty()).ok_or_else(malformed)
    }

    /// `l3_of` carries the caches of the CPUs seen so far: a list is read once per cache, not per CPU.
    fn one_cpu(&self, id: u32, online: &CpuSet, l3_of: &mut BTreeMap<u32, u32>, node: u32) -> Cpu {
        let folder = format!("{CPU}/cpu{id}/topology");
        // Some platforms say -1 or nothing.
        let number = |name: &str| self.number(format!("{folder}/{name}")).unwrap_or(0);
        let mut siblings = self
            .cpu_list(format!("{folder}/core_cpus_list"))
            .or_else(|| self.cpu_list(format!("{folder}/thread_siblings_list")))
            .unwrap_or_default()
            .intersection(online);
        siblings.insert(id);
        if !l3_of.contains_key(&id) {
            let sharers = self.l3_sharers(id).unwrap_or_default().intersection(online);
            if let Some(first) = sharers.first() {
                l3_of.extend(sharers.iter().map(|cpu| (cpu, first)));
            }
        }
        Cpu {
            id,
            node,
            package: number("physical_package_id"),
            die: number("die_id"),
            core: number("core_id"),
            l3: l3_of.get(&id).copied(),
            siblings,
        }
    }

    /// CPUs that share the third-level cache of a CPU.
    fn l3_sharers(&self, cpu: u32) -> Option<CpuSet> {
        for index in 0..MAX_CACHE_INDEX {
            let folder = format!("{CPU}/cpu{cpu}/cache/index{index}");
            if self.number::<u32>(format!("{folder}/level"))? == 3 {
                return self.cpu_list(format!("{folder}/shared_cpu_list"));
            }
        }
        None
    }

    fn nodes(&self, online: &CpuSet) -> Vec<Node> {
        let ids = self.numbered(NODE, "node").unwrap_or_default();
        if ids.is_empty() {
            let memory = self.text("proc/meminfo").unwrap_or_default();
            return vec![Node {
                id: 0,
                cpus: online.clone(),
                memory_bytes: meminfo(&memory, "MemTotal:"),
                free_bytes: meminfo(&memory, "MemFree:"),
                distances: vec![10],
            }];
        }
        ids.into_iter().map(|id| self.one_node(id, online)).collect()
    }

    fn one_node(&self, id: u32, online: &CpuSet) -> Node {
        let folder = format!("{NODE}/node{id}");
        let memory = self.text(format!("{folder}/meminfo")).unwrap_or_default();
        let distances = self.text(format!("{folder}/distance")).unwrap_or_default();
        let cpus = self.cpu_list(format!("{folder}/cpulist")).unwrap_or_default();
        Node {
            id,
            cpus: cpus.intersection(online),
            memory_bytes: meminfo(&memory, "MemTotal:"),
            free_bytes: meminfo(&memory, "MemFree:"),
            distances: distances.split_ascii_whitespace().map_while(|d| d.parse().ok()).collect(),
        }
    }
}

/// Bytes of one line of `/proc/meminfo` or of a node's `meminfo`, which puts `Node 0` in front.
fn meminfo(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_ascii_whitespace().any(|word| word == key))?;
    let kib: u64 =
        line.split_ascii_whitespace().skip_while(|word| *word != key).nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}
