//! The same work on many things, by as many threads as there are CPUs at most.

use std::sync::{Mutex, PoisonError};

/// CPUs that this program may use.
#[must_use]
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Does `work` to each item; answers are in the order of the items. Threads follow from CPUs, not from items.
pub(crate) fn in_parallel<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let items: Vec<T> = items.into_iter().collect();
    let threads = available_threads().min(items.len());
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let mut answers: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let jobs = Mutex::new(items.into_iter().zip(&mut answers));
    let run = || {
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((item, answer)) = job else { return };
            *answer = Some(work(item));
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        run();
        for other in others {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    drop(jobs);
    // Each has its answer: a thread without one has panicked, above.
    answers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn answers_are_in_order_and_threads_are_as_many_as_cpus_at_most() {
        let seen = Mutex::new(HashSet::new());
        let answers = in_parallel(0..10_000_u64, |item| {
            seen.lock().unwrap().insert(std::thread::current().id());
            item * 2
        });
        assert!(answers.into_iter().eq((0..20_000).step_by(2)));
        assert!(seen.lock().unwrap().len() <= available_threads());
        assert!(in_parallel(Vec::<u8>::new(), |item| item).is_empty());
    }
}
