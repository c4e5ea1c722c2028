//! Tests made to fit a machine: how large, judged by what, and where the best and the worst binding put them.

use pmuscope_machine::{CpuSet, MemoryPolicy, Topology};
use pmuscope_numa::convergence::ConvergenceRule;
use pmuscope_workloads::memory::{FirstTouch, Options, Sizes};

use super::suite::{Placed, Test};

/// Of the machine's free memory a test takes so much at most, and of a node's what is bound to it.
const SHARE: f64 = 0.6;
/// Huge pages: what is larger is a multiple of it.
const HUGE: u64 = 2 << 20;
const PAGE: u64 = 4096;

/// A node that tests may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsableNode {
    /// Its number.
    pub id: u32,
    /// Its CPUs that this process may use.
    pub cpus: CpuSet,
    /// Free memory, bytes; `None` where that is not told.
    pub free_bytes: Option<u64>,
    /// Distance to each other usable node, in their order.
    pub distances: Vec<u32>,
}

/// What of a machine tests may use: nodes with CPUs and memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsableNodes {
    /// At least one.
    pub nodes: Vec<UsableNode>,
    /// Bytes that programs can still take.
    pub available_bytes: Option<u64>,
}

impl UsableNodes {
    /// Nodes of `topology` with memory and with CPUs among `cpus`, which lie in `nodes` if that is known.
    #[must_use]
    pub fn new(
        topology: &Topology,
        (cpus, nodes): (&CpuSet, Option<&CpuSet>),
        available_bytes: Option<u64>,
    ) -> Self {
        let usable = |node: &&pmuscope_machine::Node| {
            node.memory_bytes != Some(0)
                && !node.cpus.intersection(cpus).is_empty()
                && nodes.is_none_or(|nodes| nodes.contains(node.id))
        };
        let usable: Vec<&pmuscope_machine::Node> = topology.nodes.iter().filter(usable).collect();
        let nodes = usable
            .iter()
            .map(|node| UsableNode {
                id: node.id,
                cpus: node.cpus.intersection(cpus),
                free_bytes: node.free_bytes,
                distances: usable
                    .iter()
                    .map(|to| topology.distance(node.id, to.id).unwrap_or(10))
                    .collect(),
            })
            .collect();
        Self { nodes, available_bytes }
    }

    /// The place of the node that is farthest from the one at `from`; with one node that itself.
    pub(super) fn farthest(&self, from: usize) -> usize {
        let distances = &self.nodes[from].distances;
        let others = (0..self.nodes.len()).filter(|&to| to != from);
        others.max_by_key(|&to| (distances[to], std::cmp::Reverse(to))).unwrap_or(from)
    }

    fn all_nodes(&self) -> CpuSet {
        self.nodes.iter().map(|node| node.id).collect()
    }

    /// Free bytes of the node that has fewest.
    fn least_free(&self) -> Option<u64> {
        self.nodes.iter().filter_map(|node| node.free_bytes).min()
    }

    /// CPUs of the node that has fewest.
    fn least_cpus(&self) -> usize {
        self.nodes.iter().map(|node| node.cpus.len()).min().unwrap_or(1)
    }
}

/// A test as it runs on a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The test, with sizes that fit.
    pub test: Test,
    /// Of the sizes it has by name, 0 to 1.
    pub scale: f64,
    /// What it is judged by.
    pub judge: ConvergenceRule,
    /// Whether what belongs together (a process's memory, or a thread's) fits one node, with its threads.
    pub fits_node: bool,
    /// Threads for each CPU that may be used.
    pub load: f64,
}

impl Fitted {
    /// Makes a test fit, under every binding: all of them run with the same sizes.
    #[must_use]
    pub fn new(test: &Test, room: &UsableNodes) -> Self {
        let fitted = Self::at_most(test, room, 1.0);
        let worst = fitted.bound(Binding::Worst, room).map(|worst| fullest(&worst, room));
        let allowed = room.least_free().map(|free| SHARE * free as f64);
        match (worst, allowed) {
            (Some(worst), Some(allowed)) if worst as f64 > allowed => {
                Self::at_most(test, room, fitted.scale * allowed / worst as f64)
            }
            _ => fitted,
        }
    }

