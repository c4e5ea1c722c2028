//! A run of the workload watched from outside: where its threads and memory are, how fast it is, since when
//! both have been right.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use pmuscope_machine::{Machine, NumaCounters, Topology};
use pmuscope_numa::convergence::{
    Convergence, Criterion, Judge, Point, again_after, convergence, holds,
};
use pmuscope_numa::observe::{Memory, ObserveError, Observer, own_cpu_ns};
use pmuscope_numa::placement::{Area as PlacedArea, Placement};
use pmuscope_workloads::memory::control::{Area, Control, Kind, State, Thread};

/// Fewer pages of a process say next to nothing.
const LEAST_PAGES: u64 = 64;

/// How a run is watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watching {
    /// Time between two looks.
    pub(super) interval: Duration,
    /// Pages asked for at each look, of all processes together.
    pub(super) pages: u64,
    /// Seed of which pages.
    pub(super) seed: u64,
    /// What counts as converged.
    pub(super) criterion: Criterion,
    /// What the placement is judged by.
    pub(super) judge: Judge,
    /// Ends the run as soon as it has converged.
    pub(super) stop_when_converged: bool,
}

/// A look at a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Look {
    /// Seconds since the work began.
    pub(super) at_s: f64,
    /// Locality of all memory with its threads.
    pub(super) locality: Option<f64>,
    /// What it is judged by: that, or evenness.
    pub(super) value: Option<f64>,
    /// Bytes that all threads have gone through, up to then.
    pub(super) bytes: u64,
    /// Perturbations so far.
    pub(super) perturbations: u64,
}

/// What was seen of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Watched {
    /// In the order of time.
    pub(super) looks: Vec<Look>,
    /// What the kernel counted on the whole machine while it worked.
    pub(super) counters: Option<NumaCounters>,
    /// CPU seconds that watching took.
    pub(super) cost_s: f64,
    /// Pages of the workload's memory that were present at the last look.
    pub(super) pages: f64,
    /// Why nothing was seen of the placement.
    pub(super) why: Option<String>,
}

impl Watched {
    fn points(&self) -> Vec<Point> {
        self.looks.iter().map(|look| Point { at_s: look.at_s, value: look.value }).collect()
    }

    /// Whether, when and for how long it was as good as the best binding.
    #[must_use]
    pub(super) fn convergence(&self, criterion: &Criterion) -> Option<Convergence> {
        convergence(&self.points(), BEST, criterion)
    }

    /// For each perturbation, how long until it was good again; `None` for one that it never was after.
    #[must_use]
    pub(super) fn convergence_again(&self, criterion: &Criterion) -> Vec<Option<f64>> {
        let points = self.points();
        // It was moved at some time between the two.
        let moved: Vec<(f64, f64)> = self
            .looks
            .windows(2)
            .filter(|pair| pair[1].perturbations > pair[0].perturbations)
            .map(|pair| (pair[0].at_s, pair[1].at_s))
            .collect();
        let ends = moved.iter().skip(1).map(|&(_, seen)| seen).chain([f64::INFINITY]);
        let again = |(&(before, seen), end): (&(f64, f64), f64)| {
            Some(again_after(&points, (seen, end), BEST, criterion)? + seen - before)
        };
        moved.iter().zip(ends).map(again).collect()
    }

    /// Bytes a second before `at_s` and from then on; `None` where that is less than two looks apart.
    #[must_use]
    pub(super) fn speeds_around(&self, at_s: f64) -> (Option<f64>, Option<f64>) {
        let at = self.looks.partition_point(|look| look.at_s < at_s);
        let speed = |from: usize, to: usize| {
            let (from, to) = (self.looks.get(from)?, self.looks.get(to)?);
            let seconds = to.at_s - from.at_s;
            (seconds > 0.0).then(|| (to.bytes - from.bytes) as f64 / seconds)
        };
        (
            speed(0, at.min(self.looks.len().saturating_sub(1))),
            speed(at, self.looks.len().wrapping_sub(1)),
        )
    }
}

