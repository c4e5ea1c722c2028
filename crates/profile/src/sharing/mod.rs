//! Cache lines that threads fight over, from samples of memory accesses: who, which bytes, from where, at what cost.
//!
//! A load of a line that another core has modified (HITM) waits for that core's cache. Samples of such loads name the
//! line; all samples of the line, stores too, name those who take part:
//!
//! ```text
//!  first time over the samples     contended loads ─► cost by line ─► rank
//!  second time                     all accesses of the first lines ─► cells: line, offset, code, thread, CPU
//!  then                            code and variables get names; cells add up to rows; each line gets a verdict
//! ```
//! Memory follows from contended lines and from what differs among their accesses, not from samples, but for 4 bytes of
//! each contended load.
//!
//! A number of samples depends on what the PMU samples: PEBS loads that took longer than a limit, and stores by another
//! event; IBS and SPE all operations. Shares are of loads that could have been sampled.

mod advice;
mod arrange;
mod by_code;
mod detail;
mod diff;
mod heap;
mod key;
mod lines;
mod pairs;
mod ranking;
mod sums;
mod verdict;
mod watched;

use std::path::PathBuf;
use std::sync::Arc;

use pmuscope_abi::SampleType;
use pmuscope_perfdata::reader::scan::Pieces;
use pmuscope_perfdata::reader::{Entry, Event, ReadError, Record, RecordingFile};
use pmuscope_stats::{Estimate, Interval};
use pmuscope_symbols::{KernelIdentity, Request, Resolved, Symbolizer};
use rustc_hash::{FxHashMap, FxHashSet};
use thiserror::Error;

use crate::facts::EventFacts;
use crate::filter::Filter;
use crate::heap::has_allocations;
use crate::hits::{Site, Thread};
use crate::timeline::areas::Areas;
use crate::timeline::blocks::Clock;
use crate::timeline::sideband::Sideband;
use crate::timeline::visit::{InOrder, Passes};

use detail::{Detailing, LineDetails};
use heap::HeapNaming;
use key::{LineFinder, LineKey, SharedFiles};
use ranking::{AccessReader, LineCost, Ranking};

pub use advice::{AdvisedObject, LineAdvice, NodePlacement, SharingAdvice};
pub use arrange::{Arrangement, PlacedField};
pub use by_code::FieldsByCode;
pub use diff::{SharingChange, SharingDiff};
pub use heap::{LineHeapObject, SharedHeap};
pub use pairs::LinePair;
pub use pmuscope_symbols::definitions::{ArrayLayout, FieldRole, LayoutField, TypeLayout};
pub use ranking::SampledMemory;
pub use sums::AccessSums;
pub use verdict::LineVerdict;
pub use watched::{WatchDoubt, WatchedAccess, WatchedLine, WatchedWord};

/// Lines that are looked at more closely.
const MOST_LINES: usize = 1024;
/// Lines in which fields of variables are looked for: that takes a walk over debug information for each variable.
const MOST_WITH_FIELDS: usize = 64;

/// How a recording is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which samples count.
    pub filter: Filter,
    /// Bytes of a cache line, a power of two up to 65,536.
    pub line_bytes: u32,
    /// Whether lines are those of physical addresses: memory that processes share is one, also without a file.
    pub physical: bool,
    /// Lines with a smaller share of what all contended loads cost are only counted, 0 to 1.
    pub least_share: f64,
    /// Threads.
    pub threads: usize,
    /// Sizes of what threads take at once.
    pub pieces: Pieces,
}

/// Why there are no lines.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SharingError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It has to be gone over twice.
    #[error(
        "shared cache lines cannot be read from standard input, as they take two passes. Try: save the stream to a \
         file first"
    )]
    Stream,
    /// No event records physical addresses.
    #[error(
        "{path}: no physical addresses were recorded. Try: pmuscope record --sharing --phys-data -- CMD, or sharing without \
         --physical"
    )]
    NoPhysical {
        /// The recording.
        path: PathBuf,
    },
    /// No event records what is needed.
    #[error(
        "{path}: no shared cache lines: its samples have no data addresses with data sources. Try: pmuscope record \
         --sharing -- CMD; on a CPU without PEBS or IBS, pmuscope watch"
    )]
    NoSources {
        /// The recording.
        path: PathBuf,
    },
}

