//! What is known of a process and of the nodes that it is on: all that a verdict rests on.

use serde::{Deserialize, Serialize};

use super::sharing::Sharing;
use crate::placement::{Area, shares};

/// What was seen of a process and the machine around it, for some seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// How long it was looked at, seconds.
    pub seconds: f64,
    /// The machine's nodes, ascending.
    pub nodes: Vec<NodeEvidence>,
    /// Threads of the process at the last observation.
    pub threads: u64,
    /// Of these, those that ran for a noticeable part of the time.
    pub busy_threads: u64,
    /// Half of the 95 % interval of its locality; `None` without pages.
    pub locality_half: Option<f64>,
    /// Pages that were asked for, in all observations.
    pub pages_asked: u64,
    /// Who uses which memory, by sampled faults; `None` where none could be sampled.
    pub sharing: Option<Sharing>,
    /// Why it is `None`.
    pub sharing_why: Option<String>,
    /// Whether the kernel balances, so that uses of pages that are there fault: `kernel.numa_balancing`.
    pub balancing: Option<bool>,
    /// Why bandwidth of nodes is not known.
    pub bandwidth_why: Option<String>,
    /// Whether its threads share their memory, where the user said so: then faults are not asked.
    pub shares: Option<bool>,
    /// The process itself may run on some CPUs only, because it or somebody else chose so.
    pub is_bound: bool,
    /// Its threads may not all run on the same CPUs: some were pinned one by one.
    pub pinned_apart: bool,
}

/// A node, and what the process has on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeEvidence {
    /// Its number.
    pub id: u32,
    /// CPUs that are online.
    pub cpus: u64,
    /// Those of them that its threads may run on, by their own affinity, as a list; none unless each thread has one.
    pub cpu_list: String,
    /// How many these are.
    pub usable_cpus: u64,
    /// Whether the process's cpuset and the affinity of every thread let it run here.
    pub may_run: bool,
    /// Whether they let some of its threads run here.
    pub some_may_run: bool,
    /// Whether the process's cpuset lets it take memory here.
    pub may_take: bool,
    /// Its memory, bytes; `None` where the kernel does not tell.
    pub memory_bytes: Option<u64>,
    /// Free memory, bytes.
    pub free_bytes: Option<u64>,
    /// CPUs that were busy, on average, whoever ran but the one who looked.
    pub busy_cpus: Option<f64>,
    /// CPUs that the process kept busy, on average.
    pub own_cpus: f64,
    /// Bytes of the process, on average.
    pub own_bytes: f64,
    /// Bytes per second through its memory; `None` where nothing counts them.
    pub bandwidth: Option<f64>,
}

impl NodeEvidence {
    /// CPUs that others kept busy.
    #[must_use]
    pub fn others_cpus(&self) -> Option<f64> {
        Some((self.busy_cpus? - self.own_cpus).max(0.0))
    }

    /// CPUs that the process could have: those that others leave.
    #[must_use]
    pub fn room_cpus(&self) -> f64 {
        // Others are taken to be on all CPUs alike.
        let share = self.usable_cpus as f64 / self.cpus.max(1) as f64;
        let others = self.others_cpus().unwrap_or(0.0) * share;
        if self.may_run { (self.usable_cpus as f64 - others).max(0.0) } else { 0.0 }
    }

    /// Bytes that the process could have here: its own, and what is free.
    #[must_use]
    pub fn room_bytes(&self) -> f64 {
        let free = self.free_bytes.unwrap_or(0) as f64;
        if self.may_take { self.own_bytes + free } else { self.own_bytes }
    }
}

impl Evidence {
    /// All memory of the process that may be written to, with all of its threads.
    #[must_use]
    pub fn area(&self) -> Area {
        Area {
            pages: self.nodes.iter().map(|node| node.own_bytes).collect(),
            threads: self.nodes.iter().map(|node| node.own_cpus).collect(),
        }
    }

    /// The share of its memory that its threads reach locally if each uses all of it alike.
    #[must_use]
    pub fn locality(&self) -> Option<f64> {
        self.area().locality()
    }

    /// Its memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.nodes.iter().map(|node| node.own_bytes).sum()
    }

    /// CPUs that it kept busy, on average.
    #[must_use]
    pub fn own_cpus(&self) -> f64 {
        self.nodes.iter().map(|node| node.own_cpus).sum()
    }

    /// The place of the node that has the most of `amount`, with its share of all.
    pub(super) fn most(&self, amount: impl Fn(&NodeEvidence) -> f64) -> Option<(usize, f64)> {
        let shares = shares(&self.nodes.iter().map(amount).collect::<Vec<_>>())?;
        shares.into_iter().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
    }
}
