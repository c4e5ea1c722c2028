//! Any program under the same policies: several Java machines, a database with its clients.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use pmuscope_machine::child::{Usage, wait};
use pmuscope_machine::{Machine, MemoryPolicy, Topology};
use pmuscope_measure::{
    Extract, Labels, MeasureError, Origin, Plan, Planned, Run, RunFile, Watch, metric, unix_ns,
};
use pmuscope_numa::observe::Family;
use pmuscope_numa::timeline::{Follower, Look};

use super::fit::{Binding, Room};
use super::policy::Policy;
use super::{LOCALITY, MONITOR, POLICY, RunError, TEST, figures};

/// Kept of what the program prints: the end of it, where results are.
const OUTPUT: usize = 1 << 20;

/// What to run.
#[derive(Debug, Clone)]
pub struct ProgramOptions {
    /// The program with its arguments.
    pub command: Vec<OsString>,
    /// Figures to find in what it prints.
    pub extracts: Vec<Extract>,
    /// Policies; those that bind have no sense for a program of which nothing is known.
    pub policies: Vec<Policy>,
    /// What may be used of the machine.
    pub room: Room,
    /// Time between two looks.
    pub interval: Duration,
    /// Pages asked for at each look, of all processes together.
    pub pages: u64,
    /// How often it runs under each policy.
    pub rounds: usize,
    /// Seed of the order.
    pub seed: u64,
    /// This program.
    pub program: PathBuf,
}

