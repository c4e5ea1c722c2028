//! A simulated machine as a [`World`] for [`crate::balance::run`].

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use super::{Policy, STEP, Simulation};
use crate::balance::{
    Goal, Judge, NodeView, Owed, ProcessView, Sharing, Slice, Stop, ThreadView, TimeBlock, Turns,
    View, World,
};

/// Bytes per second that the simulated machine copies.
const COPIED: f64 = 1e9;

/// A simulation that is watched and acted on.
#[derive(Debug)]
pub struct SimulatedWorld {
    /// The machine at work.
    pub simulation: Simulation,
    judge: Judge,
    limit: f64,
    /// Seconds that have passed beyond the last step.
    rest: f64,
    policy: Policy,
    converged: Option<f64>,
}

impl SimulatedWorld {
    /// Ends after `limit` seconds. `judge` other than [`Judge::Locality`] is told the simulation's speed;
    /// `policy` is what the simulated kernel does meanwhile.
    #[must_use]
    pub fn new(simulation: Simulation, judge: Judge, policy: Policy, limit: f64) -> Self {
        Self { simulation, judge, limit, rest: 0.0, policy, converged: None }
    }

    /// When all processes first had their threads on one node each, asked once a second; seconds.
    #[must_use]
    pub fn converged(&self) -> Option<f64> {
        self.converged
    }

    fn pass(&mut self, seconds: f64, mut each: impl FnMut(&Simulation)) {
        self.rest += seconds;
        while self.rest >= STEP {
            self.rest -= STEP;
            self.simulation.step(self.policy);
            each(&self.simulation);
            if self.simulation.steps.is_multiple_of(10) && self.simulation.threads_converged() {
                let now = self.simulation.now();
                self.converged.get_or_insert(now);
            }
        }
    }

    fn view(&self, ran: &[Vec<f64>]) -> View {
        let simulation = &self.simulation;
        let machine = &simulation.machine;
        let mut used = vec![0u64; machine.nodes];
        for memory in &simulation.memory {
            for chunk in &memory.chunks {
                used[chunk.node] += memory.chunk_bytes;
            }
        }
        let node = |index: usize| NodeView {
            id: index as u32,
            cpus: machine.cpus,
            free_bytes: machine.node_bytes.saturating_sub(used[index]),
            other_load: 0.0,
            distances: (0..machine.nodes)
                .map(|other| if other == index { 10 } else { machine.distance })
                .collect(),
            bandwidth: None,
        };
        let processes =
            (0..simulation.workload.processes).map(|process| self.process(process, ran));
        View { nodes: (0..machine.nodes).map(node).collect(), processes: processes.collect() }
    }

    /// A process's own memory by node, bytes.
    pub(super) fn bytes_of(&self, process: usize) -> Vec<u64> {
        let simulation = &self.simulation;
        let mut bytes = vec![0u64; simulation.machine.nodes];
        for memory in simulation.memory.iter().filter(|memory| memory.process == Some(process)) {
            for chunk in &memory.chunks {
                bytes[chunk.node] += memory.chunk_bytes;
            }
        }
        bytes
    }

    fn process(&self, process: usize, ran: &[Vec<f64>]) -> ProcessView {
        let simulation = &self.simulation;
        let nodes = simulation.machine.nodes;
        let own = simulation.threads.iter().enumerate();
        let own = own.filter(|(_, thread)| thread.process == process);
        let threads = own.map(|(index, _)| {
            let nodes = crate::placement::shares(&ran[index]).unwrap_or_default();
            ThreadView { tid: index as u32, busy: 1.0, nodes }
        });
        ProcessView {
            pid: process as u32,
            threads: threads.collect(),
            bytes: self.bytes_of(process),
            cpus: vec![simulation.machine.cpus; nodes],
            memory_allowed: vec![true; nodes],
            sharing: Sharing::Unknown,
        }
    }

    fn allow(&mut self, pid: u32, allowed: &[bool]) -> usize {
        let mut count = 0;
        for index in 0..self.simulation.threads.len() {
            if self.simulation.threads[index].process != pid as usize {
                continue;
            }
            count += 1;
            self.simulation.threads[index].allowed = allowed.to_vec();
            if !allowed[self.simulation.threads[index].node] {
                let node = self.simulation.emptiest(allowed);
                self.simulation.threads[index].node = node;
            }
        }
        count
    }
}

