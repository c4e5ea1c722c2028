//! A small machine and its workload, simulated: to try placement on machines that nobody has, and to see why
//! policies differ. Coarse on purpose: threads have nodes, not CPUs; memory has chunks, not pages; time goes
//! on in tenths of a second. All chance comes from one seed, so that equal input gives equal output.

mod policies;
mod table;
#[cfg(test)]
mod tests;
mod world;

use fastrand::Rng;
use serde::Serialize;

pub use policies::Policy;
pub use table::{
    Agreement, COLUMNS, LIMIT, PUBLISHED, Published, RUNS, SEED, SimulatedRuns, SimulatedTest,
    TESTS, Test, agreement, converge, machine, table,
};
pub use world::SimulatedWorld;

/// Seconds of a step.
pub const STEP: f64 = 0.1;
/// Chunks of a process's memory, and of a thread's.
const CHUNKS: u64 = 64;

/// The machine: nodes that are all alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Nodes.
    pub nodes: usize,
    /// CPUs of each.
    pub cpus: u32,
    /// Memory of each in bytes.
    pub node_bytes: u64,
    /// Distance of one node to another; a node's own is 10. An access costs as much in proportion.
    pub distance: u32,
    /// Threads at full speed whose accesses one node's memory serves.
    pub bandwidth: f64,
    /// Threads at full speed whose remote accesses a node's links serve.
    pub link: f64,
    /// How often, per step, the scheduler moves a thread for no reason that matters here.
    pub restless: f64,
}

/// Processes that are all alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Workload {
    /// Processes.
    pub processes: usize,
    /// Threads of each.
    pub threads: usize,
    /// Memory that all processes use, bytes.
    pub global_bytes: u64,
    /// Memory of each process that all of its threads use, bytes.
    pub process_bytes: u64,
    /// Memory of each thread, bytes.
    pub thread_bytes: u64,
    /// All memory begins on node 0; else where chance has it.
    pub begin_on_first: bool,
    /// After so many seconds, again and again, threads take over the next thread's memory; 0: never.
    pub phase: f64,
}

/// A thread.
#[derive(Debug, Clone)]
struct SimulatedThread {
    process: usize,
    node: usize,
    /// Nodes where it may run.
    allowed: Vec<bool>,
    /// Its own hint faults by the node of the memory, fading.
    faults: Vec<f64>,
    /// A policy wants it where it is.
    settled: bool,
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    node: usize,
    /// The node of the last hint fault.
    last: Option<usize>,
}

/// Memory with one kind of users.
#[derive(Debug, Clone)]
struct SimulatedMemory {
    /// `None`: all processes use it.
    process: Option<usize>,
    /// `None`: all threads use it.
    thread: Option<usize>,
    chunk_bytes: u64,
    chunks: Vec<Chunk>,
}

/// A machine at work.
#[derive(Debug, Clone)]
pub struct Simulation {
    machine: Machine,
    workload: Workload,
    threads: Vec<SimulatedThread>,
    memory: Vec<SimulatedMemory>,
    /// Hint faults of each process by the node of the memory, fading.
    faults: Vec<Vec<f64>>,
    rng: Rng,
    steps: u64,
}

impl Simulation {
    /// The workload as it begins: each thread on a node with the fewest, as the kernel's fork does.
    #[must_use]
    pub fn new(machine: &Machine, workload: &Workload, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut memory = Vec::new();
        let mut add = |process, thread, bytes: u64| {
            if bytes == 0 {
                return;
            }
            let mut chunk = || Chunk {
                node: if workload.begin_on_first { 0 } else { rng.usize(..machine.nodes) },
                last: None,
            };
            let chunks = (0..CHUNKS).map(|_| chunk()).collect();
            memory.push(SimulatedMemory {
                process,
                thread,
                chunk_bytes: (bytes / CHUNKS).max(1),
                chunks,
            });
        };
        add(None, None, workload.global_bytes);
        for process in 0..workload.processes {
            add(Some(process), None, workload.process_bytes);
            for thread in 0..workload.threads {
                add(Some(process), Some(thread), workload.thread_bytes);
            }
        }
        let mut simulation = Self {
            machine: machine.clone(),
            workload: workload.clone(),
            threads: Vec::new(),
            memory,
            faults: vec![vec![0.0; machine.nodes]; workload.processes],
            rng,
            steps: 0,
        };
        for process in 0..workload.processes {
            for _ in 0..workload.threads {
                let node = simulation.emptiest(&vec![true; machine.nodes]);
                simulation.threads.push(SimulatedThread {
                    process,
                    node,
                    allowed: vec![true; machine.nodes],
                    faults: vec![0.0; machine.nodes],
                    settled: false,
                });
            }
        }
        simulation
    }

    /// Seconds since it began.
    #[must_use]
    pub fn now(&self) -> f64 {
        self.steps as f64 * STEP
    }

    /// A tenth of a second under a policy.
    pub fn step(&mut self, policy: Policy) {
        self.steps += 1;
        self.fill_idle_cpus();
        self.wander();
        policies::step(self, policy);
    }

    /// Threads on each node.
    #[must_use]
    pub fn load(&self) -> Vec<usize> {
        let mut load = vec![0; self.machine.nodes];
        for thread in &self.threads {
            load[thread.node] += 1;
        }
        load
    }

    /// Whether every process has all of its threads on one node: what `perf bench numa` calls converged.
    #[must_use]
    pub fn threads_converged(&self) -> bool {
        (0..self.workload.processes).all(|process| {
            let mut nodes = self.threads.iter().filter(|t| t.process == process).map(|t| t.node);
            let first = nodes.next();
            nodes.all(|node| Some(node) == first)
        })
    }