/// What a recording says of lines.
#[derive(Debug)]
pub struct SharedLines {
    /// Contended lines, the most expensive first.
    pub lines: Vec<SharedLine>,
    /// Contended lines that are not among them.
    pub further_lines: usize,
    /// All accesses.
    pub memory: SampledMemory,
    /// Memory without variables, whose fields the code names.
    pub by_code: FieldsByCode,
    /// Heap objects by allocation site; `None` where allocations were not recorded.
    pub heap: Option<SharedHeap>,
    /// Places in code; rows point here.
    pub sites: Vec<Site>,
    /// Threads; rows point here.
    pub threads: Vec<Thread>,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Whether lines are those of physical addresses.
    pub physical: bool,
    /// Seconds from the first to the last access.
    pub seconds: f64,
    /// What contended loads cost per second ([`AccessSums::cost`]; their number where none has a latency), with the interval
    /// over blocks of time; `None` without times.
    pub cost_per_s: Option<Estimate>,
}

/// A line.
#[derive(Debug, Clone)]
pub struct SharedLine {
    /// Address of its first byte, where one process or the kernel has it; in a shared file, of the mapping that is
    /// lowest.
    pub address: u64,
    /// The process that has the memory; `None` of the kernel's, of a file that processes share, and of lines by physical
    /// address.
    pub pid: Option<i32>,
    /// Physical address of its first byte, where lines are by that.
    pub physical: Option<u64>,
    /// Where processes have it, in order, of lines by physical address: those that were sampled.
    pub mappings: Vec<LineMapping>,
    /// Where its memory is.
    pub page: LinePage,
    /// Whether it is the kernel's.
    pub in_kernel: bool,
    /// Path of the file, or a name in brackets: `[heap]`, `[stack]`. Foreign text.
    pub module: Arc<str>,
    /// All accesses.
    pub sums: AccessSums,
    /// 95 % interval of its share of what all contended loads cost; `None` where too few blocks of time have some.
    pub interval: Option<Interval>,
    /// See [`SharedLines::cost_per_s`].
    pub cost_per_s: Option<Estimate>,
    /// What goes on.
    pub verdict: LineVerdict,
    /// Where in the line it was accessed, in order.
    pub offsets: Vec<LineOffset>,
    /// By offset and code, the most expensive of each offset first.
    pub rows: Vec<LineRow>,
    /// Code that loaded and code that had written, an estimate: the pairs with the most loads first, 256 at most.
    pub pairs: Vec<LinePair>,
    /// Threads with their accesses, the most accesses first: position in [`SharedLines::threads`].
    pub threads: Vec<(u32, AccessSums)>,
    /// CPUs with their accesses, in order; `None`: samples that do not say it.
    pub cpus: Vec<(Option<u32>, AccessSums)>,
    /// Objects on the heap that were accessed in it, by address; empty where allocations were not recorded.
    pub heap_objects: Vec<LineHeapObject>,
    /// What can be done about it, the most important first.
    pub advice: Vec<LineAdvice>,
}

/// The physical memory of a line, as far as accesses say where it is (`record --phys-data`, `perf c2c record`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinePage {
    /// NUMA nodes that had it, with the accesses sampled there, the most first; `None`: the recording does not say which
    /// node has that memory.
    pub nodes: Vec<(Option<u32>, u64)>,
    /// Pages of physical memory that it was in, one after the other or, where processes have copies, at the same time: if
    /// it has one owner, it was moved or copied one time less, or more often.
    pub places: u32,
}

/// A line in an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineMapping {
    /// The process; `None` of the kernel.
    pub pid: Option<i32>,
    /// Virtual address of the line's first byte.
    pub address: u64,
}

