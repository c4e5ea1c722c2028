//! Where threads wait: for how long, for what, and who wakes them.
//!
//! A recording of `pmuscope record --off-cpu` (or of `perf record -e context-switches -c 1 -g --switch-events`, or of `perf
//! sched record`, by tracepoints) tells each switch: that a thread leaves its CPU, with its stack, and whether it could have gone on; that it
//! came back; and, where `sched:sched_waking` was recorded, by whom it was woken. So every nanosecond of a
//! thread is known: on a CPU, blocked, on a run queue. Nothing here is sampled; what records do not tell since
//! some were lost is told apart ([`threads`]).
//!
//! ```text
//!  records, in order ─► Threads: stretches of time ─► WaitCounter: stacks, lengths, wakers ─► Profile, rows
//! ```

mod counter;
mod lengths;
mod pass;
mod rows;
mod threads;
mod tracepoints;

use std::path::PathBuf;
use std::sync::Arc;

use pmuscope_perfdata::reader::{ReadError, Reader, RecordingFile};
use pmuscope_stats::Interval;
use pmuscope_symbols::{KernelIdentity, Request, Symbolizer};
use thiserror::Error;

use crate::count::collect::Collected;
use crate::count::unwinding::Unwinding;
use crate::facts::{EventFacts, FileFacts};
use crate::filter::Filter;
use crate::names::naming::Resolve;
use crate::profile::{Options, Profile};
use counter::{KINDS, OfCell, WAKINGS};
use rows::outside_scheduler;

pub use counter::{WaitSums, Wall};
pub use lengths::{LengthRange, Lengths};
pub(crate) use pass::holds_waits;
pub use pass::{CollectedWaits, leave_out, tells_waits};
pub use threads::{Broken, OffCpuKind};

/// Names of the events of a profile of waits, in their order: see [`OffCpuKind::ALL`], then the time that blocked
/// threads were on a run queue after they were woken, which `off-cpu:blocked` does not include, then wakings.
pub const EVENTS: [&str; WAKINGS + 1] = [
    "off-cpu:blocked",
    "off-cpu:preempted",
    "off-cpu:new",
    "off-cpu:unknown",
    "off-cpu:run-queue",
    "off-cpu:wakings",
];

/// Why there are no waits to tell of.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WaitsError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It has no records of context switches.
    #[error(
        "{}: it has no context-switch records, so it does not show where threads wait. Try: \
         pmuscope record --off-cpu",
        path.display()
    )]
    NotRecorded {
        /// The recording.
        path: PathBuf,
    },
    /// Switches were recorded by a tracepoint of some threads, which shows how they leave a CPU but not when they come
    /// back.
    #[error(
        "{}: sched:sched_switch was recorded of some threads only, so it does not show when they come back. Try: \
         perf record with --switch-events, perf sched record, or pmuscope record --off-cpu",
        path.display()
    )]
    NoReturns {
        /// The recording.
        path: PathBuf,
    },
    /// Lost records are looked for before the others are read.
    #[error(
        "waits cannot be read from a stream, as they take two passes. Try: save it to a file first"
    )]
    Stream,
}

/// What can tell rows of waits apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitBy {
    /// The function of the kernel that waits: the innermost one that is not the scheduler's own; what
    /// keeps a thread off the CPU where no function waits.
    Wait,
    /// The innermost function of the program.
    Function,
    /// Name of the thread.
    Command,
    /// Process id.
    Process,
    /// Thread id.
    Thread,
}

impl WaitBy {
    /// All of them, with the words for them.
    pub const ALL: [(&'static str, Self); 5] = [
        ("wait", Self::Wait),
        ("function", Self::Function),
        ("command", Self::Command),
        ("process", Self::Process),
        ("thread", Self::Thread),
    ];
}

/// A value of [`WaitBy`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitKey {
    /// Not known; of a function: there is none.
    None,
    /// A function and its module, as an index into the recording's. Foreign text.
    Function(Arc<str>, u32),
    /// Functions of a module that have no name.
    Unnamed(u32),
    /// No function waits.
    State(OffCpuKind),
    /// The switch has no stack.
    NoStack,
    /// A name. Foreign text.
    Name(Arc<str>),
    /// Process or thread.
    Number(i64),
}

