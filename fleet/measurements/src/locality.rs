//! Where the memory of processes lies, and where their threads run, on machines with more than one NUMA node.
//!
//! ```text
//!  processes with the most memory ─┬─ threads, each second ──────► CPU time by node ─┐
//!                                  └─ pages drawn at random, once ► memory by node ──┴─► sums by service and node
//!
//!  service web    node 0   node 1        local of node 0: 30 GiB · 25%
//!   CPU time        25%      75%         local of node 1: 10 GiB · 75%
//!   memory       30 GiB   10 GiB         locality: (7.5 + 7.5) / 40 = 37.5%, of each process, then summed
//! ```
//! `local_bytes` is what would be local if all threads of a process used all of its memory alike, as in `numa show`
//! (`pmuscope_numa::placement`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmuscope_dataset::{ImportOrigin, LOCALITY_EVENT, LocalityRow, Rows, TaskIdentity};
use pmuscope_machine::{Machine, Topology};
use pmuscope_numa::observe::{Memory, Observer, PAGES, Seen};
use pmuscope_numa::placement::shares;
use pmuscope_text::number;

use crate::config::LocalityConfig;
use crate::error::MeasurementError;
use crate::measurement::{MeasurementText, Scene};
use crate::span::{MeasuredSpan, MeasuredWhat, now_ns};

/// How often threads are asked where they run.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Observes processes, and writes the sums of services.
pub(crate) fn measure(
    config: &LocalityConfig,
    scene: &Scene<'_>,
) -> Result<MeasurementText, MeasurementError> {
    let topology = scene.machine.topology()?;
    if topology.nodes.len() < 2 {
        let why = "this machine has one NUMA node: all memory is local".to_owned();
        return Err(MeasurementError::Nothing(why));
    }
    let mut services = scene.services();
    services.read_new();
    let (chosen, mut left_out) = largest(&scene.machine, config.max_processes)?;
    let began = Instant::now();
    let observed = observe(config, &scene.machine, &topology, &chosen);
    let span = MeasuredSpan::until_now(began.elapsed());
    left_out += chosen.len() - observed.processes.len() - observed.ended;
    let mut sums = ServiceMemory::default();
    for process in &observed.processes {
        sums.add(services.identity_of(process.pid), process);
    }
    write(scene, &sums, &observed.nodes, &span, (observed.processes.len(), left_out))?;
    let text = format!(
        "{} on {} observed for {}",
        number::counted(observed.processes.len() as u64, "process"),
        number::counted(observed.nodes.len() as u64, "node"),
        number::duration(began.elapsed().as_secs_f64()),
    );
    let mut notes = Vec::new();
    if left_out > 0 {
        let count = number::counted(left_out as u64, "process");
        notes.push(format!("{count} left out: locality.max_processes, or rights"));
    }
    Ok(MeasurementText { text, notes })
}

/// The `most` processes with the most memory, and how many others have any.
fn largest(machine: &Machine, most: usize) -> Result<(Vec<u32>, usize), MeasurementError> {
    let own = std::process::id();
    let mut all: Vec<(u64, u32)> = machine
        .processes()?
        .into_iter()
        .filter(|pid| *pid != own)
        .filter_map(|pid| Some((machine.resident_bytes(pid).filter(|bytes| *bytes > 0)?, pid)))
        .collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    let left_out = all.len().saturating_sub(most);
    Ok((all.into_iter().take(most).map(|(_, pid)| pid).collect(), left_out))
}

/// What was seen of processes.
struct ObservedProcesses {
    /// Numbers of the nodes.
    nodes: Vec<u32>,
    processes: Vec<ObservedProcess>,
    /// How many ended meanwhile.
    ended: usize,
}

/// What was seen of one.
#[derive(Debug, Clone, PartialEq)]
struct ObservedProcess {
    pid: u32,
    /// Bytes of writable memory by node.
    memory: Vec<f64>,
    /// CPU time by node, ns; all 0 if it did not run.
    ran_ns: Vec<f64>,
}

/// Observes processes for some seconds: their threads each second, their pages at the end.
fn observe(
    config: &LocalityConfig,
    machine: &Machine,
    topology: &Topology,
    pids: &[u32],
) -> ObservedProcesses {
    let mut observer = Observer::new(machine, topology, PAGES, fastrand::u64(..));
    let mut ran: BTreeMap<u32, Vec<f64>> =
        pids.iter().map(|&pid| (pid, observer.nodes().zeroes())).collect();
    let end = Instant::now() + Duration::from_secs(config.seconds);
    loop {
        ran.retain(|&pid, ran_ns| match threads(&mut observer, pid) {
            Ok(seen) => {
                add_running_time(ran_ns, &seen);
                true
            }
            Err(_) => false,
        });
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(READ_EVERY));
    }
    let (mut processes, mut ended) = (Vec::new(), pids.len() - ran.len());
    for (pid, ran_ns) in ran {
        match observer.pages(pid) {
            Ok(pages) => {
                processes.push(ObservedProcess { pid, memory: observer.bytes(&pages), ran_ns });
            }
            Err(error) if error.is_gone() => ended += 1,
            // It may not be looked at: it is counted as left out.
            Err(_) => {}
        }
    }
    ObservedProcesses { nodes: observer.nodes().ids().to_vec(), processes, ended }
}

