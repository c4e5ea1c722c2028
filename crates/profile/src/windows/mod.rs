//! Windows: short stretches of a CPU's work between two samples, and what was counted in them.
//!
//! A counter that is read once per millisecond tells the average of thousands of functions. Read twice,
//! 300 cycles apart, it tells what one function did, if both ends lie in that function:
//!
//! ```text
//!                A                B                                        A                B
//!   functions ───┼─ f ────────────┼─ f ──┬─ g ─┬─ f ───── … ──────── h ────┼─ h ─┬─ g ──────┼── g ──
//!   counts      (c, i)           (c', i')                                 (c, i)           (c', i')
//!                └─ window of f ──┘                                        └─ starts in h, ─┘
//!                   c' - c cycles,                                            ends in g: counts for
//!                   i' - i instructions                                       nobody, g's rank stays
//! ```
//!
//! Recordings have windows in three forms:
//!
//! - two events in one group, the second one a window later ([`pmuscope_perfdata::strobe`]): A and B;
//! - one event with a short period, as `perf record -e '{cycles/period=300/,instructions}:S'`: every
//!   sample ends a window and starts the next one;
//! - one event whose short and long period take turns, from patched kernels: seen in the samples
//!   themselves, the long ones do not count.
//!
//! Tests of a window come in the order of [`Cause`]; those rejected are counted for the function they
//! end in. Windows follow from each sample and the two before it on the same CPU (see `shot.rs`), so they
//! are found on all CPUs at once, in two passes: the first finds the distinct places, which then get
//! names, the second adds up windows. Memory follows from places, functions and blocks of time, not
//! from windows.

mod judge;
mod kind;
mod pass;
mod place;
mod plan;
mod rows;
mod shot;
mod sums;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pmuscope_abi::record;
use pmuscope_events::metrics::Metrics;
use pmuscope_perfdata::reader::scan::Pieces;
use pmuscope_perfdata::reader::{
    Entry, FileState, Metadata, OtherData, ReadError, Reader, Record, RecordingFile, Tally,
};
use pmuscope_symbols::{KernelIdentity, Request};
use thiserror::Error;

use crate::filter::{Filter, Targets};
use crate::names::naming::Names;
use crate::profile::ModuleSummary;
use crate::timeline::blocks::Clock;
use crate::timeline::loss::{Lost, StreamLoss};
use crate::timeline::sideband::Sideband;
use crate::timeline::tasks::ModuleAddress;
use crate::timeline::visit::{InOrder, Passes};

use judge::{Judge, Throttles, Tolerance};
use pass::{FirstPass, PassContext, Windower, together};
use place::Finder;
use plan::{Scheme, WindowPlan};
use rows::Spots;
use shot::NO_CPU;
use sums::RowSums;

pub use judge::Cause;
pub use rows::RowKey;
pub(crate) use sums::Part;

/// Windows up to this length are compared by the symbols at their ends unless asked otherwise.
const SHORT: u64 = 10_000;

/// What rows are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// Functions; what was inlined belongs to the function that holds the code.
    #[default]
    Function,
    /// Inlined functions apart from those that hold their code.
    Inlined,
    /// Source lines.
    Line,
    /// Modules.
    Module,
    /// Kernel and user.
    Mode,
}

/// Whether a window may start in another function than it ends in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attribution {
    /// It counts for the function that it ends in.
    None,
    /// It counts for none.
    Discard,
    /// As `Discard` where windows are short: strobed, of two periods that take turns, or of at most
    /// 10,000 units.
    #[default]
    Auto,
}

/// How windows are read.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What rows are of.
    pub by: By,
    /// What becomes of windows with two functions.
    pub attribution: Attribution,
    /// By how many units windows may be longer or shorter than they should be; by default half of that.
    pub length_tolerance: Option<u64>,
    /// Units of the event to subtract from each window: what the interrupt that opens it costs.
    pub interrupt_cost: u64,
    /// Which windows count, by their end.
    pub filter: Filter,
    /// Threads.
    pub threads: usize,
    /// Sizes of what threads take at once.
    pub pieces: Pieces,
}

