//! Which reader reads which rings, and where each may run.

use pmuscope_machine::{CpuSet, Topology};

use crate::error::RecorderError;
use crate::options::Readers;

/// A node with more CPUs than this gets one reader per L3 cache: at 25 kHz and 48 bytes a reader of 64
/// rings moves 77 MB/s, which is well within what one core copies beside its share of the workload.
const LARGE_NODE: usize = 64;

/// One reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReaderPlan {
    /// Indices of its rings: those of a node together, ascending by CPU within.
    pub(crate) rings: Vec<usize>,
    /// CPUs of those rings, for messages.
    pub(crate) cpus: CpuSet,
    /// CPUs it was told to stay on.
    pub(crate) pinned: Option<CpuSet>,
}

/// Deals `ring_cpus` (the CPU of each ring, `None` in per-thread mode) out to readers.
///
/// # Errors
/// [`RecorderError::Readers`] if an explicit specification leaves a ring unread or reads one twice.
pub(crate) fn plan(
    readers: &Readers,
    ring_cpus: &[Option<u32>],
    topology: &Topology,
) -> Result<Vec<ReaderPlan>, RecorderError> {
    let order = in_node_order(ring_cpus, topology);
    let groups = match readers {
        Readers::Serial => return Ok(vec![reader(&order, ring_cpus, None)]),
        Readers::Explicit(pairs) => return explicit(pairs, &order, ring_cpus),
        Readers::Auto => auto_groups(topology),
        Readers::Cpu => topology.online.iter().map(|cpu| CpuSet::from_iter([cpu])).collect(),
        Readers::Core => topology.core_groups(),
        Readers::L3 => topology.l3_groups(),
        Readers::Die => topology.die_groups(),
        Readers::Package => topology.package_groups(),
        Readers::Node => topology.node_groups(),
    };
    Ok(by_groups(&groups, &order, ring_cpus))
}

/// Whether each reader may run somewhere where it is to run.
///
/// # Errors
/// [`RecorderError::Readers`] if the CPUs of one are all offline, or none of them is `allowed` to us.
pub(crate) fn check_places(plans: &[ReaderPlan], allowed: &CpuSet) -> Result<(), RecorderError> {
    let nowhere = |pinned: &&CpuSet| pinned.intersection(allowed).is_empty();
    match plans.iter().filter_map(|plan| plan.pinned.as_ref()).find(nowhere) {
        None => Ok(()),
        Some(cpus) => Err(RecorderError::Readers(format!(
            "no reader can run on CPU {cpus}: this process may use {allowed}. Try: --readers cpu"
        ))),
    }
}

/// Rings sorted by node, then CPU: a reader of several nodes changes node at most once per node and
/// pass, also where CPU numbers alternate between nodes.
fn in_node_order(ring_cpus: &[Option<u32>], topology: &Topology) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ring_cpus.len()).collect();
    order.sort_by_key(|&ring| {
        (ring_cpus[ring].and_then(|cpu| topology.node_of(cpu)), ring_cpus[ring])
    });
    order
}

fn auto_groups(topology: &Topology) -> Vec<CpuSet> {
    let caches = topology.l3_groups();
    let mut groups = Vec::new();
    for node in topology.node_groups() {
        let inside: Vec<CpuSet> =
            caches.iter().filter(|cache| cache.is_subset(&node)).cloned().collect();
        if node.len() > LARGE_NODE && inside.len() > 1 {
            groups.extend(inside);
        } else {
            groups.push(node);
        }
    }
    groups
}

/// One reader per group that has rings; rings of no group (no CPU, or a CPU that came online since)
/// go to the first.
fn by_groups(groups: &[CpuSet], order: &[usize], ring_cpus: &[Option<u32>]) -> Vec<ReaderPlan> {
    let mut dealt: Vec<Vec<usize>> = vec![Vec::new(); groups.len().max(1)];
    for &ring in order {
        let group = ring_cpus[ring]
            .and_then(|cpu| groups.iter().position(|group| group.contains(cpu)))
            .unwrap_or(0);
        dealt[group].push(ring);
    }
    dealt
        .iter()
        .filter(|rings| !rings.is_empty())
        .map(|rings| reader(rings, ring_cpus, None))
        .collect()
}

