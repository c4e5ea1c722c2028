//! Threads that inherit breakpoints are created and joined.
//!
//! ```text
//!  this thread: b breakpoints, inherited ─► p creators ─► while batches are left:
//!                                                           t threads, which wait ─ let go ─ joined
//! ```
//! A run is `batches` batches, whoever makes them; an operation is a thread, from its creation to its end, and
//! the time is that of the whole run, as in the kernel's own tool.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime};

use pmuscope_counters::Kernel;
use pmuscope_machine::Machine;
use pmuscope_measure::{Labels, Planned};
use pmuscope_workloads::WorkloadError;
use pmuscope_workloads::crowd::Crowd;

use super::{BENCHMARK, BREAKPOINTS, BreakpointOutcome, check_slots, open_inherited, with_none};
use crate::error::BenchError;
use crate::runner::{Bench, Benchmark, joined, labels};

/// Label: number of creators.
pub const PARALLELISM: &str = "parallelism";
/// Label: threads of a batch.
pub const THREADS: &str = "threads";
/// Unit of work: a thread, from its creation to its end.
pub const THREAD: &str = "thread";
/// Parameter: batches of a run.
pub const BATCHES: &str = "batches";
/// Value of [`BENCHMARK`].
pub const NAME: &str = "thread";

/// Threads that inherit breakpoints, in all combinations.
pub struct ThreadBench<'a> {
    /// Who has breakpoints.
    pub kernel: &'a dyn Kernel,
    /// This machine.
    pub machine: &'a Machine,
    /// Numbers of breakpoints; 0 runs in any case.
    pub breakpoints: Vec<u32>,
    /// Numbers of creators.
    pub parallelism: Vec<NonZeroUsize>,
    /// Numbers of threads in a batch.
    pub threads: Vec<NonZeroUsize>,
    /// Batches of each run.
    pub batches: u32,
}

/// One combination.
#[derive(Debug, Clone, Copy)]
pub struct Batches {
    breakpoints: u32,
    parallelism: usize,
    threads: usize,
    /// Batches that there can be at the same time.
    at_once: usize,
}

impl Batches {
    fn run(&self, kernel: &dyn Kernel, batches: u32) -> Result<BreakpointOutcome, BenchError> {
        // Closed after the clock has stopped.
        let _inherited = open_inherited(kernel, self.breakpoints)?;
        let left = AtomicI64::new(batches.into());
        let created = AtomicU64::new(0);
        let places = BreakpointSlots::new(self.at_once);
        let create = || {
            while left.fetch_sub(1, Ordering::Relaxed) > 0 {
                let taken = (self.at_once < self.parallelism).then(|| places.take());
                Crowd::create(self.threads)?.dismiss();
                drop(taken);
                created.fetch_add(self.threads as u64, Ordering::Relaxed);
            }
            Ok(())
        };
        let started = Instant::now();
        let results: Result<(), WorkloadError> = thread::scope(|scope| {
            let creators: Result<Vec<_>, _> = (0..self.parallelism)
                .map(|_| thread::Builder::new().spawn_scoped(scope, create))
                .collect();
            let creators = creators.map_err(|source| WorkloadError::System {
                what: format!("start {} threads", self.parallelism),
                source,
            })?;
            creators.into_iter().try_for_each(joined)
        });
        let seconds = started.elapsed().as_secs_f64();
        results?;
        Ok(BreakpointOutcome::new(created.into_inner(), seconds))
    }
}

/// Places for so many at once; whoever finds none waits.
struct BreakpointSlots {
    free: Mutex<usize>,
    one_is_free: Condvar,
}

/// A place, until it is dropped.
struct BreakpointSlot<'a>(&'a BreakpointSlots);

impl BreakpointSlots {
    fn new(number: usize) -> Self {
        Self { free: Mutex::new(number), one_is_free: Condvar::new() }
    }

    fn take(&self) -> BreakpointSlot<'_> {
        // A number is whole whoever panicked.
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .one_is_free
            .wait_while(free, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        BreakpointSlot(self)
    }
}

impl Drop for BreakpointSlot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.one_is_free.notify_one();
    }
}

/// How many creators find room for their batch at the same time, and what is to be said if not all.
fn at_once(
    machine: &Machine,
    parallelism: usize,
    threads: usize,
) -> Result<(usize, Option<String>), BenchError> {
    let Some(room) = machine.thread_room() else { return Ok((parallelism, None)) };
    // Others start threads too.
    let free = room.threads / 10 * 9;
    let batches = free.saturating_sub(parallelism as u64) / threads as u64;
    if batches == 0 {
        return Err(BenchError::Threads { asked: threads, room: free, limit: room.limit });
    }
    if batches >= parallelism as u64 {
        return Ok((parallelism, None));
    }
    let notice = format!(
        "-p {parallelism} -t {threads}: only {batches} of {parallelism} batches run at the same \
         time: {}",
        room.limit
    );
    Ok((batches as usize, Some(notice)))
}

