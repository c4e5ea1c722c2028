//! What placement on nodes yields and what it costs: workloads under policies, between the best and the worst
//! binding.
//!
//! ```text
//!  suite ─► test ─► made to fit the machine ─┐
//!  policies ─► binding, kernel settings, a program beside ─► run ─► watched from outside ─► figures
//!                                            └─ rounds × tests × policies, in random order
//! ```
//!
//! What it answers of a published comparison of 2012 and its critic: converged means threads and memory, held for
//! some seconds, judged against the best binding; placement, speed, and cost in faults, pages and system
//! time stand in one row; runs are repeated and interleaved; what fits no node is judged by evenness.

mod figures;
mod fit;
mod judged;
mod observations;
mod policy;
mod program;
mod run;
mod suite;
mod suite_file;
mod watched;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use pmuscope_machine::{Machine, Topology};
use pmuscope_measure::{Labels, MeasureError, Plan, Planned, Run, RunFile, RunObserver, unix_ns};
use pmuscope_numa::convergence::{ConvergenceRule, Criterion};
use pmuscope_workloads::memory::Options as Work;

pub use figures::{
    AT_ONCE, BALANCER, BYTES, CONVERGED, CONVERGED_AGAIN, GOOD_SHARE, HINT_FAULTS, HINT_LOCAL,
    LOCALITY, LOCALITY_MEAN, LOST, MEMORY, MIGRATED, MONITOR, MOVED, PING_PONG, PLACED,
    PLACED_MEAN, PTE_UPDATES, SPEED, SPEED_AFTER, SPEED_BEFORE, SPEED_THREAD, SPREAD,
};
pub use fit::{Binding, Fitted, UsableNode, UsableNodes};
pub use policy::Policy;
pub use program::{ProgramError, ProgramOptions, programs};
pub use run::RunError;
pub use suite::{Placed, Question, Suite, Test, all, named, note_on};
pub use suite_file::{Own, SuiteError, own};

use crate::scratch::Scratch;
use figures::Figures;
use run::Context;
use watched::Watching;

/// Label: name of the test.
pub const TEST: &str = "test";
/// Label: name of the policy.
pub const POLICY: &str = "policy";
/// Parameter: what a test is, by its name behind this.
pub const TEST_IS: &str = "test.";
/// Parameter: [`Criterion::within`].
pub const WITHIN: &str = "within";
/// Parameter: [`Criterion::hold_s`].
pub const HOLD: &str = "hold_s";
/// Parameter: nodes that tests may use.
pub const NODES: &str = "nodes";

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Tests, as they fit this machine.
    pub tests: Vec<Fitted>,
    /// Policies.
    pub policies: Vec<Policy>,
    /// What tests may use of the machine.
    pub room: UsableNodes,
    /// Seconds of a bandwidth test, and the most of a convergence test.
    pub seconds: (f64, f64),
    /// Seconds between perturbations; convergence tests then run their whole time.
    pub perturb: Option<f64>,
    /// What counts as converged.
    pub criterion: Criterion,
    /// Time between two looks.
    pub interval: Duration,
    /// Pages asked for at each look.
    pub pages: u64,
    /// How often each test runs under each policy.
    pub rounds: usize,
    /// Seed of the order, of what is asked for, and of orders of access.
    pub seed: u64,
    /// This program.
    pub program: PathBuf,
    /// Where a folder for control files can be made.
    pub scratch: PathBuf,
}

/// Why the benchmark ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NumaBenchError {
    /// A run could not be made.
    #[error("{test}: {source}")]
    Run {
        /// Name of the test.
        test: String,
        /// Why not.
        source: RunError,
    },
    /// No folder for control files.
    #[error("cannot make a folder in {}: {source}", path.display())]
    Scratch {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Results cannot be kept.
    #[error(transparent)]
    Measure(#[from] MeasureError),
}

/// A test under a policy.
#[derive(Debug, Clone)]
struct NumaArm<'a> {
    fitted: &'a Fitted,
    policy: Policy,
    work: Work,
}

impl Options {
    /// What runs; and, in words, what does not and why.
    fn arms(&self) -> (Vec<NumaArm<'_>>, Vec<String>) {
        let (mut arms, mut left_out) = (Vec::new(), Vec::new());
        for fitted in &self.tests {
            let before = arms.len();
            for &policy in &self.policies {
                if let Some(work) = fitted.bound(policy.binding(), &self.room) {
                    arms.push(NumaArm { fitted, policy, work: self.timed(fitted, work) });
                }
            }
            if arms.len() == before {
                let name = &fitted.test.name;
                left_out.push(format!("{name} does not run: it needs more nodes than there are"));
            }
        }
        if self.room.nodes.len() == 1 && self.policies.contains(&Policy::Worst) {
            left_out.push(
                "one node: there is no worst binding, memory is local wherever it is".to_owned(),
            );
        }
        (arms, left_out)
    }

    fn timed(&self, fitted: &Fitted, work: Work) -> Work {
        let (bandwidth, limit) = self.seconds;
        let seconds = match fitted.test.kind {
            Question::Bandwidth => bandwidth,
            Question::Convergence => limit,
        };
        Work {
            seconds: Some(seconds),
            rounds: None,
            perturb: self.perturb,
            seed: self.seed,
            ..work
        }
    }

    /// Seconds that all runs take at most.
    #[must_use]
    pub fn most_seconds(&self) -> f64 {
        let (arms, _) = self.arms();
        let all: f64 = arms.iter().filter_map(|arm| arm.work.seconds).sum();
        all * self.rounds as f64
    }