/// Why there are no windows.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WindowsError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It has to be gone over twice.
    #[error(
        "windows cannot be read from standard input, as they take two passes. Try: save the stream \
         to a file first"
    )]
    Stream,
    /// No sample carries counts of a group.
    #[error(
        "{path}: no windows: its samples have no counts of an event group. Try: pmuscope record \
         --strobe -- CMD, or perf record -e '{{cycles/period=300/,instructions}}:S' -- CMD"
    )]
    NoCounts {
        /// The recording.
        path: PathBuf,
    },
    /// The file holds something else than samples.
    #[error("{path}: no windows: it has no samples")]
    NoSamples {
        /// The recording.
        path: PathBuf,
        /// What it holds instead.
        holds: OtherData,
    },
    /// More is to be taken off windows than they have.
    #[error(
        "--interrupt-cost {cost}: windows have {mean:.0} {event} on average, so nothing would be \
         left of them. Try: a smaller number, as measured on an empty function"
    )]
    InterruptCost {
        /// Asked for, units of the event.
        cost: u64,
        /// What a window has, of the group where it is least.
        mean: f64,
        /// The event that bounds windows.
        event: String,
    },
}

/// How windows of a recording came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowKind {
    /// The event that bounds them.
    pub event: String,
    /// Their length as recorded: the one in the middle, where each epoch has its own; as seen, where two
    /// periods take turns; `None` where it varies.
    pub window: Option<u64>,
    /// Shortest and longest, where it was to vary from epoch to epoch.
    pub range: Option<(u64, u64)>,
    /// Length asked for, where strobed.
    pub asked: Option<u64>,
    /// What the calls alone take that set the phase, where a shorter length was asked for.
    pub calls: Option<u64>,
    /// In so many units of the event there are [`WindowKind::burst`] windows; `None` where they are back to back.
    pub period: Option<u64>,
    /// Windows in a row.
    pub burst: u32,
    /// Whether two events that are out of phase bound them.
    pub strobed: bool,
}

/// Windows of one CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuWindows {
    /// Windows, those that do not count too.
    pub windows: u64,
    /// Of them, those whose offset was wrong.
    pub wrong_offset: u64,
}

/// Windows of a recording, added up.
#[derive(Debug)]
pub struct Windows {
    /// How they came about.
    pub kind: WindowKind,
    /// Taken off each window, units of the event that bounds them.
    pub interrupt_cost: u64,
    /// Whether windows with two functions were left out.
    pub discards: bool,
    /// What rows are of.
    pub by: By,
    /// Rows, most windows first.
    pub rows: Vec<WindowRow>,
    /// All rows together.
    pub total: WindowRow,
    /// Modules; rows point here.
    pub modules: Vec<ModuleSummary>,
    /// Samples that ended no window, because the phase was not set.
    pub outside: u64,
    /// Windows of tasks that were not asked for when recording.
    pub foreign: u64,
    /// Those that were asked for: of them are all rows.
    pub targets: Targets,
    /// By CPU, where samples tell it.
    pub by_cpu: BTreeMap<u32, CpuWindows>,
    /// Seconds from the first to the last sample.
    pub seconds: f64,
    /// What the file says about itself.
    pub metadata: Metadata,
    /// How the file ends.
    pub state: FileState,
    /// Records lost, windows among them: a window whose end was lost is in no count.
    pub lost: Lost,
    /// Times the kernel suspended sampling.
    pub throttled: u64,
    /// What was read of it.
    pub tally: Tally,
    /// Events whose samples begin windows, one per group: their samples are a profile.
    pub leaders: Vec<u32>,
    /// Names of counts, by group.
    pub(crate) counters: Vec<Vec<String>>,
}

/// Sums of the events that are counted in the same windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetSums<'a> {
    /// Index into [`Windows::event_sets`].
    pub set: usize,
    /// Windows that count.
    pub windows: u64,
    /// By event.
    pub sums: &'a [u64],
}

/// A row.
#[derive(Debug, Clone)]
pub struct WindowRow {
    /// What it is of.
    pub key: RowKey,
    pub(crate) sums: RowSums,
}

impl WindowRow {
    /// Windows that end here, those that do not count too: what decides the rank.
    #[must_use]
    pub fn windows(&self) -> u64 {
        self.sums.windows
    }

    /// Windows that count.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.sums.kept()
    }

    /// Windows that do not count for one cause.
    #[must_use]
    pub fn rejected(&self, cause: Cause) -> u64 {
        self.sums.rejected[cause as usize]
    }

    /// Windows that passed all tests but the last one, and of them those with the same function at both ends.
    #[must_use]
    pub fn tested(&self) -> (u64, u64) {
        (self.sums.same + self.sums.other, self.sums.same)
    }

    /// What was counted in the windows that count, by event set.
    pub fn sets(&self) -> impl Iterator<Item = SetSums<'_>> {
        self.sums.parts.iter().map(|part| SetSums {
            set: part.group as usize,
            windows: part.kept,
            sums: &part.sums,
        })
    }

    /// Share of windows that started in the function they ended in, of those that passed all other
    /// tests; `None` where there are none.
    #[must_use]
    pub fn same_at_both_ends(&self) -> Option<f64> {
        let tested = self.sums.same + self.sums.other;
        (tested > 0).then(|| self.sums.same as f64 / tested as f64)
    }
}

