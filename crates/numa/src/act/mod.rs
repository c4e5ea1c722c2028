//! This machine as a [`World`]: seen through `/proc` and `move_pages(2)`, changed by affinity and
//! `move_pages(2)`. From outside nothing more of a process can be changed: memory that it takes later follows
//! its own policy.
//!
//! ```text
//! observe: threads up to five times a block (born ones are pinned) ─► pages once ─► View
//! pin: note in the state file ─► sched_setaffinity        let go: the other way round
//! ```

mod affinity;
mod slices;
mod speed;
mod state;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pmuscope_machine::{CpuSet, CpuTimes, Machine, MachineError, Topology};

use self::affinity::Pinner;
use self::slices::Mover;
use self::speed::Speed;
pub use self::state::{Restored, StateError, folder, restore};
use crate::Nodes;
use crate::balance::{
    Goal, Judge, NodeView, ProcessView, Sharing, Slice, Stop, ThreadView, TimeBlock, View, World,
};
use crate::nodes::usable;
use crate::observe::threads::ThreadSampler;
use crate::observe::{Family, ObserveError, Observer};
use crate::placement::shares;

/// Looks at threads in a block, where an observation takes next to no time.
const LOOKS: u32 = 5;
/// A block is made of at least so many times as long as it takes to look: thousands of threads take tens of
/// milliseconds, and so do few where all CPUs are busy.
const LOOKING: u32 = 5;
/// Free memory of nodes is read again after so long; on large machines that takes tens of milliseconds.
const TOPOLOGY_HOLDS: Duration = Duration::from_secs(5);
/// Without huge pages.
const SMALLEST_BLOCK: u64 = 64 << 10;

/// What does not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActError {
    /// It cannot be looked at.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// Something of the machine cannot be told.
    #[error(transparent)]
    Machine(MachineError),
    /// The process ended.
    #[error("process {pid} has ended")]
    Gone {
        /// The process.
        pid: u32,
    },
    /// Another user's process.
    #[error(
        "process {pid} belongs to another user: reading its pages needs CAP_SYS_PTRACE, moving it \
         or them needs CAP_SYS_NICE. Try: sudo pmuscope numa balance -p {pid}"
    )]
    NotPermitted {
        /// The process.
        pid: u32,
    },
    /// Affinity.
    #[error("cannot pin thread {tid} of process {pid}: {source}")]
    Affinity {
        /// The process.
        pid: u32,
        /// Its thread.
        tid: u32,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Pages.
    #[error("cannot move pages of process {pid}: move_pages: {source}")]
    Pages {
        /// The process.
        pid: u32,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Affinity could not be put back.
    #[error(
        "cannot restore the CPU affinity of process {pid}: {why}. Try: pmuscope numa restore -p \
         {pid}"
    )]
    NotRestored {
        /// The process.
        pid: u32,
        /// What the kernel said.
        why: String,
    },
    /// The note of what is changed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The user's command.
    #[error(
        "cannot read the metric from {command:?}: {why}. Try: a command that prints a number, \
         where more is better"
    )]
    Metric {
        /// As typed.
        command: String,
        /// What happened.
        why: String,
    },
}

impl ActError {
    /// Whether it is only that the process ended meanwhile.
    fn is_gone(&self) -> bool {
        match self {
            Self::Gone { .. } => true,
            Self::Observe(error) => error.is_gone(),
            Self::Machine(error) => error.is_gone(),
            _ => false,
        }
    }
}

impl From<MachineError> for ActError {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::Gone { pid } => Self::Gone { pid },
            other => Self::Machine(other),
        }
    }
}

/// Which processes.
#[derive(Debug)]
pub enum Targets {
    /// Some, and what they start.
    Family(Family),
    /// All of a cgroup and of those below it, as they come and go; but not this process.
    Cgroup(String),
}

impl Targets {
    /// Those that run now.
    pub fn members(&mut self, machine: &Machine) -> Vec<u32> {
        match self {
            Self::Family(family) => family.members(machine),
            Self::Cgroup(path) => {
                let own = std::process::id();
                let mut members = machine.cgroup_processes(path).unwrap_or_default();
                members.retain(|&pid| pid != own);
                members
            }
        }
    }
}

