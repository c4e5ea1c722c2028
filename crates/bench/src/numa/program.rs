//! Any program under the same policies: several Java machines, a database with its clients.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use pmuscope_machine::child::{Usage, wait};
use pmuscope_machine::place::{affinity, set_affinity};
use pmuscope_machine::{CpuSet, Machine, MemoryPolicy, Topology};
use pmuscope_measure::{Extract, Labels, Origin, Planned, metric};
use pmuscope_numa::observe::Family;
use pmuscope_numa::timeline::{Follower, Observation};

use super::fit::{Binding, UsableNodes};
use super::policy::Policy;
use super::{LOCALITY, LOCALITY_MEAN, MONITOR, NODES, POLICIES, POLICY, RunError, TEST, figures};
use crate::error::BenchError;
use crate::runner::{Bench, Benchmark, joined, labels};

/// Kept of what the program prints: the end of it, where results are.
const OUTPUT: usize = 1 << 20;

/// A program under policies.
pub struct ProgramBench<'a> {
    /// This machine.
    pub machine: &'a Machine,
    /// Its CPUs and nodes.
    pub topology: &'a Topology,
    /// The program with its arguments.
    pub command: Vec<OsString>,
    /// Figures to find in what it prints.
    pub extracts: Vec<Extract>,
    /// Policies. Of a program nothing is known: those that bind put all of it on one node.
    pub policies: Vec<Policy>,
    /// What may be used of the machine.
    pub room: UsableNodes,
    /// Time between two observations.
    pub interval: Duration,
    /// Pages asked for at each observation, of all processes together.
    pub pages: u64,
    /// This program.
    pub program: PathBuf,
}

/// What a run came to.
struct ProgramOutcome {
    status: ExitStatus,
    usage: Usage,
    seconds: f64,
    output: String,
    observations: Vec<Observation>,
    before: Option<pmuscope_machine::NumaCounters>,
    after: Option<pmuscope_machine::NumaCounters>,
    /// CPU seconds of the program that placed it.
    balancer: Option<Result<f64, String>>,
}

impl Benchmark for ProgramBench<'_> {
    type Arm = Policy;

    fn parameters(&self) -> Labels {
        labels([
            (NODES, self.room.nodes.len().to_string()),
            (POLICIES, Policy::list(&self.policies)),
            ("command", self.command.join(OsStr::new(" ")).to_string_lossy().into_owned()),
        ])
    }

    fn arms(&mut self, _: &mut Bench<'_>) -> Result<Vec<Policy>, BenchError> {
        if self.room.nodes.len() < 2 && self.policies.contains(&Policy::Worst) {
            return Err(BenchError::Bound(Policy::Worst.name()));
        }
        Ok(self.policies.clone())
    }

    fn labels(&self, policy: &Policy) -> Labels {
        labels([(TEST, self.name()), (POLICY, policy.name().to_owned())])
    }

    fn run(
        &mut self,
        policy: &Policy,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<bool, BenchError> {
        let started = SystemTime::now();
        let refused = |source| {
            let source = RunError::Balancing { policy: policy.name(), source };
            BenchError::Policy { test: self.name(), source }
        };
        let guard = policy.balancing().set(self.machine).map_err(refused)?;
        let ran = self.watched(*policy, bench.seed, &|| bench.stop.is_given());
        let restored = guard.restore();
        let ran = ran?;
        restored.map_err(refused)?;
        if bench.stop.is_given() {
            return Ok(false);
        }
        let exit = ran.status.code().unwrap_or(-1);
        if exit != 0 {
            bench.watch.failed(u8::try_from(exit).unwrap_or(u8::MAX), &ran.output);
        }
        let labels = self.labels(policy);
        let run = bench.file.add_run(planned, labels.clone(), (started, ran.seconds));
        run.exit = Some(exit);
        let run = run.index;
        self.figures(&ran, |name, kind, value| bench.file.add(run, &labels, name, kind, value));
        Ok(true)
    }
}