impl Windows {
    /// Events that are counted in the same windows, by the names that [`Metrics::canonical`] has for them.
    #[must_use]
    pub fn event_sets(&self) -> &[Vec<String>] {
        &self.counters
    }

    /// Windows that end in a row's function for each one that begins there too, where the others were left out: sums of
    /// the row times this are of all windows that end in it.
    #[must_use]
    pub fn ends_per_window(&self, row: &WindowRow) -> f64 {
        let same = row.same_at_both_ends().filter(|same| self.discards && *same > 0.0);
        same.map_or(1.0, f64::recip)
    }

    /// Reads a recording. Names of counts are those that `metrics` has for them, those of
    /// places are from `names`; `running` is the kernel this program runs on.
    ///
    /// # Errors
    /// See [`WindowsError`].
    pub fn read(
        recording: &RecordingFile,
        options: &Options,
        metrics: &Metrics,
        running: &KernelIdentity,
        names: &mut dyn Names,
    ) -> Result<Self, WindowsError> {
        if recording.is_stream() {
            return Err(WindowsError::Stream);
        }
        let (path, mut reader) = (recording.path(), recording.reader()?);
        let index = reader.index_in(options.threads.max(1), options.pieces)?;
        let of_id = plan::ids(reader.events());
        let scouting = || FirstPass::new(Finder::new(&options.filter), &of_id);
        let mut facts = Noted::default();
        let Some(index) = index else {
            let mut first = InOrder::after(Sideband::default(), scouting());
            first.read(&mut reader, |entry| facts.note(entry))?;
            let InOrder { state, visitor: scout, .. } = first;
            let ready = Ready::new(path, &reader, options, metrics, scout, &facts)?;
            let spots = ready.spots(&state, running, options.by, names);
            let shared = ready.shared(&spots, options);
            let windower = Windower::new(&shared, Finder::new(&options.filter));
            let mut again = InOrder::after(Sideband::default(), windower);
            let mut reader = recording.reader()?;
            again.read(&mut reader, |_| {})?;
            let sums = together(vec![again.visitor]);
            return ready.finish(&reader, &state.loss, sums, spots, options);
        };
        let (passes, state) =
            Passes::new(&mut reader, index, options.threads, |entry| facts.note(entry))?;
        let mut scouts = passes.visit(&state, scouting)?.into_iter();
        let mut scout = scouts.next().unwrap_or_else(scouting);
        scouts.for_each(|other| scout.merge(other));
        let ready = Ready::new(path, &reader, options, metrics, scout, &facts)?;
        let spots = ready.spots(&state, running, options.by, names);
        let shared = ready.shared(&spots, options);
        let windower = || Windower::new(&shared, Finder::new(&options.filter));
        let sums = together(passes.visit(&state, windower)?);
        ready.finish(&reader, &state.loss, sums, spots, options)
    }
}

/// What records besides samples tell of windows.
#[derive(Debug, Default)]
struct Noted {
    /// CPU, time, whether sampling went on.
    throttles: Vec<(u32, u64, bool)>,
    /// Parent and child.
    forks: Vec<(i32, i32)>,
}

impl Noted {
    fn note(&mut self, entry: &Entry<'_>) {
        let goes_on = match &entry.record {
            Record::Fork(task) if task.pid != task.parent_pid => {
                self.forks.push((task.parent_pid, task.pid));
                return;
            }
            Record::Throttle { .. } => false,
            Record::Unthrottle { .. } => true,
            _ => return,
        };
        if let Some(time) = entry.time {
            self.throttles.push((entry.maker.cpu.unwrap_or(NO_CPU), time, goes_on));
        }
    }
}

/// What is known after the first pass.
#[derive(Debug)]
struct Ready {
    plan: WindowPlan,
    throttles: Throttles,
    clock: Clock,
    places: Vec<ModuleAddress>,
    times: Option<(u64, u64)>,
    metadata: Metadata,
    kind: WindowKind,
    discards: bool,
}

