//! The sixteen convergence tests that were published for four kernels in December 2012, simulated.

use std::time::Duration;

use serde::Serialize;

use super::{Machine, Policy, SimulatedWorld, Simulation, Workload};
use crate::balance::{Judge, Options, run};

/// Seconds after which a test counts as not converged, as in the published table.
pub const LIMIT: f64 = 100.0;
/// Runs of each cell, unless told otherwise.
pub const RUNS: u64 = 5;
/// Chance begins here, unless told otherwise.
pub const SEED: u64 = 1;
/// Bytes per second that `balance` may move in the simulation.
const BUDGET: u64 = 256 << 20;

/// A test: processes, threads of each, bytes of each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Test {
    /// Its published name.
    pub name: &'static str,
    /// Processes.
    pub processes: usize,
    /// Threads of each.
    pub threads: usize,
    /// MB of each process, used by all of its threads (`perf bench numa mem -P`).
    pub megabytes: u64,
}

/// Seconds to convergence as published; 100 or more: not within the limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    /// Linux 3.7, without balancing.
    pub off: f64,
    /// balancenuma-v10.
    pub two_stage: f64,
    /// AutoNUMA-v28.
    pub per_task: f64,
    /// numa-u-v3.
    pub grouped: f64,
}

const fn test(name: &'static str, processes: usize, threads: usize, megabytes: u64) -> Test {
    Test { name, processes, threads, megabytes }
}

const fn published(off: f64, two_stage: f64, per_task: f64, grouped: f64) -> Published {
    Published { off, two_stage, per_task, grouped }
}

/// The tests. A huge page is nothing that the simulation knows, so the two without them are as those with.
pub const TESTS: [Test; 16] = [
    test("1x3-convergence", 1, 3, 512),
    test("1x4-convergence", 1, 4, 512),
    test("1x6-convergence", 1, 6, 1020),
    test("2x3-convergence", 2, 3, 1020),
    test("3x3-convergence", 3, 3, 1020),
    test("4x4-convergence", 4, 4, 512),
    test("4x4-convergence-NOTHP", 4, 4, 512),
    test("4x6-convergence", 4, 6, 1020),
    test("4x8-convergence", 4, 8, 512),
    test("8x4-convergence", 8, 4, 512),
    test("8x4-convergence-NOTHP", 8, 4, 512),
    test("3x1-convergence", 3, 1, 512),
    test("4x1-convergence", 4, 1, 512),
    test("8x1-convergence", 8, 1, 512),
    test("16x1-convergence", 16, 1, 256),
    test("32x1-convergence", 32, 1, 128),
];

/// What was published (I. Molnar, linux-kernel, 7 December 2012), in the order of [`TESTS`].
pub const PUBLISHED: [Published; 16] = [
    published(100.1, 100.0, 0.2, 2.3),
    published(100.2, 100.1, 100.2, 2.1),
    published(100.3, 100.4, 100.8, 7.3),
    published(100.6, 100.6, 100.5, 4.1),
    published(100.6, 100.5, 100.5, 7.6),
    published(100.6, 100.5, 4.1, 7.4),
    published(101.1, 100.5, 12.2, 9.2),
    published(5.4, 101.2, 16.6, 11.7),
    published(101.1, 101.3, 3.4, 3.9),
    published(100.9, 100.8, 18.3, 8.9),
    published(101.9, 101.0, 15.7, 12.1),
    published(0.7, 1.0, 0.8, 0.9),
    published(0.6, 0.8, 0.8, 0.7),
    published(2.8, 2.9, 2.9, 1.2),
    published(3.5, 3.7, 2.5, 2.0),
    published(3.6, 2.8, 3.0, 1.9),
];

impl Published {
    /// The column of a policy.
    #[must_use]
    fn of(&self, policy: Policy) -> f64 {
        match policy {
            Policy::Off => self.off,
            Policy::TwoStage => self.two_stage,
            Policy::PerTask => self.per_task,
            Policy::Grouped => self.grouped,
        }
    }
}

/// Runs of one test under one policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimulatedRuns {
    /// The policy; `None`: `pmuscope numa balance` over a kernel without balancing.
    pub policy: Option<Policy>,
    /// Seconds until threads converged, run by run; `None`: not within the limit.
    pub seconds: Vec<Option<f64>>,
    /// Share of local accesses in the end, mean over runs.
    pub local: f64,
    /// What was published for this policy; `None` for ours.
    pub published: Option<f64>,
    /// Whether it could have come out otherwise: a process of one thread is on one node whatever is done, and a policy
    /// that moves no thread brings none together.
    pub informs: bool,
}

impl SimulatedRuns {
    /// Runs that converged.
    #[must_use]
    pub fn converged(&self) -> usize {
        self.seconds.iter().flatten().count()
    }

