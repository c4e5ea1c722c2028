//! A barrier that spins before it sleeps, as OpenMP runtimes do: steps are short, and a thread
//! that has to be woken pays more than one that spins. Threads that wait long leave the CPU.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Looks at the generation before sleeping; between 0.1 and 1 ms, by the CPU's pause.
const SPINS: u32 = 10_000;

/// Holds threads until all have come.
pub(super) struct Barrier {
    threads: usize,
    spins: u32,
    arrived: AtomicUsize,
    generation: AtomicU64,
    asleep: Mutex<()>,
    opened: Condvar,
}

impl Barrier {
    /// For this many threads on this many CPUs; with too few CPUs, spinning keeps off the thread
    /// that is waited for.
    pub(super) fn new(threads: usize, cpus: usize) -> Self {
        Self {
            threads,
            spins: if threads <= cpus { SPINS } else { 0 },
            arrived: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            asleep: Mutex::new(()),
            opened: Condvar::new(),
        }
    }

    /// Returns once every thread has called it. What any thread wrote before is seen after.
    pub(super) fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            // Under the lock: a thread about to sleep has either seen this or is asleep already.
            let lock = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
            self.generation.store(generation + 1, Ordering::Release);
            drop(lock);
            self.opened.notify_all();
            return;
        }
        for _ in 0..self.spins {
            if self.generation.load(Ordering::Acquire) != generation {
                return;
            }
            std::hint::spin_loop();
        }
        let mut lock = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        while self.generation.load(Ordering::Acquire) == generation {
            lock = self.opened.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_ahead_by_more_than_one_step() {
        for cpus in [1, 8] {
            let barrier = Barrier::new(4, cpus);
            let done = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for step in 0..500 {
                            done.fetch_add(1, Ordering::SeqCst);
                            barrier.wait();
                            let seen = done.load(Ordering::SeqCst);
                            assert!((4 * (step + 1)..=4 * (step + 1) + 3).contains(&seen));
                            barrier.wait();
                        }
                    });
                }
            });
            assert_eq!(done.into_inner(), 2000);
        }
    }
}