    fn at_most(test: &Test, room: &UsableNodes, most: f64) -> Self {
        let options = &test.options;
        let total = options.sizes.total(options.processes, options.threads).unwrap_or(u64::MAX);
        let free: u64 = room.available_bytes.unwrap_or(u64::MAX);
        // The best binding puts whole processes on nodes, as evenly as that goes.
        let fullest = most_on_a_node(test, room.nodes.len());
        let scale = [
            SHARE * free as f64 / total as f64,
            room.least_free().map_or(1.0, |free| SHARE * free as f64 / fullest as f64),
            most,
        ];
        let scale = scale.into_iter().fold(most, f64::min);
        let mut test = test.clone();
        test.options.sizes = scaled(options.sizes, scale);
        let sizes = test.options.sizes;
        let (group_threads, group_bytes) = match is_shared(options) {
            true => (options.threads, of_process(sizes, options.threads)),
            false => (1, sizes.thread),
        };
        let cpus: usize = room.nodes.iter().map(|node| node.cpus.len()).sum();
        let fits_node = group_threads <= room.least_cpus()
            && room.least_free().is_none_or(|free| group_bytes <= free)
            && options.sizes.global == 0;
        // With one node there is nothing to be even over.
        let is_local = fits_node || room.nodes.len() == 1;
        Self {
            scale,
            judge: if is_local { ConvergenceRule::Locality } else { ConvergenceRule::Evenness },
            fits_node,
            load: options.tasks() as f64 / cpus.max(1) as f64,
            test,
        }
    }

    /// Options with sizes, and everything where `binding` says; `None` where that has no sense for this test.
    #[must_use]
    pub fn bound(&self, binding: Binding, room: &UsableNodes) -> Option<Options> {
        let options = self.test.options.clone();
        let free = Options { cpus: Vec::new(), memory_nodes: Vec::new(), ..options };
        if let Some(placed) = self.test.placed {
            return (binding == Binding::Free).then(|| self.placed(placed, free, room)).flatten();
        }
        let bound = |options: Options| Options { first_touch: FirstTouch::Own, ..options };
        match binding {
            Binding::Free => Some(free),
            Binding::Interleave => {
                let policy = MemoryPolicy::Interleave(room.all_nodes());
                Some(bound(Options { policy, ..free }))
            }
            Binding::WeightedInterleave => {
                let policy = MemoryPolicy::WeightedInterleave(room.all_nodes());
                Some(bound(Options { policy, ..free }))
            }
            Binding::Best => Some(bound(self.best(free, room))),
            Binding::Worst => (room.nodes.len() > 1).then(|| bound(self.worst(free, room))),
        }
    }

    /// The place of the node of each task: processes in turn, or threads one after the other where processes are
    /// wider than a node or threads have their own memory.
    fn homes(&self, nodes: usize) -> Vec<usize> {
        let options = &self.test.options;
        let tasks = options.tasks();
        let by_process = self.fits_node && is_shared(options);
        (0..tasks)
            .map(|task| {
                if by_process {
                    task / options.threads % nodes
                } else {
                    task * nodes / tasks.max(nodes)
                }
            })
            .collect()
    }

    fn best(&self, options: Options, room: &UsableNodes) -> Options {
        let homes = self.homes(room.nodes.len());
        let cpus = homes.iter().map(|&home| room.nodes[home].cpus.clone()).collect();
        match self.judge {
            ConvergenceRule::Locality => {
                let nodes = homes.iter().map(|&home| CpuSet::from_iter([room.nodes[home].id]));
                Options { cpus, memory_nodes: nodes.collect(), ..options }
            }
            ConvergenceRule::Evenness => {
                Options { cpus, policy: MemoryPolicy::Interleave(room.all_nodes()), ..options }
            }
        }
    }