    /// Median over runs, those that did not converge counting as later than all others; `None` if that is
    /// one of them.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let late = |seconds: &Option<f64>| seconds.unwrap_or(f64::INFINITY);
        let mut all: Vec<f64> = self.seconds.iter().map(late).collect();
        all.sort_by(f64::total_cmp);
        let [low, high] = [all.len().saturating_sub(1) / 2, all.len() / 2];
        let median = (all.get(low)? + all.get(high)?) / 2.0;
        median.is_finite().then_some(median)
    }

    /// Whether most runs converged.
    #[must_use]
    pub fn converges(&self) -> bool {
        2 * self.converged() > self.seconds.len()
    }

    /// Whether that is as published; `None` for ours.
    #[must_use]
    pub fn agrees(&self) -> Option<bool> {
        self.published.map(|seconds| (seconds < LIMIT) == self.converges())
    }
}

/// How many cells are as published, and what that is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// Cells with a published value.
    pub cells: usize,
    /// Those that are as published.
    pub agree: usize,
    /// Cells that could have come out otherwise ([`SimulatedRuns::informs`]).
    pub informing: usize,
    /// Those of them that are as published.
    pub informing_agree: usize,
    /// As many of them has a guess that is always the same for a policy: the more frequent of the published.
    pub informing_guess: usize,
}

/// Compares a table with what was published.
#[must_use]
pub fn agreement(rows: &[SimulatedTest]) -> Agreement {
    let compared: Vec<&SimulatedRuns> =
        rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.published.is_some()).collect();
    let informing: Vec<&SimulatedRuns> =
        compared.iter().copied().filter(|cell| cell.informs).collect();
    let agree =
        |cells: &[&SimulatedRuns]| cells.iter().filter(|cell| cell.agrees() == Some(true)).count();
    let guess = |policy: &Option<Policy>| {
        let own = informing.iter().filter(|cell| cell.policy == *policy);
        let (all, converged) = own.fold((0, 0), |(all, converged), cell| {
            (all + 1, converged + usize::from(cell.published.is_some_and(|s| s < LIMIT)))
        });
        converged.max(all - converged)
    };
    Agreement {
        cells: compared.len(),
        agree: agree(&compared),
        informing: informing.len(),
        informing_agree: agree(&informing),
        informing_guess: COLUMNS.iter().map(guess).sum(),
    }
}

/// A test under every policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimulatedTest {
    /// The test.
    pub test: Test,
    /// In the order of [`COLUMNS`].
    pub cells: Vec<SimulatedRuns>,
}

/// Who places threads and memory, column by column; `None`: `pmuscope numa balance`.
pub const COLUMNS: [Option<Policy>; 5] =
    [Some(Policy::Off), Some(Policy::TwoStage), Some(Policy::PerTask), Some(Policy::Grouped), None];

/// The machine of the published table: 4 nodes, 32 CPUs, 64 GB. Distances and rates are guesses of the
/// usual size.
#[must_use]
pub fn machine() -> Machine {
    Machine {
        nodes: 4,
        cpus: 8,
        node_bytes: 16 << 30,
        distance: 20,
        bandwidth: 4.0,
        link: 2.0,
        restless: 0.05,
    }
}

/// One run: when its threads converged, and the share of local accesses in the end. `None` as policy: ours.
#[must_use]
pub fn converge(
    machine: &Machine,
    test: &Test,
    policy: Option<Policy>,
    seed: u64,
) -> (Option<f64>, f64) {
    let workload = Workload {
        processes: test.processes,
        threads: test.threads,
        global_bytes: 0,
        process_bytes: test.megabytes << 20,
        thread_bytes: 0,
        begin_on_first: true,
        phase: 0.0,
    };
    let simulation = Simulation::new(machine, &workload, seed);
    let kernel = policy.unwrap_or(Policy::Off);
    let mut world = SimulatedWorld::new(simulation, Judge::Locality, kernel, LIMIT);
    if policy.is_some() {
        use crate::balance::World as _;
        world.wait(Duration::from_secs_f64(LIMIT));
    } else {
        let options = Options {
            block: Duration::from_secs(1),
            blocks: 5,
            budget: BUDGET,
            unit: 16 << 20,
            dry_run: false,
            settled: 0,
            windows: 30,
        };
        // It fails only on a budget below two units.
        let _ = run(&mut world, &options, &mut |_| {});
    }
    (world.converged(), world.simulation.local_share())
}

/// The whole table, each cell from as many runs.
#[must_use]
pub fn table(runs: u64, seed: u64) -> Vec<SimulatedTest> {
    let machine = machine();
    let cell = |test: &Test, policy: Option<Policy>, published: &Published| {
        let all: Vec<(Option<f64>, f64)> =
            (0..runs).map(|run| converge(&machine, test, policy, seed + run)).collect();
        let local: Vec<f64> = all.iter().map(|(_, local)| *local).collect();
        SimulatedRuns {
            policy,
            seconds: all.iter().map(|(seconds, _)| *seconds).collect(),
            local: pmuscope_stats::mean(&local).unwrap_or(0.0),
            published: policy.map(|policy| published.of(policy)),
            informs: test.threads > 1 && policy.is_none_or(Policy::moves_threads),
        }
    };
    let row = |(test, published): (&Test, &Published)| SimulatedTest {
        test: *test,
        cells: COLUMNS.iter().map(|&policy| cell(test, policy, published)).collect(),
    };
    TESTS.iter().zip(&PUBLISHED).map(row).collect()
}
