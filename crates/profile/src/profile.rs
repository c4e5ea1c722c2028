//! The finished answer.

use std::path::Path;
use std::sync::Arc;

use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::reader::{FileState, Metadata, Tally};
use pmuscope_stats::Interval;
use pmuscope_symbols::{BuildId, FileOrigin, KernelMatch, Module, State};

use crate::aggregate::Aggregate;
use crate::aggregate::LongPhases;
use crate::count::unwinding::{CutReason, StackSummary};
use crate::filter::Filter;
use crate::samples::Samples;
use crate::timeline::loss::{CpuLosses, Lost};
use crate::timeline::modules::ModuleKind;
use crate::views::function_table::FunctionNames;

/// What a profile should hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How many rows of functions an event has, the largest, but two where there are so many; `None` for
    /// all. See [`EventProfile::hidden`].
    pub rows: Option<usize>,
    /// Which rows of functions get an interval.
    pub intervals: Intervals,
    /// Whether functions also have what they called ([`FunctionShare::total`]); those that only called
    /// others then have rows too.
    pub totals: bool,
    /// By which share they are the largest, and in which order they come.
    pub rank: RankBy,
    /// How far places within a function are told apart in [`Profile::aggregate`].
    pub detail: Detail,
}

/// By which share functions are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RankBy {
    /// Samples in the function (self).
    #[default]
    Own,
    /// Samples in the function or in what it called (total).
    Total,
    /// The largest by either of both, ranked by own samples: up to twice as many rows.
    Either,
}

impl Options {
    /// For counts alone: nobody looks at rows.
    pub const COUNTS: Self = Self {
        rows: Some(0),
        intervals: Intervals::None,
        totals: false,
        rank: RankBy::Own,
        detail: Detail::Function,
    };
}

impl Default for Options {
    fn default() -> Self {
        let intervals = Intervals::Largest(Intervals::MOST);
        Self { rows: None, intervals, totals: false, rank: RankBy::Own, detail: Detail::Function }
    }
}

/// Which rows get an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intervals {
    /// None: nobody will see them. [`EventProfile::blocks`] still tells whether there could be any.
    None,
    /// The largest of each event, so many; it takes some 100 µs each.
    Largest(usize),
}

impl Intervals {
    /// As many as anyone looks at.
    pub const MOST: usize = 10_000;

    /// How many rows.
    pub(crate) fn rows(self) -> usize {
        match self {
            Self::None => 0,
            Self::Largest(rows) => rows,
        }
    }
}

/// How far places are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Detail {
    /// By function.
    #[default]
    Function,
    /// By source line.
    Line,
    /// By address.
    Address,
}

/// Shares of a recording's events by function.
#[derive(Debug)]
pub struct Profile {
    /// One per event, in the order of the file; without those that only carry records about processes.
    pub events: Vec<EventProfile>,
    /// What all rows are made of: every distinct stack with its counts.
    pub aggregate: Aggregate,
    /// Counts by callchain, see [`Aggregate::by_chain`].
    pub(crate) by_chain: Option<Aggregate>,
    /// The samples themselves; `None` unless [`crate::Collected::read_samples`] kept them. Filters by name leave none
    /// out.
    pub samples: Option<Samples>,
    /// All modules; rows point here.
    pub modules: Vec<ModuleSummary>,
    /// Names of functions and commands; rows point here.
    pub names: FunctionNames,
    /// Seconds: as the recorder says, else from the first to the last sample.
    pub duration_s: Option<f64>,
    /// Records lost, all events.
    pub lost: Lost,
    /// Times the kernel suspended sampling.
    pub throttled: u64,
    /// Where and when: CPUs that lost records or were throttled, in order.
    pub losses: Vec<CpuLosses>,
    /// What the file says about machine and recording.
    pub metadata: Metadata,
    /// What was asked to be left out, and how much that was; `None` where nothing was.
    pub filtered: Option<Filtered>,
    /// Samples of each event as they stand in the recording, whatever a filter leaves out. One that carries
    /// counts of a group stands for all its events here and has one event there.
    pub sampled: Vec<u64>,
    /// How the file ends.
    pub state: FileState,
    /// What was read of it, and what not.
    pub tally: Tally,
    /// Mappings, and names of threads, files and functions of the kernel, left out for want of memory.
    pub mappings_left_out: u64,
    /// Whether process 0 stands for all tasks of PID namespaces that the recorder could not see, and for the idle task.
    pub has_other_pid_namespaces: bool,
    /// Samples that count for where they were taken and not for their callers: the recording has more distinct stacks than
    /// the memory limit has room for (`pmuscope_perfdata::reader::memory_limit`).
    pub without_callers: u64,
    /// Stacks that samples carry, unwound; `None` where there are none, or none were asked for.
    pub stacks: Option<StackSummary>,
    /// The recording's kernel against the running one.
    pub kernel: KernelMatch,
    /// It holds records of where threads wait that are not shown here ([`crate::waits`]).
    pub tells_waits: bool,
}

