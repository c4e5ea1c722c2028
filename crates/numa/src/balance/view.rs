//! What a decision is made from: nodes, processes, threads, memory, at one moment.
//!
//! Nodes are meant by their place in [`View::nodes`]; numbers of nodes are for people and system calls.

use serde::{Deserialize, Serialize};

use crate::placement::{Area, ByNode, shares};

/// The machine and the processes that are to be placed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Nodes, in the machine's order.
    pub nodes: Vec<NodeView>,
    /// Processes that may be moved.
    pub processes: Vec<ProcessView>,
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its number.
    pub id: u32,
    /// Online CPUs; 0 for a node with only memory.
    pub cpus: u32,
    /// Free memory in bytes.
    pub free_bytes: u64,
    /// CPUs that are busy with what is not among the processes of the view.
    pub other_load: f64,
    /// Distance to each node; 10 is local. Empty if not told.
    pub distances: Vec<u32>,
    /// Memory bandwidth in use as a share of what the node can give, 0 to 1; `None` where nothing counts it.
    pub bandwidth: Option<f64>,
}

/// Who uses a process's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Nobody has looked.
    #[default]
    Unknown,
    /// All of its threads use all of it.
    Shared,
    /// Each thread uses its own.
    Private,
}

/// A process that may be moved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessView {
    /// Its id.
    pub pid: u32,
    /// Its threads.
    pub threads: Vec<ThreadView>,
    /// Bytes of its memory on each node, as far as they can be moved.
    pub bytes: Vec<u64>,
    /// CPUs of each node that its threads may use together; 0 unless each has one there.
    pub cpus: Vec<u32>,
    /// Nodes that its cpuset lets it have memory on.
    pub memory_allowed: Vec<bool>,
    /// Who uses its memory.
    pub sharing: Sharing,
}

/// A thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadView {
    /// Its id.
    pub tid: u32,
    /// Share of the time, 0 to 1, that it ran or waited for a CPU.
    pub busy: f64,
    /// How much it ran on each node: shares that add up to 1, or 0 if it did not run.
    pub nodes: ByNode,
}

impl ProcessView {
    /// CPUs that it wants: its threads' busy shares together.
    #[must_use]
    pub fn demand(&self) -> f64 {
        self.threads.iter().map(|thread| thread.busy).sum()
    }

    /// Its memory in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// How much its threads ran on each node, in CPUs.
    #[must_use]
    pub fn running(&self) -> ByNode {
        let mut sum = vec![0.0; self.bytes.len()];
        for thread in &self.threads {
            for (sum, share) in sum.iter_mut().zip(&thread.nodes) {
                *sum += thread.busy * share;
            }
        }
        sum
    }

    /// All of its memory, used by all of its threads: what is known from outside.
    #[must_use]
    pub fn area(&self) -> Area {
        let pages = self.bytes.iter().map(|&bytes| bytes as f64).collect();
        Area { pages, threads: self.running() }
    }

    /// [`Area::locality`] of [`ProcessView::area`].
    #[must_use]
    pub fn locality(&self) -> Option<f64> {
        self.area().locality()
    }

    /// The share of its memory on a node; 0 if it has none.
    #[must_use]
    pub fn memory_share(&self, node: usize) -> f64 {
        let all = self.memory();
        if all == 0 { 0.0 } else { self.bytes[node] as f64 / all as f64 }
    }

    /// The share of its running time on a node; 0 if it did not run.
    #[must_use]
    pub fn running_share(&self, node: usize) -> f64 {
        shares(&self.running()).map_or(0.0, |shares| shares[node])
    }
}

impl View {
    /// Locality of all processes together, each counting by its memory. `None` if none has memory and ran.
    #[must_use]
    pub fn locality(&self) -> Option<f64> {
        let areas = self.processes.iter().map(ProcessView::area).collect();
        crate::placement::Placement { areas }.locality()
    }