fn explicit(
    pairs: &[(CpuSet, CpuSet)],
    order: &[usize],
    ring_cpus: &[Option<u32>],
) -> Result<Vec<ReaderPlan>, RecorderError> {
    let mut taken = vec![false; ring_cpus.len()];
    let mut plans = Vec::new();
    for (cpus, run_on) in pairs {
        let rings: Vec<usize> = order
            .iter()
            .copied()
            .filter(|&ring| ring_cpus[ring].is_some_and(|cpu| cpus.contains(cpu)))
            .collect();
        for &ring in &rings {
            if std::mem::replace(&mut taken[ring], true) {
                let cpu = ring_cpus[ring].unwrap_or_default();
                return Err(RecorderError::Readers(format!("CPU {cpu} has two readers")));
            }
        }
        if !rings.is_empty() {
            plans.push(reader(&rings, ring_cpus, Some(run_on.clone())));
        }
    }
    match taken.iter().position(|taken| !taken) {
        None => Ok(plans),
        Some(ring) => Err(RecorderError::Readers(match ring_cpus[ring] {
            Some(cpu) => format!("no reader for the ring buffer of CPU {cpu}"),
            None => "per-thread ring buffers belong to no CPU. Try: --readers serial".into(),
        })),
    }
}

fn reader(rings: &[usize], ring_cpus: &[Option<u32>], pinned: Option<CpuSet>) -> ReaderPlan {
    let cpus = rings.iter().filter_map(|&ring| ring_cpus[ring]).collect();
    ReaderPlan { rings: rings.to_vec(), cpus, pinned }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_machine::{Cpu, Node};
    use proptest::prelude::*;

    /// CPUs dealt to nodes by number modulo `nodes`, as some firmware does.
    fn interleaved(cpus: u32, nodes: u32) -> Topology {
        let node_cpus = |node| (0..cpus).filter(|cpu| cpu % nodes == node).collect::<CpuSet>();
        Topology {
            possible: (0..cpus).collect(),
            online: (0..cpus).collect(),
            cpus: (0..cpus)
                .map(|id| Cpu {
                    id,
                    node: id % nodes,
                    package: id % nodes,
                    die: 0,
                    core: id,
                    l3: Some(id % nodes),
                    siblings: CpuSet::from_iter([id]),
                })
                .collect(),
            nodes: (0..nodes)
                .map(|id| Node {
                    id,
                    cpus: node_cpus(id),
                    memory_bytes: None,
                    free_bytes: None,
                    distances: Vec::new(),
                })
                .collect(),
        }
    }

    fn rings(cpus: u32) -> Vec<Option<u32>> {
        (0..cpus).map(Some).collect()
    }

    #[test]
    fn a_serial_reader_changes_node_once_per_node() {
        let topology = interleaved(8, 4);
        let plans = plan(&Readers::Serial, &rings(8), &topology).unwrap();
        let nodes: Vec<u32> =
            plans[0].rings.iter().map(|&ring| topology.node_of(ring as u32).unwrap()).collect();
        assert_eq!(nodes, [0, 0, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn each_kind_has_as_many_readers_as_its_name_says() {
        let topology = interleaved(8, 4);
        let count = |readers| plan(&readers, &rings(8), &topology).unwrap().len();
        assert_eq!((count(Readers::Auto), count(Readers::Node), count(Readers::Cpu)), (4, 4, 8));
        let only = plan(&Readers::Node, &[Some(1), Some(5)], &topology).unwrap();
        assert_eq!(only.len(), 1, "no reader without rings");
    }

    #[test]
    fn an_explicit_list_must_read_each_ring_once() {
        let topology = interleaved(4, 2);
        let set = |text: &str| CpuSet::parse(text).unwrap();
        let readers = |pairs: &[(&str, &str)]| {
            Readers::Explicit(pairs.iter().map(|(a, b)| (set(a), set(b))).collect())
        };
        let good = plan(&readers(&[("0-1", "3"), ("2-3", "0-1")]), &rings(4), &topology).unwrap();
        assert_eq!(good[0].pinned, Some(set("3")));
        let twice = plan(&readers(&[("0-2", "3"), ("2-3", "0")]), &rings(4), &topology);
        assert!(twice.unwrap_err().to_string().contains("CPU 2 has two readers"));
        let never = plan(&readers(&[("0-2", "3")]), &rings(4), &topology);
        assert!(never.unwrap_err().to_string().contains("no reader for the ring buffer of CPU 3"));
    }

    proptest! {
        #[test]
        fn every_ring_has_exactly_one_reader(cpus in 1_u32..64, nodes in 1_u32..8, threads in 0_usize..4) {
            let topology = interleaved(cpus, nodes.min(cpus));
            let mut ring_cpus = rings(cpus);
            ring_cpus.extend(std::iter::repeat_n(None, threads));
            for readers in [Readers::Auto, Readers::Serial, Readers::Cpu, Readers::L3, Readers::Node] {
                let plans = plan(&readers, &ring_cpus, &topology).unwrap();
                let mut read: Vec<usize> = plans.iter().flat_map(|plan| plan.rings.clone()).collect();
                read.sort_unstable();
                prop_assert_eq!(read, (0..ring_cpus.len()).collect::<Vec<_>>());
            }
        }
    }
}