/// The threads of a process, and none of its memory.
fn threads(
    observer: &mut Observer,
    pid: u32,
) -> Result<Seen, pmuscope_numa::observe::ObserveError> {
    observer.memory(&Memory { pid, regions: Vec::new(), users: Vec::new() })
}

/// A thread counts on the node where it was found at the end of the second in which it ran.
fn add_running_time(ran_ns: &mut [f64], seen: &Seen) {
    for thread in &seen.threads {
        if let (Some(sum), Some(ns)) = (ran_ns.get_mut(thread.node), thread.ran_ns) {
            *sum += ns as f64;
        }
    }
}

/// What is kept of a service on one node.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct NodeSum {
    processes: u64,
    ran_ns: f64,
    memory: f64,
    local: f64,
    idle: f64,
}

/// Sums of services by the place of a node.
#[derive(Debug, Default)]
struct ServiceMemory(Vec<(TaskIdentity, Vec<NodeSum>)>);

impl ServiceMemory {
    fn add(&mut self, identity: TaskIdentity, process: &ObservedProcess) {
        let nodes = process.memory.len();
        let at = self.0.iter().position(|(known, _)| *known == identity).unwrap_or_else(|| {
            self.0.push((identity, vec![NodeSum::default(); nodes]));
            self.0.len() - 1
        });
        let share = shares(&process.ran_ns);
        for (node, sum) in self.0[at].1.iter_mut().enumerate() {
            let memory = process.memory[node];
            match &share {
                Some(share) => {
                    sum.processes += 1;
                    sum.ran_ns += process.ran_ns[node];
                    sum.memory += memory;
                    sum.local += memory * share[node];
                }
                None => sum.idle += memory,
            }
        }
    }

    fn rows(
        &self,
        nodes: &[u32],
        span: &MeasuredSpan,
        origin: &ImportOrigin,
        boot: Option<&str>,
    ) -> Vec<LocalityRow> {
        let (start, bin_us) = span.bins((origin.bin.as_micros() as i64).max(1));
        let row = |identity: &TaskIdentity, node: u32, sum: &NodeSum| LocalityRow {
            start,
            bin_us,
            host: origin.host.clone().unwrap_or_default(),
            boot: boot.map(Arc::from),
            service: Arc::clone(&identity.service),
            version: identity.version.clone(),
            unit: identity.unit.clone(),
            container: identity.container.clone(),
            pod: identity.pod.clone(),
            node: i64::from(node),
            observations: 1,
            processes: sum.processes as i64,
            cpu_us: (sum.ran_ns / 1000.0).round() as i64,
            memory_bytes: sum.memory.round() as i64,
            local_bytes: sum.local.round() as i64,
            idle_bytes: sum.idle.round() as i64,
            batch: origin.batch,
        };
        let of = |(identity, sums): &(TaskIdentity, Vec<NodeSum>)| -> Vec<LocalityRow> {
            nodes.iter().zip(sums).map(|(&node, sum)| row(identity, node, sum)).collect()
        };
        self.0.iter().flat_map(of).collect()
    }
}

fn write(
    scene: &Scene<'_>,
    sums: &ServiceMemory,
    nodes: &[u32],
    span: &MeasuredSpan,
    (observed, left_out): (usize, usize),
) -> Result<(), MeasurementError> {
    let (name, origin) = scene.origin("locality", &scene.machine.kernel()?.hostname, now_ns());
    let boot = scene.machine.boot_id();
    let locality = sums.rows(nodes, span, &origin, boot.as_deref());
    let what =
        MeasuredWhat { event: LOCALITY_EVENT, samples: observed as u64, lost: left_out as u64 };
    let cpus = scene.machine.online_cpus().map(|cpus| cpus.len());
    let intervals = span.intervals(&what, &origin, boot.as_deref(), cpus);
    scene.write(Rows { locality, intervals, ..Rows::default() }, &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The drawing above, and a process that did not run.
    #[test]
    fn the_drawing_is_right() {
        let identity = TaskIdentity::of_service("web".into());
        let mut sums = ServiceMemory::default();
        let process = |pid, memory: [f64; 2], ran_ns: [f64; 2]| ObservedProcess {
            pid,
            memory: memory.into(),
            ran_ns: ran_ns.into(),
        };
        sums.add(identity.clone(), &process(1, [30.0, 10.0], [1e6, 3e6]));
        sums.add(identity.clone(), &process(2, [5.0, 7.0], [0.0, 0.0]));
        // All local: it adds its memory and nothing else.
        sums.add(identity, &process(3, [0.0, 100.0], [0.0, 1e6]));
        let [(_, nodes)] = &sums.0[..] else { panic!("one service: {sums:?}") };
        let first = NodeSum { processes: 2, ran_ns: 1e6, memory: 30.0, local: 7.5, idle: 5.0 };
        let second = NodeSum { processes: 2, ran_ns: 4e6, memory: 110.0, local: 107.5, idle: 7.0 };
        assert_eq!(*nodes, [first, second]);
    }
}
