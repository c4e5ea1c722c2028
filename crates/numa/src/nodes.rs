//! Nodes by their place in lists: their numbers may have gaps.

use pmuscope_machine::{CpuSet, Topology};

/// CPUs of a node that threads may use together; none unless each of them has one there.
pub(crate) fn usable(node: &CpuSet, threads: &[CpuSet]) -> CpuSet {
    let mut together = CpuSet::new();
    for thread in threads {
        let own = thread.intersection(node);
        if own.is_empty() {
            return own;
        }
        together = together.union(&own);
    }
    together
}

/// The nodes of a machine, in the order of [`Topology::nodes`], and which CPU belongs to which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    ids: Vec<u32>,
    /// By CPU number.
    of_cpu: Vec<Option<usize>>,
}

impl Nodes {
    /// The nodes of `topology`.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        let ids: Vec<u32> = topology.nodes.iter().map(|node| node.id).collect();
        let cpus = topology.cpus.last().map_or(0, |cpu| cpu.id as usize + 1);
        let mut of_cpu = vec![None; cpus];
        for cpu in &topology.cpus {
            of_cpu[cpu.id as usize] = ids.iter().position(|&id| id == cpu.node);
        }
        Self { ids, of_cpu }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Their numbers, ascending.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The place of a node's number.
    #[must_use]
    pub fn place(&self, id: u32) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }

    /// The place of a CPU's node; `None` for a CPU that was not online when the nodes were read.
    #[must_use]
    pub fn of_cpu(&self, cpu: u32) -> Option<usize> {
        *self.of_cpu.get(cpu as usize)?
    }

    /// Nothing on any node.
    #[must_use]
    pub fn zeroes(&self) -> Vec<f64> {
        vec![0.0; self.ids.len()]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use pmuscope_machine::{Cpu, CpuSet, Node};

    /// A machine with these CPUs on these nodes.
    pub(crate) fn topology(nodes: &[(u32, &[u32])]) -> Topology {
        let mut cpus: Vec<Cpu> = Vec::new();
        for &(node, of_node) in nodes {
            cpus.extend(of_node.iter().map(|&id| Cpu {
                id,
                node,
                package: node,
                die: 0,
                core: id,
                l3: None,
                siblings: CpuSet::from_iter([id]),
            }));
        }
        cpus.sort_by_key(|cpu| cpu.id);
        let online: CpuSet = cpus.iter().map(|cpu| cpu.id).collect();
        let node = |&(id, of_node): &(u32, &[u32])| Node {
            id,
            cpus: of_node.iter().copied().collect(),
            memory_bytes: Some(1 << 30),
            free_bytes: Some(1 << 29),
            distances: nodes.iter().map(|&(to, _)| if to == id { 10 } else { 20 }).collect(),
        };
        let nodes = nodes.iter().map(node).collect();
        Topology { possible: online.clone(), online, cpus, nodes }
    }

    #[test]
    fn numbers_with_gaps_have_places() {
        let nodes = Nodes::new(&topology(&[(0, &[0, 2]), (2, &[1, 5]), (7, &[])]));
        assert_eq!((nodes.len(), nodes.ids()), (3, &[0, 2, 7][..]));
        assert_eq!(
            [0, 1, 2, 3, 5].map(|cpu| nodes.of_cpu(cpu)),
            [Some(0), Some(1), Some(0), None, Some(1)]
        );
        assert_eq!([0, 2, 7, 1].map(|id| nodes.place(id)), [Some(0), Some(1), Some(2), None]);
        assert_eq!(nodes.of_cpu(1000), None);
    }

    #[test]
    fn a_node_is_of_use_if_every_thread_has_a_cpu_there() {
        let set = |text: &str| CpuSet::parse(text).unwrap();
        let node = set("0-3");
        assert_eq!(usable(&node, &[set("0"), set("1"), set("1-2,7")]).len(), 3);
        assert_eq!(usable(&node, &[set("0-7"), set("4")]).len(), 0);
        assert_eq!(usable(&node, &[]).len(), 0);
    }
}