impl ProgramBench<'_> {
    fn name(&self) -> String {
        let program = self.command.first().map(PathBuf::from).unwrap_or_default();
        program
            .file_name()
            .map_or_else(|| "-".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// The node on which a program that is bound runs: the one with most free memory.
    fn home(&self) -> usize {
        let nodes = 0..self.room.nodes.len();
        nodes.max_by_key(|&at| (self.room.nodes[at].free_bytes, std::cmp::Reverse(at))).unwrap_or(0)
    }

    /// CPUs that it may run on; `None`: all that we may.
    fn cpus(&self, policy: Policy) -> Option<CpuSet> {
        let is_bound = matches!(policy.binding(), Binding::Best | Binding::Worst);
        is_bound.then(|| self.room.nodes[self.home()].cpus.clone())
    }

    /// Where the program takes its pages from, until it says otherwise.
    fn memory_policy(&self, policy: Policy) -> MemoryPolicy {
        let nodes = self.room.nodes.iter().map(|node| node.id).collect();
        let one = |at: usize| CpuSet::from_iter([self.room.nodes[at].id]);
        match policy.binding() {
            Binding::Best => MemoryPolicy::Bind(one(self.home())),
            Binding::Worst => MemoryPolicy::Bind(one(self.room.farthest(self.home()))),
            Binding::Interleave => MemoryPolicy::Interleave(nodes),
            Binding::WeightedInterleave => MemoryPolicy::WeightedInterleave(nodes),
            Binding::Free => MemoryPolicy::Default,
        }
    }

    /// Runs it once, and follows its memory meanwhile.
    fn watched(
        &self,
        policy: Policy,
        seed: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<ProgramOutcome, BenchError> {
        let failed = |source| BenchError::Start {
            command: self.command[0].to_string_lossy().into_owned(),
            source,
        };
        let beside = |program: String, source| {
            let source = RunError::Companion { policy: policy.name(), program, source };
            BenchError::Policy { test: self.name(), source }
        };
        // The child has the policy and the affinity of the thread that starts it.
        self.memory_policy(policy).apply().map_err(failed)?;
        let bound = self.cpus(policy).map(|cpus| Bound::to(&cpus)).transpose();
        let bound = match bound {
            Ok(bound) => bound,
            Err(error) => {
                MemoryPolicy::Default.apply().map_err(failed)?;
                return Err(failed(error));
            }
        };
        let spawned = Command::new(&self.command[0])
            .args(&self.command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        MemoryPolicy::Default.apply().map_err(failed)?;
        bound.map_or(Ok(()), Bound::undo).map_err(failed)?;
        let mut child = spawned.map_err(failed)?;
        let (begun, pid, stdout) = (Instant::now(), child.id(), child.stdout.take());
        let before = self.machine.numa_counters().ok();
        let companion = policy.companion(&self.program, &[pid], self.pages).map(|companion| {
            let program = companion.program().display().to_string();
            companion.start().map_err(|source| beside(program, source))
        });
        let companion = match companion.transpose() {
            Ok(companion) => companion,
            Err(error) => {
                // It was started a moment ago, and would run on unseen. It may have ended as well.
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        let (ended, broken_off) = (AtomicBool::new(false), AtomicBool::new(false));
        let (waited, output, observations) = thread::scope(|scope| {
            let output = scope.spawn(|| stdout.map_or_else(String::new, end_of));
            let waiting = scope.spawn(|| {
                let waited = wait(child, || broken_off.load(Ordering::Acquire));
                ended.store(true, Ordering::Release);
                waited
            });
            let go_on = || {
                broken_off.store(stop(), Ordering::Release);
                !ended.load(Ordering::Acquire)
            };
            let observations = self.follow(pid, seed, go_on);
            (joined(waiting), joined(output), observations)
        });
        let seconds = begun.elapsed().as_secs_f64();
        let after = self.machine.numa_counters().ok();
        let ended = companion.map(|companion| {
            companion.end().map_err(|source| beside(policy.name().to_owned(), source))
        });
        let balancer = ended.transpose()?;
        let (status, usage) = waited.map_err(failed)?;
        Ok(ProgramOutcome { status, usage, seconds, output, observations, before, after, balancer })
    }

    fn follow(&self, pid: u32, seed: u64, go_on: impl Fn() -> bool) -> Vec<Observation> {
        let mut observations = Vec::new();
        // It may have ended already.
        let Ok(family) = Family::new(self.machine, &[pid], true) else { return observations };
        let mut follower = Follower::new(self.machine, self.topology, family, (self.pages, seed));
        while go_on() {
            // What cannot be looked at is not the program's fault: it runs on.
            if let Ok(Some(observation)) = follower.observe() {
                observations.push(observation);
            }
            thread::sleep(self.interval);
        }
        observations
    }

    /// Puts what a run came to.
    fn figures(
        &self,
        ran: &ProgramOutcome,
        mut put: impl FnMut(&str, (&str, Origin), Result<f64, String>),
    ) {
        put(metric::WALL, ("s", Origin::Clock), Ok(ran.seconds));
        put(metric::USER, ("s", Origin::Kernel), Ok(ran.usage.user_s));
        put(metric::SYSTEM, ("s", Origin::Kernel), Ok(ran.usage.system_s));
        put(metric::MINOR_FAULTS, ("", Origin::Kernel), Ok(ran.usage.minor_faults as f64));
        for extract in &self.extracts {
            put(&extract.metric, (&extract.unit, Origin::Program), extract.find(&ran.output));
        }
        let seen: Vec<f64> = ran
            .observations
            .iter()
            .filter_map(|observation| observation.locality.map(|share| share.value))
            .collect();
        let unseen = || "it ended before the first observation, or may not be observed".to_owned();
        let estimate = ("", Origin::Estimate);
        put(LOCALITY, estimate, seen.last().copied().ok_or_else(unseen));
        let mean = (!seen.is_empty()).then(|| seen.iter().sum::<f64>() / seen.len() as f64);
        put(LOCALITY_MEAN, estimate, mean.ok_or_else(unseen));
        put(figures::PLACED_MEAN, estimate, mean.ok_or_else(unseen));
        let cost: u64 = ran.observations.iter().map(|observation| observation.cost_ns).sum();
        put(MONITOR, ("s", Origin::Kernel), Ok(cost as f64 / 1e9));
        if let Some(balancer) = &ran.balancer {
            put(figures::BALANCER, ("s", Origin::Kernel), balancer.clone());
        }
        let counters = ran.before.zip(ran.after).map(|(before, after)| after.since(&before));
        figures::of_counters(&counters.unwrap_or_default(), put);
    }
}

/// This thread, bound for as long as it starts a program.
struct Bound {
    before: CpuSet,
}

impl Bound {
    fn to(cpus: &CpuSet) -> std::io::Result<Self> {
        let before = affinity()?;
        set_affinity(cpus)?;
        Ok(Self { before })
    }

    fn undo(self) -> std::io::Result<()> {
        set_affinity(&self.before)
    }
}

/// The end of what it prints, once it has ended.
fn end_of(mut stdout: std::process::ChildStdout) -> String {
    let mut kept = Vec::new();
    let mut piece = vec![0; 1 << 16];
    // An error is the end too: what was read until then counts.
    while let Ok(read @ 1..) = stdout.read(&mut piece) {
        kept.extend_from_slice(&piece[..read]);
        if kept.len() > 2 * OUTPUT {
            kept.drain(..kept.len() - OUTPUT);
        }
    }
    String::from_utf8_lossy(&kept).into_owned()
}