/// Why a program was not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A policy that binds threads and memory.
    #[error(
        "policy {0} binds threads to their memory, and what a program's threads use is not known. Try: \
         --policies interleave,off,on"
    )]
    Bound(&'static str),
    /// It cannot be started or waited for.
    #[error("cannot run {command}: {source}")]
    Start {
        /// The program.
        command: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The machine cannot be set so.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Results cannot be kept.
    #[error(transparent)]
    Measure(#[from] MeasureError),
}

/// What a run came to.
struct Ran {
    status: ExitStatus,
    usage: Usage,
    seconds: f64,
    output: String,
    looks: Vec<Look>,
    before: Option<pmuscope_machine::NumaCounters>,
    after: Option<pmuscope_machine::NumaCounters>,
}

/// Runs the program under all policies in random order and adds the runs to `file`, but for those that it has, up to
/// where `stop` says so; false then.
///
/// # Errors
/// If it cannot be run, or results cannot be kept. A program that fails is a failed run.
pub fn programs(
    (machine, topology): (&Machine, &Topology),
    options: &ProgramOptions,
    file: &mut RunFile,
    stop: &dyn Fn() -> bool,
    watch: &mut dyn Watch,
) -> Result<bool, ProgramError> {
    for policy in &options.policies {
        if matches!(policy.binding(), Binding::Best | Binding::Worst) {
            return Err(ProgramError::Bound(policy.name()));
        }
    }
    let plan = Plan::new(options.policies.len(), options.rounds, options.seed);
    let is_made =
        |file: &RunFile, planned: &Planned| file.runs.iter().any(|run| run.order == planned.order);
    let make = |file: &mut RunFile, planned: &Planned, watch: &mut dyn Watch| {
        if stop() {
            return Ok(false);
        }
        let policy = options.policies[planned.arm];
        let started = SystemTime::now();
        let guard = policy
            .balancing()
            .set(machine)
            .map_err(|source| RunError::Balancing { policy: policy.name(), source })?;
        let ran = run((machine, topology), options, policy, stop);
        let restored = guard.restore();
        let ran = ran?;
        restored.map_err(|source| RunError::Balancing { policy: policy.name(), source })?;
        if stop() {
            return Ok(false);
        }
        let exit = ran.status.code().unwrap_or(-1);
        if exit != 0 {
            watch.failed(u8::try_from(exit).unwrap_or(u8::MAX), &ran.output);
        }
        let labels: Labels =
            [(TEST.to_owned(), options.name()), (POLICY.to_owned(), policy.name().to_owned())]
                .into();
        add(file, options, (planned, started), &labels, &ran, exit);
        Ok(true)
    };
    plan.make_runs(file, watch, is_made, make)
}

impl ProgramOptions {
    fn name(&self) -> String {
        let program = self.command.first().map(PathBuf::from).unwrap_or_default();
        program
            .file_name()
            .map_or_else(|| "-".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// Where the program takes its pages from, until it says otherwise.
    fn memory_policy(&self, policy: Policy) -> MemoryPolicy {
        let nodes = self.room.nodes.iter().map(|node| node.id).collect();
        match policy.binding() {
            Binding::Interleave => MemoryPolicy::Interleave(nodes),
            Binding::WeightedInterleave => MemoryPolicy::WeightedInterleave(nodes),
            _ => MemoryPolicy::Default,
        }
    }
}

fn run(
    (machine, topology): (&Machine, &Topology),
    options: &ProgramOptions,
    policy: Policy,
    stop: &dyn Fn() -> bool,
) -> Result<Ran, ProgramError> {
    let failed = |source| ProgramError::Start {
        command: options.command[0].to_string_lossy().into_owned(),
        source,
    };
    // The child has the policy of the thread that starts it.
    options.memory_policy(policy).apply().map_err(failed)?;
    let spawned = Command::new(&options.command[0])
        .args(&options.command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    MemoryPolicy::Default.apply().map_err(failed)?;
    let mut child = spawned.map_err(failed)?;
    let (begun, pid, stdout) = (Instant::now(), child.id(), child.stdout.take());
    let before = machine.numa_counters().ok();
    let companion = policy.companion(&options.program, &[pid], options.pages).map(|companion| {
        let program = companion.program().display().to_string();
        let failed = |source| RunError::Companion { policy: policy.name(), program, source };
        companion.start().map_err(failed)
    });
    let companion = match companion.transpose() {
        Ok(companion) => companion,
        Err(error) => {
            // It was started a moment ago, and would run on unseen. It may have ended as well.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error.into());
        }
    };
    let (ended, broken_off) = (AtomicBool::new(false), AtomicBool::new(false));
    let (waited, output, looks) = thread::scope(|scope| {
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
        let looks = follow((machine, topology), options, pid, go_on);
        (joined(waiting), joined(output), looks)
    });
    let seconds = begun.elapsed().as_secs_f64();
    let after = machine.numa_counters().ok();
    if let Some(companion) = companion {
        companion.end().map_err(|source| RunError::Companion {
            policy: policy.name(),
            program: policy.name().to_owned(),
            source,
        })?;
    }
    let (status, usage) = waited.map_err(failed)?;
    Ok(Ran { status, usage, seconds, output, looks, before, after })
}

fn joined<T>(handle: thread::ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
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

fn follow(
    (machine, topology): (&Machine, &Topology),
    options: &ProgramOptions,
    pid: u32,
    go_on: impl Fn() -> bool,
) -> Vec<Look> {
    let mut looks = Vec::new();
    // It may have ended already.
    let Ok(family) = Family::new(machine, &[pid], true) else { return looks };
    let mut follower = Follower::new(machine, topology, family, (options.pages, options.seed));
    while go_on() {
        // What cannot be looked at is not the program's fault: it runs on.
        if let Ok(Some(look)) = follower.look() {
            looks.push(look);
        }
        thread::sleep(options.interval);
    }
    looks
}

fn add(
    file: &mut RunFile,
    options: &ProgramOptions,
    (planned, started): (&Planned, SystemTime),
    labels: &Labels,
    ran: &Ran,
    exit: i32,
) {
    let run = file.runs.len();
    file.runs.push(Run {
        index: run,
        order: planned.order,
        round: Some(planned.round),
        labels: labels.clone(),
        started: unix_ns(started),
        duration_s: ran.seconds,
        exit: Some(exit),
        why: None,
        units: Default::default(),
    });
    let mut put = |name: &str, kind: (&str, Origin), value: Result<f64, String>| {
        file.add(run, labels, name, kind, value);
    };
    put(metric::WALL, ("s", Origin::Clock), Ok(ran.seconds));
    put(metric::USER, ("s", Origin::Kernel), Ok(ran.usage.user_s));
    put(metric::SYSTEM, ("s", Origin::Kernel), Ok(ran.usage.system_s));
    put(metric::MINOR_FAULTS, ("", Origin::Kernel), Ok(ran.usage.minor_faults as f64));
    for extract in &options.extracts {
        put(&extract.metric, (&extract.unit, Origin::Program), extract.find(&ran.output));
    }
    let seen: Vec<f64> =
        ran.looks.iter().filter_map(|look| look.locality.map(|share| share.value)).collect();
    let unseen = || "it ended before it was seen, or may not be looked at".to_owned();
    let estimate = ("", Origin::Estimate);
    put(LOCALITY, estimate, seen.last().copied().ok_or_else(unseen));
    let mean = (!seen.is_empty()).then(|| seen.iter().sum::<f64>() / seen.len() as f64);
    put(figures::PLACED_MEAN, estimate, mean.ok_or_else(unseen));
    let cost: u64 = ran.looks.iter().map(|look| look.cost_ns).sum();
    put(MONITOR, ("s", Origin::Kernel), Ok(cost as f64 / 1e9));
    let counters = ran.before.zip(ran.after).map(|(before, after)| after.since(&before));
    figures::of_counters(&counters.unwrap_or_default(), put);
}