/// Who woke.
#[derive(Debug, Clone, PartialEq)]
pub struct Waker {
    /// Name of the thread; `None` for an interrupt, which has none. Foreign text.
    pub command: Option<Arc<str>>,
    /// Its process and thread, where it is one.
    pub task: Option<(i32, i32)>,
    /// The function of the program that woke, else of the kernel; `None` where neither has a name.
    /// Foreign text.
    pub function: Option<Arc<str>>,
    /// Waits that it ended.
    pub waits: u64,
    /// How long these were off the CPU, nanoseconds.
    pub ns: u64,
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitRow {
    /// One per dimension, in the order asked for.
    pub keys: Vec<WaitKey>,
    /// Why they were off the CPU; `None` where that differs within the row.
    pub kind: Option<OffCpuKind>,
    /// What was counted.
    pub sums: WaitSums,
    /// Of all threads' time, 0 to 1.
    pub share: f64,
    /// 95 % interval of the share, over blocks of time.
    pub interval: Option<Interval>,
    /// Who woke, the one that ended most time first.
    pub wakers: Vec<Waker>,
}

/// Where a task was off the CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitPlace<'a> {
    /// The task: index into [`Aggregate::tasks`](crate::aggregate::Aggregate::tasks) of the profile.
    pub task: u32,
    /// Why it was off the CPU.
    pub kind: OffCpuKind,
    /// As [`WaitBy::Wait`].
    pub wait: WaitKey,
    /// As [`WaitBy::Function`].
    pub function: WaitKey,
    /// What was counted.
    pub sums: &'a WaitSums,
}

/// All waits of a recording.
#[derive(Debug)]
pub struct Waits {
    /// Stacks by time off the CPU, events as in [`EVENTS`]; stacks begin at what waits, not in the scheduler.
    pub profile: Profile,
    /// By [`OffCpuKind::ALL`].
    pub by_kind: [WaitSums; KINDS],
    /// All time of all threads.
    pub wall: Wall,
    /// Threads of which a switch was seen.
    pub threads: u64,
    /// Threads that are known and of which none was seen.
    pub silent: u64,
    /// What does not add up.
    pub broken: Broken,
    /// Switches were recorded with stacks.
    pub has_stacks: bool,
    /// Wakings were recorded.
    pub has_wakings: bool,
    of_cells: Vec<OfCell>,
    /// By own cell: that of the profile.
    cell_of: Vec<u32>,
    wall_by_block: Vec<u64>,
}

impl Waits {
    /// Reads the waits of a recording: threads that `filter` lets pass, with names by `symbolizer`.
    ///
    /// # Errors
    /// [`WaitsError`].
    pub fn read(
        recording: &RecordingFile,
        filter: Filter,
        options: Options,
        symbolizer: &mut Symbolizer,
    ) -> Result<Self, WaitsError> {
        let running = symbolizer.running_kernel();
        let (collected, reader) = {
            let unwinder = symbolizer.unwinder();
            let unwinding = Unwinding { unwinder: &unwinder, running: &running };
            CollectedWaits::read(recording, filter, Some(unwinding))?
        };
        for (pid, dump) in collected.jit_dumps() {
            symbolizer.add_jit_dump(*pid, dump.clone());
        }
        let resolve = &mut |requests: &[Request<'_>]| symbolizer.resolve_all(requests);
        Ok(collected.waits(&reader, &running, options, resolve)?)
    }
}

impl CollectedWaits {
    /// Gives every distinct address a name by `resolve` and adds up; `running` is the kernel that this
    /// program runs on. `reader` is what [`CollectedWaits::read`] handed back.
    ///
    /// # Errors
    /// As [`Collected::profile`].
    pub fn waits(
        self,
        reader: &Reader,
        running: &KernelIdentity,
        options: Options,
        resolve: &mut Resolve<'_>,
    ) -> Result<Waits, ReadError> {
        let Self { state, counted, filter, threads, silent, broken, has_stacks, has_wakings } =
            self;
        let counter::CountedWaits { counts, cells: of_cells, wall, wall_by_block } = counted;
        let mut by_kind: [WaitSums; KINDS] = Default::default();
        for (cell, of) in counts.cells.iter().zip(&of_cells) {
            let event = counts.groups[cell.group as usize].event as usize;
            if let Some(sums) = by_kind.get_mut(event) {
                sums.add_all(&of.sums);
            }
        }
        let mut collected = Collected {
            state,
            clock: counts.clock.clone(),
            counted: crate::count::collect::CountState::All(vec![counts]),
            filter: Filter { asked: filter.asked.clone(), ..Filter::default() },
        };
        let file = FileFacts::of(reader);
        let events = EVENTS.iter().map(|name| EventFacts {
            name: (*name).into(),
            has_period: true,
            frequency: None,
            fixed_period: None,
            counts_nothing: true,
        });
        let mut profile = collected.answer(events.collect(), file, running, options, resolve)?;
        for event in &mut profile.events {
            // Loss is not that of an event of the file; it is told apart.
            (event.lost, event.lost_at_most) = (None, 0);
        }
        let outside = outside_scheduler(&profile);
        profile.aggregate.move_stacks(&outside);
        let cell_of = profile.aggregate.series.cells_of_first();
        Ok(Waits {
            profile,
            by_kind,
            wall,
            threads,
            silent,
            broken,
            has_stacks,
            has_wakings,
            of_cells,
            cell_of,
            wall_by_block,
        })
    }
}