    fn worst(&self, options: Options, room: &UsableNodes) -> Options {
        let homes = self.homes(room.nodes.len());
        let cpus = homes.iter().map(|&home| room.nodes[home].cpus.clone()).collect();
        match self.judge {
            ConvergenceRule::Locality => {
                let far = |&home: &usize| CpuSet::from_iter([room.nodes[room.farthest(home)].id]);
                Options { cpus, memory_nodes: homes.iter().map(far).collect(), ..options }
            }
            ConvergenceRule::Evenness => {
                let first = CpuSet::from_iter([room.nodes[0].id]);
                Options { cpus, policy: MemoryPolicy::Bind(first), ..options }
            }
        }
    }

    fn placed(&self, placed: Placed, options: Options, room: &UsableNodes) -> Option<Options> {
        let far = room.farthest(0);
        if far == 0 && placed != Placed::Local {
            return None;
        }
        let tasks = options.tasks();
        let (of_cpus, of_memory): (Vec<usize>, Vec<usize>) = (0..tasks)
            .map(|task| match placed {
                Placed::Local => (0, 0),
                Placed::Remote => (0, far),
                Placed::Cross if task < tasks / 2 => (0, far),
                Placed::Cross => (far, 0),
            })
            .unzip();
        let mut taken = vec![0; room.nodes.len()];
        let mut cpu = |node: usize| {
            let own = &room.nodes[node].cpus;
            let cpu = own.iter().nth(taken[node] % own.len().max(1));
            taken[node] += 1;
            cpu.into_iter().collect::<CpuSet>()
        };
        let cpus = of_cpus.into_iter().map(&mut cpu).collect();
        let memory = of_memory.into_iter().map(|node| CpuSet::from_iter([room.nodes[node].id]));
        Some(Options { cpus, memory_nodes: memory.collect(), ..options })
    }

    /// What a reader of results should know of it, in a line.
    #[must_use]
    pub fn describe(&self) -> String {
        let options = &self.test.options;
        let sizes = [
            (options.sizes.global, "shared by all"),
            (options.sizes.process, "per process"),
            (options.sizes.thread, "per thread"),
        ];
        let sizes = sizes.iter().filter(|(bytes, _)| *bytes > 0);
        let sizes: Vec<String> =
            sizes.map(|(bytes, whose)| format!("{} MiB {whose}", bytes / (1 << 20))).collect();
        let scale = if self.scale < 1.0 {
            format!(", {:.0} % of its size by name", 100.0 * self.scale)
        } else {
            String::new()
        };
        let judge = match self.judge {
            ConvergenceRule::Locality if self.fits_node => "fits one node, judged by locality",
            ConvergenceRule::Locality => "more than the only node has",
            ConvergenceRule::Evenness => "more than one node has, judged by evenness",
        };
        let crowded = if self.load > 1.0 {
            format!(", {:.1} threads for each CPU", self.load)
        } else {
            String::new()
        };
        format!(
            "{} x {} threads, {}{scale}, {}; {judge}{crowded}",
            options.processes,
            options.threads,
            sizes.join(", "),
            options.access.name()
        )
    }
}

/// A way to bind threads and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// None.
    Free,
    /// Threads and their memory together; what is wider than a node evenly over all.
    Best,
    /// Memory as far as can be from its threads, or all of it on one node.
    Worst,
    /// Threads anywhere, a page from each node in turn.
    Interleave,
    /// As many pages from each node in turn as its weight says.
    WeightedInterleave,
}

/// Whether threads of a process use the same memory: then they belong on one node, else each with its own.
fn is_shared(options: &Options) -> bool {
    options.sizes.process > 0 || options.phases > 1
}

/// Bytes of a process, but for what all share.
pub(super) fn of_process(sizes: Sizes, threads: usize) -> u64 {
    sizes.process.saturating_add(sizes.thread.saturating_mul(threads as u64))
}

