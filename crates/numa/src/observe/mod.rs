//! Looking at a process from outside: where its threads run and its pages lie, and what looking costs.
//!
//! ```text
//! /proc/PID/task/*/stat,schedstat ─► threads ─► running time by node ──┐
//! /proc/PID/maps ─► regions ─► pages by chance ─► move_pages ─► nodes ─┴─► locality ± margin
//! ```

mod family;
pub mod pages;
pub mod threads;

use std::io;
use std::ops::Range;

use pmuscope_machine::{Machine, MachineError, Mapping, Topology, place};
use pmuscope_stats::{Estimate, Interval, LEVEL};

pub use family::Family;
use pages::{PageSampler, RegionPages};
use threads::ThreadSampler;
pub use threads::{ThreadPlace, Weighed};

use crate::Nodes;
use crate::placement::{Area, ByNode, Placement, shares};

/// Pages asked for at a time, unless told otherwise: some 0.3 ms of the process's memory lock, and
/// shares to within two per cent.
pub const PAGES: u64 = 4096;

/// Fewer pages of a process say next to nothing.
pub const LEAST_PAGES: u64 = 64;

/// Why a process cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// It ended, or its threads or mappings cannot be read.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The kernel does not tell where its pages lie.
    #[error("cannot locate pages of process {pid}: move_pages: {source}{}", hint(source))]
    Pages {
        /// The process.
        pid: u32,
        /// What the kernel said.
        source: io::Error,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ". The process belongs to another user, or may not be traced. Try: sudo pmuscope ..."
        }
        io::ErrorKind::Unsupported => ". This kernel has no NUMA (CONFIG_NUMA, CONFIG_MIGRATION)",
        _ => "",
    }
}

impl ObserveError {
    /// Whether it is only that the process ended meanwhile.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Machine(error) => error.is_gone(),
            Self::Pages { source, .. } => is_end(source),
        }
    }
}

/// Whether `move_pages(2)` says that a process has ended. One that is about to, or that only its parent has
/// not noticed yet, has no memory any more: `EINVAL`, which nothing else that we ask for leads to
/// (`find_mm_struct` in the kernel's `mm/migrate.c`).
pub(crate) fn is_end(error: &io::Error) -> bool {
    const NO_SUCH_PROCESS: i32 = 3;
    const INVALID: i32 = 22;
    matches!(error.raw_os_error(), Some(NO_SUCH_PROCESS | INVALID))
}

/// Memory to look at, and who uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// The process that maps it.
    pub pid: u32,
    /// Where, in whole pages.
    pub regions: Vec<Range<u64>>,
    /// Threads that use it; empty for all of the process.
    pub users: Vec<u32>,
}

/// What was seen of memory and of its users.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Threads that use the memory.
    pub threads: Vec<ThreadPlace>,
    /// What says how much each thread counts.
    pub weighed: Weighed,
    /// Pages and running time by node.
    pub area: Area,
    /// Half of the 95 % interval of the area's locality; 0 where all pages were asked for, `None` without
    /// pages.
    pub margin: Option<f64>,
    /// Pages the memory has room for.
    pub room: u64,
    /// Pages asked for.
    pub asked: u64,
    /// Of these, how many the kernel would not tell.
    pub refused: u64,
}

impl Seen {
    /// Locality with its interval; `None` without pages or threads.
    #[must_use]
    pub fn locality(&self) -> Option<Estimate> {
        let value = self.area.locality()?;
        let interval = self.margin.map(|margin| Interval {
            low: (value - margin).max(0.0),
            high: (value + margin).min(1.0),
            level: LEVEL,
        });
        Some(Estimate { value, interval, n: usize::try_from(self.asked).unwrap_or(usize::MAX) })
    }
}

/// Locality of several areas together, each counting by its pages, with its interval.
#[must_use]
pub fn locality(seen: &[&Seen]) -> Option<Estimate> {
    let areas = seen.iter().map(|seen| seen.area.clone()).collect();
    let value = Placement { areas }.locality()?;
    let pages = |seen: &Seen| seen.area.pages.iter().sum::<f64>();
    let counted = || seen.iter().filter(|seen| seen.area.locality().is_some());
    let all: f64 = counted().map(|seen| pages(seen)).sum();
    // Areas are sampled one independently of the other.
    let variance: f64 =
        counted().map(|seen| (seen.margin.unwrap_or(0.0) * pages(seen) / all).powi(2)).sum();
    let margin = variance.sqrt();
    let (low, high) = ((value - margin).max(0.0), (value + margin).min(1.0));
    let n = usize::try_from(counted().map(|seen| seen.asked).sum::<u64>()).unwrap_or(usize::MAX);
    Some(Estimate { value, interval: Some(Interval { low, high, level: LEVEL }), n })
}

/// Looks at processes again and again.
#[derive(Debug)]
pub struct Observer {
    machine: Machine,
    nodes: Nodes,
    pages: PageSampler,
    threads: ThreadSampler,
    page: u64,
}

