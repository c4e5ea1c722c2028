//! What breakpoints cost on this kernel: threads that inherit them, switching them on and off in threads that
//! run or wait, and hits.
//!
//! [`thread`] and [`enable`] are the two benchmarks of the kernel's own tool (`perf bench breakpoint`): options
//! of the same name mean the same, and an operation is the same. Beside each stands what it takes without a
//! breakpoint; all arms run in turns.

pub mod enable;
pub mod hit;
pub mod thread;

use std::os::fd::OwnedFd;
use std::time::SystemTime;

use pmuscope_abi::{Attr, AttrFlags, OpenFlags};
use pmuscope_counters::Kernel;
use pmuscope_measure::{Labels, Origin, Planned, RunFile};
use pmuscope_watch::kernel::{self, untouched};
use pmuscope_watch::slots::Kind;

use crate::error::BenchError;
use crate::runner::Bench;

/// Parameter: which of the three.
pub const BENCHMARK: &str = "benchmark";
/// Label: number of breakpoints.
pub const BREAKPOINTS: &str = "breakpoints";
/// Metric: bytes of a record in the ring.
pub const RECORD_BYTES: &str = "record_bytes";
/// Parameter: slots for data breakpoints, as found.
pub const SLOTS: &str = "slots";

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

impl BreakpointOutcome {
    /// Units of work, and the seconds that they took.
    fn new(done: u64, seconds: f64) -> Self {
        Self { done, seconds, ..Self::default() }
    }

    /// Adds the run to the file.
    fn add(
        self,
        bench: &mut Bench<'_>,
        (planned, started): (&Planned, SystemTime),
        labels: Labels,
        unit: &str,
    ) {
        let Self { done, seconds, record_bytes, why, notice } = self;
        if let Some(notice) = notice {
            bench.notice(notice);
        }
        if let Some(bytes) = record_bytes {
            let kind = ("B", Origin::Recording);
            bench.file.add(bench.file.runs.len(), &labels, RECORD_BYTES, kind, Ok(bytes));
        }
        let run = bench.file.add_timed(planned, labels, (started, seconds), (unit, done as f64));
        run.why = why;
    }
}

/// Slots that this thread's breakpoints find, if as many as `most` do.
fn check_slots(kernel: &dyn Kernel, most: u32, file: &mut RunFile) -> Result<(), BenchError> {
    let slots = kernel::slots(kernel)?.of(Kind::Data);
    if most > slots {
        return Err(BenchError::Slots { asked: most, slots });
    }
    file.parameters.insert(SLOTS.to_owned(), slots.to_string());
    Ok(())
}

/// Opens breakpoints on what nobody touches, on, for this thread wherever it runs and for all threads that
/// it starts.
fn open_inherited(kernel: &dyn Kernel, number: u32) -> Result<Vec<OwnedFd>, BenchError> {
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
) -> Result<OwnedFd, BenchError> {
    let opened = kernel.open(attr, 0, -1, None, OpenFlags::FD_CLOEXEC);
    opened.map_err(|source| BenchError::Open { what: what(), source })
}

/// With 0 in front, in order, each once.
fn with_none(numbers: &[u32]) -> Vec<u32> {
    let mut all = [&[0], numbers].concat();
    all.sort_unstable();
    all.dedup();
    all
}
