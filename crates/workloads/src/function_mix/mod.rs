//! Functions that each do one thing, whose instructions are known, in an order that never repeats.
//!
//! A profiler that tells metrics of functions must tell of each, in the mix, what it tells when that
//! function runs alone ([`Options::only`]). Each round calls all functions in a new order, some within
//! others; most calls last many windows of some hundred cycles, those of `short_…` less than one.
//!
//! The truth: calls are counted, the loops are assembler, so instructions are known but for some twenty
//! around each call, and so are page faults. What an instruction costs differs from CPU to CPU, and is seen when a
//! function runs alone.

mod chain;
mod functions;
mod processes;
mod sys;
mod walk;

use std::time::{Duration, Instant};

use crate::error::WorkloadError;
use crate::facts::{MixFacts, MixFunction, WorkloadFacts};
use crate::place::{self, Placement};

use functions::Work;
use walk::Walk;

pub use functions::{FUNCTIONS, Function};
pub use processes::run_processes;
pub use walk::DEPTH;

/// Name on the command line.
pub const NAME: &str = "function-mix";

/// Most memory for each thread's pointer chase: more than any cache.
const MOST_MEMORY: usize = 16 << 30;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// One function alone, by its place in [`FUNCTIONS`].
    pub only: Option<usize>,
    /// Rounds of all functions, in each thread; `None`: as many as fit into the time.
    pub rounds: Option<u64>,
    /// How long at most, by the wall clock; `None`: until the rounds are done.
    pub duration: Option<Duration>,
    /// Where the order of calls comes from; threads have their own.
    pub seed: u64,
    /// How many times as long as usual calls are.
    pub length: f64,
    /// Bytes that the pointer chase goes through, of each thread.
    pub memory: usize,
    /// Threads.
    pub threads: usize,
    /// Keep each thread on one CPU.
    pub pin: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            only: None,
            rounds: None,
            duration: Some(Duration::from_secs(10)),
            seed: 1,
            length: 1.0,
            memory: 64 << 20,
            threads: 1,
            pin: false,
        }
    }
}

impl Options {
    /// A function by its name, or its number from 1.
    ///
    /// # Errors
    /// If there is none; says which there are.
    pub fn function(text: &str) -> Result<usize, WorkloadError> {
        let by_number = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let by_name = || FUNCTIONS.iter().position(|function| function.name == text);
        by_number.filter(|at| *at < FUNCTIONS.len()).or_else(by_name).ok_or_else(|| {
            let names: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
            let count = FUNCTIONS.len();
            refused(format!("--only {text}: use 1 to {count}, or {}", names.join(", ")))
        })
    }

    fn check(&self) -> Result<(), WorkloadError> {
        let (length, memory) = (self.length, self.memory >> 20);
        if !(1e-6..=100.0).contains(&length) {
            return Err(refused(format!("--length {length}: use a factor up to 100, such as 0.1")));
        }
        if self.memory > MOST_MEMORY {
            return Err(refused(format!(
                "--memory {memory}: use at most {} MiB",
                MOST_MEMORY >> 20
            )));
        }
        if self.rounds == Some(0) {
            return Err(refused("--rounds 0: use 1 or more".to_owned()));
        }
        Ok(())
    }
}

fn refused(what: String) -> WorkloadError {
    WorkloadError::Options { workload: NAME, what }
}

/// What a thread has done.
struct MixWork {
    rounds: u64,
    deepest: usize,
    calls: [u64; FUNCTIONS.len()],
}

/// Runs the mix in this process.
///
/// # Errors
/// Options without sense, no memory, or a thread that cannot be started or placed.
pub fn run(options: &Options) -> Result<WorkloadFacts, WorkloadError> {
    options.check()?;
    let cpus = place::cpus()?;
    let threads = place::threads(NAME, Some(options.threads), cpus.len())?;
    let pin_to = if options.pin { &cpus[..] } else { &[] };
    // Memory is made before the clock starts, one after the other: all of it belongs to the start.
    let mut works = Vec::new();
    for thread in 0..threads {
        let mut rng = fastrand::Rng::with_seed(options.seed.wrapping_add(thread as u64));
        let work = Work::new(options.memory, &mut rng)
            .map_err(|error| WorkloadError::system("allocate memory", error))?;
        works.push(std::sync::Mutex::new((work, rng)));
    }
    let started = Instant::now();
    let end = options.duration.map(|duration| started + duration);
    let work = |index: usize| {
        // Nobody else takes it, so nobody can have poisoned it.
        let mut own = works[index].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (work, rng) = &mut *own;
        run_thread(options, Walk::new(work, options.length, options.only), rng, end)
    };
    // One thread needs no team: counters that threads do not inherit see it then.
    let done = if threads == 1 && !options.pin {
        vec![work(0)]
    } else {
        place::run_team("mix", &Placement { threads, pin_to }, work)?
    };
    let time_s = started.elapsed().as_secs_f64();
    let mut facts = place::facts(NAME, threads, time_s)?;
    facts.mix = Some(sum(options, &done));
    Ok(facts)
}

