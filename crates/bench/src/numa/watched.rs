//! A run of the workload watched from outside: where its threads and memory are, how fast it is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use pmuscope_machine::child::thread_cpu_ns;
use pmuscope_machine::{Machine, NumaCounters, Topology};
use pmuscope_numa::convergence::{ConvergenceRule, Criterion};
use pmuscope_numa::observe::{Memory, Observer};
use pmuscope_numa::placement::{Area as PlacedArea, Placement};
use pmuscope_workloads::memory::control::{Area, AreaKind, Control, State, Thread};

use super::judged::BEST;
use super::observations::{Observation, Observations};

/// How a run is watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watching {
    /// Time between two observations.
    pub(super) interval: Duration,
    /// Pages asked for at each observation, of all processes together.
    pub(super) pages: u64,
    /// Seed of which pages.
    pub(super) seed: u64,
    /// What counts as converged.
    pub(super) criterion: Criterion,
    /// What the placement is judged by.
    pub(super) judge: ConvergenceRule,
    /// Ends the run as soon as it has converged.
    pub(super) stop_when_converged: bool,
}

/// What was seen of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Watched {
    /// In the order of time.
    pub(super) observations: Observations,
    /// What the kernel counted on the whole machine while it worked.
    pub(super) counters: Option<NumaCounters>,
    /// CPU seconds that watching took.
    pub(super) cost_s: f64,
    /// Pages of the workload's memory that were present at the last observation.
    pub(super) pages: f64,
    /// CPU seconds of the program that placed it; `None` where there was none.
    pub(super) balancer: Option<Result<f64, String>>,
    /// Why nothing was seen of the placement.
    pub(super) why: Option<String>,
}

/// Watches a run until it has ended, or `stop` says so. `control` is where the workload keeps its control file;
/// `gone` tells whether it has ended without one.
///
/// # Errors
/// If the control file cannot be read. What cannot be seen of the placement is in [`Watched::why`].
pub(super) fn watch(
    (machine, topology): (&Machine, &Topology),
    control: &Control,
    watching: &Watching,
    mut stop: impl FnMut() -> bool,
    mut end: impl FnMut() -> io::Result<()>,
) -> io::Result<Watched> {
    let mut observer = Observer::new(machine, topology, watching.pages, watching.seed);
    let areas = control.areas()?;
    let processes: BTreeSet<u32> = areas.iter().map(|area| area.pid).collect();
    observer.share_budget(watching.pages, processes.len());
    let cpu = thread_cpu_ns();
    let before = machine.numa_counters().ok();
    let mut watched = Watched::default();
    let began = control.began_ns()?.unwrap_or(0);
    let mut next = Instant::now();
    let mut is_told = false;
    while control.state()? == State::Running && control.threads()?.iter().any(is_running) {
        let observation =
            observe(&mut observer, (control, &areas), watching.judge, (began, &mut watched))?;
        watched.observations.0.extend(observation);
        let converged =
            watching.stop_when_converged && watched.observations.holds(BEST, &watching.criterion);
        if !is_told && (converged || stop()) {
            is_told = true;
            end()?;
        }
        next = (next + watching.interval).max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    watched.counters =
        before.zip(machine.numa_counters().ok()).map(|(before, after)| after.since(&before));
    watched.cost_s = thread_cpu_ns().saturating_sub(cpu) as f64 / 1e9;
    Ok(watched)
}

fn is_running(thread: &Thread) -> bool {
    thread.end_ns.is_none()
}

/// Memory to look at, process by process, with the threads that use it now.
fn targets(areas: &[Area], threads: &[Thread]) -> BTreeMap<u32, Vec<(AreaKind, Memory)>> {
    let mut by_process: BTreeMap<u32, Vec<(AreaKind, Memory)>> = BTreeMap::new();
    for area in areas.iter().filter(|area| area.bytes > 0) {
        // What all share is there once for each process: one of them is enough.
        if area.kind == AreaKind::Global && area.process > 0 {
            continue;
        }
        let team: Vec<&Thread> =
            threads.iter().filter(|thread| thread.process == area.process).collect();
        // In each phase a thread uses the memory of the next one.
        let uses = |thread: &Thread| (thread.index + thread.phase as usize) % team.len();
        let is_user = |thread: &&&Thread| area.thread.is_none_or(|own| own == uses(thread));
        let users = team.iter().filter(is_user).map(|thread| thread.tid).collect();
        let region = area.address..area.address + area.bytes;
        let memory = Memory { pid: area.pid, regions: Vec::from([region]), users };
        by_process.entry(area.pid).or_default().push((area.kind, memory));
    }
    by_process
}

/// Looks at the whole workload. `None` once a part of it has ended: the placement of those that are left is not
/// the workload's, and processes end one after the other.
fn observe(
    observer: &mut Observer,
    (control, memory): (&Control, &[Area]),
    judge: ConvergenceRule,
    (began, watched): (u64, &mut Watched),
) -> io::Result<Option<Observation>> {
    let mut areas = Vec::new();
    let mut shared = Vec::new();
    let mut refused = None;
    let threads = control.threads()?;
    for memories in targets(memory, &threads).values() {
        let asked: Vec<Memory> = memories.iter().map(|(_, memory)| memory.clone()).collect();
        match observer.memories(&asked) {
            Ok(seen) => {
                for ((kind, _), seen) in memories.iter().zip(seen) {
                    if *kind == AreaKind::Global { &mut shared } else { &mut areas }
                        .push(seen.area);
                }
            }
            Err(error) if error.is_gone() => return Ok(None),
            Err(error) => refused = Some(error.to_string()),
        }
    }
    let threads = control.threads()?;
    // A process ends after its threads, so that its memory was there until now.
    if !threads.iter().all(is_running) {
        return Ok(None);
    }
    let placement = placement(areas, shared);
    let is_whole = refused.is_none();
    if is_whole {
        watched.pages = placement.pages().iter().sum();
    }
    watched.why = refused.or(watched.why.take());
    // Threads write what they have done within a millisecond, each at its own time.
    let updated = threads.iter().map(|thread| thread.updated_ns).max().unwrap_or(0);
    Ok(Some(Observation {
        at_s: updated.saturating_sub(began) as f64 / 1e9,
        locality: placement.locality().filter(|_| is_whole),
        value: judge.value(&placement).filter(|_| is_whole),
        bytes: threads.iter().map(|thread| thread.bytes).sum(),
        perturbations: control.perturbations()?,
    }))
}

/// Memory that all share is used by all threads, of which only those of one process were looked at with it.
fn placement(mut areas: Vec<PlacedArea>, shared: Vec<PlacedArea>) -> Placement {
    let all = Placement { areas: areas.clone() }.threads();
    let has_others = all.iter().any(|&time| time > 0.0);
    areas.extend(shared.into_iter().map(|area| match has_others {
        true => PlacedArea { threads: all.clone(), ..area },
        false => area,
    }));
    Placement { areas }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_share_is_used_by_all() {
        let own = |pages: [f64; 2], threads: [f64; 2]| PlacedArea {
            pages: pages.into(),
            threads: threads.into(),
        };
        let shared = vec![own([8.0, 0.0], [1.0, 0.0])];
        let both = placement(
            vec![own([1.0, 0.0], [1.0, 0.0]), own([0.0, 1.0], [0.0, 1.0])],
            shared.clone(),
        );
        assert_eq!(both.areas[2].threads, [1.0, 1.0]);
        assert_eq!(placement(Vec::new(), shared.clone()).areas, shared);
    }
}
