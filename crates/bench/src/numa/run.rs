//! One run: a test under a policy, watched, with what it cost.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pmuscope_machine::{Machine, MachineError, Topology};
use pmuscope_workloads::memory::control::{Control, ControlError, State};
use pmuscope_workloads::memory::{self, Options};
use pmuscope_workloads::{WorkloadError, WorkloadFacts};

use crate::runner::joined;

use super::policy::{Companion, Policy, Running};
use super::watched::{Watched, Watching, watch};

/// How often it is looked whether the work has begun.
const TICK: Duration = Duration::from_millis(2);

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// Balancing cannot be set.
    #[error("policy {policy}: {source}. Try: --policies without it, or as root")]
    Balancing {
        /// Name of the policy.
        policy: &'static str,
        /// Why not.
        source: MachineError,
    },
    /// The program beside cannot be started, or failed.
    #[error("policy {policy}: cannot run {program}: {source}")]
    Companion {
        /// Name of the policy.
        policy: &'static str,
        /// The program.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// The workload cannot be watched.
    #[error("cannot watch the workload: {0}")]
    Control(#[from] ControlError),
}

impl RunError {
    /// Whether other runs would fail as well: nothing is to be had from going on. A process that was killed for its
    /// memory, or a program beside that came too late, is a matter of this run.
    pub(super) fn is_of_all(&self) -> bool {
        match self {
            Self::Workload(error) => matches!(error, WorkloadError::Options { .. }),
            Self::Balancing { .. } => true,
            Self::Companion { source, .. } => source.raw_os_error().is_some(),
            Self::Control(_) => false,
        }
    }
}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::Control(error.into())
    }
}

/// What runs, and who watches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) machine: &'a Machine,
    pub(super) topology: &'a Topology,
    /// This program.
    pub(super) program: &'a Path,
    /// An empty folder.
    pub(super) scratch: &'a Path,
}

/// Runs a test under a policy, until its time is over, it has converged, or `stop` says so.
///
/// # Errors
/// If the machine cannot be set so, or the workload fails.
pub(super) fn run(
    context: &Context<'_>,
    (policy, options): (Policy, &Options),
    watching: &Watching,
    stop: &dyn Fn() -> bool,
) -> Result<(WorkloadFacts, Watched), RunError> {
    let guard = policy
        .balancing()
        .set(context.machine)
        .map_err(|source| RunError::Balancing { policy: policy.name(), source })?;
    let path = context.scratch.join("control");
    let work = RunningWork {
        path: &path,
        ended: AtomicBool::new(false),
        // What a policy needs to start is not the workload's time.
        held: AtomicBool::new(policy.has_companion()),
    };
    let (facts, watched) = thread::scope(|scope| {
        let run = scope.spawn(|| {
            let facts = memory::run_held(context.program, options, Some(&path), &work.held);
            work.ended.store(true, Ordering::Release);
            facts
        });
        let watched = watch_run(context, policy, &work, watching, stop);
        if watched.is_err() {
            // Else it would go on to its end, unseen, or wait for ever.
            work.held.store(false, Ordering::Release);
            let _ = Control::stop(&path);
        }
        (joined(run), watched)
    });
    let restored = guard.restore();
    let facts = facts?;
    let watched = watched?;
    restored.map_err(|source| RunError::Balancing { policy: policy.name(), source })?;
    Ok((facts, watched))
}

/// A workload on its way.
struct RunningWork<'a> {
    /// Where its control file is, or will be.
    path: &'a Path,
    ended: AtomicBool,
    /// It is not to begin yet.
    held: AtomicBool,
}

/// ```text
///  workload    touches memory ─┐ ready: held         ┌─ works ────────── ends
///  companion                   └─ starts ── begins ──┘ places            ended
/// ```
fn watch_run(
    context: &Context<'_>,
    policy: Policy,
    work: &RunningWork<'_>,
    watching: &Watching,
    stop: &dyn Fn() -> bool,
) -> Result<Watched, RunError> {
    let mut companion = None;
    if policy.has_companion() {
        let Some(control) = work.wait(stop, &Control::is_ready)? else {
            return Ok(Watched::default());
        };
        let pids = distinct(control.areas()?.iter().map(|area| area.pid).collect());
        companion = policy
            .companion(context.program, &pids, watching.pages)
            .map(|companion| Beside::start(companion, policy, stop))
            .transpose()?;
        work.held.store(false, Ordering::Release);
    }
    let is_running = |control: &Control| Ok(control.state()? == State::Running);
    let Some(control) = work.wait(stop, &is_running)? else { return Ok(Watched::default()) };
    let end = || Control::stop(work.path).map_err(io::Error::other);
    let watched = watch((context.machine, context.topology), &control, watching, stop, end)?;
    let balancer = companion.map(Beside::end).transpose()?;
    Ok(Watched { balancer, ..watched })
}

/// The program of a policy, which has begun.
struct Beside {
    policy: Policy,
    program: String,
    running: Running,
}

impl Beside {
    fn start(
        companion: Companion,
        policy: Policy,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, RunError> {
        let program = companion.program().display().to_string();
        let failed = |source| RunError::Companion {
            policy: policy.name(),
            program: program.clone(),
            source,
        };
        let mut running = companion.start().map_err(failed)?;
        while !running.has_begun().map_err(failed)? && !stop() {
            thread::sleep(TICK);
        }
        Ok(Self { policy, program, running })
    }

    /// Its CPU seconds, or why they are not known.
    fn end(self) -> Result<Result<f64, String>, RunError> {
        let Self { policy, program, running } = self;
        running.end().map_err(|source| RunError::Companion {
            policy: policy.name(),
            program,
            source,
        })
    }
}

fn distinct(mut pids: Vec<u32>) -> Vec<u32> {
    pids.sort_unstable();
    pids.dedup();
    pids
}

impl RunningWork<'_> {
    /// Waits until it is so far; `None` if the workload ended before.
    fn wait(
        &self,
        stop: &dyn Fn() -> bool,
        is_so_far: &dyn Fn(&Control) -> io::Result<bool>,
    ) -> Result<Option<Control>, RunError> {
        let mut is_told = false;
        loop {
            let has_ended = self.ended.load(Ordering::Acquire);
            match Control::open(self.path) {
                Ok(control) if is_so_far(&control)? => return Ok(Some(control)),
                Ok(_) => {
                    if !is_told && stop() {
                        is_told = true;
                        Control::stop(self.path)?;
                    }
                }
                Err(ControlError::NotYet) => {}
                Err(ControlError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
            if has_ended {
                return Ok(None);
            }
            thread::sleep(TICK);
        }
    }
}