fn run_thread(
    options: &Options,
    mut walk: Walk<'_>,
    rng: &mut fastrand::Rng,
    end: Option<Instant>,
) -> MixWork {
    let mut rounds = 0;
    while options.rounds.is_none_or(|most| rounds < most)
        && end.is_none_or(|end| Instant::now() < end)
    {
        walk.round(rng);
        rounds += 1;
    }
    MixWork { rounds, deepest: walk.deepest, calls: walk.calls }
}

fn sum(options: &Options, threads: &[MixWork]) -> MixFacts {
    let function = |(at, function): (usize, &Function)| {
        let rounds = 2 * function.half(options.length);
        MixFunction {
            name: function.name.to_owned(),
            calls: threads.iter().map(|done| done.calls[at]).sum(),
            instructions_per_call: rounds * function.per_round,
            faults_per_call: rounds * function.pages,
        }
    };
    MixFacts {
        processes: 1,
        seed: options.seed.to_string(),
        rounds: threads.iter().map(|done| done.rounds).sum(),
        deepest: threads.iter().map(|done| done.deepest).max().unwrap_or(0),
        functions: FUNCTIONS.iter().enumerate().map(function).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Options {
        Options { rounds: Some(3), duration: None, memory: 1 << 16, ..Options::default() }
    }

    fn mix(options: &Options) -> MixFacts {
        run(options).unwrap().mix.unwrap()
    }

    #[test]
    fn calls_are_those_of_so_many_rounds() {
        let facts = mix(&Options { threads: 2, ..small() });
        assert_eq!((facts.rounds, facts.deepest), (6, DEPTH));
        for (got, function) in facts.functions.iter().zip(FUNCTIONS) {
            assert_eq!((got.name.as_str(), got.calls), (function.name, 6 * function.calls as u64));
        }
    }

    #[test]
    fn one_function_runs_alone() {
        let only = Options::function("serialise").unwrap();
        let facts = mix(&Options { only: Some(only), ..small() });
        let called: Vec<&str> =
            facts.functions.iter().filter(|f| f.calls > 0).map(|f| f.name.as_str()).collect();
        assert_eq!((called, facts.deepest), (vec!["serialise"], 1));
        assert_eq!(Options::function("3").unwrap(), only);
    }

    /// The process takes as many faults as pages are touched for the first time, and few more.
    #[test]
    fn faults_are_as_many_as_it_says() {
        let only = Some(Options::function("fresh_pages").unwrap());
        let before = pmuscope_machine::child::own_usage().unwrap().minor_faults;
        let facts = run(&Options { only, rounds: Some(20), ..small() }).unwrap();
        let took = facts.minor_faults - before;
        let of = facts.mix.unwrap().functions.into_iter().find(|f| f.calls > 0).unwrap();
        let said = of.calls * of.faults_per_call;
        // Other tests of this process run beside it, so there may be more.
        assert!(said > 7000 && took >= said, "{took} of {said}");
    }

    #[test]
    fn wrong_options_are_told() {
        let error = Options::function("none").unwrap_err().to_string();
        assert!(error.contains("use 1 to 10, or fp_division, int_division"), "{error}");
        for number in ["0", "11"] {
            assert!(Options::function(number).is_err());
        }
        let wrong = |options: Options| assert!(run(&options).is_err(), "{options:?}");
        wrong(Options { length: f64::NAN, ..small() });
        wrong(Options { length: 1000.0, ..small() });
        wrong(Options { rounds: Some(0), ..small() });
        wrong(Options { threads: 0, ..small() });
        wrong(Options { memory: usize::MAX, ..small() });
    }
}