impl Ready {
    fn new(
        path: &Path,
        reader: &Reader,
        options: &Options,
        metrics: &Metrics,
        scout: FirstPass<'_>,
        noted: &Noted,
    ) -> Result<Self, WindowsError> {
        let events = reader.events();
        let metadata = reader.metadata().clone();
        let plan = WindowPlan::new(events, &metadata, &scout.seen, &noted.forks, metrics);
        let Some(group) = plan.groups.iter().find(|group| group.events.len() > 1) else {
            let (path, tally) = (path.to_owned(), reader.tally());
            return Err(match tally.other_data() {
                Some(holds) if tally.kinds.get(record::kind::SAMPLE) == 0 => {
                    WindowsError::NoSamples { path, holds }
                }
                _ => WindowsError::NoCounts { path },
            });
        };
        let name = |at: u32| events.get(at as usize).map(|event| event.name.clone());
        let event = name(group.events[0]).unwrap_or_default();
        let kind = match (group.scheme, &plan.strobe) {
            (Scheme::Strobe(_), Some(strobe)) => WindowKind::strobed(strobe),
            (Scheme::Alternating { short, .. }, _) => {
                let period = events.get(group.events[0] as usize).map(|one| one.attr.sample);
                WindowKind { window: Some(short), period, ..WindowKind::of(event) }
            }
            (Scheme::BackToBack(window), _) => WindowKind { window, ..WindowKind::of(event) },
            (Scheme::Strobe(_), None) => WindowKind::of(event),
        };
        let is_short = kind.window.is_some_and(|window| window <= SHORT) || kind.period.is_some();
        let discards = match options.attribution {
            Attribution::None => false,
            Attribution::Discard => true,
            Attribution::Auto => is_short,
        };
        let mut places = scout.places.list;
        places.sort_unstable();
        Ok(Self {
            throttles: Throttles::new(&noted.throttles),
            clock: Clock::fine(scout.times),
            times: scout.times,
            places,
            plan,
            metadata,
            kind,
            discards,
        })
    }

    fn spots(
        &self,
        state: &Sideband,
        running: &KernelIdentity,
        by: By,
        names: &mut dyn Names,
    ) -> Spots {
        state.jit_dumps.iter().for_each(|(pid, path)| names.jit_dump(*pid, path));
        let resolve = &mut |requests: &[Request<'_>]| names.resolve(requests);
        Spots::new(state, &self.metadata, running, by, self.places.clone(), resolve)
    }

    fn shared<'a>(&'a self, spots: &'a Spots, options: &Options) -> PassContext<'a> {
        let tolerance = Tolerance { length: options.length_tolerance };
        PassContext {
            judge: Judge { plan: &self.plan, throttles: &self.throttles, tolerance },
            spots,
            clock: &self.clock,
            keeps_others: !self.discards,
        }
    }

    fn finish(
        &self,
        reader: &Reader,
        loss: &StreamLoss,
        mut sums: pass::Sums,
        spots: Spots,
        options: &Options,
    ) -> Result<Windows, WindowsError> {
        let mut total = RowSums::default();
        sums.rows.iter().for_each(|row| total.merge(row));
        let cost = options.interrupt_cost;
        if let Some(mean) = total.shortest_mean().filter(|mean| cost > 0 && cost as f64 >= *mean) {
            let event = self.kind.event.clone();
            return Err(WindowsError::InterruptCost { cost, mean, event });
        }
        sums.rows.iter_mut().for_each(|row| row.less(cost));
        total.less(cost);
        let key =
            RowKey { function: None, module: None, inlined_into: None, line: None, mode: None };
        let mut rows: Vec<WindowRow> = spots
            .rows
            .into_iter()
            .zip(sums.rows)
            .map(|(key, sums)| WindowRow { key, sums })
            .filter(|row| row.sums.windows > 0)
            .collect();
        rows.sort_by(|a, b| b.windows().cmp(&a.windows()).then_with(|| a.key.cmp(&b.key)));
        let seconds = self.times.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9);
        Ok(Windows {
            kind: self.kind.clone(),
            interrupt_cost: cost,
            discards: self.discards,
            by: options.by,
            rows,
            total: WindowRow { key, sums: total },
            modules: spots.modules,
            outside: sums.outside,
            foreign: sums.foreign,
            targets: self.plan.targets.clone(),
            by_cpu: sums.by_cpu,
            seconds,
            metadata: self.metadata.clone(),
            state: reader.state(),
            lost: loss.total(self.metadata.info.as_ref(), &options.filter),
            throttled: loss.throttled(self.metadata.info.as_ref(), &options.filter),
            tally: reader.tally().clone(),
            leaders: self.plan.groups.iter().map(plan::Group::leader).collect(),
            counters: self.plan.groups.iter().map(|group| group.names.clone()).collect(),
        })
    }
}
