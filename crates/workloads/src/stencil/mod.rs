//! Bulk-synchronous Jacobi sweeps: every thread works on its block, then all meet at a barrier.
//!
//! What delays one thread delays all, which is how a profiler's reader on one CPU slows a whole
//! program. Blocks have the same size for any number of threads, so that steps take about as long
//! on a small machine as on a large one.

mod barrier;
mod block;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::WorkloadError;
use crate::facts::{StencilFacts, WorkloadFacts};
use crate::place::{self, Placement};
use barrier::Barrier;
use block::{Block, Edges, OPERATIONS_PER_CELL};

/// Name on the command line.
pub const NAME: &str = "stencil";

/// Smallest and largest edge of a block; the largest takes 4 GiB per thread.
const SIZES: std::ops::RangeInclusive<usize> = 2..=16_384;

/// What to run. It ends at the first of `steps` and `duration`.
#[derive(Debug, Clone)]
pub struct Options {
    /// `None`: one per CPU that this process may use.
    pub threads: Option<usize>,
    /// Edge of each thread's block, in cells.
    pub size: usize,
    /// Sweeps to do; `None`: as many as fit into `duration`.
    pub steps: Option<u64>,
    /// How long at most; `None`: until `steps` are done.
    pub duration: Option<Duration>,
    /// Keep each thread on one CPU.
    pub pin: bool,
}

impl Default for Options {
    fn default() -> Self {
        let duration = Some(Duration::from_secs(10));
        Self { threads: None, size: 1024, steps: None, duration, pin: false }
    }
}

/// Runs the sweeps.
///
/// # Errors
/// Options without sense, or a thread that cannot be started or placed.
pub fn run(options: &Options) -> Result<WorkloadFacts, WorkloadError> {
    let refuse = |what| Err(WorkloadError::Options { workload: NAME, what });
    if !SIZES.contains(&options.size) {
        return refuse(format!("size {}: use {} to {}", options.size, SIZES.start(), SIZES.end()));
    }
    if options.steps.is_none() && options.duration.is_none() {
        return refuse(
            "the workload would never end. Try: a number of steps or seconds".to_owned(),
        );
    }
    let cpus = place::cpus()?;
    let threads = place::threads(NAME, options.threads, cpus.len())?;
    let pin_to = if options.pin { &cpus[..] } else { &[] };
    let team = Team {
        options,
        barrier: Barrier::new(threads, cpus.len()),
        edges: Edges::new(threads, options.size),
        last_step: AtomicU64::new(options.steps.unwrap_or(u64::MAX)),
    };
    let blocks = place::run_team(NAME, &Placement { threads, pin_to }, |index| team.work(index))?;
    // The first thread's clock is the workload's: all pass the same barriers.
    let Done { steps, time_s, .. } = blocks[0];
    let cells = (threads * options.size * options.size) as f64;
    let operations = cells * steps as f64 * OPERATIONS_PER_CELL;
    let mut facts = place::facts(NAME, threads, time_s)?;
    facts.stencil = Some(StencilFacts {
        size: options.size,
        steps,
        mops: if time_s > 0.0 { operations / time_s / 1e6 } else { 0.0 },
        checksum: blocks.iter().map(|done| done.sum).sum(),
    });
    Ok(facts)
}

/// What all threads share.
struct Team<'a> {
    options: &'a Options,
    barrier: Barrier,
    edges: Edges,
    /// No step after this many. Lowered before the barrier of a step to that step's number, so
    /// that all threads stop after the same one, however late one of them looks.
    last_step: AtomicU64,
}

/// What one thread's work came to.
struct Done {
    steps: u64,
    time_s: f64,
    sum: f64,
}

impl Team<'_> {
    fn work(&self, index: usize) -> Done {
        let mut block = Block::new(self.options.size);
        self.barrier.wait();
        let started = Instant::now();
        let mut steps = 0;
        while steps < self.last_step.load(Ordering::Acquire) {
            self.edges.fetch(&mut block, index, steps);
            block.sweep();
            self.edges.publish(&block, index, steps);
            steps += 1;
            if index == 0 && self.options.duration.is_some_and(|d| started.elapsed() >= d) {
                self.last_step.fetch_min(steps, Ordering::AcqRel);
            }
            self.barrier.wait();
        }
        Done { steps, time_s: started.elapsed().as_secs_f64(), sum: block.sum() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The grid as one piece, each cell from the formula.
    fn brute_force(rows: usize, columns: usize, steps: u64) -> f64 {
        let mut now = vec![vec![0.0f64; columns]; rows];
        for _ in 0..steps {
            let at = |r: isize, c: isize| -> f64 {
                if r < 0 {
                    return 1.0;
                }
                now.get(r as usize).and_then(|row| row.get(c as usize)).copied().unwrap_or(0.0)
            };
            now = (0..rows as isize)
                .map(|r| {
                    (0..columns as isize)
                        .map(|c| 0.25 * (at(r - 1, c) + at(r + 1, c) + at(r, c - 1) + at(r, c + 1)))
                        .collect()
                })
                .collect();
        }
        now.iter().flatten().sum()
    }

    #[test]
    fn blocks_make_the_grid_that_one_piece_makes() {
        for (threads, size, steps) in [(1, 2, 5), (1, 9, 30), (3, 7, 40), (4, 2, 11)] {
            let options = Options {
                threads: Some(threads),
                size,
                steps: Some(steps),
                duration: None,
                pin: threads == 3,
            };
            let facts = run(&options).unwrap();
            let stencil = facts.stencil.unwrap();
            assert_eq!((facts.threads, stencil.steps), (Some(threads), steps));
            let want = brute_force(threads * size, size, steps);
            assert!((stencil.checksum - want).abs() < 1e-9 * want, "{threads} {size} {steps}");
        }
    }

    #[test]
    fn time_ends_it_after_the_same_step_everywhere() {
        let duration = Some(Duration::from_millis(30));
        let options = Options { threads: Some(3), size: 4, steps: None, duration, pin: false };
        let facts = run(&options).unwrap();
        let steps = facts.stencil.as_ref().unwrap().steps;
        assert!(steps > 0 && facts.time_s >= 0.03);
        let same = Options { steps: Some(steps), duration: None, ..options };
        let again = run(&same).unwrap().stencil.unwrap();
        assert_eq!(again.checksum, facts.stencil.unwrap().checksum);
    }

    #[test]
    fn options_without_sense_are_refused() {
        let never = Options { duration: None, ..Options::default() };
        assert!(run(&never).unwrap_err().to_string().contains("never end"));
        let small = Options { size: 1, ..Options::default() };
        assert!(run(&small).unwrap_err().to_string().contains("use 2 to 16384"));
    }
}
