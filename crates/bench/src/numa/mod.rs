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

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pmuscope_machine::{Machine, Topology};
use pmuscope_measure::{Labels, Planned};
use pmuscope_numa::convergence::{ConvergenceRule, Criterion};
use pmuscope_workloads::memory::Options as Work;

pub use figures::{
    AT_ONCE, BALANCER, BYTES, CONVERGED, CONVERGED_AGAIN, GOOD_SHARE, HINT_FAULTS, HINT_LOCAL,
    LOCALITY, LOCALITY_MEAN, LOST, MEMORY, MIGRATED, MONITOR, MOVED, PING_PONG, PLACED,
    PLACED_MEAN, PTE_UPDATES, SPEED, SPEED_AFTER, SPEED_BEFORE, SPEED_THREAD, SPREAD,
};
pub use fit::{Binding, Fitted, UsableNode, UsableNodes};
pub use policy::Policy;
pub use program::ProgramBench;
pub use run::RunError;
pub use suite::{Placed, Question, Suite, Test, all, named, note_on};
pub use suite_file::{Own, SuiteError, own};

use crate::error::BenchError;
use crate::runner::{Bench, Benchmark, labels};
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

/// Parameter: names of policies.
const POLICIES: &str = "policies";

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
    /// Time between two observations.
    pub interval: Duration,
    /// Pages asked for at each observation.
    pub pages: u64,
    /// This program.
    pub program: PathBuf,
    /// Where a folder for control files can be made.
    pub scratch: PathBuf,
}

/// A test under a policy.
#[derive(Debug, Clone)]
pub struct NumaArm {
    fitted: Fitted,
    policy: Policy,
    /// What its threads do, and for how long at most.
    pub work: Work,
}

impl Options {
    /// What runs, with this seed of orders of access; and, in words, what does not and why.
    #[must_use]
    pub fn arms(&self, seed: u64) -> (Vec<NumaArm>, Vec<String>) {
        let (mut arms, mut left_out) = (Vec::new(), Vec::new());
        for fitted in &self.tests {
            let before = arms.len();
            for &policy in &self.policies {
                if let Some(work) = fitted.bound(policy.binding(), &self.room) {
                    let work = Work { seed, ..self.timed(fitted, work) };
                    arms.push(NumaArm { fitted: fitted.clone(), policy, work });
                }
            }
            if arms.len() == before {
                let name = &fitted.test.name;
                left_out.push(format!(
                    "{name} does not run: it needs more NUMA nodes than this machine has"
                ));
            }
        }
        if self.room.nodes.len() == 1 && self.policies.contains(&Policy::Worst) {
            left_out.push("one NUMA node: no worst binding, as all memory is local".to_owned());
        }
        if !self.policies.contains(&Policy::Best) {
            left_out.push(
                "policy best does not run: convergence is judged against the best possible value, \
                 1.00"
                    .to_owned(),
            );
        }
        left_out.extend(too_small_for_numad(self));
        (arms, left_out)
    }

    fn timed(&self, fitted: &Fitted, work: Work) -> Work {
        let (bandwidth, limit) = self.seconds;
        let seconds = match fitted.test.kind {
            Question::Bandwidth => bandwidth,
            Question::Convergence => limit,
        };
        Work { seconds: Some(seconds), rounds: None, perturb: self.perturb, ..work }
    }

    fn watching(&self, arm: &NumaArm, seed: u64) -> Watching {
        let converges = arm.fitted.test.kind == Question::Convergence;
        Watching {
            interval: self.interval,
            pages: self.pages,
            seed,
            criterion: self.criterion,
            judge: arm.fitted.judge,
            // The bounds run as long as what is measured against them may.
            stop_when_converged: converges && self.perturb.is_none() && !arm.policy.is_bound(),
        }
    }
}

/// Tests under policies.
pub struct NumaBench<'a> {
    /// This machine.
    pub machine: &'a Machine,
    /// Its CPUs and nodes.
    pub topology: &'a Topology,
    /// What to run.
    pub options: Options,
}

impl Benchmark for NumaBench<'_> {
    type Arm = NumaArm;

    fn parameters(&self) -> Labels {
        let options = &self.options;
        let (bandwidth, limit) = options.seconds;
        let mut all = labels([
            (NODES, options.room.nodes.len().to_string()),
            (POLICIES, Policy::list(&options.policies)),
            (WITHIN, options.criterion.within.to_string()),
            (HOLD, options.criterion.hold_s.to_string()),
            ("seconds", format!("{bandwidth} {limit}")),
            ("interval_ms", options.interval.as_millis().to_string()),
        ]);
        let tests = options.tests.iter();
        all.extend(tests.map(|of| (format!("{TEST_IS}{}", of.test.name), of.describe())));
        all.extend(options.perturb.map(|every| ("perturb_s".to_owned(), every.to_string())));
        all
    }

    fn scratch(&self) -> Option<&Path> {
        Some(&self.options.scratch)
    }

    fn arms(&mut self, bench: &mut Bench<'_>) -> Result<Vec<NumaArm>, BenchError> {
        let (arms, left_out) = self.options.arms(bench.seed);
        left_out.into_iter().for_each(|notice| bench.notice(notice));
        Ok(arms)
    }

    fn labels(&self, arm: &NumaArm) -> Labels {
        let test = arm.fitted.test.name.clone();
        labels([(TEST, test), (POLICY, arm.policy.name().to_owned())])
    }

    fn seconds(&self, arm: &NumaArm) -> Option<f64> {
        arm.work.seconds
    }

    fn run(
        &mut self,
        arm: &NumaArm,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<bool, BenchError> {
        let started = SystemTime::now();
        let (machine, topology, program) = (self.machine, self.topology, &self.options.program);
        let context = Context { machine, topology, program, scratch: bench.folder() };
        let watching = self.options.watching(arm, bench.seed.wrapping_add(planned.order as u64));
        let stop = || bench.stop.is_given();
        let ran = run::run(&context, (arm.policy, &arm.work), &watching, &stop);
        if stop() {
            return Ok(false);
        }
        let labels = self.labels(arm);
        match ran {
            Ok((facts, watched)) => {
                let took = (started, facts.time_s);
                let run = bench.file.add_run(planned, labels.clone(), took).index;
                Figures { run, labels: &labels }.all(bench.file, &facts, &watched);
                judged::judge(bench.file, &self.options.tests, &self.options.criterion);
            }
            Err(source) if source.is_of_all() => {
                return Err(BenchError::Policy { test: arm.fitted.test.name.clone(), source });
            }
            Err(error) => {
                let seconds = started.elapsed().map_or(0.0, |time| time.as_secs_f64());
                let run = bench.file.add_run(planned, labels, (started, seconds));
                (run.exit, run.why) = (None, Some(error.to_string()));
            }
        }
        Ok(true)
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
    is_asked.then(|| format!("numad ignores processes of less than 300 MB, as in {names}"))
}

/// Name of what a test is judged by, for people.
#[must_use]
pub fn judged_by(judge: ConvergenceRule) -> &'static str {
    match judge {
        ConvergenceRule::Locality => "locality",
        ConvergenceRule::Evenness => "evenness",
    }
}
