//! What a run came to, as figures of the run file: placement, speed and cost side by side.

use pmuscope_machine::{NumaCounters, place};
use pmuscope_measure::{Labels, Origin, RunFile, metric};
use pmuscope_stats::mean;
use pmuscope_workloads::{MemoryFacts, WorkloadFacts};

use super::watched::Watched;

/// Share of accesses that are local if threads use their memory evenly, in the last snapshot of the whole workload.
pub const LOCALITY: &str = "locality";
/// The same, the mean over the run.
pub const LOCALITY_MEAN: &str = "locality_mean";
/// What the test is judged by, the mean over the run: locality or evenness.
pub const PLACED_MEAN: &str = "placed_mean";
/// The same at the end.
pub const PLACED: &str = "placed";
/// Seconds until it was as good as the best binding, and stayed so.
pub const CONVERGED: &str = "converged";
/// 1 if it was so when it was first looked at: nobody had to move anything.
pub const AT_ONCE: &str = "converged_at_once";
/// Share of the observations at which it was as good.
pub const GOOD_SHARE: &str = "good_share";
/// How often it was lost again.
pub const LOST: &str = "placement_lost";
/// Seconds from a perturbation until it was good again: the mean.
pub const CONVERGED_AGAIN: &str = "converged_again";
/// GB a second, of all threads.
pub const SPEED: &str = "speed";
/// The same before convergence.
pub const SPEED_BEFORE: &str = "speed_before";
/// The same after.
pub const SPEED_AFTER: &str = "speed_after";
/// GB a second of a thread, the mean.
pub const SPEED_THREAD: &str = "speed_thread";
/// The fastest thread's speed less the slowest's, as a share of the fastest's.
pub const SPREAD: &str = "spread";
/// Bytes loaded and stored.
pub const BYTES: &str = "bytes";
/// Of the workload's memory.
pub const MEMORY: &str = "memory";
/// Pages made inaccessible to see who uses them.
pub const PTE_UPDATES: &str = "pte_updates";
/// Uses of such pages.
pub const HINT_FAULTS: &str = "hint_faults";
/// The share of these on the page's own node.
pub const HINT_LOCAL: &str = "hint_faults_local";
/// Pages that any cause moved, counted by the kernel.
pub const MIGRATED: &str = "pages_migrated";
/// The same in bytes.
pub const MOVED: &str = "bytes_moved";
/// Moves for each page of the workload's memory: above 1 pages went to and fro.
pub const PING_PONG: &str = "moves_per_page";
/// CPU seconds that watching took.
pub const MONITOR: &str = "monitor";
/// CPU seconds of the program that places the workload: `numad` or `numa balance`.
pub const BALANCER: &str = "balancer";

/// Figures of a run with its place in the file.
pub(super) struct Figures<'a> {
    pub(super) run: usize,
    pub(super) labels: &'a Labels,
}