/// Waits at most so long; tells whether to end.
pub type Wait<'a> = Box<dyn FnMut(Duration) -> Option<Stop> + 'a>;

/// How to look and act.
pub struct HostOptions<'a> {
    /// Which processes.
    pub targets: Targets,
    /// A command that prints how fast they go.
    pub metric: Option<String>,
    /// End after so long.
    pub limit: Option<Duration>,
    /// Where changes are noted: [`folder`].
    pub folder: PathBuf,
    /// Waits.
    pub wait: Wait<'a>,
    /// Pages asked for in a block, of all processes together: [`crate::observe::PAGES`] where nothing else is wanted.
    pub pages: u64,
    /// Where chance begins.
    pub seed: u64,
}

/// Processes of this machine.
pub struct HostWorld<'a> {
    machine: Machine,
    topology: Topology,
    read_at: Instant,
    nodes: Nodes,
    targets: Targets,
    observer: Observer,
    pages: u64,
    threads: ThreadSampler,
    /// How long the last observation of threads took.
    observation: Duration,
    times: Option<CpuTimes>,
    pinner: Pinner,
    mover: Mover,
    speed: Speed,
    no_speed: Option<String>,
    begun: Instant,
    limit: Option<Duration>,
    wait: Wait<'a>,
    stopped: Option<Stop>,
    /// Whoever asked to end has asked again.
    insists: bool,
    members: Vec<u32>,
    refused: BTreeMap<u32, String>,
}

/// A thread over a block.
#[derive(Debug, Default)]
struct ThreadBlock {
    ns_by_node: Vec<f64>,
    runnable: u32,
    observations: u32,
}

impl<'a> HostWorld<'a> {
    /// Begins: opens counters, runs the metric once, looks at threads.
    ///
    /// # Errors
    /// [`ActError`], such as for a metric that prints no number.
    pub fn new(machine: &Machine, options: HostOptions<'a>) -> Result<Self, ActError> {
        let topology = machine.topology()?;
        let mut targets = options.targets;
        let members = targets.members(machine);
        let metric = options.metric.as_deref();
        let (speed, no_speed) = Speed::choose(machine, &topology, metric, &members)?;
        let block = block_bytes(machine);
        let mut world = Self {
            machine: machine.clone(),
            nodes: Nodes::new(&topology),
            observer: Observer::new(machine, &topology, options.pages, options.seed),
            pages: options.pages,
            threads: ThreadSampler::default(),
            observation: Duration::ZERO,
            times: machine.cpu_times().ok(),
            pinner: Pinner::new(machine, &topology, &options.folder)?,
            mover: Mover::new(machine, block),
            topology,
            read_at: Instant::now(),
            targets,
            speed,
            no_speed,
            begun: Instant::now(),
            limit: options.limit,
            wait: options.wait,
            stopped: None,
            insists: false,
            members,
            refused: BTreeMap::new(),
        };
        for pid in world.members.clone() {
            // From here on it is known how long each runs.
            let _ = world.threads.sample(&world.machine, &world.nodes, pid);
        }
        world.speed.measure();
        Ok(world)
    }

    /// Why speed is not measured; `None` if it is.
    #[must_use]
    pub fn no_speed(&self) -> Option<&str> {
        self.no_speed.as_deref()
    }

    /// Processes that could not be looked at, and why.
    #[must_use]
    pub fn refused(&self) -> &BTreeMap<u32, String> {
        &self.refused
    }

    fn pause(&mut self, length: Duration) {
        let left = self.limit.map(|limit| limit.saturating_sub(self.begun.elapsed()));
        let length = left.map_or(length, |left| length.min(left));
        if self.stopped.is_none() {
            self.stopped = (self.wait)(length);
        }
    }

