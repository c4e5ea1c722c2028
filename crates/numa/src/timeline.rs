//! Processes looked at again and again: what is printed, drawn, and judged afterwards.

use std::collections::BTreeMap;
use std::time::Instant;

use pmuscope_machine::child::thread_cpu_ns;
use pmuscope_machine::{Machine, NumaCounters, Topology};
use serde::Serialize;

use crate::observe::{Family, ObserveError, Observer, Seen, ThreadPlace, Weighed, locality};
use crate::placement::{ByNode, shares};

/// A share with half of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Share {
    /// 0 to 1.
    pub value: f64,
    /// 0 where all pages were asked for.
    pub half: f64,
}

impl Share {
    fn of(seen: &[&Seen]) -> Option<Self> {
        let estimate = locality(seen)?;
        Some(Self {
            value: estimate.value,
            half: estimate.interval.map_or(0.0, |interval| interval.half_width()),
        })
    }
}

/// A process at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessObservation {
    /// Process id.
    pub pid: u32,
    /// Its name, with what is not UTF-8 replaced: a process chooses it freely, so escape it.
    pub name: String,
    /// Threads whose last CPU is on each node.
    pub threads: Vec<u32>,
    /// Share of the running time since the last observation on each node, 0 to 1; `None` if none ran.
    pub running: Option<ByNode>,
    /// Bytes on each node, of all that it may write to; estimates unless `exact`.
    pub bytes: ByNode,
    /// Whether every page was asked for.
    pub exact: bool,
    /// Pages asked for.
    pub asked: u64,
    /// Of these, how many the kernel would not tell.
    pub refused: u64,
    /// `None` without pages or threads.
    pub locality: Option<Share>,
    /// Threads that were on another node at the last observation.
    pub moved: u32,
}

/// All processes at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observation {
    /// Seconds since the first.
    pub at_s: f64,
    /// Those that could be looked at.
    pub processes: Vec<ProcessObservation>,
    /// Of all of them, each counting by its pages.
    pub locality: Option<Share>,
    /// What the kernel counted on the whole machine since the last observation; `None` at the first.
    pub counters: Option<NumaCounters>,
    /// CPU time that this observation took, nanoseconds.
    pub cost_ns: u64,
}

impl Observation {
    /// Threads on each node, of all processes.
    #[must_use]
    pub fn threads(&self) -> Vec<u32> {
        let nodes = self.processes.first().map_or(0, |process| process.threads.len());
        let on = |node: usize| self.processes.iter().map(|process| process.threads[node]).sum();
        (0..nodes).map(on).collect()
    }

    /// Bytes on each node, of all processes.
    #[must_use]
    pub fn bytes(&self) -> ByNode {
        let nodes = self.processes.first().map_or(0, |process| process.bytes.len());
        let on = |node: usize| self.processes.iter().map(|process| process.bytes[node]).sum();
        (0..nodes).map(on).collect()
    }
}

/// Follows processes.
#[derive(Debug)]
pub struct Follower {
    machine: Machine,
    observer: Observer,
    family: Family,
    budget: u64,
    begun: Option<Instant>,
    counters: Option<NumaCounters>,
    /// By process and thread: the node at the last observation.
    nodes: BTreeMap<(u32, u32), usize>,
    /// Processes of the last observation.
    known: Vec<u32>,
    refused: BTreeMap<u32, String>,
}