impl Figures<'_> {
    fn add(
        &self,
        file: &mut RunFile,
        name: &str,
        kind: (&str, Origin),
        value: Result<f64, String>,
    ) {
        file.add(self.run, self.labels, name, kind, value);
    }

    /// Adds all that the run tells by itself; what follows from the bound is judged later.
    pub(super) fn all(&self, file: &mut RunFile, facts: &WorkloadFacts, watched: &Watched) {
        let Some(memory) = &facts.memory else { return };
        self.placement(file, watched);
        self.speed(file, memory);
        self.cost(file, memory, watched);
        file.timelines.push(watched.observations.timeline(self.run, memory.emulated));
    }

    fn placement(&self, file: &mut RunFile, watched: &Watched) {
        let early = || "it ended before the first observation".to_owned();
        let unseen = || watched.why.clone().unwrap_or_else(early);
        let observations = &watched.observations.0;
        let estimate = ("", Origin::Estimate);
        let locality = observations.last().and_then(|observation| observation.locality);
        self.add(file, LOCALITY, estimate, locality.ok_or_else(unseen));
        let all: Vec<f64> =
            observations.iter().filter_map(|observation| observation.locality).collect();
        self.add(file, LOCALITY_MEAN, estimate, mean(&all).ok_or_else(unseen));
        let values: Vec<f64> =
            observations.iter().filter_map(|observation| observation.value).collect();
        let placed = observations.last().and_then(|observation| observation.value);
        self.add(file, PLACED, estimate, placed.ok_or_else(unseen));
        self.add(file, PLACED_MEAN, estimate, mean(&values).ok_or_else(unseen));
    }

    fn speed(&self, file: &mut RunFile, memory: &MemoryFacts) {
        let kind = ("GB/s", Origin::Program);
        let none = || {
            let why = if memory.emulated {
                "emulated: the speed is the emulator's"
            } else {
                "no time passed"
            };
            why.to_owned()
        };
        self.add(file, SPEED, kind, memory.gb_per_s.ok_or_else(none));
        let speeds: Vec<f64> =
            memory.by_thread.iter().filter_map(|thread| thread.gb_per_s).collect();
        self.add(file, SPEED_THREAD, kind, mean(&speeds).ok_or_else(none));
        if let Some(spread) = memory.spread {
            self.add(file, SPREAD, ("", Origin::Program), Ok(spread));
        }
        self.add(file, BYTES, ("B", Origin::Program), Ok(memory.bytes as f64));
    }

    fn cost(&self, file: &mut RunFile, memory: &MemoryFacts, watched: &Watched) {
        let threads = &memory.by_thread;
        let kernel = ("s", Origin::Kernel);
        let sum =
            |of: &dyn Fn(&pmuscope_workloads::MemoryThread) -> f64| threads.iter().map(of).sum();
        self.add(file, metric::USER, kernel, Ok(sum(&|thread| thread.user_s)));
        self.add(file, metric::SYSTEM, kernel, Ok(sum(&|thread| thread.system_s)));
        let faults = sum(&|thread| thread.minor_faults as f64);
        self.add(file, metric::MINOR_FAULTS, ("", Origin::Kernel), Ok(faults));
        let counters = watched.counters.unwrap_or_default();
        of_counters(&counters, |name, kind, value| self.add(file, name, kind, value));
        let page = place::page_size() as f64;
        if let Some(moved) = moved(&counters) {
            let pages = (watched.pages > 0.0).then(|| moved as f64 / watched.pages);
            let none = || "no pages were observed".to_owned();
            self.add(file, PING_PONG, ("", Origin::Derived), pages.ok_or_else(none));
        }
        let memory = (watched.pages > 0.0).then_some(watched.pages * page);
        let none = || "no pages were observed".to_owned();
        self.add(file, MEMORY, ("B", Origin::Estimate), memory.ok_or_else(none));
        self.add(file, MONITOR, kernel, Ok(watched.cost_s));
        if let Some(balancer) = &watched.balancer {
            self.add(file, BALANCER, kernel, balancer.clone());
        }
    }
}

/// What the kernel counted, as figures.
pub(super) fn of_counters(
    counters: &NumaCounters,
    mut put: impl FnMut(&str, (&str, Origin), Result<f64, String>),
) {
    let kind = ("", Origin::Kernel);
    let counted = |value: Option<u64>| {
        value.map(|value| value as f64).ok_or_else(|| "this kernel does not count it".to_owned())
    };
    put(PTE_UPDATES, kind, counted(counters.pte_updates));
    put(HINT_FAULTS, kind, counted(counters.hint_faults));
    put(HINT_LOCAL, kind, counters.local_share().ok_or_else(|| "no hint faults".to_owned()));
    let moved = moved(counters);
    put(MIGRATED, kind, counted(moved));
    if let Some(moved) = moved {
        put(MOVED, ("B", Origin::Kernel), Ok(moved as f64 * place::page_size() as f64));
    }
}

/// Pages that were moved for any reason: by the kernel's balancing, or by a program beside.
fn moved(counters: &NumaCounters) -> Option<u64> {
    counters.migrate_success.or(counters.pages_migrated)
}
