//! Independent jobs on several threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `work` on each of `jobs`, with at most `threads` threads; answers are in the order of the
/// jobs, whichever thread did them. `None` stands for a job whose work panicked: files come from
/// anywhere, and a fault of a library with one of them costs the names of that file, no more.
pub(crate) fn run<J: Sync, R: Send>(
    jobs: &[J],
    threads: usize,
    work: impl Fn(&J) -> R + Sync,
) -> Vec<Option<R>> {
    let guarded = |job: &J| catch_unwind(AssertUnwindSafe(|| work(job))).ok();
    if threads <= 1 || jobs.len() <= 1 {
        return jobs.iter().map(guarded).collect();
    }
    let next = AtomicUsize::new(0);
    let taken = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(jobs.len()))
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(job) = jobs.get(index) else { return done };
                        done.push((index, guarded(job)));
                    }
                })
            })
            .collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).flatten().collect::<Vec<_>>()
    });
    let mut answers: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    for (index, answer) in taken {
        answers[index] = answer;
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_in_the_order_of_the_jobs() {
        let jobs: Vec<usize> = (0..500).collect();
        for threads in [1, 2, 7] {
            let answers = run(&jobs, threads, |job| job * 2);
            assert!(answers.iter().enumerate().all(|(at, answer)| *answer == Some(at * 2)));
        }
        assert!(run(&[0_u8; 0], 3, |job| *job).is_empty());
    }

    #[test]
    fn a_job_that_panics_costs_only_its_own_answer() {
        for threads in [1, 3] {
            let answers = run(&[1, 0, 2], threads, |job| 10 / job);
            assert_eq!(answers, [Some(10), None, Some(5)]);
        }
    }
}