impl Observer {
    /// One that asks for `budget` pages at each observation ([`PAGES`] where nothing else is wanted), chosen by
    /// chance from `seed`.
    #[must_use]
    pub fn new(machine: &Machine, topology: &Topology, budget: u64, seed: u64) -> Self {
        let page = place::page_size();
        Self {
            machine: machine.clone(),
            nodes: Nodes::new(topology),
            pages: PageSampler::new(page, budget, seed),
            threads: ThreadSampler::default(),
            page: page as u64,
        }
    }

    /// Asks for `budget` pages at each observation from now on, of all these processes together. Each gets some,
    /// however many they are: fewer than that say next to nothing.
    pub fn share_budget(&mut self, budget: u64, processes: usize) {
        self.pages.set_budget((budget / processes.max(1) as u64).max(LEAST_PAGES));
    }

    /// The nodes, in the order of all amounts by node.
    #[must_use]
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Looks at all that a process may write to: its own data, and memory that it shares. What it only
    /// reads (programs, libraries, files) is left out: it lies where whoever read it first ran.
    ///
    /// # Errors
    /// If the process ended, or may not be looked at.
    pub fn process(&mut self, pid: u32) -> Result<Seen, ObserveError> {
        let regions = writable(&self.machine.mappings(pid)?, self.page);
        self.memory(&Memory { pid, regions, users: Vec::new() })
    }

    /// Looks at some memory of a process and those that use it.
    ///
    /// # Errors
    /// If the process ended, or may not be looked at.
    pub fn memory(&mut self, memory: &Memory) -> Result<Seen, ObserveError> {
        let mut seen = self.memories(std::slice::from_ref(memory))?;
        // One in, one out.
        seen.pop().ok_or(ObserveError::Machine(MachineError::Gone { pid: memory.pid }))
    }

    /// Looks at several pieces of memory of one process; its threads are looked at once.
    ///
    /// # Errors
    /// If the process ended, or may not be looked at.
    pub fn memories(&mut self, memories: &[Memory]) -> Result<Vec<Seen>, ObserveError> {
        let Some(pid) = memories.first().map(|memory| memory.pid) else { return Ok(Vec::new()) };
        let threads = self.threads.sample(&self.machine, &self.nodes, pid)?;
        let regions: Vec<Range<u64>> =
            memories.iter().flat_map(|memory| memory.regions.iter().cloned()).collect();
        let mut found = self.found(pid, &regions)?.into_iter();
        let seen = memories.iter().map(|memory| {
            let users: Vec<ThreadPlace> = threads
                .iter()
                .filter(|thread| memory.users.is_empty() || memory.users.contains(&thread.tid))
                .copied()
                .collect();
            let found: Vec<RegionPages> = found.by_ref().take(memory.regions.len()).collect();
            self.seen(users, &found)
        });
        Ok(seen.collect())
    }

    /// Pages by node of all that a process may write to. Its threads are not looked at: for whoever does that
    /// more often.
    ///
    /// # Errors
    /// If the process ended, or may not be looked at.
    pub fn pages(&mut self, pid: u32) -> Result<ByNode, ObserveError> {
        let regions = writable(&self.machine.mappings(pid)?, self.page);
        Ok(pages::by_node(&self.found(pid, &regions)?, &self.nodes))
    }

    fn found(
        &mut self,
        pid: u32,
        regions: &[Range<u64>],
    ) -> Result<Vec<RegionPages>, ObserveError> {
        let ask = |pages: &[u64]| pmuscope_machine::pages::states(Some(pid), pages);
        let found = self.pages.sample(pid, regions, &self.nodes, ask);
        found.map_err(|source| ObserveError::Pages { pid, source })
    }

    fn seen(&self, threads: Vec<ThreadPlace>, found: &[RegionPages]) -> Seen {
        let (running, weighed) = threads::by_node(&threads, &self.nodes);
        let margin = shares(&running).and_then(|shares| pages::margin(found, &shares));
        Seen {
            threads,
            weighed,
            area: Area { pages: pages::by_node(found, &self.nodes), threads: running },
            margin,
            room: found.iter().map(|found| found.pages).sum(),
            asked: found.iter().map(|found| found.asked).sum(),
            refused: found.iter().map(|found| found.refused).sum(),
        }
    }

    /// Bytes of each node's pages.
    #[must_use]
    pub fn bytes(&self, pages: &[f64]) -> ByNode {
        pages.iter().map(|pages| pages * self.page as f64).collect()
    }

    /// Forgets a process that ended.
    pub fn forget(&mut self, pid: u32) {
        self.pages.forget(pid);
        self.threads.forget(pid);
    }
}

/// Memory that may be written to. (Of pages of devices the kernel says that they are absent.)
pub(crate) fn writable(mappings: &[Mapping], page: u64) -> Vec<Range<u64>> {
    let data = mappings.iter().filter(|mapping| mapping.writable);
    data.map(|mapping| mapping.start / page * page..mapping.end / page * page)
        .filter(|region| !region.is_empty())
        .collect()
}
