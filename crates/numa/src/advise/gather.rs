//! Looks at a process for some seconds and brings together what a verdict rests on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmuscope_counters::Kernel;
use pmuscope_machine::child::thread_cpu_ns;
use pmuscope_machine::pages::states;
use pmuscope_machine::{CpuSet, CpuTimes, Machine, Node, Topology, place};

use super::evidence::{Evidence, NodeEvidence};
use super::faults::{Faults, Missed, Sample, Watched};
use super::sharing::FaultTally;
use crate::Nodes;
use crate::nodes::usable;
use crate::observe::{ObserveError, Observer, PAGES, Seen, ThreadPlace, Weighed, writable};

/// From one observation to the next.
const ROUND: Duration = Duration::from_millis(250);
/// Most pages asked for in each round, to know what pages were before they faulted.
const WATCHED: u64 = 8192;
/// Fewest pages asked for at a time, and those at the first.
const LEAST: u64 = 512;
/// CPU time that an observation may take, as a share of the time between two.
const SHARE: f64 = 0.05;
/// Samples of faults in a second that cost next to nothing.
const SAMPLES_PER_S: f64 = 5000.0;
/// A thread that runs for less of the time needs no CPU of its own.
const BUSY_THREAD: f64 = 0.2;

/// How to look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The process.
    pub pid: u32,
    /// For how long.
    pub time: Duration,
    /// Seed of the choice of pages.
    pub seed: u64,
    /// Whether its threads share their memory, where that is known.
    pub shares: Option<bool>,
}

/// What looking cost, and how close it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// CPU time of the thread that looked, nanoseconds.
    pub cpu_ns: u64,
    /// Times that threads and pages were looked at.
    pub observations: u64,
    /// Pages asked for, in all.
    pub pages_asked: u64,
    /// One in so many minor faults was sampled; `None` where none could be.
    pub period: Option<u64>,
    /// What was not sampled.
    pub missed: Missed,
}

/// Evidence with what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Gathered {
    /// What was seen.
    pub evidence: Evidence,
    /// The name of the process, raw bytes.
    pub name: Vec<u8>,
    /// What looking cost.
    pub cost: Cost,
    /// The process ended before the time was over.
    pub ended: bool,
}