/// Bytes of the fullest node under the best binding.
fn most_on_a_node(test: &Test, nodes: usize) -> u64 {
    let options = &test.options;
    let Sizes { global, thread, .. } = options.sizes;
    let of_process = of_process(options.sizes, options.threads);
    let (each, groups) = match is_shared(options) {
        true => (of_process, options.processes),
        false => (thread, options.tasks()),
    };
    let together = each.saturating_mul(groups.div_ceil(nodes.max(1)) as u64).saturating_add(global);
    if test.placed.is_some() {
        return of_process.saturating_mul(options.processes as u64);
    }
    together.max(PAGE)
}

/// Bytes that the fullest node is asked for under the worst binding.
fn fullest(options: &Options, room: &UsableNodes) -> u64 {
    let Sizes { global, process, thread, .. } = options.sizes;
    if options.memory_nodes.is_empty() {
        return options.sizes.total(options.processes, options.threads).unwrap_or(u64::MAX);
    }
    let on_node = |node: &UsableNode| {
        let places = (0..options.tasks()).filter(|&task| {
            let nodes = &options.memory_nodes[task % options.memory_nodes.len()];
            nodes.contains(node.id)
        });
        // A process's memory lies where its first thread touches it.
        let bytes = |task: usize| {
            if task.is_multiple_of(options.threads) { process + thread } else { thread }
        };
        places.map(bytes).sum::<u64>() + global
    };
    room.nodes.iter().map(on_node).max().unwrap_or(0)
}

