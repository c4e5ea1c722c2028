//! What it takes to give a breakpoint its slots and to take them back, by the way account is kept, the number
//! of CPUs and of tasks, and whom the breakpoint is for.
//!
//! A question of 2022: on 256 CPUs Linux spent 123,000 µs on each thread that inherited breakpoints, and 35
//! µs once its account was kept in constant time. Here nothing but the account is measured. Before it begins
//! every task has a breakpoint on all CPUs; a run reserves and releases for one owner after another, chosen
//! at random, on one thread or several at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use pmuscope_measure::{Labels, MeasureError, Plan, Planned, RunFile, RunObserver};
use pmuscope_watch::slots::{
    Accounting, Cached, Constant, Layout, Naive, Owner, SlotRequest, SlotTask, Slots, Unchecked,
};

/// Labels that tell arms apart.
pub const ACCOUNT: &str = "account";
/// For whom breakpoints are, see [`Case`].
pub const CASE: &str = "case";
/// Number of CPUs.
pub const CPUS: &str = "cpus";
/// Number of tasks.
pub const TASKS: &str = "tasks";
/// Number of threads at once.
pub const THREADS: &str = "threads";
/// Unit of work: to give slots, or to take them back.
pub const OPERATION: &str = "operation";

/// Owners in a row, again and again: more than are cached by chance.
const OWNERS: usize = 4096;
/// Slots of each CPU, as x86 has them.
const SLOTS: u32 = 4;

/// Whom a breakpoint is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// A CPU.
    Cpu,
    /// A task on one CPU.
    TaskOnCpu,
    /// A task on all CPUs.
    Task,
}

impl Case {
    /// All, as they are shown.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::TaskOnCpu, Self::Task];

    /// As in the label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::TaskOnCpu => "task-on-cpu",
            Self::Task => "task",
        }
    }
}

/// Names of the accounts, as they are shown.
pub const ACCOUNTS: [&str; 4] = ["naive", "cached", "constant", "none"];

fn account(name: &str, layout: Layout) -> Box<dyn Accounting> {
    match name {
        "naive" => Box::new(Naive::new(layout)),
        "cached" => Box::new(Cached::new(layout)),
        "constant" => Box::new(Constant::new(layout)),
        _ => Box::new(Unchecked),
    }
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which accounts, of [`ACCOUNTS`].
    pub accounts: Vec<String>,
    /// Numbers of CPUs.
    pub cpus: Vec<u32>,
    /// Numbers of tasks.
    pub tasks: Vec<u64>,
    /// Numbers of threads at once.
    pub threads: Vec<usize>,
    /// Of each run; at least one operation each way is made.
    pub time: Duration,
    /// How often each arm runs.
    pub rounds: usize,
    /// Seed of the order and of owners.
    pub seed: u64,
}

/// One combination.
#[derive(Debug, Clone)]
struct SlotsArm {
    account: String,
    case: Case,
    cpus: u32,
    tasks: u64,
    threads: usize,
}

impl SlotsArm {
    fn labels(&self) -> Labels {
        let pairs = [
            (ACCOUNT, self.account.clone()),
            (CASE, self.case.name().to_owned()),
            (CPUS, self.cpus.to_string()),
            (TASKS, self.tasks.to_string()),
            (THREADS, self.threads.to_string()),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value)).into()
    }

    /// Owners whose turn comes one after another; each thread has tasks and CPUs in an order of its own.
    fn owners(&self, random: &mut fastrand::Rng) -> Vec<Owner> {
        let mut owner = || {
            let (task, cpu) = (SlotTask(random.u64(0..self.tasks)), random.u32(0..self.cpus));
            match self.case {
                Case::Cpu => Owner::Cpu(cpu),
                Case::TaskOnCpu => Owner::TaskOnCpu(task, cpu),
                Case::Task => Owner::Task(task),
            }
        };
        (0..OWNERS).map(|_| owner()).collect()
    }
}

