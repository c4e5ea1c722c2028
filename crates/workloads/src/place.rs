//! How many threads, and where.

use std::sync::mpsc;

use pmuscope_machine::place::{affinity, set_affinity};
use pmuscope_machine::{CpuSet, child};

use crate::error::WorkloadError;
use crate::facts::WorkloadFacts;

/// More than any machine has CPUs; a slip of the keyboard should not start a million threads.
const MAX_THREADS: usize = 8192;

/// CPUs this process may use, in ascending order.
pub(crate) fn cpus() -> Result<Vec<u32>, WorkloadError> {
    let allowed = affinity().map_err(|e| WorkloadError::system("read the CPU affinity", e))?;
    Ok(allowed.iter().collect())
}

/// The number asked for, or one thread per CPU that this process may use.
pub(crate) fn threads(
    workload: &'static str,
    asked: Option<usize>,
    cpus: usize,
) -> Result<usize, WorkloadError> {
    let threads = asked.unwrap_or(cpus);
    if threads == 0 || threads > MAX_THREADS {
        let what = format!("{threads} threads: use 1 to {MAX_THREADS}");
        return Err(WorkloadError::Options { workload, what });
    }
    Ok(threads)
}

/// Where the threads of a team run.
pub(crate) struct Placement<'a> {
    /// How many.
    pub(crate) threads: usize,
    /// Each on one of these in turn; where empty, wherever the scheduler puts them.
    pub(crate) pin_to: &'a [u32],
}

/// Runs `work` in every thread of a team, given its index, and hands back what each returned. No
/// thread begins before all are started and placed, so that `work` may have barriers.
///
/// # Errors
/// If a thread cannot be started or placed; then no thread has begun.
pub(crate) fn run_team<T: Send>(
    name: &str,
    placement: &Placement<'_>,
    work: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, WorkloadError> {
    let work = &work;
    std::thread::scope(|scope| {
        let (placed, all_placed) = mpsc::channel();
        let mut go = Vec::new();
        let mut handles = Vec::new();
        for index in 0..placement.threads {
            let (say_go, wait_for_go) = mpsc::channel::<()>();
            let placed = placed.clone();
            let thread = move || {
                // Fails only after the team was given up.
                let _ = placed.send(pin(index, placement.pin_to));
                wait_for_go.recv().ok().map(|()| work(index))
            };
            let builder = std::thread::Builder::new().name(format!("{name}-{index}"));
            let handle = builder.spawn_scoped(scope, thread).map_err(|error| {
                WorkloadError::system(
                    format!("start thread {index} of {}", placement.threads),
                    error,
                )
            })?;
            go.push(say_go);
            handles.push(handle);
        }
        drop(placed);
        // Returning drops `go`, and the threads that wait for it end.
        all_placed.iter().take(placement.threads).collect::<Result<(), _>>()?;
        for say_go in go {
            let _ = say_go.send(());
        }
        // A panic of a thread is a bug; it goes on in this one.
        let join = |handle: std::thread::ScopedJoinHandle<'_, Option<T>>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        Ok(handles.into_iter().filter_map(join).collect())
    })
}

fn pin(index: usize, cpus: &[u32]) -> Result<(), WorkloadError> {
    if cpus.is_empty() {
        return Ok(());
    }
    let cpu = cpus[index % cpus.len()];
    set_affinity(&CpuSet::from_iter([cpu]))
        .map_err(|e| WorkloadError::system(format!("pin a thread to CPU {cpu}"), e))
}

/// Facts at the end of the work.
pub(crate) fn facts(
    workload: &str,
    threads: usize,
    time_s: f64,
) -> Result<WorkloadFacts, WorkloadError> {
    let usage =
        child::own_usage().map_err(|e| WorkloadError::system("read the resource usage", e))?;
    Ok(WorkloadFacts::new(workload, Some(threads), time_s, &usage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_that_cannot_be_placed_does_not_begin() {
        let placement = Placement { threads: 3, pin_to: &[0, u32::MAX >> 14, 0] };
        let begun = std::sync::atomic::AtomicBool::new(false);
        let result = run_team("test", &placement, |_| {
            begun.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        assert!(result.unwrap_err().to_string().contains("pin a thread to CPU 262143"));
        assert!(!begun.into_inner());
    }

    #[test]
    fn every_thread_has_its_index() {
        let placement = Placement { threads: 4, pin_to: &[] };
        assert_eq!(run_team("test", &placement, |index| index * 2).unwrap(), [0, 2, 4, 6]);
    }
}