/// What a filter did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filtered {
    /// The filter.
    pub filter: Filter,
    /// Samples of all events that it left out.
    pub left_out: u64,
}

/// Shares of one event.
#[derive(Debug, Clone)]
pub struct EventProfile {
    /// Its number in the recording, as [`crate::aggregate::SampleCell::event`].
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Samples.
    pub samples: u64,
    /// Units of the event they stand for; `None` where neither samples nor the event say it.
    pub period: Option<u64>,
    /// Samples per second asked for, if the period was to follow from it.
    pub frequency: Option<u64>,
    /// Units of the event from sample to sample, if that was fixed.
    pub fixed_period: Option<u64>,
    /// Whether shares are of the period; else of the samples.
    pub by_period: bool,
    /// Records of this event lost; `None` where that is not known apart.
    pub lost: Option<u64>,
    /// Lost records that can have been samples of this event.
    pub lost_at_most: u64,
    /// Samples by number of the CPU; empty where samples do not tell theirs.
    pub by_cpu: Vec<u64>,
    /// Blocks of time with samples, and why there is no interval where there are too few.
    pub blocks: usize,
    /// The program's phases, where they are too long for intervals from this recording.
    pub long_phases: Option<LongPhases>,
    /// The largest share first; as many as were asked for.
    pub functions: Vec<FunctionShare>,
    /// All others.
    pub hidden: HiddenRows,
    /// The largest share first; index into [`Profile::modules`].
    pub modules: Vec<ModuleShare>,
}

impl EventProfile {
    /// How small and how large a share can be, whatever the lost samples were: with `n` samples and `L`
    /// lost ones, `k` of `n` is between `k` and `k + L` of `n + L`. Lost samples are taken to weigh as
    /// the others do on average. `None` where nothing was lost.
    #[must_use]
    pub fn with_lost(&self, share: f64) -> Option<(f64, f64)> {
        with_lost(self.samples, self.lost_at_most, share)
    }

    /// Whether it is a clock that a timer of the kernel counts, not the CPU: units are nanoseconds.
    #[must_use]
    pub fn is_software_clock(&self) -> bool {
        is_software_clock(&self.name)
    }

    /// Whether units are nanoseconds: of a software clock, or time off the CPU.
    #[must_use]
    pub fn is_time(&self) -> bool {
        is_time(&self.name)
    }
}

/// [`EventProfile::is_time`] of an event of that name.
pub(crate) fn is_time(name: &str) -> bool {
    let is_off_cpu_time = name.split(':').next() == Some("offcpu-time");
    is_software_clock(name) || is_off_cpu_time || crate::waits::EVENTS.contains(&name)
}

/// [`EventProfile::is_software_clock`] of an event of that name, with modifiers or terms.
#[must_use]
pub fn is_software_clock(name: &str) -> bool {
    let event = name.split([':', '/']).next().unwrap_or_default();
    matches!(event, "cpu-clock" | "task-clock")
}

/// [`EventProfile::with_lost`] of an event with this many samples and lost ones.
#[must_use]
pub fn with_lost(samples: u64, lost: u64, share: f64) -> Option<(f64, f64)> {
    let (samples, lost) = (samples as f64, lost as f64);
    let all = samples + lost;
    (lost > 0.0).then(|| (share * samples / all, (share * samples + lost) / all))
}

