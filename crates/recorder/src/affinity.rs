//! Moves a reader to where the ring is that it drains next.
//!
//! Whether a move pays depends on what the reader takes from the CPU it stays on. A reader of many
//! rings takes a visible share of one CPU; on a saturated machine the thread that runs there falls
//! behind, and with it every thread that waits for it at a barrier. Going to each ring's own CPU
//! spreads that share evenly. A reader that takes next to nothing has nothing to spread, and a move
//! costs it more than the drain (docs/benchmarks.md). Hence [`Affinity::Auto`]:
//!
//! ```text
//!   node has an idle CPU                       ► stay on the node
//!   node is busy, reader takes under 2 % of a CPU ► stay on the node
//!   node is busy, reader takes more            ► go to the ring's CPU, until it takes under 1 %
//! ```

use std::time::{Duration, Instant};

use pmuscope_machine::{CpuSet, Topology, place};

use crate::clock::thread_cpu_ns;
use crate::options::Affinity;

/// Keeps track of where the calling thread may run, so that a move that changes nothing costs nothing.
#[derive(Debug)]
pub(crate) struct Mover<'a> {
    topology: &'a Topology,
    mode: Affinity,
    /// What the user allows us (taskset, cpuset), or what this reader was pinned to.
    home: CpuSet,
    now: CpuSet,
    moves: u64,
    /// Share of a CPU that the reader takes, and since when that is measured.
    load: Load,
}

/// Measures how much of a CPU the calling thread takes.
#[derive(Debug)]
struct Load {
    since: Instant,
    cpu: Duration,
    /// It takes enough to be worth spreading.
    heavy: bool,
}

/// From this share of a CPU on, a reader is spread over the CPUs of its rings …
const HEAVY: f64 = 0.02;
/// … until it takes less than this: moving itself makes it heavier.
const LIGHT: f64 = 0.01;
/// How long to look before judging.
const LOOK: Duration = Duration::from_millis(500);

impl Load {
    fn new() -> Self {
        Self { since: Instant::now(), cpu: Duration::from_nanos(thread_cpu_ns()), heavy: false }
    }

    /// Takes a new measurement when the last one is old enough.
    fn update(&mut self) {
        let elapsed = self.since.elapsed();
        if elapsed < LOOK {
            return;
        }
        let now = Duration::from_nanos(thread_cpu_ns());
        let share = now.saturating_sub(self.cpu).as_secs_f64() / elapsed.as_secs_f64();
        self.judge(share);
        (self.since, self.cpu) = (Instant::now(), now);
    }

    fn judge(&mut self, share: f64) {
        self.heavy = if self.heavy { share >= LIGHT } else { share >= HEAVY };
    }
}

impl<'a> Mover<'a> {
    /// For the calling thread. `pinned` wins over `mode`.
    pub(crate) fn new(topology: &'a Topology, mode: Affinity, pinned: Option<&CpuSet>) -> Self {
        // Unreadable means unrestricted as far as we can tell.
        let user = place::affinity().unwrap_or_else(|_| topology.online.clone());
        let mut mover = Self {
            topology,
            mode,
            home: user.clone(),
            now: user.clone(),
            moves: 0,
            load: Load::new(),
        };
        if let Some(pinned) = pinned {
            mover.mode = Affinity::Sys;
            mover.go_to(&pinned.intersection(&user));
            mover.home = mover.now.clone();
        }
        mover
    }

    /// Goes where a ring of `cpu` is to be drained. `busy` tells whether a node has no idle CPU.
    pub(crate) fn approach(&mut self, cpu: Option<u32>, busy: impl FnOnce(u32) -> bool) {
        let Some(cpu) = cpu else { return };
        let Some(node) = self.topology.node_of(cpu) else { return };
        match self.mode {
            Affinity::Sys => {}
            Affinity::Cpu => self.go_to_cpu(cpu),
            Affinity::Node => self.go_to_node(node),
            Affinity::Auto => {
                self.load.update();
                if self.load.heavy && busy(node) {
                    self.go_to_cpu(cpu);
                } else {
                    self.go_to_node(node);
                }
            }
        }
    }

    /// Whether the thread runs on the node of `cpu` now.
    pub(crate) fn is_on_node_of(&self, cpu: Option<u32>) -> bool {
        let here = self.topology.node_of(place::current_cpu());
        cpu.is_none_or(|cpu| self.topology.node_of(cpu) == here)
    }

    /// How often the set of allowed CPUs was changed.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    fn go_to_cpu(&mut self, cpu: u32) {
        if self.now.len() != 1 || !self.now.contains(cpu) {
            self.go_to(&self.home.intersection(&CpuSet::from_iter([cpu])));
        }
    }

    fn go_to_node(&mut self, node: u32) {
        let Some(node) = self.topology.nodes.iter().find(|candidate| candidate.id == node) else {
            return;
        };
        let target = self.home.intersection(&node.cpus);
        if target != self.now {
            self.go_to(&target);
        }
    }

    /// Where nothing of the target is allowed, the reader stays: reading from afar loses no data.
    fn go_to(&mut self, target: &CpuSet) {
        if !target.is_empty() && place::set_affinity(target).is_ok() {
            self.now = target.clone();
            self.moves += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_that_changes_nothing_is_none() {
        std::thread::spawn(|| {
            let topology = pmuscope_machine::Machine::host().topology().unwrap();
            let cpu = place::affinity().unwrap().first();
            let mut mover = Mover::new(&topology, Affinity::Cpu, None);
            mover.approach(cpu, |_| false);
            let after_first = mover.moves();
            mover.approach(cpu, |_| false);
            assert_eq!(mover.moves(), after_first);
            assert_eq!(Some(place::current_cpu()), cpu);
            assert!(mover.is_on_node_of(cpu));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_reader_becomes_heavy_later_than_it_becomes_light() {
        let mut load = Load::new();
        let mut judged = Vec::new();
        for share in [0.015, 0.03, 0.015, 0.005, 0.015] {
            load.judge(share);
            judged.push(load.heavy);
        }
        assert_eq!(judged, [false, true, true, false, false]);
    }

    #[test]
    fn auto_goes_to_the_cpu_only_while_the_node_is_busy() {
        std::thread::spawn(|| {
            let topology = pmuscope_machine::Machine::host().topology().unwrap();
            let user = place::affinity().unwrap();
            let mut mover = Mover::new(&topology, Affinity::Auto, None);
            mover.approach(user.first(), |_| true);
            assert_eq!(place::affinity().unwrap(), user, "a light reader stays");
            mover.load.judge(0.03);
            mover.approach(user.first(), |_| true);
            assert_eq!(place::affinity().unwrap().len(), 1);
            mover.approach(user.first(), |_| false);
            let node = topology.node_of(user.first().unwrap());
            let expected = topology.nodes.iter().find(|n| Some(n.id) == node).unwrap();
            assert_eq!(place::affinity().unwrap(), user.intersection(&expected.cpus));
        })
        .join()
        .unwrap();
    }
}