impl Benchmark for ThreadBench<'_> {
    type Arm = Batches;

    fn parameters(&self) -> Labels {
        labels([(BENCHMARK, NAME.to_owned()), (BATCHES, self.batches.to_string())])
    }

    /// All combinations, with a notice for those in which not all creators find room for their batch.
    fn arms(&mut self, bench: &mut Bench<'_>) -> Result<Vec<Batches>, BenchError> {
        let most = self.breakpoints.iter().max().copied().unwrap_or(0);
        if most > 0 {
            check_slots(self.kernel, most, bench.file)?;
        }
        let mut arms = Vec::new();
        for &parallelism in &self.parallelism {
            for &threads in &self.threads {
                let (parallelism, threads) = (parallelism.get(), threads.get());
                let (at_once, notice) = at_once(self.machine, parallelism, threads)?;
                bench.file.notices.extend(notice);
                for breakpoints in with_none(&self.breakpoints) {
                    arms.push(Batches { breakpoints, parallelism, threads, at_once });
                }
            }
        }
        Ok(arms)
    }

    fn labels(&self, arm: &Batches) -> Labels {
        labels([
            (BREAKPOINTS, arm.breakpoints.to_string()),
            (PARALLELISM, arm.parallelism.to_string()),
            (THREADS, arm.threads.to_string()),
        ])
    }

    fn run(
        &mut self,
        arm: &Batches,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<bool, BenchError> {
        let started = SystemTime::now();
        let outcome = arm.run(self.kernel, self.batches)?;
        outcome.add(bench, (planned, started), self.labels(arm), THREAD);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_counters::Host;
    use pmuscope_watch::kernel::free_slots;
    use pmuscope_watch::slots::{Kind, Owner, SlotTask};
    use std::collections::BTreeSet;
    use std::fs;

    /// What a thread of a batch has inherited is seen in what the kernel still lets in for it.
    #[test]
    fn threads_of_a_batch_have_all_breakpoints_of_the_thread_that_created_them() {
        let free = |tid: u32| free_slots(&Host, Owner::Task(SlotTask(tid.into())), Kind::Data);
        let slots = match free(0) {
            Ok(slots) if slots > 1 => slots,
            other => panic!("the tests need breakpoints: {other:?}"),
        };
        let threads = || -> BTreeSet<u32> {
            Machine::host().threads(std::process::id()).unwrap().into_iter().collect()
        };
        for inherited in [0, 1, slots] {
            let _breakpoints = open_inherited(&Host, inherited).unwrap();
            let before = threads();
            let crowd = Crowd::create(5).unwrap();
            let new: Vec<u32> = threads().difference(&before).copied().collect();
            // Other tests may have started threads meanwhile, and ended them.
            let is_left = |tid: &&u32| free(**tid).is_ok_and(|left| left == slots - inherited);
            let full = new.iter().filter(is_left).count();
            assert!(full >= 5, "{inherited} of {slots}: {new:?}");
            crowd.dismiss();
        }
    }

    #[test]
    fn a_run_creates_a_batch_of_threads_as_often_as_was_asked_for_whoever_creates_them() {
        for (parallelism, at_once) in [(1, 1), (3, 3), (7, 2)] {
            let arm = Batches { breakpoints: 0, parallelism, threads: 4, at_once };
            let outcome = arm.run(&Host, 9).unwrap();
            assert_eq!((outcome.done, outcome.why), (9 * 4, None));
            assert!(outcome.seconds > 0.0);
        }
    }

    #[test]
    fn creators_wait_where_there_is_no_room_for_all_batches() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::at(root.path());
        assert_eq!(at_once(&machine, 128, 512).unwrap(), (128, None));
        fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        fs::write(root.path().join("proc/sys/kernel/pid_max"), "32768\n").unwrap();
        assert_eq!(at_once(&machine, 50, 512).unwrap(), (50, None));
        let (batches, notice) = at_once(&machine, 128, 512).unwrap();
        assert_eq!(batches, 57);
        let expected = "-p 128 -t 512: only 57 of 128 batches run at the same time: kernel.pid_max \
            is 32768";
        assert_eq!(notice.unwrap(), expected);
        let error = at_once(&machine, 1, 40_000).unwrap_err().to_string();
        let expected = "-t 40000: cannot run 40000 threads at once: kernel.pid_max is 32768. Try: \
            -t 29484, or raise that limit";
        assert_eq!(error, expected);
    }
}
