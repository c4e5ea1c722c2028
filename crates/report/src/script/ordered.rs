//! Jobs on several threads, with results in the order of the jobs.
//!
//! ```text
//!  caller    job 1, job 2, job 3, …          a queue of limited length
//!  workers   1 ── format ── write
//!            2 ── format ─────── waits ── write          each writes what it made when its turn comes
//!            3 ────── format ──────────────── write
//! ```
//! So no result waits anywhere but with the thread that made it: memory is that of the queue and of one result per
//! thread.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Where the caller puts jobs.
pub(super) struct JobQueue<'a, J> {
    jobs: SyncSender<(u64, J)>,
    used: &'a Mutex<Vec<J>>,
    has_ended: &'a AtomicBool,
    next: u64,
}

impl<J> JobQueue<'_, J> {
    /// Adds a job; waits while the queue is full. False once nothing can be written any more.
    #[must_use]
    pub(super) fn push(&mut self, job: J) -> bool {
        let sent =
            !self.has_ended.load(Ordering::Relaxed) && self.jobs.send((self.next, job)).is_ok();
        self.next += 1;
        sent
    }

    /// A job that is done, for its memory.
    pub(super) fn used(&self) -> Option<J> {
        lock(self.used).pop()
    }
}

/// The right to write, which goes from job to job.
struct Turns<W> {
    state: Mutex<TurnState<W>>,
    changed: Condvar,
    /// Nothing can be written any more.
    has_ended: AtomicBool,
}

struct TurnState<W> {
    next: u64,
    write: W,
    result: io::Result<()>,
    /// A worker panicked: its turn never ends.
    is_broken: bool,
}

impl<W> Turns<W> {
    /// Waits for the turn of a job; `None` if it never comes.
    fn wait(&self, job: u64) -> Option<MutexGuard<'_, TurnState<W>>> {
        let is_early = |state: &mut TurnState<W>| state.next != job && !state.is_broken;
        let state = self.changed.wait_while(lock(&self.state), is_early);
        Some(state.unwrap_or_else(PoisonError::into_inner)).filter(|state| !state.is_broken)
    }

    fn write<O>(&self, job: u64, made: &mut O, is_last: bool)
    where
        W: FnMut(&mut O) -> io::Result<()>,
    {
        let Some(mut state) = self.wait(job) else { return };
        if state.result.is_ok() {
            state.result = (state.write)(made);
            if state.result.is_err() {
                self.has_ended.store(true, Ordering::Relaxed);
            }
        }
        if is_last {
            state.next += 1;
            self.changed.notify_all();
        }
    }
}

/// Ends all turns if the thread that holds it panics.
struct PanicGuard<'a, W>(&'a Turns<W>);

impl<W> Drop for PanicGuard<'_, W> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.state).is_broken = true;
            self.0.has_ended.store(true, Ordering::Relaxed);
            self.0.changed.notify_all();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `feed`, which puts jobs into a queue of `waiting` at most, and `format` on `workers` threads, which makes a
/// result of each job. `write` gets the results in the order of the jobs and empties them. `format` may hand on part of
/// a large result before it is complete: its last argument writes and empties what is there.
///
/// Returns what `feed` returns, and the first error of `write`, after which nothing more is formatted or written.
pub(super) fn in_order<J, O, R, W>(
    (workers, waiting): (usize, usize),
    format: impl Fn(&mut J, &mut O, &mut dyn FnMut(&mut O)) + Sync,
    write: W,
    feed: impl FnOnce(&mut JobQueue<'_, J>) -> R,
) -> (R, io::Result<()>)
where
    J: Send,
    O: Default,
    W: FnMut(&mut O) -> io::Result<()> + Send,
{
    let workers = workers.max(1);
    let (full, jobs) = sync_channel(waiting);
    // Only the workers hold it: should all of them panic, nobody waits for them.
    let jobs = Arc::new(Mutex::new(jobs));
    let used = Mutex::new(Vec::new());
    let state = TurnState { next: 0, write, result: Ok(()), is_broken: false };
    let turns = Turns {
        state: Mutex::new(state),
        changed: Condvar::new(),
        has_ended: AtomicBool::new(false),
    };
    let work = |jobs: &Mutex<Receiver<(u64, J)>>| {
        let _guard = PanicGuard(&turns);
        let mut made = O::default();
        while let Some((number, mut job)) = next(jobs) {
            if !turns.has_ended.load(Ordering::Relaxed) {
                format(&mut job, &mut made, &mut |made| turns.write(number, made, false));
            }
            turns.write(number, &mut made, true);
            let mut used = lock(&used);
            if used.len() < waiting + workers {
                used.push(job);
            }
        }
    };
    let fed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                let jobs = Arc::clone(&jobs);
                scope.spawn(|| {
                    let jobs = jobs;
                    work(&jobs);
                })
            })
            .collect();
        drop(jobs);
        let has_ended = &turns.has_ended;
        let fed = feed(&mut JobQueue { jobs: full, used: &used, has_ended, next: 0 });
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        fed
    });
    let state = turns.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    (fed, state.result)
}

fn next<T>(jobs: &Mutex<Receiver<T>>) -> Option<T> {
    lock(jobs).recv().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(
        workers: usize,
        jobs: u64,
        fails_at: Option<u64>,
    ) -> (Vec<u64>, io::Result<()>, u64) {
        let mut seen = Vec::new();
        let format = |job: &mut u64, made: &mut Vec<u64>, flush: &mut dyn FnMut(&mut Vec<u64>)| {
            std::thread::sleep(std::time::Duration::from_micros(*job % 3 * 50));
            made.push(*job * *job);
            if job.is_multiple_of(5) {
                flush(made);
            }
            made.push(*job);
        };
        let write = |made: &mut Vec<u64>| {
            if made.last() == fails_at.as_ref() {
                return Err(io::Error::other("full"));
            }
            seen.append(made);
            Ok(())
        };
        let (fed, result) = in_order((workers, 3), format, write, |queue| {
            (0..jobs).take_while(|&job| queue.push(job)).count() as u64
        });
        (seen, result, fed)
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let expected: Vec<u64> = (0..500).flat_map(|job| [job * job, job]).collect();
        for workers in [0, 1, 2, 7] {
            let (seen, result, fed) = squares(workers, 500, None);
            assert_eq!((&seen, fed), (&expected, 500));
            result.unwrap();
        }
    }

    #[test]
    fn an_error_of_the_writer_ends_the_jobs() {
        for workers in [1, 2, 7] {
            let (seen, result, fed) = squares(workers, 100_000, Some(101));
            assert_eq!(seen, (0..101).flat_map(|job| [job * job, job]).collect::<Vec<_>>());
            assert_eq!(result.unwrap_err().to_string(), "full");
            assert!((101..200).contains(&fed), "{fed}");
        }
    }

    #[test]
    fn a_panic_ends_everything() {
        for workers in [1, 2, 7] {
            let run = || {
                let format =
                    |job: &mut u64, _: &mut (), _: &mut dyn FnMut(&mut ())| assert_ne!(*job, 7);
                in_order(
                    (workers, 2),
                    format,
                    |()| Ok(()),
                    |queue| (0..100_000).all(|job| queue.push(job)),
                )
            };
            assert!(std::panic::catch_unwind(run).is_err());
        }
    }
}