    fn look_at_threads(
        &mut self,
        ran: &mut BTreeMap<(u32, u32), ThreadBlock>,
    ) -> Result<(), ActError> {
        let begun = Instant::now();
        self.pinner.refresh()?;
        let mut gone = Vec::new();
        for &pid in &self.members {
            let places = match self.threads.sample(&self.machine, &self.nodes, pid) {
                Ok(places) => places,
                Err(error) => {
                    // Also one whose parent has not noticed it yet: it has a number, and nothing else.
                    gone.extend(error.is_gone().then_some(pid));
                    continue;
                }
            };
            for thread in places {
                let seen = ran.entry((pid, thread.tid)).or_insert_with(|| ThreadBlock {
                    ns_by_node: self.nodes.zeroes(),
                    ..ThreadBlock::default()
                });
                seen.ns_by_node[thread.node] += thread.ran_ns.unwrap_or(0) as f64;
                seen.runnable += u32::from(thread.runnable);
                seen.observations += 1;
            }
        }
        self.members.retain(|pid| !gone.contains(pid));
        self.observation = begun.elapsed();
        Ok(())
    }

    fn node_views(&self, ours: &[f64], before: Option<&CpuTimes>) -> Vec<NodeView> {
        let view = |(index, node): (usize, &pmuscope_machine::Node)| {
            let share = before
                .zip(self.times.as_ref())
                .and_then(|(before, now)| CpuTimes::busy_share(before, now, &node.cpus));
            let busy = share.unwrap_or(0.0) * node.cpus.len() as f64;
            NodeView {
                id: node.id,
                cpus: node.cpus.len() as u32,
                free_bytes: node.free_bytes.unwrap_or(0),
                other_load: (busy - ours[index]).max(0.0),
                distances: node.distances.clone(),
                bandwidth: None,
            }
        };
        self.topology.nodes.iter().enumerate().map(view).collect()
    }

    fn process_view(
        &mut self,
        pid: u32,
        ran: &BTreeMap<(u32, u32), ThreadBlock>,
        seconds: f64,
    ) -> Result<ProcessView, ActError> {
        let pages = self.observer.pages(pid)?;
        let bytes = self.observer.bytes(&pages);
        let allowed = self.pinner.allowed(pid)?;
        let memory = self.machine.allowed_nodes_of(pid);
        let threads = ran.range((pid, 0)..=(pid, u32::MAX)).map(|(&(_, tid), ran)| {
            let own: f64 = ran.ns_by_node.iter().sum();
            let share = own / 1e9 / seconds.max(1e-3);
            let runnable = f64::from(ran.runnable) / f64::from(ran.observations.max(1));
            ThreadView {
                tid,
                // One that often could run and did not waits for a CPU.
                busy: share.max(if share > 0.0 { runnable } else { 0.0 }).min(1.0),
                nodes: shares(&ran.ns_by_node).unwrap_or_else(|| ran.ns_by_node.clone()),
            }
        });
        let node_cpus = |node: &pmuscope_machine::Node| usable(&node.cpus, &allowed).len() as u32;
        let may = |id: u32| memory.as_ref().is_none_or(|nodes: &CpuSet| nodes.contains(id));
        Ok(ProcessView {
            pid,
            threads: threads.collect(),
            bytes: bytes.into_iter().map(|bytes| bytes as u64).collect(),
            cpus: self.topology.nodes.iter().map(node_cpus).collect(),
            memory_allowed: self.topology.nodes.iter().map(|node| may(node.id)).collect(),
            sharing: Sharing::Unknown,
        })
    }
}

/// How often to look at threads in a block, if an observation takes so long.
fn observations(block: Duration, observation: Duration) -> u32 {
    let affordable = block.as_nanos() / (u128::from(LOOKING) * observation.as_nanos()).max(1);
    u32::try_from(affordable).unwrap_or(LOOKS).clamp(1, LOOKS)
}

/// Bytes that move as a whole.
#[must_use]
pub fn block_bytes(machine: &Machine) -> u64 {
    machine.huge_page_bytes().unwrap_or(SMALLEST_BLOCK)
}