/// An offset in a line.
#[derive(Debug, Clone)]
pub struct LineOffset {
    /// Bytes from the first byte of the line.
    pub offset: u32,
    /// The variable there; `None` where no symbol table names one. Foreign text.
    pub object: Option<Arc<str>>,
    /// The type of the object there, where no variable is: from the code that accesses it; `None` where nothing says it.
    /// Foreign text.
    pub type_name: Option<Arc<str>>,
    /// The field of the variable or object, as `.head` or `[3].next` after its name; `None` where debug information does
    /// not have it, and for the whole of it. Foreign text.
    pub field: Option<Arc<str>>,
    /// How far into the variable it is, bytes; `None` where that is not known, as of the kernel's.
    pub within: Option<u64>,
    /// The object on the heap that is there: position in [`SharedLine::heap_objects`]. Of several that were there one
    /// after the other it is that with the most accesses.
    pub heap_object: Option<u32>,
    /// Where the word begins that the offset is in, for the verdict: the field, or the offset itself.
    pub word: u32,
    /// Accesses.
    pub sums: AccessSums,
    /// How long nine in ten contended loads took at most; `None` where fewer than ten say.
    pub contended_p90: Option<u64>,
}

/// Accesses to an offset from one place in code.
#[derive(Debug, Clone)]
pub struct LineRow {
    /// See [`LineOffset::offset`].
    pub offset: u32,
    /// Position in [`SharedLines::sites`].
    pub site: u32,
    /// Accesses.
    pub sums: AccessSums,
    /// Threads, in order: position in [`SharedLines::threads`].
    pub threads: Vec<u32>,
    /// CPUs, in order.
    pub cpus: Vec<u32>,
}

/// What records besides samples say of memory.
#[derive(Debug, Default)]
struct NotedMemory {
    areas: Areas,
    /// Paths of files that are mapped `MAP_SHARED`.
    shared: FxHashSet<Vec<u8>>,
}

/// `MAP_SHARED`, `MAP_SHARED_VALIDATE`.
const MAP_SHARED: u32 = 1;

impl NotedMemory {
    fn note(&mut self, entry: &Entry<'_>) {
        self.areas.see(&entry.record);
        if let Record::Mmap(mmap) = &entry.record
            && mmap.protection.is_some_and(|(_, flags)| flags & MAP_SHARED != 0)
        {
            self.shared.insert(mmap.path.to_vec());
        }
    }
}

/// What is the same for all samples of an event.
#[derive(Debug, Clone, Copy)]
struct EventSampling {
    /// The period that its samples stand for, where they do not say it.
    period: u64,
    /// Its samples say whether their addresses of code are exact.
    is_precise: bool,
}

fn sampling(events: &[Event]) -> Vec<EventSampling> {
    let one = |event: &Event| EventSampling {
        period: EventFacts::from(event).fixed_period.unwrap_or(1),
        is_precise: event.attr.precise_ip > 0,
    };
    events.iter().map(one).collect()
}