fn scaled(sizes: Sizes, scale: f64) -> Sizes {
    let fit = |bytes: u64| {
        if bytes == 0 || scale >= 1.0 {
            return bytes;
        }
        let wanted = (bytes as f64 * scale) as u64;
        let unit = if wanted >= HUGE { HUGE } else { PAGE };
        (wanted / unit * unit).max(PAGE)
    };
    let Sizes { global, process, locked, thread } = sizes;
    Sizes { global: fit(global), process: fit(process), locked: fit(locked), thread: fit(thread) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numa::suite::{all, named};
    use proptest::prelude::*;

    fn room(nodes: usize, cpus: u32, free: u64) -> UsableNodes {
        let node = |id: usize| UsableNode {
            id: id as u32,
            cpus: (id as u32 * cpus..(id as u32 + 1) * cpus).collect(),
            free_bytes: Some(free),
            distances: (0..nodes).map(|to| 10 + 10 * id.abs_diff(to) as u32).collect(),
        };
        UsableNodes {
            nodes: (0..nodes).map(node).collect(),
            available_bytes: Some(free * nodes as u64),
        }
    }

    fn fitted(name: &str, room: &UsableNodes) -> Fitted {
        Fitted::new(named(name, &all()).unwrap(), room)
    }

    fn lists(sets: &[CpuSet]) -> Vec<String> {
        sets.iter().map(CpuSet::to_string).collect()
    }

    #[test]
    fn the_best_binding_has_all_local_and_the_worst_nothing() {
        let room = room(4, 4, 8 << 30);
        let fitted = fitted("2x3-convergence", &room);
        assert_eq!(
            (fitted.judge, fitted.scale, fitted.load),
            (ConvergenceRule::Locality, 1.0, 6.0 / 16.0)
        );
        let best = fitted.bound(Binding::Best, &room).unwrap();
        assert_eq!(lists(&best.cpus), ["0-3", "0-3", "0-3", "4-7", "4-7", "4-7"]);
        assert_eq!(lists(&best.memory_nodes), ["0", "0", "0", "1", "1", "1"]);
        let worst = fitted.bound(Binding::Worst, &room).unwrap();
        assert_eq!(worst.cpus, best.cpus);
        assert_eq!(lists(&worst.memory_nodes), ["3", "3", "3", "3", "3", "3"]);
        let interleave = fitted.bound(Binding::Interleave, &room).unwrap();
        assert_eq!(
            (interleave.cpus.len(), interleave.policy.to_string()),
            (0, "interleave:0-3".into())
        );
        assert!(fitted.describe().contains("fits one node, judged by locality"));
    }

    #[test]
    fn what_is_wider_than_a_node_is_spread() {
        let room = room(2, 4, 8 << 30);
        let fitted = fitted("1x6-convergence", &room);
        assert_eq!((fitted.judge, fitted.fits_node), (ConvergenceRule::Evenness, false));
        let best = fitted.bound(Binding::Best, &room).unwrap();
        assert_eq!(lists(&best.cpus), ["0-3", "0-3", "0-3", "4-7", "4-7", "4-7"]);
        assert_eq!(best.policy.to_string(), "interleave:0-1");
        assert_eq!(fitted.bound(Binding::Worst, &room).unwrap().policy.to_string(), "bind:0");
    }

    /// All of it would be on one node, or two processes on the node that is far from both.
    #[test]
    fn the_worst_binding_fits_as_well() {
        let free = 100 << 20;
        let wide = room(2, 4, free);
        let sizes = fitted("4x8-bw-process", &wide).test.options.sizes;
        assert!(4 * sizes.process <= free && sizes.process > 0, "{sizes:?}");
        let four = room(4, 4, free);
        let sizes = fitted("2x3-convergence", &four).test.options.sizes;
        assert!(2 * sizes.process <= free && sizes.process > 0, "{sizes:?}");
    }

    #[test]
    fn private_memory_is_with_its_thread() {
        let room = room(2, 4, 8 << 30);
        let best = fitted("1x8-bw-thread", &room).bound(Binding::Best, &room).unwrap();
        assert_eq!(lists(&best.memory_nodes), ["0", "0", "0", "0", "1", "1", "1", "1"]);
        // Two processes whose threads pass their memory on: each process on a node.
        let four = self::room(4, 4, 8 << 30);
        let best = fitted("phases", &four).bound(Binding::Best, &four).unwrap();
        assert_eq!(lists(&best.memory_nodes), ["0", "0", "0", "0", "1", "1", "1", "1"]);
        let narrow = self::room(2, 3, 8 << 30);
        assert_eq!(fitted("phases", &narrow).judge, ConvergenceRule::Evenness);
    }

    #[test]
    fn tests_that_have_their_place_keep_it() {
        let room = room(2, 4, 8 << 30);
        let cross = fitted("RAM-bw-cross", &room).bound(Binding::Free, &room).unwrap();
        assert_eq!(
            (lists(&cross.cpus), lists(&cross.memory_nodes)),
            (vec!["0".into(), "4".into()], vec!["1".into(), "0".into()])
        );
        assert_eq!(fitted("RAM-bw-cross", &room).bound(Binding::Best, &room), None);
        let local = fitted("RAM-bw-local-2x", &room).bound(Binding::Free, &room).unwrap();
        assert_eq!(lists(&local.cpus), ["0", "1"]);
        let one = self::room(1, 2, 8 << 30);
        assert_eq!(fitted("RAM-bw-remote", &one).bound(Binding::Free, &one), None);
        assert_eq!(fitted("2x1-bw-process", &one).bound(Binding::Worst, &one), None);
    }

    proptest! {
        #[test]
        fn what_is_fitted_fits(nodes in 1..9usize, cpus in 1..65u32, mib in 64..65536u64, which in 0..47usize) {
            let room = room(nodes, cpus, mib << 20);
            let fitted = Fitted::new(&all()[which], &room);
            let options = &fitted.test.options;
            let total = options.sizes.total(options.processes, options.threads).unwrap();
            prop_assert!(options.check().is_ok());
            prop_assert!(total <= (mib << 20) * nodes as u64);
            prop_assert!(most_on_a_node(&fitted.test, nodes) <= mib << 20);
            if let Some(worst) = fitted.bound(Binding::Worst, &room) {
                prop_assert!(fullest(&worst, &room) <= mib << 20);
            }
            for binding in [Binding::Free, Binding::Best, Binding::Worst, Binding::Interleave] {
                if let Some(bound) = fitted.bound(binding, &room) {
                    prop_assert!(bound.check().is_ok(), "{:?}", bound.check());
                }
            }
        }
    }
}