impl World for HostWorld<'_> {
    type Error = ActError;

    fn is_gone(error: &ActError) -> bool {
        error.is_gone()
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn judge(&self) -> Judge {
        self.speed.judge()
    }

    fn stop(&mut self) -> Option<Stop> {
        if self.limit.is_some_and(|limit| self.begun.elapsed() >= limit) {
            self.stopped.get_or_insert(Stop::Time);
        }
        if self.stopped.is_none() {
            self.stopped = (self.wait)(Duration::ZERO);
        }
        self.stopped
    }

    fn observe(&mut self, length: Duration) -> Result<TimeBlock, ActError> {
        let begun = Instant::now();
        let before = self.times.take();
        let mut ran = BTreeMap::new();
        self.members = self.targets.members(&self.machine);
        let observations = observations(length, self.observation);
        for _ in 0..observations {
            self.pause(length / observations);
            self.look_at_threads(&mut ran)?;
            if self.stopped.is_some() {
                break;
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.times = self.machine.cpu_times().ok();
        if self.read_at.elapsed() > TOPOLOGY_HOLDS {
            self.topology = self.machine.topology()?;
            self.read_at = Instant::now();
        }
        let mut processes = Vec::new();
        let mut error = None;
        self.observer.share_budget(self.pages, self.members.len());
        for pid in self.members.clone() {
            match self.process_view(pid, &ran, seconds) {
                Ok(view) => processes.push(view),
                Err(gone) if gone.is_gone() => {}
                Err(other) => {
                    let other = permitted(pid, other);
                    self.refused.insert(pid, other.to_string());
                    error = Some(other);
                }
            }
        }
        if processes.is_empty() {
            if let Some(error) = error {
                return Err(error);
            }
            self.stopped.get_or_insert(Stop::Gone);
        }
        let mut ours = self.nodes.zeroes();
        for ran in ran.values() {
            for (ours, ns) in ours.iter_mut().zip(&ran.ns_by_node) {
                *ours += ns / 1e9 / seconds.max(1e-3);
            }
        }
        let nodes = self.node_views(&ours, before.as_ref());
        Ok(TimeBlock { view: View { nodes, processes }, speed: self.speed.measure() })
    }

    fn wait(&mut self, length: Duration) {
        self.pause(length);
    }

    fn left(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_sub(self.begun.elapsed()))
    }

    fn wait_for_undo(&mut self, length: Duration) -> bool {
        if self.stopped == Some(Stop::Gone) || self.insists {
            return false;
        }
        match (self.wait)(length) {
            Some(Stop::Gone) => self.stopped = Some(Stop::Gone),
            // The first time it is a wish to end, and pages still go back.
            Some(Stop::Asked) => self.insists = self.stopped.replace(Stop::Asked).is_some(),
            Some(Stop::Time) | None => return true,
        }
        self.stopped == Some(Stop::Asked) && !self.insists
    }

    fn pin(&mut self, pid: u32, nodes: &[u32]) -> Result<usize, ActError> {
        self.pinner.pin(pid, nodes)
    }

    fn unpin(&mut self, pid: u32) -> Result<(), ActError> {
        self.pinner.let_go(pid)
    }

    fn move_slice(
        &mut self,
        pid: u32,
        goal: &Goal,
        cursor: &mut u64,
        bytes: u64,
    ) -> Result<Slice, ActError> {
        // What has moved is free elsewhere now.
        self.read_at = self.read_at.checked_sub(TOPOLOGY_HOLDS).unwrap_or(self.read_at);
        self.mover.slice(pid, goal, cursor, bytes)
    }
}

/// A refusal that is a matter of rights says which.
fn permitted(pid: u32, error: ActError) -> ActError {
    match &error {
        ActError::Observe(ObserveError::Pages { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            ActError::NotPermitted { pid }
        }
        ActError::Machine(machine) | ActError::Observe(ObserveError::Machine(machine))
            if machine.is_denied() =>
        {
            ActError::NotPermitted { pid }
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_takes_a_fifth_of_a_block_at_most_or_is_done_once() {
        let ms = Duration::from_millis;
        assert_eq!(observations(ms(250), Duration::ZERO), LOOKS);
        assert_eq!(observations(ms(250), ms(10)), 5);
        assert_eq!(observations(ms(250), ms(20)), 2);
        assert_eq!(observations(ms(250), ms(400)), 1);
    }
}