/// What the best binding has by either judge: all local where everything fits a node, else all nodes alike.
pub(super) const BEST: f64 = 1.0;

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
    observer.set_budget((watching.pages / processes.len().max(1) as u64).max(LEAST_PAGES));
    let cpu = own_cpu_ns();
    let before = machine.numa_counters().ok();
    let mut watched = Watched::default();
    let began = control.began_ns()?.unwrap_or(0);
    let mut next = Instant::now();
    let mut is_told = false;
    while control.state()? == State::Running && control.threads()?.iter().any(is_running) {
        let look = look(&mut observer, (control, &areas), watching.judge, (began, &mut watched))?;
        // Processes that just ended have no memory any more.
        if look.value.is_none() && !watched.looks.is_empty() {
            break;
        }
        watched.looks.push(look);
        let converged =
            watching.stop_when_converged && holds(&watched.points(), BEST, &watching.criterion);
        if !is_told && (converged || stop()) {
            is_told = true;
            end()?;
        }
        next = (next + watching.interval).max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    watched.counters =
        before.zip(machine.numa_counters().ok()).map(|(before, after)| after.since(&before));
    watched.cost_s = own_cpu_ns().saturating_sub(cpu) as f64 / 1e9;
    Ok(watched)
}

fn is_running(thread: &Thread) -> bool {
    thread.end_ns.is_none()
}

/// Memory to look at, process by process, with the threads that use it now.
fn targets(areas: &[Area], threads: &[Thread]) -> BTreeMap<u32, Vec<(Kind, Memory)>> {
    let mut by_process: BTreeMap<u32, Vec<(Kind, Memory)>> = BTreeMap::new();
    for area in areas.iter().filter(|area| area.bytes > 0) {
        // What all share is there once for each process: one of them is enough.
        if area.kind == Kind::Global && area.process > 0 {
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

fn look(
    observer: &mut Observer,
    (control, memory): (&Control, &[Area]),
    judge: Judge,
    (began, watched): (u64, &mut Watched),
) -> io::Result<Look> {
    let mut areas = Vec::new();
    let mut shared = Vec::new();
    let threads = control.threads()?;
    for memories in targets(memory, &threads).values() {
        let asked: Vec<Memory> = memories.iter().map(|(_, memory)| memory.clone()).collect();
        match observer.memories(&asked) {
            Ok(seen) => {
                for ((kind, _), seen) in memories.iter().zip(seen) {
                    if *kind == Kind::Global { &mut shared } else { &mut areas }.push(seen.area);
                }
            }
            Err(error) => watched.why = why(&error).or(watched.why.take()),
        }
    }
    let placement = placement(areas, shared);
    let pages: f64 = placement.pages().iter().sum();
    if pages > 0.0 {
        watched.pages = pages;
    }
    let threads = control.threads()?;
    // Threads write what they have done within a millisecond, each at its own time.
    let updated = threads.iter().map(|thread| thread.updated_ns).max().unwrap_or(0);
    Ok(Look {
        at_s: updated.saturating_sub(began) as f64 / 1e9,
        locality: placement.locality(),
        value: judge.value(&placement),
        bytes: threads.iter().map(|thread| thread.bytes).sum(),
        perturbations: control.perturbations()?,
    })
}

/// A process that ends while it is looked at is no reason to say anything.
fn why(error: &ObserveError) -> Option<String> {
    (!error.is_gone()).then(|| error.to_string())
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

    fn watched(values: &[(f64, u64, u64)]) -> Watched {
        let look = |(i, &(value, bytes, perturbations)): (usize, &(f64, u64, u64))| Look {
            at_s: i as f64,
            locality: Some(value),
            value: Some(value),
            bytes,
            perturbations,
        };
        Watched { looks: values.iter().enumerate().map(look).collect(), ..Watched::default() }
    }

    #[test]
    fn speed_is_told_before_and_after() {
        let run = watched(&[(0.0, 0, 0), (0.5, 10, 0), (1.0, 20, 0), (1.0, 120, 0), (1.0, 220, 0)]);
        assert_eq!(run.speeds_around(2.0), (Some(10.0), Some(100.0)));
        assert_eq!(run.speeds_around(0.0), (None, Some(55.0)));
        assert_eq!(run.speeds_around(9.0), (Some(55.0), None));
        assert_eq!(Watched::default().speeds_around(1.0), (None, None));
        let criterion = Criterion { within: 0.05, hold_s: 1.0 };
        assert_eq!(run.convergence(&criterion).unwrap().after_s, Some(2.0));
    }

    #[test]
    fn each_perturbation_has_its_time() {
        let criterion = Criterion { within: 0.05, hold_s: 1.0 };
        let good = (1.0, 0, 0);
        let run = watched(&[
            good,
            good,
            (0.2, 0, 1),
            (0.5, 0, 1),
            (1.0, 0, 1),
            (1.0, 0, 1),
            (0.1, 0, 2),
            (0.1, 0, 2),
        ]);
        assert_eq!(run.convergence_again(&criterion), [Some(3.0), None]);
        assert!(watched(&[good, good]).convergence_again(&criterion).is_empty());
    }

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
