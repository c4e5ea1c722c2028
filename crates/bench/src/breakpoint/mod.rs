//! What breakpoints cost on this kernel: threads that inherit them, switching them on and off in threads that
//! run or wait, and hits.
//!
//! [`thread`] and [`enable`] are the two benchmarks of the kernel's own tool (`perf bench breakpoint`): options
//! of the same name mean the same, and an operation is the same. Beside each stands what it takes without a
//! breakpoint; all arms run in turns.

pub mod enable;
pub mod hit;
pub mod thread;

use std::io;
use std::os::fd::OwnedFd;
use std::time::SystemTime;

use pmuscope_abi::{Attr, AttrFlags, OpenFlags};
use pmuscope_bpf::BpfError;
use pmuscope_counters::{CountersError, Kernel, errno_name, open_refusal};
use pmuscope_machine::MachineError;
use pmuscope_measure::{Labels, MeasureError, Origin, Plan, Planned, RunFile, RunObserver};
use pmuscope_watch::kernel::{self, KernelError, untouched};
use pmuscope_watch::slots::Kind;
use pmuscope_workloads::WorkloadError;

/// Parameter: which of the three.
pub const BENCHMARK: &str = "benchmark";
/// Label: number of breakpoints.
pub const BREAKPOINTS: &str = "breakpoints";
/// Metric: bytes of a record in the ring.
pub const RECORD_BYTES: &str = "record_bytes";
/// Parameter: slots for data breakpoints, as found.
pub const SLOTS: &str = "slots";

/// Why a benchmark cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BreakpointError {
    /// More breakpoints than there are slots.
    #[error(
        "-b {asked}: {asked} breakpoints do not fit, this machine has {slots} free slots for a \
         thread's. Try: -b {slots}"
    )]
    Slots {
        /// How many were asked for.
        asked: u32,
        /// How many fit.
        slots: u32,
    },
    /// More threads than there can be.
    #[error(
        "-t {asked}: {asked} threads at once do not fit, {limit}. Try: -t {room}, or raise that \
         limit"
    )]
    Threads {
        /// How many were asked for.
        asked: usize,
        /// How many there can be.
        room: u64,
        /// What does not allow more.
        limit: String,
    },
    /// There are none.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A breakpoint cannot be opened.
    #[error("cannot open {what}: {}. Try: pmuscope doctor", open_refusal(.source))]
    Open {
        /// Which.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// An open breakpoint does not do as it is told.
    #[error("cannot {what} a breakpoint: {}", errno_name(.source))]
    Call {
        /// What it was told.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A ring for records cannot be had.
    #[error(transparent)]
    Counters(#[from] CountersError),
    /// The machine does not tell its CPUs.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A program's counts cannot be read.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Threads cannot be started.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// Results cannot be kept.
    #[error(transparent)]
    Measure(#[from] MeasureError),
}

/// How often arms run.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    /// Runs of each arm that count.
    pub rounds: usize,
    /// Runs of each arm before, that do not.
    pub warm_up: usize,
    /// Seed of the order.
    pub seed: u64,
}

/// A combination that runs.
trait BreakpointArm {
    /// Unit of work.
    const UNIT: &str;
    /// What tells it from others.
    fn labels(&self) -> Labels;
}

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq)]
struct BreakpointOutcome {
    /// Units of work.
    done: u64,
    seconds: f64,
    /// Bytes of a record, where there are any.
    record_bytes: Option<f64>,
    /// Why it is worth nothing.
    why: Option<String>,
    /// What else a reader should know; said once.
    notice: Option<String>,
}

/// Where runs go, who may end them, and who waits for them.
struct Results<'a> {
    file: &'a mut RunFile,
    stop: &'a dyn Fn() -> bool,
    watch: &'a mut dyn RunObserver,
}

impl Results<'_> {
    /// Runs all arms, first some times for nothing, then in random order, until it is to stop; false then.
    fn make<A: BreakpointArm>(
        self,
        runs: &Runs,
        arms: &[A],
        run: impl Fn(&A) -> Result<BreakpointOutcome, BreakpointError>,
    ) -> Result<bool, BreakpointError> {
        let Self { file, stop, watch } = self;
        for arm in (0..runs.warm_up).flat_map(|_| arms) {
            if stop() {
                return Ok(false);
            }
            note(file, run(arm)?.notice);
        }
        let plan = Plan::new(arms.len(), runs.rounds, runs.seed);
        let make = |file: &mut RunFile, planned: &Planned, _: &mut dyn RunObserver| {
            if stop() {
                return Ok(false);
            }
            let arm = &arms[planned.arm];
            let started = SystemTime::now();
            let BreakpointOutcome { done, seconds, record_bytes, why, notice } = run(arm)?;
            note(file, notice);
            let labels = arm.labels();
            if let Some(bytes) = record_bytes {
                let kind = ("B", Origin::Recording);
                file.add(file.runs.len(), &labels, RECORD_BYTES, kind, Ok(bytes));
            }
            file.add_timed(planned, labels, (started, seconds), (A::UNIT, done as f64));
            if let Some(run) = file.runs.last_mut() {
                run.why = why;
            }
            Ok(true)
        };
        plan.make_runs(file, watch, |_, _| false, make)
    }
}

/// Adds what is not said yet.
fn note(file: &mut RunFile, notice: Option<String>) {
    file.notices.extend(notice.filter(|notice| !file.notices.contains(notice)));
}

/// Slots that this thread's breakpoints find, if as many as `most` do.
fn check_slots(kernel: &dyn Kernel, most: u32, file: &mut RunFile) -> Result<(), BreakpointError> {
    let slots = kernel::slots(kernel)?.of(Kind::Data);
    if most > slots {
        return Err(BreakpointError::Slots { asked: most, slots });
    }
    file.parameters.insert(SLOTS.to_owned(), slots.to_string());
    Ok(())
}

/// Opens breakpoints on what nobody touches, on, for this thread wherever it runs and for all threads that
/// it starts.
fn open_inherited(kernel: &dyn Kernel, number: u32) -> Result<Vec<OwnedFd>, BreakpointError> {
    let mut attr = untouched(Kind::Data);
    attr.flags.insert(AttrFlags::INHERIT);
    (1..=number)
        .map(|which| open_own(kernel, &attr, || format!("breakpoint {which} of {number}")))
        .collect()
}

/// Opens an event for this thread, wherever it runs.
fn open_own(
    kernel: &dyn Kernel,
    attr: &Attr,
    what: impl FnOnce() -> String,
) -> Result<OwnedFd, BreakpointError> {
    let opened = kernel.open(attr, 0, -1, None, OpenFlags::FD_CLOEXEC);
    opened.map_err(|source| BreakpointError::Open { what: what(), source })
}

fn labels<const N: usize>(pairs: [(&str, String); N]) -> Labels {
    pairs.map(|(key, value)| (key.to_owned(), value)).into()
}

/// With 0 in front, in order, each once.
fn with_none(numbers: &[u32]) -> Vec<u32> {
    let mut all = [&[0], numbers].concat();
    all.sort_unstable();
    all.dedup();
    all
}
