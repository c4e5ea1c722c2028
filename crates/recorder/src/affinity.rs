//! Moves a reader to where the ring is that it drains next.

use pmuscope_machine::{CpuSet, Topology, place};

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
}

impl<'a> Mover<'a> {
    /// For the calling thread. `pinned` wins over `mode`.
    pub(crate) fn new(topology: &'a Topology, mode: Affinity, pinned: Option<&CpuSet>) -> Self {
        // Unreadable means unrestricted as far as we can tell.
        let user = place::affinity().unwrap_or_else(|_| topology.online.clone());
        let mut mover = Self { topology, mode, home: user.clone(), now: user.clone(), moves: 0 };
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
            Affinity::Auto if busy(node) => self.go_to_cpu(cpu),
            Affinity::Node | Affinity::Auto => self.go_to_node(node),
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
    fn auto_goes_to_the_cpu_only_while_the_node_is_busy() {
        std::thread::spawn(|| {
            let topology = pmuscope_machine::Machine::host().topology().unwrap();
            let user = place::affinity().unwrap();
            let mut mover = Mover::new(&topology, Affinity::Auto, None);
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
