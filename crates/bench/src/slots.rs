//! What it takes to give a breakpoint its slots and to take them back, by the way account is kept, the number
//! of CPUs and of tasks, and whom the breakpoint is for.
//!
//! A question of 2022: on 256 CPUs Linux spent 123,000 µs on each thread that inherited breakpoints, and 35
//! µs once its account was kept in constant time. Here nothing but the account is measured. Before it begins
//! every task has a breakpoint on all CPUs; a run reserves and releases for one owner after another, chosen
//! at random, on one thread or several at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use pmuscope_measure::{Labels, Planned};
use pmuscope_watch::slots::{
    Accounting, Cached, Constant, Kind, Layout, Naive, Owner, SlotError, SlotRequest, SlotTask,
    Slots,
};

use crate::error::BenchError;
use crate::runner::{Bench, Benchmark, joined, labels};

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
}

/// One combination.
#[derive(Debug, Clone)]
pub struct SlotsArm {
    account: String,
    case: Case,
    cpus: u32,
    tasks: u64,
    threads: usize,
}

impl SlotsArm {
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
        threads.into_iter().map(joined).collect()
    });
    let seconds = each.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    // Time of one thread for each of its operations.
    (each.iter().map(|(done, _)| done).sum::<u64>() / arm.threads as u64, seconds)
}

/// Accounts of slots, timed.
pub struct SlotsBench {
    options: Options,
    prepared: Prepared,
}

impl From<Options> for SlotsBench {
    fn from(options: Options) -> Self {
        Self { options, prepared: Prepared::default() }
    }
}

impl Benchmark for SlotsBench {
    type Arm = SlotsArm;

    fn parameters(&self) -> Labels {
        let seconds = self.options.time.as_secs_f64();
        labels([("slots", SLOTS.to_string()), ("seconds", seconds.to_string())])
    }

    fn arms(&mut self, _: &mut Bench<'_>) -> Result<Vec<SlotsArm>, BenchError> {
        let Options { accounts, cpus, tasks, threads, .. } = &self.options;
        let mut arms = Vec::new();
        for account in accounts {
            for case in Case::ALL {
                for &cpus in cpus {
                    for &tasks in tasks {
                        let account = account.clone();
                        let arm = SlotsArm { account, case, cpus, tasks, threads: 1 };
                        arms.extend(
                            threads.iter().map(|&threads| SlotsArm { threads, ..arm.clone() }),
                        );
                    }
                }
            }
        }
        Ok(arms)
    }

    fn labels(&self, arm: &SlotsArm) -> Labels {
        labels([
            (ACCOUNT, arm.account.clone()),
            (CASE, arm.case.name().to_owned()),
            (CPUS, arm.cpus.to_string()),
            (TASKS, arm.tasks.to_string()),
            (THREADS, arm.threads.to_string()),
        ])
    }

    fn run(
        &mut self,
        arm: &SlotsArm,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<bool, BenchError> {
        let account = self.prepared.of(arm);
        let started = SystemTime::now();
        let seed = bench.seed ^ planned.order as u64;
        let (operations, seconds) = run(account, arm, self.options.time, seed);
        let done = (OPERATION, operations as f64);
        bench.file.add_timed(planned, self.labels(arm), (started, seconds), done);
        Ok(true)
    }
}

/// No account: lets everything in and remembers nothing. What a measurement of the others begins at.
struct Unchecked;

impl Accounting for Unchecked {
    fn name(&self) -> &'static str {
        "none"
    }

    fn reserve(&self, _: SlotRequest) -> Result<(), SlotError> {
        Ok(())
    }

    fn release(&self, _: SlotRequest) -> Result<(), SlotError> {
        Ok(())
    }

    fn modify(&self, _: SlotRequest, _: Kind) -> Result<(), SlotError> {
        Ok(())
    }

    fn is_empty(&self) -> bool {
        true
    }
}