    /// CPUs wanted on each node now, others' load included.
    #[must_use]
    pub fn load(&self) -> ByNode {
        let mut load: ByNode = self.nodes.iter().map(|node| node.other_load).collect();
        for process in &self.processes {
            for (load, running) in load.iter_mut().zip(process.running()) {
                *load += running;
            }
        }
        load
    }

    /// A process.
    #[must_use]
    pub fn process(&self, pid: u32) -> Option<&ProcessView> {
        self.processes.iter().find(|process| process.pid == pid)
    }

    /// The mean of views of the same machine one after the other: memory and CPUs as they are in the last one,
    /// running time and load over all of them. Processes and threads that the last one lacks are gone.
    /// `None` of none.
    #[must_use]
    pub fn mean_of<'v>(views: impl IntoIterator<Item = &'v Self>) -> Option<Self> {
        let views: Vec<&Self> = views.into_iter().collect();
        let mut mean = (*views.last()?).clone();
        for (index, node) in mean.nodes.iter_mut().enumerate() {
            let of = |get: &dyn Fn(&NodeView) -> Option<f64>| -> Option<f64> {
                let values: Option<Vec<f64>> =
                    views.iter().map(|view| view.nodes.get(index).and_then(get)).collect();
                pmuscope_stats::mean(&values?)
            };
            node.other_load = of(&|node| Some(node.other_load)).unwrap_or(node.other_load);
            node.bandwidth = of(&|node| node.bandwidth);
        }
        for process in &mut mean.processes {
            let past: Vec<&ProcessView> =
                views.iter().filter_map(|view| view.process(process.pid)).collect();
            for thread in &mut process.threads {
                thread.take_mean(&past);
            }
        }
        Some(mean)
    }
}

impl ThreadView {
    fn take_mean(&mut self, past: &[&ProcessView]) {
        let same = |process: &&ProcessView| {
            process.threads.iter().find(|thread| thread.tid == self.tid).cloned()
        };
        let seen: Vec<Self> = past.iter().filter_map(same).collect();
        let busy: f64 = seen.iter().map(|thread| thread.busy).sum();
        let mut nodes = vec![0.0; self.nodes.len()];
        for thread in &seen {
            for (sum, share) in nodes.iter_mut().zip(&thread.nodes) {
                *sum += thread.busy * share;
            }
        }
        self.nodes = shares(&nodes).unwrap_or(nodes);
        if !seen.is_empty() {
            self.busy = busy / seen.len() as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, busy: f64, nodes: &[f64]) -> ThreadView {
        ThreadView { tid, busy, nodes: nodes.to_vec() }
    }

    #[test]
    fn a_process_is_one_area() {
        let process = ProcessView {
            threads: vec![thread(1, 1.0, &[1.0, 0.0]), thread(2, 1.0, &[0.0, 1.0])],
            bytes: vec![300, 100],
            ..ProcessView::default()
        };
        assert_eq!(process.locality(), Some(0.5));
        assert_eq!((process.demand(), process.memory()), (2.0, 400));
        assert_eq!((process.memory_share(0), process.running_share(1)), (0.75, 0.5));
    }

    #[test]
    fn a_mean_is_over_time_and_knows_who_is_left() {
        let view = |busy: f64, nodes: &[f64], others: u32| View {
            nodes: vec![NodeView { other_load: busy, ..NodeView::default() }; 2],
            processes: (1..=others)
                .map(|pid| ProcessView {
                    pid,
                    threads: vec![thread(7, busy, nodes)],
                    bytes: vec![u64::from(others), 0],
                    ..ProcessView::default()
                })
                .collect(),
        };
        assert_eq!(View::mean_of([]), None);
        let mean = View::mean_of([&view(1.0, &[1.0, 0.0], 2), &view(0.5, &[0.0, 1.0], 1)]).unwrap();
        assert_eq!(mean.processes.len(), 1);
        assert_eq!(mean.nodes[0].other_load, 0.75);
        let process = &mean.processes[0];
        assert_eq!(process.bytes, [1, 0]);
        assert_eq!(process.threads[0].busy, 0.75);
        assert!((process.threads[0].nodes[0] - 2.0 / 3.0).abs() < 1e-12);
    }
}