    /// The share of accesses that are local, over all threads and the memory that they use.
    #[must_use]
    pub fn local_share(&self) -> f64 {
        let shares: Vec<f64> = (0..self.threads.len())
            .filter_map(|thread| {
                let used = self.used_by(thread);
                let all: f64 = used.iter().sum();
                (all > 0.0).then(|| used[self.threads[thread].node] / all)
            })
            .collect();
        pmuscope_stats::mean(&shares).unwrap_or(1.0)
    }

    /// Work done per second by all threads; 1 for each that has a CPU and local memory for itself.
    #[must_use]
    pub fn speed(&self) -> f64 {
        let load = self.load();
        let mut wanted = vec![0.0; self.machine.nodes];
        let mut crossing = vec![0.0; self.machine.nodes];
        let mut wishes = Vec::new();
        for (index, thread) in self.threads.iter().enumerate() {
            let used = self.used_by(index);
            let all: f64 = used.iter().sum();
            let cpu = (f64::from(self.machine.cpus) / load[thread.node] as f64).min(1.0);
            let shares: Vec<f64> =
                used.iter().map(|used| if all > 0.0 { used / all } else { 0.0 }).collect();
            let local = if all > 0.0 { shares[thread.node] } else { 1.0 };
            let latency = local + (1.0 - local) * f64::from(self.machine.distance) / 10.0;
            for (node, share) in shares.iter().enumerate() {
                wanted[node] += cpu * share;
                if node != thread.node {
                    crossing[node] += cpu * share;
                }
            }
            wishes.push((cpu / latency, shares, thread.node));
        }
        let served = |wanted: f64, limit: f64| if wanted > limit { limit / wanted } else { 1.0 };
        let one = |(speed, shares, own): &(f64, Vec<f64>, usize)| {
            // The slowest node that it uses holds it up.
            let slowest = shares.iter().enumerate().filter(|(_, share)| **share > 0.0);
            let slowest = slowest.map(|(node, _)| {
                let memory = served(wanted[node], self.machine.bandwidth);
                let link = served(crossing[node], self.machine.link);
                if node == *own { memory } else { memory.min(link) }
            });
            speed * slowest.fold(1.0, f64::min)
        };
        wishes.iter().map(one).sum()
    }

    /// Bytes that a thread uses on each node.
    fn used_by(&self, thread: usize) -> Vec<f64> {
        let mut used = vec![0.0; self.machine.nodes];
        for memory in self.memory.iter().filter(|memory| self.uses(thread, memory)) {
            for chunk in &memory.chunks {
                used[chunk.node] += memory.chunk_bytes as f64;
            }
        }
        used
    }

    fn uses(&self, thread: usize, memory: &SimulatedMemory) -> bool {
        let process = self.threads[thread].process;
        let own = memory.process.is_none_or(|owner| owner == process);
        own && memory.thread.is_none_or(|owner| {
            let phase = if self.workload.phase > 0.0 {
                (self.now() / self.workload.phase) as usize
            } else {
                0
            };
            (thread + phase) % self.workload.threads == owner
        })
    }

    /// An allowed node with the fewest threads; chance decides between equals.
    fn emptiest(&mut self, allowed: &[bool]) -> usize {
        let load = self.load();
        let open: Vec<usize> = (0..self.machine.nodes).filter(|&node| allowed[node]).collect();
        let least = open.iter().map(|&node| load[node]).min().unwrap_or(0);
        let equal: Vec<usize> = open.into_iter().filter(|&node| load[node] == least).collect();
        if equal.is_empty() { 0 } else { equal[self.rng.usize(..equal.len())] }
    }

    fn is_full(&self, node: usize, load: &[usize]) -> bool {
        load[node] >= self.machine.cpus as usize
    }

    /// No thread waits while a CPU that it may use idles.
    fn fill_idle_cpus(&mut self) {
        let cpus = self.machine.cpus as usize;
        for from in 0..self.machine.nodes {
            let mut load = self.load();
            let waiting = load[from].saturating_sub(cpus);
            for _ in 0..waiting {
                let free = |to: &usize| load[*to] < cpus;
                let open: Vec<usize> = (0..self.machine.nodes).filter(free).collect();
                let able = |index: &usize| {
                    let thread = &self.threads[*index];
                    thread.node == from && open.iter().any(|&to| thread.allowed[to])
                };
                let mut able: Vec<usize> = (0..self.threads.len()).filter(able).collect();
                // Those that a policy has settled go last.
                if able.iter().any(|&index| !self.threads[index].settled) {
                    able.retain(|&index| !self.threads[index].settled);
                }
                if able.is_empty() {
                    break;
                }
                let index = able[self.rng.usize(..able.len())];
                let allowed = &self.threads[index].allowed;
                let open: Vec<usize> = open.into_iter().filter(|&to| allowed[to]).collect();
                let to = open[self.rng.usize(..open.len())];
                self.threads[index].node = to;
                load[from] -= 1;
                load[to] += 1;
            }
        }
    }

    /// Now and then a thread wakes up elsewhere, where there is no more to do than here.
    fn wander(&mut self) {
        if self.threads.is_empty() || self.rng.f64() >= self.machine.restless {
            return;
        }
        let index = self.rng.usize(..self.threads.len());
        let to = self.rng.usize(..self.machine.nodes);
        let load = self.load();
        let thread = &mut self.threads[index];
        if thread.allowed[to] && !thread.settled && load[to] < load[thread.node] {
            thread.node = to;
        }
    }
}