/// Share of a function in a command.
#[derive(Debug, Clone, Copy)]
pub struct FunctionShare {
    pub(crate) command: u32,
    /// Index into [`Profile::modules`].
    pub module: usize,
    pub(crate) function: Option<u32>,
    /// Samples.
    pub samples: u64,
    /// Their weight, in units of the event or in samples; see [`EventProfile::by_period`].
    pub weight: u64,
    /// Of all weight of the event, 0 to 1.
    pub share: f64,
    /// 95 % interval of the share.
    pub interval: Option<Interval>,
    /// Degrees of freedom of its variance; there without an interval where phases are too long for one.
    pub freedom: Option<f64>,
    /// With what it called; `None` where [`Options::totals`] were not asked for.
    pub total: Option<Total>,
}

/// What was spent in a function or in what it called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Total {
    /// Samples.
    pub samples: u64,
    /// Of all weight of the event, 0 to 1.
    pub share: f64,
}

/// Rows that are not there one by one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HiddenRows {
    /// How many.
    pub rows: usize,
    /// Their samples.
    pub samples: u64,
    /// Of all weight of the event, 0 to 1.
    pub share: f64,
}

/// Share of a module.
#[derive(Debug, Clone, Copy)]
pub struct ModuleShare {
    /// Index into [`Profile::modules`].
    pub module: usize,
    /// Samples.
    pub samples: u64,
    /// Of them, those with a function.
    pub named: u64,
    /// Of all weight of the event, 0 to 1.
    pub share: f64,
}

/// A module and whether it has symbols.
#[derive(Debug, Clone)]
pub struct ModuleSummary {
    /// What it is.
    pub kind: ModuleKind,
    /// Path, or a name in brackets. Foreign text.
    pub path: String,
    /// Build id of the recording.
    pub build_id: Option<BuildId>,
    /// Inode, processes and copy of a file, as recorded.
    pub mapped: Option<Arc<FileOrigin>>,
    /// Whether there were symbols.
    pub symbols: State,
}

impl ModuleSummary {
    /// The module as the symbolizer wants it; `None` where symbols cannot come from anywhere.
    pub(crate) fn source(&self) -> Option<Module<'_>> {
        let Self { kind, path, build_id, mapped, .. } = self;
        kind.source(Path::new(path), build_id.as_ref(), mapped.as_deref())
    }

    /// Whether it is meant by a name: its whole path, or the last part of it.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.path == name || self.short_name() == name
    }

    /// Last part of the path.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&self.path)
    }
}

impl Profile {
    /// Counts by callchain as recorded, the basis of all views of stacks; see [`Aggregate::by_chain`].
    #[must_use]
    pub fn chains(&self) -> &Aggregate {
        self.by_chain.as_ref().unwrap_or(&self.aggregate)
    }

    /// Whether stacks are cut for this reason, `module` being that of cut marks.
    #[must_use]
    pub fn is_cut_by(&self, reason: CutReason, module: usize) -> bool {
        let name = format!("[cut: {}]", reason.words());
        let mut functions = self.aggregate.functions.iter();
        functions.any(|function| function.module as usize == module && *function.name == *name)
    }

    /// Name of a row's function; `[unknown]` if it has none. Foreign text.
    #[must_use]
    pub fn name_of(&self, row: &FunctionShare) -> &str {
        self.function_of(row).unwrap_or("[unknown]")
    }

    /// As [`FunctionNames::function_of`].
    #[must_use]
    pub fn function_of(&self, row: &FunctionShare) -> Option<&str> {
        self.names.function_of(row)
    }

    /// As [`FunctionNames::inlined_into`].
    #[must_use]
    pub fn inlined_into(&self, row: &FunctionShare) -> Option<&str> {
        self.names.inlined_into(row)
    }

    /// As [`FunctionNames::command_of`].
    #[must_use]
    pub fn command_of(&self, row: &FunctionShare) -> &str {
        self.names.command_of(row)
    }

    /// The recorder's own account, if it was pmuscope.
    #[must_use]
    pub fn info(&self) -> Option<&RecordingInfo> {
        self.metadata.info.as_ref()
    }

    /// Samples of all events, without those that were left out.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.events.iter().map(|event| event.samples).sum()
    }

    /// Samples of all events that were read, those that a filter left out too.
    #[must_use]
    pub fn samples_read(&self) -> u64 {
        self.samples() + self.filtered.as_ref().map_or(0, |filtered| filtered.left_out)
    }
}