    fn watching(&self, arm: &NumaArm<'_>, planned: &Planned) -> Watching {
        let converges = arm.fitted.test.kind == Question::Convergence;
        Watching {
            interval: self.interval,
            pages: self.pages,
            seed: self.seed.wrapping_add(planned.order as u64),
            criterion: self.criterion,
            judge: arm.fitted.judge,
            // The bounds run as long as what is measured against them may.
            stop_when_converged: converges && self.perturb.is_none() && !arm.policy.is_bound(),
        }
    }
}

/// Runs all tests under all policies in random order and adds them to `file`, but for those that it has, up to where
/// `stop` says so; false then.
///
/// # Errors
/// If a run cannot be made, or results cannot be kept.
pub fn numa(
    (machine, topology): (&Machine, &Topology),
    options: &Options,
    file: &mut RunFile,
    stop: &dyn Fn() -> bool,
    watch: &mut dyn RunObserver,
) -> Result<bool, NumaBenchError> {
    let scratch = Scratch::new(&options.scratch)
        .map_err(|source| NumaBenchError::Scratch { path: options.scratch.clone(), source })?;
    let context = Context { machine, topology, program: &options.program, scratch: scratch.path() };
    let (arms, _) = options.arms();
    let plan = Plan::new(arms.len(), options.rounds, options.seed);
    let is_made =
        |file: &RunFile, planned: &Planned| file.runs.iter().any(|run| run.order == planned.order);
    let make = |file: &mut RunFile, planned: &Planned, _: &mut dyn RunObserver| {
        if stop() {
            return Ok(false);
        }
        let arm = &arms[planned.arm];
        let started = SystemTime::now();
        let watching = options.watching(arm, planned);
        let ran = run::run(&context, (arm.policy, &arm.work), &watching, stop);
        if stop() {
            return Ok(false);
        }
        let labels = arm.labels();
        let run = file.runs.len();
        let made = Run {
            index: run,
            order: planned.order,
            round: Some(planned.round),
            labels: labels.clone(),
            started: unix_ns(started),
            duration_s: started.elapsed().map_or(0.0, |time| time.as_secs_f64()),
            exit: Some(0),
            why: None,
            units: Default::default(),
        };
        let (facts, watched) = match ran {
            Ok(seen) => seen,
            Err(source) if source.is_of_all() => {
                return Err(NumaBenchError::Run { test: arm.fitted.test.name.clone(), source });
            }
            Err(error) => {
                file.runs.push(Run { exit: None, why: Some(error.to_string()), ..made });
                return Ok(true);
            }
        };
        file.runs.push(Run { duration_s: facts.time_s, ..made });
        Figures { run, labels: &labels }.all(file, &facts, &watched);
        judged::judge(file, &options.tests, &options.criterion);
        Ok(true)
    };
    plan.make_runs(file, watch, is_made, make)
}

impl NumaArm<'_> {
    fn labels(&self) -> Labels {
        let name = |text: &str| text.to_owned();
        [(name(TEST), self.fitted.test.name.clone()), (name(POLICY), name(self.policy.name()))]
            .into()
    }
}

/// What all runs have in common, and what was left out.
pub fn describe(options: &Options, file: &mut RunFile) {
    for fitted in &options.tests {
        let key = format!("{TEST_IS}{}", fitted.test.name);
        file.parameters.insert(key, fitted.describe());
    }
    let mut set = |key: &str, value: String| file.parameters.insert(key.to_owned(), value);
    set(WITHIN, options.criterion.within.to_string());
    set(HOLD, options.criterion.hold_s.to_string());
    set(NODES, options.room.nodes.len().to_string());
    set("seconds", format!("{} {}", options.seconds.0, options.seconds.1));
    set("interval_ms", options.interval.as_millis().to_string());
    set(
        "policies",
        options.policies.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(","),
    );
    if let Some(every) = options.perturb {
        set("perturb_s", every.to_string());
    }
    let mut left_out = options.arms().1;
    if !options.policies.contains(&Policy::Best) {
        left_out.push(
            "policy best does not run: converged is judged against the best that can be, 1.00"
                .to_owned(),
        );
    }
    left_out.extend(too_small_for_numad(options));
    for left_out in left_out {
        if !file.notices.contains(&left_out) {
            file.notices.push(left_out);
        }
    }
}

/// Bytes of a process that numad leaves alone (numad(8), `-p`).
const NUMAD_LEAST: u64 = 300_000_000;

/// Tests in which numad has nothing to do.
fn too_small_for_numad(options: &Options) -> Option<String> {
    let is_small = |fitted: &&Fitted| {
        let work = &fitted.test.options;
        fitted.test.placed.is_none() && fit::of_process(work.sizes, work.threads) < NUMAD_LEAST
    };
    let small: Vec<&str> =
        options.tests.iter().filter(is_small).map(|fitted| &fitted.test.name[..]).collect();
    let is_asked = options.policies.contains(&Policy::Numad) && !small.is_empty();
    let names = small.join(", ");
    is_asked
        .then(|| format!("numad leaves alone processes of less than 300 MB, as here in {names}"))
}

/// Name of what a test is judged by, for people.
#[must_use]
pub fn judged_by(judge: ConvergenceRule) -> &'static str {
    match judge {
        ConvergenceRule::Locality => "locality",
        ConvergenceRule::Evenness => "evenness",
    }
}
