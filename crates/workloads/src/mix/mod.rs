//! Three functions with known shares of CPU time, in short slices of random order and length.
//!
//! Sampling must find the shares that this program knows by its own clock. Random lengths keep
//! the slices from running in step with a sampling clock.

mod functions;

use std::time::{Duration, Instant};

use pmuscope_machine::child::thread_cpu_ns;

use crate::error::WorkloadError;
use crate::facts::{FunctionFacts, WorkloadFacts};
use crate::place::{self, Placement};

pub use functions::{FUNCTIONS, branches, integer_division, polynomial};

/// Name on the command line.
pub const NAME: &str = "share-mix";

/// Average CPU seconds of one round of all functions: long against reading the clock (about
/// 0.2 µs), short against a block of time in a report.
const ROUND_S: f64 = 2e-3;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long, by the wall clock.
    pub duration: Duration,
    /// `None`: one per CPU that this process may use.
    pub threads: Option<usize>,
    /// Relative CPU time of the functions in the order of [`FUNCTIONS`]; any positive numbers.
    pub shares: [f64; FUNCTIONS.len()],
    /// Keep each thread on one CPU.
    pub pin: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(10),
            threads: None,
            shares: [60.0, 30.0, 10.0],
            pin: false,
        }
    }
}

/// Time and calls of each function in one thread.
type Spent = [(f64, u64); FUNCTIONS.len()];

/// Runs the mix; returns after the duration asked for.
///
/// # Errors
/// Options without sense, or a thread that cannot be started or placed.
pub fn run(options: &Options) -> Result<WorkloadFacts, WorkloadError> {
    let shares = normalized(&options.shares)?;
    let cpus = place::cpus()?;
    let threads = place::threads(NAME, options.threads, cpus.len())?;
    let pin_to = if options.pin { &cpus[..] } else { &[] };
    let started = Instant::now();
    let end = started + options.duration;
    let spent = place::run_team("mix", &Placement { threads, pin_to }, |index| {
        MixThread::new(index as u64, shares).run_until(end)
    })?;
    let time_s = started.elapsed().as_secs_f64();
    let mut facts = place::facts(NAME, threads, time_s)?;
    facts.functions = sum(&spent);
    Ok(facts)
}

fn normalized(shares: &[f64; FUNCTIONS.len()]) -> Result<[f64; FUNCTIONS.len()], WorkloadError> {
    let sum: f64 = shares.iter().sum();
    if !shares.iter().all(|s| s.is_finite() && *s >= 0.0) || !sum.is_finite() || sum <= 0.0 {
        let what = format!("shares {shares:?}: use numbers from 0, not all 0, such as 60,30,10");
        return Err(WorkloadError::Options { workload: NAME, what });
    }
    Ok(shares.map(|share| share / sum))
}

fn sum(threads: &[Spent]) -> Vec<FunctionFacts> {
    let total: f64 = threads.iter().flatten().map(|(seconds, _)| seconds).sum();
    let function = |(i, (name, _)): (usize, &(&str, _))| {
        let cpu_s = threads.iter().map(|spent| spent[i].0).sum();
        FunctionFacts {
            name: (*name).to_owned(),
            cpu_s,
            share: if total > 0.0 { cpu_s / total } else { 0.0 },
            calls: threads.iter().map(|spent| spent[i].1).sum(),
        }
    };
    FUNCTIONS.iter().enumerate().map(function).collect()
}

/// One thread's share of the work.
struct MixThread {
    rng: fastrand::Rng,
    shares: [f64; FUNCTIONS.len()],
    spent: Spent,
    /// Iterations per second of each function, as last seen.
    speed: [f64; FUNCTIONS.len()],
    state: u64,
}

impl MixThread {
    fn new(seed: u64, shares: [f64; FUNCTIONS.len()]) -> Self {
        // A low first guess makes a short first slice.
        let speed = [1e6; FUNCTIONS.len()];
        Self {
            rng: fastrand::Rng::with_seed(seed),
            shares,
            spent: Spent::default(),
            speed,
            state: seed,
        }
    }

    /// One round at least, also where the machine is so busy that the time is over before the thread runs.
    fn run_until(mut self, end: Instant) -> Spent {
        let mut order: [usize; FUNCTIONS.len()] = std::array::from_fn(|i| i);
        loop {
            self.rng.shuffle(&mut order);
            let so_far: f64 = self.spent.iter().map(|(seconds, _)| seconds).sum();
            let after_round = so_far + ROUND_S * (0.5 + self.rng.f64());
            for which in order {
                // What it lacks, so that a slice that came out wrong is made up for.
                let lacks = self.shares[which] * after_round - self.spent[which].0;
                if lacks > 0.0 {
                    self.slice(which, lacks);
                }
            }
            if Instant::now() >= end {
                return self.spent;
            }
        }
    }

    fn slice(&mut self, which: usize, seconds: f64) {
        let iterations = (seconds * self.speed[which]).max(1.0) as u64;
        let before = thread_cpu_ns();
        self.state = FUNCTIONS[which].1(iterations, self.state);
        let took = thread_cpu_ns().saturating_sub(before) as f64 * 1e-9;
        self.spent[which].0 += took;
        self.spent[which].1 += 1;
        if took > 0.0 {
            // Halfway to what was seen: one slice under an interrupt says little.
            let seen = iterations as f64 / took;
            self.speed[which] = 0.5 * (self.speed[which] + seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_out_as_asked() {
        let options = Options {
            duration: Duration::from_millis(300),
            threads: Some(2),
            shares: [2.0, 1.0, 1.0],
            pin: true,
        };
        let facts = run(&options).unwrap();
        assert_eq!((facts.workload.as_str(), facts.threads), ("share-mix", Some(2)));
        assert!(facts.time_s >= 0.3);
        let shares: Vec<f64> = facts.functions.iter().map(|f| f.share).collect();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        for (got, want) in shares.iter().zip([0.5, 0.25, 0.25]) {
            // A slice is some hundredths of what a starved thread gets in this time.
            assert!((got - want).abs() < 0.1, "{shares:?}");
        }
        let cpu_s: f64 = facts.functions.iter().map(|f| f.cpu_s).sum();
        assert!(cpu_s <= facts.user_s + facts.system_s + 0.02, "{cpu_s} {facts:?}");
    }

    #[test]
    fn a_function_can_be_left_out() {
        let options = Options {
            duration: Duration::from_millis(20),
            threads: Some(1),
            shares: [0.0, 1.0, 0.0],
            pin: false,
        };
        let facts = run(&options).unwrap();
        assert_eq!(facts.functions[0].calls, 0);
        assert_eq!(facts.functions[1].share, 1.0);
    }

    #[test]
    fn each_thread_runs_a_round_however_little_time_there_is() {
        let options = Options { duration: Duration::ZERO, threads: Some(2), ..Options::default() };
        let facts = run(&options).unwrap();
        let shares: f64 = facts.functions.iter().map(|function| function.share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{facts:?}");
    }

    #[test]
    fn shares_without_sense_are_refused() {
        for shares in [[0.0; 3], [-1.0, 1.0, 1.0], [f64::NAN, 1.0, 1.0]] {
            assert!(run(&Options { shares, ..Options::default() }).is_err());
        }
        let error = run(&Options { threads: Some(0), ..Options::default() }).unwrap_err();
        assert!(error.to_string().contains("0 threads"), "{error}");
    }
}