impl World for SimulatedWorld {
    type Error = Infallible;

    fn now(&self) -> Duration {
        Duration::from_secs_f64(self.simulation.now() + self.rest)
    }

    fn judge(&self) -> Judge {
        self.judge
    }

    fn stop(&mut self) -> Option<Stop> {
        (self.simulation.now() >= self.limit).then_some(Stop::Time)
    }

    fn observe(&mut self, length: Duration) -> Result<TimeBlock, Infallible> {
        let nodes = self.simulation.machine.nodes;
        let mut ran = vec![vec![0.0; nodes]; self.simulation.threads.len()];
        let mut speeds = Vec::new();
        self.pass(length.as_secs_f64(), |simulation| {
            for (ran, thread) in ran.iter_mut().zip(&simulation.threads) {
                ran[thread.node] += 1.0;
            }
            speeds.push(simulation.speed());
        });
        let speed = pmuscope_stats::mean(&speeds).filter(|_| self.judge.is_speed());
        Ok(TimeBlock { view: self.view(&ran), speed })
    }

    fn wait(&mut self, length: Duration) {
        self.pass(length.as_secs_f64(), |_| {});
    }

    fn left(&self) -> Option<Duration> {
        Some(Duration::from_secs_f64((self.limit - self.simulation.now()).max(0.0)))
    }

    fn wait_for_undo(&mut self, length: Duration) -> bool {
        self.wait(length);
        true
    }

    fn pin(&mut self, pid: u32, nodes: &[u32]) -> Result<usize, Infallible> {
        let all = self.simulation.machine.nodes;
        let allowed: Vec<bool> = (0..all).map(|node| nodes.contains(&(node as u32))).collect();
        Ok(self.allow(pid, &allowed))
    }

    fn unpin(&mut self, pid: u32) -> Result<(), Infallible> {
        let all = vec![true; self.simulation.machine.nodes];
        self.allow(pid, &all);
        Ok(())
    }

    fn move_slice(
        &mut self,
        pid: u32,
        goal: &Goal,
        cursor: &mut u64,
        bytes: u64,
    ) -> Result<Slice, Infallible> {
        let mut moved: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut left = bytes;
        let mut place = 0;
        let unit = self.simulation.memory.iter().map(|memory| memory.chunk_bytes).max();
        let mut turns = match goal {
            Goal::Interleave { nodes } => Turns::new(nodes, unit.unwrap_or(0)),
            Goal::To { .. } | Goal::Back { .. } => Turns::new(&[], 0),
        };
        let mut owed = match goal {
            Goal::Back { owed, .. } => owed.clone(),
            Goal::To { .. } | Goal::Interleave { .. } => Owed::default(),
        };
        let own = self.simulation.memory.iter_mut();
        for memory in own.filter(|memory| memory.process == Some(pid as usize)) {
            for chunk in &mut memory.chunks {
                place += 1;
                let at = chunk.node as u32;
                // Also of those that earlier calls have laid, which stay.
                let turn = turns.next(at, memory.chunk_bytes).unwrap_or(at);
                if place <= *cursor {
                    continue;
                }
                let to = match goal {
                    Goal::To { from, to } if at == *from => *to,
                    Goal::Back { from, .. } if at == *from => owed.next().unwrap_or(at),
                    Goal::To { .. } | Goal::Back { .. } => at,
                    Goal::Interleave { .. } => turn,
                };
                if to != at {
                    if memory.chunk_bytes > left {
                        let moved: Vec<_> = moved.into_iter().collect();
                        self.pass((bytes - left) as f64 / COPIED, |_| {});
                        return Ok(Slice { moved, refused: 0, done: false });
                    }
                    left -= memory.chunk_bytes;
                    owed.pay(to, memory.chunk_bytes);
                    chunk.node = to as usize;
                    *moved.entry((at, to)).or_default() += memory.chunk_bytes;
                }
                *cursor = place;
            }
        }
        self.pass((bytes - left) as f64 / COPIED, |_| {});
        Ok(Slice { moved: moved.into_iter().collect(), refused: 0, done: true })
    }
}
