//! What a run came to, as figures of the run file: placement, speed and cost side by side.

use pmuscope_machine::{NumaCounters, place};
use pmuscope_measure::{Labels, Origin, RunFile, metric};
use pmuscope_numa::convergence::{Convergence, Criterion};
use pmuscope_workloads::{Facts, MemoryFacts};

use super::suite::Kind;
use super::watched::Watched;

/// Share of accesses that are local if threads use their memory evenly, at the end.
pub const LOCALITY: &str = "locality";
/// What the test is judged by, the mean over the run: locality or evenness.
pub const PLACED_MEAN: &str = "placed_mean";
/// The same at the end.
pub const PLACED: &str = "placed";
/// Seconds until it was as good as the best binding, and stayed so.
pub const CONVERGED: &str = "converged";
/// 1 if it was so when it was first looked at: nobody had to move anything.
pub const AT_ONCE: &str = "converged_at_once";
/// Share of the looks at which it was as good.
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

const GB: f64 = 1e9;

/// Figures of a run with its place in the file.
pub(super) struct Figures<'a> {
    pub(super) run: usize,
    pub(super) labels: &'a Labels,
    pub(super) kind: Kind,
    /// Everything was bound: nothing can converge.
    pub(super) is_bound: bool,
    pub(super) criterion: Criterion,
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

    /// Adds all.
    pub(super) fn all(&self, file: &mut RunFile, facts: &Facts, watched: &Watched) {
        let Some(memory) = &facts.memory else { return };
        let found = watched.convergence(&self.criterion);
        self.placement(file, watched, found);
        self.speed(file, memory, watched, found);
        self.cost(file, memory, watched);
    }

    fn placement(&self, file: &mut RunFile, watched: &Watched, found: Option<Convergence>) {
        let unseen =
            || watched.why.clone().unwrap_or_else(|| "it ended before it was seen".to_owned());
        let last = watched.looks.last();
        let estimate = ("", Origin::Estimate);
        let locality = last.and_then(|look| look.locality);
        self.add(file, LOCALITY, estimate, locality.ok_or_else(unseen));
        let values: Vec<f64> = watched.looks.iter().filter_map(|look| look.value).collect();
        self.add(file, PLACED, estimate, last.and_then(|look| look.value).ok_or_else(unseen));
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        self.add(file, PLACED_MEAN, estimate, mean.ok_or_else(unseen));
        if self.is_bound {
            return;
        }
        let Some(found) = found else { return };
        let clock = ("s", Origin::Clock);
        let never = || format!("> {:.1} s: not within the time watched", found.watched_s);
        self.add(file, CONVERGED, clock, found.after_s.ok_or_else(never));
        self.add(file, AT_ONCE, estimate, Ok(f64::from(u8::from(found.from_the_start))));
        self.add(file, GOOD_SHARE, estimate, Ok(found.share));
        self.add(file, LOST, ("", Origin::Estimate), Ok(found.lost as f64));
        let again = watched.convergence_again(&self.criterion);
        if !again.is_empty() {
            let times: Option<Vec<f64>> = again.iter().copied().collect();
            let mean = times.map(|times| times.iter().sum::<f64>() / times.len() as f64);
            let missed = again.iter().filter(|time| time.is_none()).count();
            let why =
                || format!("after {missed} of {} perturbations it was not good again", again.len());
            self.add(file, CONVERGED_AGAIN, clock, mean.ok_or_else(why));
        }
    }

    fn speed(
        &self,
        file: &mut RunFile,
        memory: &MemoryFacts,
        watched: &Watched,
        found: Option<Convergence>,
    ) {
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
        let each = (!speeds.is_empty()).then(|| speeds.iter().sum::<f64>() / speeds.len() as f64);
        self.add(file, SPEED_THREAD, kind, each.ok_or_else(none));
        if let Some(spread) = memory.spread {
            self.add(file, SPREAD, ("", Origin::Program), Ok(spread));
        }
        if self.kind == Kind::Bandwidth && !self.is_bound && !memory.emulated {
            let at = found.and_then(|found| found.after_s).unwrap_or(f64::INFINITY);
            let (before, after) = watched.speeds_around(at);
            let gb =
                |speed: Option<f64>, why: &str| speed.map(|b| b / GB).ok_or_else(|| why.to_owned());
            self.add(file, SPEED_BEFORE, kind, gb(before, "it had converged from the start"));
            self.add(file, SPEED_AFTER, kind, gb(after, "it did not converge"));
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
            let none = || "no pages were seen".to_owned();
            self.add(file, PING_PONG, ("", Origin::Derived), pages.ok_or_else(none));
        }
        self.add(file, MEMORY, ("B", Origin::Estimate), Ok(watched.pages * page));
        self.add(file, MONITOR, ("s", Origin::Kernel), Ok(watched.cost_s));
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
