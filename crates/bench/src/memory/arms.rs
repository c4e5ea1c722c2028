//! What runs: from which CPUs to which memory.

use pmuscope_machine::{CpuSet, Machine, MemoryPolicy, place};
use pmuscope_measure::Labels;
use pmuscope_workloads::memory::{self, Access, Order, Sizes};

use super::{CPUS, LATENCY, LOADED, MEMORY, Options, PAUSE, WHAT};
use crate::runner::labels;

/// Sizes of threads are multiples of this.
const UNIT: u64 = 4096;

/// A node, with the CPUs of it that this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCpus {
    /// Its number.
    pub id: u32,
    /// Its CPUs, in order; none if it has only memory.
    pub cpus: Vec<u32>,
    /// Whether it has memory.
    pub memory: bool,
}

/// All nodes, by their numbers.
///
/// # Errors
/// If the topology or the affinity cannot be read.
pub fn nodes(machine: &Machine) -> Result<Vec<NodeCpus>, String> {
    let topology = machine.topology().map_err(|error| error.to_string())?;
    let allowed =
        place::affinity().map_err(|error| format!("cannot read the CPU affinity: {error}"))?;
    let memory = machine.allowed_nodes_of(std::process::id());
    let may_use = |node: u32| memory.as_ref().is_none_or(|nodes| nodes.contains(node));
    let node = |node: &pmuscope_machine::Node| NodeCpus {
        id: node.id,
        cpus: node.cpus.intersection(&allowed).iter().collect(),
        memory: node.memory_bytes != Some(0) && may_use(node.id),
    };
    Ok(topology.nodes.iter().map(node).collect())
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeasuredAs {
    /// By all threads.
    Bandwidth(Access),
    /// By one.
    Latency,
    /// By one, while the others read.
    Loaded {
        /// Nanoseconds between two pieces.
        pause_ns: u64,
    },
}

/// One combination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryArm {
    pub(super) what: MeasuredAs,
    /// Node of the CPUs.
    pub(super) from: NodeCpus,
    /// Node of the memory.
    pub(super) to: u32,
    /// Memory is bound only where there is another node.
    pub(super) bind: bool,
}

/// All combinations, and what is left out and why.
pub(super) fn arms(nodes: &[NodeCpus], options: &Options) -> (Vec<MemoryArm>, Vec<String>) {
    let (mut arms, mut notices) = (Vec::new(), Vec::new());
    let with_memory: Vec<u32> =
        nodes.iter().filter(|node| node.memory).map(|node| node.id).collect();
    let bind = nodes.len() > 1;
    let whats = options.accesses.iter().map(|&access| MeasuredAs::Bandwidth(access));
    let whats: Vec<MeasuredAs> =
        whats.chain(options.latency.then_some(MeasuredAs::Latency)).collect();
    for from in nodes {
        if from.cpus.is_empty() {
            notices.push(format!("NUMA node {} has no CPU that this process may use", from.id));
            continue;
        }
        for &to in &with_memory {
            arms.extend(whats.iter().map(|&what| MemoryArm { what, from: from.clone(), to, bind }));
        }
    }
    if !options.pauses.is_empty() {
        let is_fit = |node: &&NodeCpus| node.memory && threads(node, options).len() > 1;
        match nodes.iter().find(is_fit) {
            Some(from) => arms.extend(options.pauses.iter().map(|&pause_ns| MemoryArm {
                what: MeasuredAs::Loaded { pause_ns },
                from: from.clone(),
                to: from.id,
                bind,
            })),
            None => notices.push(
                "latency under load is not measured: it needs a NUMA node with memory and two CPUs"
                    .to_owned(),
            ),
        }
    }
    (arms, notices)
}

/// The CPUs of a node that are used.
fn threads<'n>(node: &'n NodeCpus, options: &Options) -> &'n [u32] {
    let most = options.threads.unwrap_or(usize::MAX).min(node.cpus.len());
    &node.cpus[..most]
}

impl MemoryArm {
    /// What tells it apart.
    pub(super) fn labels(&self) -> Labels {
        let what = match self.what {
            MeasuredAs::Bandwidth(access) => access.name(),
            MeasuredAs::Latency => LATENCY,
            MeasuredAs::Loaded { .. } => LOADED,
        };
        let mut labels = labels([
            (WHAT, what.to_owned()),
            (CPUS, self.from.id.to_string()),
            (MEMORY, self.to.to_string()),
        ]);
        if let MeasuredAs::Loaded { pause_ns } = self.what {
            labels.insert(PAUSE.to_owned(), pause_ns.to_string());
        }
        labels
    }

