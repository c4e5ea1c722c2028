//! The placement policies that seeds of this field compare: each as what happens at a hint fault, and as
//! what threads do by themselves. See docs/placement-policies.md.

use serde::Serialize;

use super::Simulation;

/// Chunks of each process that are looked at in a step: some 256 MB a second of 512 MB in 64 chunks.
const SCANNED: usize = 3;
/// What is left of old faults after a step.
const FADING: f64 = 0.98;
/// Threads think of moving every second, about.
const THINKING: f64 = 0.1;
/// A share must be larger by this much to count.
const MARGIN: f64 = 0.05;

/// Who places threads and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Nobody: threads are where there are CPUs, memory where it was first touched.
    Off,
    /// Memory follows a thread after two hint faults in a row from the same node; threads are not moved
    /// (balancenuma).
    TwoStage,
    /// The same for memory; each thread by itself goes where its process's memory is (AutoNUMA).
    PerTask,
    /// The same for memory; threads that share memory are a group, and go where most of it and of its
    /// threads are (numa-u).
    Grouped,
}

impl Policy {
    /// Whether it brings threads together; else only chance does.
    #[must_use]
    pub fn moves_threads(self) -> bool {
        matches!(self, Self::PerTask | Self::Grouped)
    }
}

pub(super) fn step(simulation: &mut Simulation, policy: Policy) {
    if policy == Policy::Off {
        return;
    }
    fade(simulation);
    for process in 0..simulation.workload.processes {
        for _ in 0..SCANNED {
            fault(simulation, process);
        }
    }
    if policy == Policy::TwoStage {
        return;
    }
    for thread in 0..simulation.threads.len() {
        if simulation.rng.f64() < THINKING {
            place(simulation, policy, thread);
        }
    }
}

fn fade(simulation: &mut Simulation) {
    let of_threads = simulation.threads.iter_mut().map(|thread| &mut thread.faults);
    for faults in of_threads.chain(simulation.faults.iter_mut()) {
        faults.iter_mut().for_each(|faults| *faults *= FADING);
    }
}

/// A thread touches a chunk that was marked. The second time in a row that this comes from the same node,
/// the chunk goes there.
fn fault(simulation: &mut Simulation, process: usize) {
    let threads = simulation.workload.threads;
    if threads == 0 {
        return;
    }
    let thread = process * threads + simulation.rng.usize(..threads);
    let used: Vec<usize> = (0..simulation.memory.len())
        .filter(|&memory| simulation.uses(thread, &simulation.memory[memory]))
        .collect();
    if used.is_empty() {
        return;
    }
    let memory = used[simulation.rng.usize(..used.len())];
    let chunk = simulation.rng.usize(..simulation.memory[memory].chunks.len());
    let node = simulation.threads[thread].node;
    let chunk = &mut simulation.memory[memory].chunks[chunk];
    simulation.threads[thread].faults[chunk.node] += 1.0;
    simulation.faults[process][chunk.node] += 1.0;
    if chunk.last == Some(node) {
        chunk.node = node;
    }
    chunk.last = Some(node);
}

fn place(simulation: &mut Simulation, policy: Policy, thread: usize) {
    let here = simulation.threads[thread].node;
    let load = simulation.load();
    let mut best: Option<(usize, Option<usize>, f64)> = None;
    for there in 0..simulation.machine.nodes {
        if there == here || !simulation.threads[thread].allowed[there] {
            continue;
        }
        let (partner, gain) = if simulation.is_full(there, &load) {
            let Some((partner, gain)) = exchange(simulation, policy, thread, there) else {
                continue;
            };
            (Some(partner), gain)
        } else {
            (None, gain(simulation, policy, thread, here, there))
        };
        if gain > best.map_or(MARGIN, |(_, _, most)| most) {
            best = Some((there, partner, gain));
        }
    }
    simulation.threads[thread].settled = best.is_none();
    if let Some((there, partner, _)) = best {
        simulation.threads[thread].node = there;
        simulation.threads[thread].settled = true;
        if let Some(partner) = partner {
            simulation.threads[partner].node = here;
        }
    }
}

/// The thread there that it is best to change places with.
fn exchange(
    simulation: &Simulation,
    policy: Policy,
    thread: usize,
    there: usize,
) -> Option<(usize, f64)> {
    let here = simulation.threads[thread].node;
    let own = simulation.threads[thread].process;
    let mine = gain(simulation, policy, thread, here, there);
    if mine <= MARGIN {
        return None;
    }
    let candidates =
        simulation.threads.iter().enumerate().filter(|(_, other)| {
            other.node == there && other.allowed[here] && other.process != own
        });
    let gains =
        candidates.map(|(index, _)| (index, mine + gain(simulation, policy, index, there, here)));
    gains.filter(|(_, gain)| *gain > MARGIN).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// What a thread gains by going from one node to another.
fn gain(simulation: &Simulation, policy: Policy, thread: usize, here: usize, there: usize) -> f64 {
    let process = simulation.threads[thread].process;
    let of_process = |node| share(&simulation.faults[process], node);
    let of_thread = |node| share(&simulation.threads[thread].faults, node);
    match policy {
        Policy::Off | Policy::TwoStage => 0.0,
        // Both its own faults and its process's must speak for it.
        Policy::PerTask => {
            f64::min(of_process(there) - of_process(here), of_thread(there) - of_thread(here))
        }
        Policy::Grouped => {
            let friends = |node| {
                let threads = simulation.threads.iter().enumerate();
                let others = threads.filter(|(index, other)| {
                    *index != thread && other.process == process && other.node == node
                });
                others.count() as f64 / (simulation.workload.threads.max(2) - 1) as f64
            };
            // A node that has no room for the whole group is no place for it.
            let room = |node| {
                let strangers = simulation.threads.iter();
                let strangers =
                    strangers.filter(|other| other.node == node && other.process != process);
                let all = strangers.count() + simulation.workload.threads;
                if all > simulation.machine.cpus as usize { 0.0 } else { 1.0 }
            };
            let wish = |node| friends(node) + of_process(node) + room(node);
            wish(there) - wish(here)
        }
    }
}

fn share(faults: &[f64], node: usize) -> f64 {
    let all: f64 = faults.iter().sum();
    if all > 0.0 { faults[node] / all } else { 0.0 }
}