/// Looks at a process until the time is over, it ends, or `stop` says so.
///
/// # Errors
/// If it is not there, or may not be looked at.
pub fn gather(
    machine: &Machine,
    topology: &Topology,
    kernel: &dyn Kernel,
    options: &Options,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Gathered, ObserveError> {
    let cpu = thread_cpu_ns();
    let name = machine.task(options.pid, options.pid)?.comm;
    let mut watch = WatchedProcess::new(machine, topology, options);
    let begun = Instant::now();
    let before = machine.cpu_times()?;
    let mut ended = watch.observe()?;
    let mut faults = None;
    while !ended && begun.elapsed() < options.time && !stop() {
        std::thread::sleep(ROUND.min(options.time.saturating_sub(begun.elapsed())));
        // How many faults there are is known from the first round on.
        let open = faults.get_or_insert_with(|| watch.open_faults(kernel, begun.elapsed()));
        if let Ok(open) = open {
            watch.drain(open);
        }
        ended = watch.observe()?;
    }
    if let Some(Ok(open)) = &mut faults {
        watch.drain(open);
        watch.cost.missed = open.missed;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let why = faults.and_then(Result::err);
    let after = machine.cpu_times()?;
    watch.count_own_work();
    let mut evidence = Evidence { shares: options.shares, ..watch.evidence(seconds, why)? };
    let looking: Vec<f64> = watch.looking.0.iter().map(|ns| ns / (seconds * 1e9)).collect();
    busy(&mut evidence, topology, (&before, &after), &looking);
    Ok(Gathered {
        evidence,
        name,
        cost: Cost { cpu_ns: thread_cpu_ns().saturating_sub(cpu), ..watch.cost },
        ended,
    })
}

/// A process that is looked at.
struct WatchedProcess<'a> {
    machine: &'a Machine,
    topology: &'a Topology,
    pid: u32,
    observer: Observer,
    nodes: Nodes,
    watched: Watched,
    tally: FaultTally,
    /// Running time by node, nanoseconds.
    ran: Vec<f64>,
    /// The same by thread.
    ran_by_thread: BTreeMap<u32, u64>,
    threads: u64,
    /// CPUs that each may run on.
    affinities: Vec<CpuSet>,
    /// Sum of bytes by node over looks.
    bytes: Vec<f64>,
    halves: Vec<f64>,
    minor_faults: u64,
    /// CPU time of the one who looks, by node, nanoseconds, and in all when it was last asked.
    looking: (Vec<f64>, u64),
    /// Pages to ask for at the next observation, twice: of where they are, and of what they are before faults.
    budget: u64,
    cost: Cost,
}

impl<'a> WatchedProcess<'a> {
    fn new(machine: &'a Machine, topology: &'a Topology, options: &Options) -> Self {
        let observer = Observer::new(machine, topology, LEAST, options.seed);
        let nodes = observer.nodes().clone();
        let page = place::page_size() as u64;
        Self {
            machine,
            topology,
            pid: options.pid,
            watched: Watched::new(page),
            tally: FaultTally::new(page),
            ran: nodes.zeroes(),
            ran_by_thread: BTreeMap::new(),
            threads: 0,
            affinities: Vec::new(),
            bytes: nodes.zeroes(),
            halves: Vec::new(),
            minor_faults: minor_faults(machine, options.pid),
            looking: (nodes.zeroes(), thread_cpu_ns()),
            budget: LEAST,
            cost: Cost::default(),
            observer,
            nodes,
        }
    }

    /// Looks once at threads and pages; true if the process has ended. At the first observation that is an error.
    fn observe(&mut self) -> Result<bool, ObserveError> {
        let is_first = self.cost.observations == 0;
        let cpu = thread_cpu_ns();
        self.observer.share_budget(self.budget.min(PAGES), 1);
        let result = self.observer.process(self.pid).and_then(|seen| {
            self.add(&seen);
            self.ask()
        });
        let took = thread_cpu_ns().saturating_sub(cpu).max(1);
        self.budget = next_budget(self.budget, took);
        self.count_own_work();
        match result {
            Ok(()) => Ok(false),
            Err(error) if error.is_gone() && !is_first => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn add(&mut self, seen: &Seen) {
        self.cost.observations += 1;
        self.cost.pages_asked += seen.asked;
        self.threads = seen.threads.len() as u64;
        // Of one that has just ended nothing is known, nor wanted.
        let affinity = |thread: &ThreadPlace| place::affinity_of(thread.tid).ok();
        self.affinities = seen.threads.iter().filter_map(affinity).collect();
        if seen.weighed == Weighed::RunningTime {
            for (sum, ran) in self.ran.iter_mut().zip(&seen.area.threads) {
                *sum += ran;
            }
            for thread in &seen.threads {
                *self.ran_by_thread.entry(thread.tid).or_default() += thread.ran_ns.unwrap_or(0);
            }
        }
        for (sum, bytes) in self.bytes.iter_mut().zip(self.observer.bytes(&seen.area.pages)) {
            *sum += bytes;
        }
        self.halves.extend(seen.margin);
    }

    /// What looking costs is no load: it is counted where it happened, as far as that can be told.
    fn count_own_work(&mut self) {
        let now = thread_cpu_ns();
        if let Some(node) = self.nodes.of_cpu(place::current_cpu()) {
            self.looking.0[node] += now.saturating_sub(self.looking.1) as f64;
        }
        self.looking.1 = now;
    }

    /// What pages are now, for the faults to come.
    fn ask(&mut self) -> Result<(), ObserveError> {
        let pid = self.pid;
        let page = place::page_size() as u64;
        let regions = writable(&self.machine.mappings(pid)?, page);
        let ask = |pages: &[u64]| states(Some(pid), pages);
        let asked = self.watched.ask(regions, self.budget, &self.nodes, ask);
        self.cost.pages_asked += asked.map_err(|source| ObserveError::Pages { pid, source })?;
        Ok(())
    }

    /// As rarely as faults come often.
    fn open_faults(&mut self, kernel: &dyn Kernel, elapsed: Duration) -> Result<Faults, String> {
        let new = minor_faults(self.machine, self.pid).saturating_sub(self.minor_faults);
        let rate = new as f64 / elapsed.as_secs_f64().max(1e-3);
        let period = (rate / SAMPLES_PER_S).ceil().max(1.0) as u64;
        let tids = self.machine.threads(self.pid).map_err(|error| error.to_string())?;
        let opened = Faults::open(kernel, self.machine, self.topology, tids, period);
        self.cost.period = opened.is_ok().then_some(period);
        opened.map_err(|error| error.to_string())
    }

    fn drain(&mut self, faults: &mut Faults) {
        let mut samples: Vec<Sample> = Vec::new();
        faults.drain(|sample| samples.extend((sample.pid == self.pid).then_some(sample)));
        // Each thread has a ring, and a page may fault for several.
        samples.sort_by_key(|sample| sample.time);
        for sample in &samples {
            self.tally.add(&self.watched.fault(sample, &self.nodes));
        }
    }

    fn evidence(&self, seconds: f64, why: Option<String>) -> Result<Evidence, ObserveError> {
        let observations = self.cost.observations.max(1) as f64;
        let may_run = self.machine.cpuset_of(self.pid);
        let may_take = self.machine.allowed_nodes_of(self.pid);
        // Free memory as it is at the end.
        let now = self.machine.topology()?;
        let node = |(place, node): (usize, &Node)| {
            let cpus = may_run
                .as_ref()
                .map_or_else(|| node.cpus.clone(), |set| node.cpus.intersection(set));
            let free = now.nodes.iter().find(|other| other.id == node.id);
            let usable = match self.affinities.is_empty() {
                true => cpus.clone(),
                false => usable(&cpus, &self.affinities),
            };
            let has_cpu = |own: &CpuSet| !own.intersection(&cpus).is_empty();
            NodeEvidence {
                id: node.id,
                cpus: cpus.len() as u64,
                cpu_list: usable.to_string(),
                usable_cpus: usable.len() as u64,
                may_run: !usable.is_empty(),
                some_may_run: !usable.is_empty() || self.affinities.iter().any(has_cpu),
                may_take: may_take.as_ref().is_none_or(|nodes| nodes.contains(node.id)),
                memory_bytes: node.memory_bytes,
                free_bytes: free.and_then(|node| node.free_bytes),
                busy_cpus: None,
                own_cpus: self.ran[place] / (seconds * 1e9),
                own_bytes: self.bytes[place] / observations,
                bandwidth: None,
            }
        };
        let nodes = self.topology.nodes.iter().enumerate().map(node).collect();
        let busy = BUSY_THREAD * seconds * 1e9;
        let is_bound = |online: &CpuSet| self.affinities.iter().any(|own| !online.is_subset(own));
        let pinned_apart = self.affinities.windows(2).any(|pair| pair[0] != pair[1]);
        let online = may_run.unwrap_or_else(|| self.topology.online.clone());
        let mean = self.halves.iter().sum::<f64>() / self.halves.len().max(1) as f64;
        Ok(Evidence {
            seconds,
            nodes,
            threads: self.threads,
            busy_threads: self.ran_by_thread.values().filter(|ran| **ran as f64 >= busy).count()
                as u64,
            locality_half: (!self.halves.is_empty()).then_some(mean),
            pages_asked: self.cost.pages_asked,
            sharing: self.cost.period.map(|_| self.tally.sharing()),
            sharing_why: why,
            balancing: self.machine.numa_balancing().is_on(),
            bandwidth_why: Some(bandwidth_why(self.machine)),
            shares: None,
            is_bound: is_bound(&online),
            pinned_apart,
        })
    }
}

/// How many pages to ask for next, if `budget` took so many nanoseconds: as many as may be paid for. It at most doubles,
/// as the first observation costs more than those after it.
fn next_budget(budget: u64, took_ns: u64) -> u64 {
    let may_take = SHARE * ROUND.as_nanos() as f64;
    let affordable = (budget as f64 * may_take / took_ns as f64) as u64;
    affordable.min(2 * budget).clamp(LEAST, WATCHED)
}

/// CPUs of each node that were busy between two readings, but for those of the one who looked.
fn busy(
    evidence: &mut Evidence,
    topology: &Topology,
    (before, after): (&CpuTimes, &CpuTimes),
    looking: &[f64],
) {
    for ((node, seen), looking) in topology.nodes.iter().zip(&mut evidence.nodes).zip(looking) {
        // One by one: a busy CPU of a guest that its host keeps waiting misses ticks, an idle one none.
        let share = |cpu| CpuTimes::busy_share(before, after, &CpuSet::from_iter([cpu]));
        let busy: Option<f64> = node.cpus.iter().map(share).sum();
        let busy = busy.map(|busy| (busy - looking).max(0.0));
        seen.busy_cpus = busy;
    }
}

/// Minor faults of all threads that run now.
fn minor_faults(machine: &Machine, pid: u32) -> u64 {
    let tids = machine.threads(pid).unwrap_or_default();
    let runs = tids.iter().filter_map(|&tid| machine.thread_run(pid, tid).ok());
    runs.map(|run| run.minor_faults).sum()
}

fn bandwidth_why(machine: &Machine) -> String {
    let units = machine.pmus().unwrap_or_default();
    match units.iter().find(|unit| unit.name.starts_with("uncore_imc")) {
        Some(unit) => {
            format!("advise does not read {}. Try: pmuscope list {}", unit.name, unit.name)
        }
        None => "no memory controller PMU".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pages_are_asked_for_as_are_paid_for() {
        let ms = 1_000_000;
        assert_eq!(next_budget(LEAST, ms), 2 * LEAST, "cheap: twice as many");
        assert_eq!(next_budget(WATCHED, ms), WATCHED);
        assert_eq!(next_budget(WATCHED, 50 * ms), WATCHED / 4, "four times too much");
        assert_eq!(next_budget(WATCHED, 5000 * ms), LEAST);
    }
}
