//! One run: a test under a policy, watched, with what it cost.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pmuscope_machine::{Machine, MachineError, Topology};
use pmuscope_workloads::memory::control::{Control, ControlError, State};
use pmuscope_workloads::memory::{self, Options};
use pmuscope_workloads::{Facts, WorkloadError};

use super::policy::Policy;
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
) -> Result<(Facts, Watched), RunError> {
    let guard = policy
        .balancing()
        .set(context.machine)
        .map_err(|source| RunError::Balancing { policy: policy.name(), source })?;
    let path = context.scratch.join("control");
    // One of an earlier run; if there is none that is as well.
    let _ = std::fs::remove_file(&path);
    let ended = AtomicBool::new(false);
    let (facts, watched) = thread::scope(|scope| {
        let work = scope.spawn(|| {
            let facts = memory::run(context.program, options, Some(&path));
            ended.store(true, Ordering::Release);
            facts
        });
        let watched = watch_run(context, policy, (&path, &ended), watching, stop);
        if watched.is_err() {
            // Else it would go on to its end, unseen.
            let _ = Control::stop(&path);
        }
        (work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), watched)
    });
    let restored = guard.restore();
    let facts = facts?;
    let watched = watched?;
    restored.map_err(|source| RunError::Balancing { policy: policy.name(), source })?;
    Ok((facts, watched))
}

fn watch_run(
    context: &Context<'_>,
    policy: Policy,
    (path, ended): (&Path, &AtomicBool),
    watching: &Watching,
    stop: &dyn Fn() -> bool,
) -> Result<Watched, RunError> {
    let Some(control) = begun(path, ended, stop)? else { return Ok(Watched::default()) };
    let pids: Vec<u32> = control.areas()?.iter().map(|area| area.pid).collect();
    let companion = match policy.companion(context.program, &distinct(pids), watching.pages) {
        None => None,
        Some(companion) => {
            let program = companion.program().display().to_string();
            let failed = |source| RunError::Companion { policy: policy.name(), program, source };
            Some((companion.program(), companion.start().map_err(failed)?))
        }
    };
    let end = || Control::stop(path).map_err(io::Error::other);
    let watched = watch((context.machine, context.topology), &control, watching, stop, end)?;
    if let Some((program, companion)) = companion {
        companion.end().map_err(|source| RunError::Companion {
            policy: policy.name(),
            program: program.display().to_string(),
            source,
        })?;
    }
    Ok(watched)
}

fn distinct(mut pids: Vec<u32>) -> Vec<u32> {
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Waits until all threads work; `None` if the workload ended before.
fn begun(
    path: &Path,
    ended: &AtomicBool,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Control>, RunError> {
    let mut is_told = false;
    loop {
        let has_ended = ended.load(Ordering::Acquire);
        match Control::open(path) {
            Ok(control) if control.state()? == State::Running => return Ok(Some(control)),
            Ok(_) => {
                if !is_told && stop() {
                    is_told = true;
                    Control::stop(path)?;
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