impl Follower {
    /// Follows these processes, and all that they start if the family does; asks for `budget` pages of all
    /// together at each observation, chosen by chance from `seed`.
    #[must_use]
    pub fn new(
        machine: &Machine,
        topology: &Topology,
        family: Family,
        (budget, seed): (u64, u64),
    ) -> Self {
        Self {
            machine: machine.clone(),
            observer: Observer::new(machine, topology, budget, seed),
            family,
            budget,
            begun: None,
            counters: None,
            nodes: BTreeMap::new(),
            known: Vec::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Numbers of the nodes, in the order of all amounts by node.
    #[must_use]
    pub fn nodes(&self) -> &[u32] {
        self.observer.nodes().ids()
    }

    /// Processes that could not be looked at, with the reason.
    #[must_use]
    pub fn refused(&self) -> &BTreeMap<u32, String> {
        &self.refused
    }

    /// Looks once; `None` once none of the processes is left.
    ///
    /// # Errors
    /// If a process is there, but none may be looked at.
    pub fn observe(&mut self) -> Result<Option<Observation>, ObserveError> {
        let cpu = thread_cpu_ns();
        let members = self.family.members(&self.machine);
        self.forget_all_but(&members);
        self.observer.share_budget(self.budget, members.len());
        let mut processes = Vec::new();
        let mut all_seen = Vec::new();
        let mut error = None;
        for pid in members {
            match self.observer.process(pid) {
                Ok(seen) => {
                    processes.push(self.process_observation(pid, &seen));
                    all_seen.push(seen);
                }
                Err(gone) if gone.is_gone() => {}
                Err(other) => {
                    self.refused.insert(pid, other.to_string());
                    error = Some(other);
                }
            }
        }
        if let (true, Some(error)) = (processes.is_empty(), error) {
            return Err(error);
        }
        if processes.is_empty() {
            return Ok(None);
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let now = self.machine.numa_counters().ok();
        let counters = self.counters.as_ref().zip(now.as_ref()).map(|(old, new)| new.since(old));
        self.counters = now;
        let all_seen: Vec<&Seen> = all_seen.iter().collect();
        Ok(Some(Observation {
            at_s: begun.elapsed().as_secs_f64(),
            locality: Share::of(&all_seen),
            processes,
            counters,
            cost_ns: thread_cpu_ns().saturating_sub(cpu),
        }))
    }

    fn process_observation(&mut self, pid: u32, seen: &Seen) -> ProcessObservation {
        let name = self.machine.task(pid, pid).map(|task| task.comm).unwrap_or_default();
        let mut threads = vec![0; self.nodes().len()];
        for thread in &seen.threads {
            threads[thread.node] += 1;
        }
        ProcessObservation {
            pid,
            name: String::from_utf8_lossy(&name).into_owned(),
            moved: self.moved(pid, &seen.threads),
            threads,
            running: match seen.weighed {
                Weighed::RunningTime => shares(&seen.area.threads),
                _ => None,
            },
            bytes: self.observer.bytes(&seen.area.pages),
            exact: seen.asked == seen.room,
            asked: seen.asked,
            refused: seen.refused,
            locality: Share::of(&[seen]),
        }
    }

    /// Threads that are on another node now.
    fn moved(&mut self, pid: u32, threads: &[ThreadPlace]) -> u32 {
        let mut moved = 0;
        for thread in threads {
            let before = self.nodes.insert((pid, thread.tid), thread.node);
            moved += u32::from(before.is_some_and(|node| node != thread.node));
        }
        moved
    }

    fn forget_all_but(&mut self, members: &[u32]) {
        for &pid in self.known.iter().filter(|pid| !members.contains(pid)) {
            self.observer.forget(pid);
            self.nodes.retain(|&(of, _), _| of != pid);
        }
        self.known = members.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_followed_until_it_ends() {
        let machine = Machine::host();
        let topology = machine.topology().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let family = Family::new(&machine, &[pid], true).unwrap();
        let mut follower = Follower::new(&machine, &topology, family, (512, 1));
        let first = match follower.observe() {
            Ok(observation) => observation.unwrap(),
            Err(ObserveError::Pages { source, .. }) => {
                eprintln!("skipped: move_pages: {source}");
                child.kill().unwrap();
                child.wait().unwrap();
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let second = follower.observe().unwrap().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(follower.observe().unwrap(), None);
        assert_eq!((first.processes.len(), first.processes[0].pid), (1, pid));
        assert!(first.counters.is_none() && second.at_s > first.at_s && first.cost_ns > 0);
        assert_eq!(first.threads().iter().sum::<u32>(), 1);
        assert!(first.bytes().iter().sum::<f64>() > 0.0);
        if topology.nodes.len() == 1 {
            let whole = Share { value: 1.0, half: 0.0 };
            assert_eq!(second.locality, Some(whole));
        }
    }
}