impl Options {
    fn arms(&self) -> Vec<SlotsArm> {
        let mut arms = Vec::new();
        for account in &self.accounts {
            for case in Case::ALL {
                for &cpus in &self.cpus {
                    for &tasks in &self.tasks {
                        for &threads in &self.threads {
                            let account = account.clone();
                            arms.push(SlotsArm { account, case, cpus, tasks, threads });
                        }
                    }
                }
            }
        }
        arms
    }
}

/// Accounts in which every task has a breakpoint already; the naive one takes seconds to get there.
#[derive(Default)]
struct Prepared(BTreeMap<(String, u32, u64), Box<dyn Accounting>>);

impl Prepared {
    fn of(&mut self, arm: &SlotsArm) -> &dyn Accounting {
        let prepare = || {
            let slots = Slots::Mixed(SLOTS);
            let account = account(&arm.account, Layout { possible_cpus: arm.cpus, slots });
            for task in 0..arm.tasks {
                // Each has one slot of four.
                let _ = account.reserve(SlotRequest::data(Owner::Task(SlotTask(task))));
            }
            account
        };
        let key = (arm.account.clone(), arm.cpus, arm.tasks);
        &**self.0.entry(key).or_insert_with(prepare)
    }
}

/// Reserves and releases on one thread for `time`; operations and seconds.
fn spend(account: &dyn Accounting, owners: &[Owner], time: Duration) -> (u64, f64) {
    let (mut done, mut batch) = (0_u64, 1_u64);
    let mut owners = owners.iter().cycle();
    let started = Instant::now();
    loop {
        for &owner in owners.by_ref().take(batch as usize) {
            let request = SlotRequest::data(owner);
            // With several threads a slot may be wanted that all are using: that was looked for as well.
            if account.reserve(request).is_ok() {
                let _ = account.release(request);
                done += 2;
            } else {
                done += 1;
            }
        }
        let elapsed = started.elapsed();
        if elapsed >= time {
            return (done, elapsed.as_secs_f64());
        }
        // The clock is looked at seldom: it takes as long as an operation.
        if elapsed < time / 8 {
            batch *= 2;
        }
    }
}

/// Operations of all threads, and seconds until the last was through.
fn run(account: &dyn Accounting, arm: &SlotsArm, time: Duration, seed: u64) -> (u64, f64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let owners: Vec<Vec<Owner>> = (0..arm.threads).map(|_| arm.owners(&mut random)).collect();
    if let [owners] = &owners[..] {
        return spend(account, owners, time);
    }
    let each: Vec<(u64, f64)> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            owners.iter().map(|owners| scope.spawn(move || spend(account, owners, time))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let seconds = each.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    // Time of one thread for each of its operations.
    (each.iter().map(|(done, _)| done).sum::<u64>() / arm.threads as u64, seconds)
}

/// Runs all arms in random order and adds them to `file`, until `stop` says so; false then.
///
/// # Errors
/// If results cannot be kept.
pub fn slots(
    options: &Options,
    file: &mut RunFile,
    stop: &dyn Fn() -> bool,
    watch: &mut dyn RunObserver,
) -> Result<bool, MeasureError> {
    let arms = options.arms();
    let plan = Plan::new(arms.len(), options.rounds, options.seed);
    file.parameters.insert("slots".to_owned(), SLOTS.to_string());
    file.parameters.insert("seconds".to_owned(), options.time.as_secs_f64().to_string());
    let mut prepared = Prepared::default();
    let make = |file: &mut RunFile, planned: &Planned, _: &mut dyn RunObserver| {
        if stop() {
            return Ok(false);
        }
        let arm = &arms[planned.arm];
        let account = prepared.of(arm);
        let started = SystemTime::now();
        let seed = plan.seed ^ planned.order as u64;
        let (operations, seconds) = run(account, arm, options.time, seed);
        let done = (OPERATION, operations as f64);
        file.add_timed(planned, arm.labels(), (started, seconds), done);
        Ok(true)
    };
    plan.make_runs(file, watch, |_, _| false, make)
}