impl SharedLines {
    /// Reads a recording. `running` is the kernel this program runs on.
    ///
    /// # Errors
    /// See [`SharingError`].
    pub fn read(
        recording: &RecordingFile,
        options: &Options,
        running: &KernelIdentity,
        symbolizer: &mut Symbolizer,
    ) -> Result<Self, SharingError> {
        if recording.is_stream() {
            return Err(SharingError::Stream);
        }
        let mut reader = recording.reader()?;
        if !reader.events().iter().any(Event::has_data_sources) {
            return Err(SharingError::NoSources { path: recording.path().to_owned() });
        }
        let has_physical = |event: &Event| event.attr.sample_type.contains(SampleType::PHYS_ADDR);
        if options.physical && !reader.events().iter().any(has_physical) {
            return Err(SharingError::NoPhysical { path: recording.path().to_owned() });
        }
        let sampling = sampling(reader.events());
        let heap_pass = HeapNaming {
            recording,
            options,
            running,
            sampling: &sampling,
            is_recorded: has_allocations(reader.events()),
        };
        let mut noted = NotedMemory::default();
        let index = reader.index_in(options.threads.max(1), options.pieces)?;
        let access = || AccessReader::new(&options.filter, &sampling);
        let Some(index) = index else {
            let mut before = InOrder::after(Sideband::default(), Unvisited);
            before.read(&mut reader, |entry| noted.note(entry))?;
            let shared = SharedFiles::new(&noted.shared, &before.state.modules);
            let finder = || LineFinder::new(&shared, options.line_bytes, options.physical);
            let first = Ranking::new(access(), finder());
            let mut first = InOrder::after(Sideband::default(), first);
            first.read(&mut recording.reader()?, |_| {})?;
            let ranked = Ranked::new(first.visitor, options.least_share);
            let second = Detailing::new(access(), finder(), &ranked.numbers, ranked.blocks());
            let mut second = InOrder::after(Sideband::default(), second);
            second.read(&mut recording.reader()?, |_| {})?;
            let found = second.visitor.finish();
            let (metadata, state) = (reader.metadata(), &second.state);
            let naming =
                lines::LineNaming { state, metadata, running, symbolizer, areas: &noted.areas };
            let addresses = heap::addresses(&ranked, &found, options.line_bytes);
            let lines = lines::lines(&ranked, found, naming, options);
            return heap_pass.name(lines, (&ranked, addresses), symbolizer);
        };
        let (passes, state) =
            Passes::new(&mut reader, index, options.threads, |entry| noted.note(entry))?;
        let shared = SharedFiles::new(&noted.shared, &state.modules);
        let finder = || LineFinder::new(&shared, options.line_bytes, options.physical);
        let mut first = passes.visit(&state, || Ranking::new(access(), finder()))?.into_iter();
        let mut ranking = first.next().unwrap_or_else(|| Ranking::new(access(), finder()));
        first.for_each(|other| ranking.merge(other));
        let ranked = Ranked::new(ranking, options.least_share);
        let second = || Detailing::new(access(), finder(), &ranked.numbers, ranked.blocks());
        let mut found: Option<LineDetails> = None;
        for one in passes.visit(&state, second)? {
            let one = one.finish();
            match &mut found {
                Some(found) => found.merge(one),
                None => found = Some(one),
            }
        }
        let found = found.unwrap_or_default();
        let metadata = reader.metadata();
        let naming =
            lines::LineNaming { state: &state, metadata, running, symbolizer, areas: &noted.areas };
        let addresses = heap::addresses(&ranked, &found, options.line_bytes);
        let lines = lines::lines(&ranked, found, naming, options);
        heap_pass.name(lines, (&ranked, addresses), symbolizer)
    }
}

/// Only who runs what is of interest.
struct Unvisited;

impl crate::timeline::visit::SampleVisitor for Unvisited {
    const SPLITS_COUNTS: bool = false;

    fn sample<L: crate::timeline::lookup::Lookup>(
        &mut self,
        _: &L,
        _: L::At,
        _: &pmuscope_perfdata::reader::scan::SampleFields<'_>,
        _: Option<u64>,
    ) {
    }
}

/// Lines in the order of what they cost.
#[derive(Debug)]
struct Ranked {
    keys: Vec<LineKey>,
    numbers: FxHashMap<LineKey, u32>,
    further: usize,
    memory: SampledMemory,
    clock: Clock,
    times: Option<(u64, u64)>,
}

impl Ranked {
    fn new(ranking: Ranking<'_>, least_share: f64) -> Self {
        let Ranking { lines, memory, times, .. } = ranking;
        let mut all: Vec<(LineCost, LineKey)> =
            lines.into_iter().map(|(key, cost)| (cost, key)).collect();
        all.sort_unstable_by(|(a, one), (b, other)| b.cmp(a).then(one.cmp(other)));
        let (total, has_cost) = (&memory.sums, memory.sums.cost > 0);
        let share = |line: &LineCost| match has_cost {
            true => line.cost as f64 / total.cost as f64,
            false => line.contended as f64 / total.contended().max(1) as f64,
        };
        let large = all.partition_point(|(line, _)| share(line) >= least_share);
        let further = all.len() - large.min(MOST_LINES);
        all.truncate(large.min(MOST_LINES));
        let keys: Vec<LineKey> = all.into_iter().map(|(_, key)| key).collect();
        let numbers = keys.iter().copied().zip(0..).collect();
        Self { keys, numbers, further, memory, clock: Clock::of(times), times }
    }

    /// How costs are kept by time.
    fn blocks(&self) -> (&Clock, bool) {
        (&self.clock, self.memory.sums.cost > 0)
    }
}

/// Looks up code.
fn resolve<'a>(symbolizer: &'a mut Symbolizer) -> impl FnMut(&[Request<'_>]) -> Vec<Resolved> + 'a {
    |requests| symbolizer.resolve_all(requests)
}