    /// A workload of this size on these CPUs, one thread on each.
    fn workload(&self, cpus: &[u32], options: &Options) -> memory::Options {
        let each = options.bytes / cpus.len().max(1) as u64 / UNIT * UNIT;
        let policy = if self.bind {
            MemoryPolicy::Bind(CpuSet::from_iter([self.to]))
        } else {
            MemoryPolicy::Default
        };
        memory::Options {
            threads: cpus.len(),
            sizes: Sizes { thread: each.max(UNIT), ..Sizes::default() },
            seconds: Some(options.seconds),
            thp: options.thp,
            cpus: cpus.iter().map(|&cpu| CpuSet::from_iter([cpu])).collect(),
            policy,
            ..memory::Options::default()
        }
    }

    /// All threads at once.
    pub(super) fn bandwidth(&self, access: Access, options: &Options) -> memory::Options {
        let cpus = threads(&self.from, options);
        memory::Options { access, ..self.workload(cpus, options) }
    }

    /// One thread that waits for each load.
    pub(super) fn latency(&self, options: &Options) -> memory::Options {
        let first = &self.from.cpus[..1];
        memory::Options { order: Order::Chase, ..self.workload(first, options) }
    }

    /// All others, which read until they are told to end.
    pub(super) fn load(&self, pause_ns: u64, options: &Options) -> memory::Options {
        let others = &threads(&self.from, options)[1..];
        let workload = self.workload(others, options);
        memory::Options { pause_ns, seconds: None, rounds: Some(u64::MAX), ..workload }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_workloads::memory::Thp;

    fn options() -> Options {
        Options {
            accesses: vec![Access::Read, Access::Copy],
            latency: true,
            pauses: vec![1000, 0],
            bytes: 64 << 20,
            seconds: 0.5,
            threads: None,
            thp: Thp::Always,
            program: "p".into(),
            scratch: ".".into(),
        }
    }

    fn node(id: u32, cpus: &[u32], memory: bool) -> NodeCpus {
        NodeCpus { id, cpus: cpus.to_vec(), memory }
    }

    #[test]
    fn every_pair_of_nodes_has_every_figure() {
        let nodes = [node(0, &[0, 1, 2], true), node(1, &[], true), node(2, &[3], false)];
        let (arms, notices) = arms(&nodes, &options());
        // Two nodes with CPUs, two with memory, three figures; two pauses on the first.
        assert_eq!(arms.len(), 2 * 2 * 3 + 2);
        assert_eq!(notices, ["NUMA node 1 has no CPU that this process may use"]);
        let labels: Vec<String> = arms.iter().map(|arm| format!("{:?}", arm.labels())).collect();
        assert!(labels.iter().all(|one| labels.iter().filter(|other| *other == one).count() == 1));
        let loaded = arms.last().unwrap();
        assert_eq!(loaded.labels()[PAUSE], "0");
        let load = loaded.load(7, &options());
        assert_eq!((load.threads, load.sizes.thread, load.pause_ns), (2, 32 << 20, 7));
        assert_eq!(load.cpus, [CpuSet::from_iter([1]), CpuSet::from_iter([2])]);
        assert_eq!(load.policy.to_string(), "bind:0");
        let all = arms[0].bandwidth(Access::Read, &options());
        assert_eq!((all.threads, all.sizes.thread / UNIT), (3, (64 << 20) / 3 / UNIT));
        let one = arms[2].latency(&options());
        assert_eq!((one.threads, one.order, one.sizes.thread), (1, Order::Chase, 64 << 20));
        for workload in [load, all, one] {
            workload.check().unwrap();
        }
    }

    #[test]
    fn one_cpu_has_no_loaded_latency_and_says_so() {
        let (arms, notices) = arms(&[node(0, &[0], true)], &options());
        assert_eq!(arms.len(), 3);
        assert!(notices[0].contains("two CPUs") && !arms[0].bind, "{notices:?}");
        let two = [node(0, &[0, 1], true)];
        let few = Options { threads: Some(1), ..options() };
        assert_eq!(super::arms(&two, &few).0.len(), 3);
    }
}
