//! Reads a recording: in passes on several threads where it can be read from any place on, else in order.
//!
//! ```text
//!  in passes   sideband, by time ─► Tasks, with their past ─► History ◄─ asks ── one per thread:
//!              samples, in no order ──────────────────────────────────► Marker: distinct places
//!                   … places get names …
//!              the same samples once more ────────────────────────────► Counter, by stack
//!       or     samples with stacks to be unwound ─────────────────────► Counter, by call chain
//!  in order    sideband ─► Tasks as they are now ◄── asks ── Counter, by call chain or place
//!              samples ─────────────────────────────────────►┘
//! ```
//! All come to the same: what is counted does not depend on the way or on the number of threads. The third
//! pass is worth it because functions are far fewer than addresses: what it counts stays in the cache.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use pmuscope_perfdata::reader::scan::{Index, Pieces, RecordOrder, SampleFields, Visitor};
use pmuscope_perfdata::reader::{
    CountKey, Entry, Event, Metadata, ReadError, Reader, Record, Sample, SampledCounts,
};

use crate::count::address_to_stack::AddressToStack;
use crate::count::counter::{Counter, Counting, Counts, GroupBy};
use crate::count::sampled_addresses::{Marker, SampledAddresses};
use crate::count::task_cache::TaskCache;
use crate::count::unwinding::{Tables, UnwindFacts, Unwinding, Walker};
use crate::filter::Filter;
use crate::pool::in_parallel;
use crate::timeline::blocks::Clock;
use crate::timeline::lookup::{Current, History};
use crate::timeline::loss::StreamLoss;
use crate::timeline::modules::Modules;
use crate::timeline::tasks::{CommId, Tasks};

/// What a recording holds, before addresses have names.
#[derive(Debug)]
pub struct Collected {
    pub(crate) state: Sideband,
    pub(crate) counted: CountState,
    pub(crate) clock: Clock,
    pub(crate) filter: Filter,
}

/// How far counting is.
#[derive(Debug)]
pub(crate) enum CountState {
    /// All is counted, by chain or place.
    All(Vec<Counts>),
    /// Places are known; samples are counted when these have names.
    Places(Vec<SampledAddresses>, Box<Again>),
}

/// What goes over the samples.
#[derive(Debug)]
pub(crate) struct Again {
    index: Index,
    /// When each change of [`Sideband::tasks`] happened.
    moments: Vec<RecordOrder>,
    counting: Counting,
    has_period: Vec<bool>,
    counts: SampledCounts,
    nameless: CommId,
    clock: Clock,
    threads: usize,
}

/// What records besides samples tell.
#[derive(Debug, Default)]
pub(crate) struct Sideband {
    pub(crate) tasks: Tasks,
    pub(crate) modules: Modules,
    pub(crate) loss: StreamLoss,
    /// Where the kernel's text lay: the address of `_text` or `_stext`.
    pub(crate) kernel_text: Option<u64>,
    /// Files that runtimes mapped to tell where they describe their code, with the process.
    pub(crate) jit_dumps: BTreeSet<(i32, PathBuf)>,
}

impl Collected {
    /// Reads all records that are left, on all CPUs, and tells apart only commands and addresses.
    ///
    /// # Errors
    /// Those of [`Collected::read`].
    pub fn from_reader(reader: &mut Reader) -> Result<Self, ReadError> {
        Self::read(reader, GroupBy::default(), available_threads(), None)
    }

    /// Reads all records that are left, on up to `threads` threads. Stacks that samples carry are
    /// unwound where call chains are told apart and `unwinding` says by what.
    ///
    /// # Errors
    /// If the operating system fails to read.
    pub fn read(
        reader: &mut Reader,
        counting: impl Into<Counting>,
        threads: usize,
        unwinding: Option<Unwinding<'_>>,
    ) -> Result<Self, ReadError> {
        Self::read_in(reader, counting, threads, unwinding, Pieces::default())
    }

    /// As [`Collected::read`], in pieces of other sizes.
    ///
    /// # Errors
    /// If the operating system fails to read.
    pub fn read_in(
        reader: &mut Reader,
        counting: impl Into<Counting>,
        threads: usize,
        unwinding: Option<Unwinding<'_>>,
        pieces: Pieces,
    ) -> Result<Self, ReadError> {
        let counting = counting.into();
        let has_stacks = reader.events().iter().any(Event::has_stacks);
        let unwinding = unwinding.filter(|_| counting.apart.chains && has_stacks);
        match reader.index_with_counts(threads, pieces)? {
            Some(index) => Self::in_passes(reader, index, counting, threads, unwinding),
            None => Self::in_order(reader, counting, unwinding),
        }
    }

    /// Reads all records that are left, one after another.
    ///
    /// # Errors
    /// Those of [`Reader::next`].
    pub fn in_order(
        reader: &mut Reader,
        counting: impl Into<Counting>,
        unwinding: Option<Unwinding<'_>>,
    ) -> Result<Self, ReadError> {
        let mut ordered = InOrder::new(&has_period(reader), counting);
        if let Some(unwinding) = unwinding {
            ordered.unwind(unwinding);
        }
        loop {
            ordered.tell(reader.metadata());
            match reader.has_windows() {
                true => ordered.set_counts(None),
                false => ordered.learn(reader.events(), reader.ids()),
            }
            let Some(entry) = reader.next()? else { break };
            ordered.take_entry(&entry);
        }
        Ok(ordered.finish())
    }

    fn in_passes(
        reader: &mut Reader,
        mut index: Index,
        mut counting: Counting,
        threads: usize,
        unwinding: Option<Unwinding<'_>>,
    ) -> Result<Self, ReadError> {
        let has_period = has_period(reader);
        // A chain of nothing but the sample's own place is that place.
        let has_callers = |event: &Event| event.has_chains() || event.has_stacks();
        counting.apart.chains &= reader.events().iter().any(has_callers);
        let mut state = Sideband { tasks: Tasks::new(true), ..Sideband::default() };
        let nameless = nameless(&mut state.tasks);
        let mut moments = Vec::new();
        reader.replay(&mut index, |moment, entry| {
            let before = state.tasks.epoch();
            state.loss.take(entry);
            state.take(&entry.record);
            moments.extend((state.tasks.epoch() != before).then_some(moment));
        })?;
        let near = |time| counting.filter.nearest(time);
        let clock = Clock::of(index.times().map(|(first, last)| (near(first), near(last))));
        let filter = counting.filter.clone();
        let counts = match reader.has_windows() {
            true => SampledCounts::default(),
            false => SampledCounts::new(reader.events()),
        };
        let again = Again {
            index,
            moments,
            counting,
            has_period,
            counts,
            nameless,
            clock: clock.clone(),
            threads,
        };
        let counted = match unwinding.filter(|_| again.counting.apart.chains) {
            // To unwind takes longer than all else: once has to do.
            Some(unwinding) => {
                let facts = UnwindFacts::new(reader.metadata(), &state, &unwinding);
                let tables = Tables::new(unwinding);
                CountState::All(again.unwind(&state, &Arc::new(tables), &Arc::new(facts))?)
            }
            None => CountState::Places(again.mark(&state)?, Box::new(again)),
        };
        Ok(Self { state, counted, clock, filter })
    }
}

impl Again {
    /// Which places have samples.
    fn mark(&self, state: &Sideband) -> Result<Vec<SampledAddresses>, ReadError> {
        let marker = || Marker::new(self.who());
        let take = |marker: &mut Marker, past: &History<'_>, at, hit: &SampleFields<'_>| {
            marker.sample(past, at, hit);
        };
        Ok(self.visit(state, marker, take)?.into_iter().map(Marker::finish).collect())
    }

    /// Counts by chain, unwinding stacks.
    fn unwind(
        &self,
        state: &Sideband,
        tables: &Arc<Tables<'_>>,
        facts: &Arc<UnwindFacts>,
    ) -> Result<Vec<Counts>, ReadError> {
        let counter = || {
            let mut counter = Counter::new(self.who(), &self.has_period, self.clock.clone());
            counter.set_walker(Walker::new(Arc::clone(tables), Arc::clone(facts)));
            counter
        };
        self.count(state, counter)
    }

    /// Counts by stack: what places come to is known.
    pub(crate) fn count_located(
        &self,
        state: &Sideband,
        located: &AddressToStack,
    ) -> Result<Vec<Counts>, ReadError> {
        let clock = || self.clock.clone();
        let counter = || Counter::of_located(self.who(), &self.has_period, clock(), located);
        self.count(state, counter)
    }

    fn who(&self) -> TaskCache {
        TaskCache::new(&self.counting, self.nameless)
    }

    fn count<'c>(
        &self,
        state: &Sideband,
        counter: impl FnMut() -> Counter<'c>,
    ) -> Result<Vec<Counts>, ReadError> {
        let take = |counter: &mut Counter<'c>,
                    past: &History<'_>,
                    at: RecordOrder,
                    hit: &SampleFields<'_>| {
            counter.sample(past, at, hit, Some(at.time));
        };
        let counters = self.visit(state, counter, take)?;
        Ok(in_parallel(counters, Counter::finish))
    }

    /// Hands all samples to visitors, one for each thread.
    fn visit<V: TakesCounts + Send>(
        &self,
        state: &Sideband,
        mut visitor: impl FnMut() -> V,
        take: impl Fn(&mut V, &History<'_>, RecordOrder, &SampleFields<'_>) + Copy + Send,
    ) -> Result<Vec<V>, ReadError> {
        let mut visitor = || {
            let mut visitor = visitor();
            *visitor.counts() =
                Some(self.counts.clone()).filter(SampledCounts::reads_any).map(Box::new);
            visitor
        };
        let past = History::new(&state.tasks, &state.modules, &self.moments);
        let threads = self.threads.clamp(1, self.index.chunks());
        let visitors =
            (0..threads).map(|_| SampledEvents { past: &past, visitor: visitor(), take });
        let visited = self.index.visit(visitors.collect())?;
        Ok(visited.into_iter().map(|sampling| sampling.visitor).collect())
    }
}

/// CPUs that this program may use.
#[must_use]
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

pub(crate) fn has_period(reader: &Reader) -> Vec<bool> {
    let has_windows = reader.has_windows();
    let one = |event: &Event| event.has_period() || event.has_counts() && !has_windows;
    reader.events().iter().map(one).collect()
}

/// The name of samples that do not tell their thread.
fn nameless(tasks: &mut Tasks) -> CommId {
    tasks.intern(b"-")
}

struct SampledEvents<'a, V, T> {
    past: &'a History<'a>,
    visitor: V,
    take: T,
}

/// What makes samples of the counts that samples carry.
trait TakesCounts {
    fn counts(&mut self) -> &mut Option<Box<SampledCounts>>;
}

impl TakesCounts for Marker {
    fn counts(&mut self) -> &mut Option<Box<SampledCounts>> {
        &mut self.counts
    }
}

impl TakesCounts for Counter<'_> {
    fn counts(&mut self) -> &mut Option<Box<SampledCounts>> {
        self.counts()
    }
}

impl<V, T> Visitor for SampledEvents<'_, V, T>
where
    V: TakesCounts + Send,
    T: Fn(&mut V, &History<'_>, RecordOrder, &SampleFields<'_>) + Send,
{
    fn resume(&mut self, counts: &[(CountKey, u64)]) {
        if let Some(own) = self.visitor.counts() {
            own.resume(counts);
        }
    }

    #[inline]
    fn sample(&mut self, moment: RecordOrder, hit: &SampleFields<'_>) {
        (self.take)(&mut self.visitor, self.past, moment, hit);
    }
}

/// Takes records in the order of time.
#[derive(Debug)]
pub(crate) struct InOrder<'u> {
    state: Sideband,
    filter: Filter,
    counter: Counter<'u>,
    chain: Vec<[u8; 8]>,
    /// Events whose samples are known to carry counts or not.
    events: usize,
}

impl<'u> InOrder<'u> {
    /// One entry per event: whether its samples carry periods.
    pub(crate) fn new(has_period: &[bool], counting: impl Into<Counting>) -> Self {
        Self::going_on(Sideband::default(), has_period, counting)
    }

    /// The same, where records were taken before: nothing is counted yet, but who runs what is known.
    pub(crate) fn going_on(
        mut state: Sideband,
        has_period: &[bool],
        counting: impl Into<Counting>,
    ) -> Self {
        let counting = counting.into();
        let nameless = nameless(&mut state.tasks);
        let who = TaskCache::new(&counting, nameless);
        let counter = Counter::new(who, has_period, Clock::default());
        Self { state, filter: counting.filter, counter, chain: Vec::new(), events: 0 }
    }

    /// Stacks are to be unwound.
    pub(crate) fn unwind(&mut self, unwinding: Unwinding<'u>) {
        let tables = Arc::new(Tables::new(unwinding));
        self.counter.set_walker(Walker::new(tables, Arc::default()));
    }

    /// Takes what has been said of events until now: samples are made of the counts that theirs carry.
    pub(crate) fn learn(&mut self, events: &[Event], ids: usize) {
        let is_known = std::mem::replace(&mut self.events, events.len()) == events.len();
        match self.counter.counts() {
            Some(counts) => counts.learn(events, ids),
            None if is_known => {}
            None => self.counter.set_counts(SampledCounts::new(events)),
        }
    }

    /// What counts were when they were read last.
    pub(crate) fn take_counts(&mut self) -> Option<Box<SampledCounts>> {
        self.counter.counts().take()
    }

    /// Goes on with what [`InOrder::take_counts`] has left.
    pub(crate) fn set_counts(&mut self, counts: Option<Box<SampledCounts>>) {
        *self.counter.counts() = counts;
    }

    /// Takes what the file has said about itself until now.
    pub(crate) fn tell(&mut self, metadata: &Metadata) {
        if let Some(walker) = self.counter.walker() {
            walker.tell(metadata, &self.state);
        }
    }

    pub(crate) fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Sample(sample) => self.sample(sample),
            other => self.state.take(other),
        }
    }

    /// Takes a record that may tell of a loss, too.
    pub(crate) fn take_entry(&mut self, entry: &Entry<'_>) {
        self.state.loss.take(entry);
        self.take(&entry.record);
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.chain.clear();
        self.chain.extend(sample.callchain.iter().map(u64::to_ne_bytes));
        let user = sample.tail.with_stack();
        let hit = SampleFields { chain: &self.chain, user, ..SampleFields::of(sample) };
        let now = Current { tasks: &self.state.tasks, modules: &self.state.modules };
        self.counter.sample(&now, (), &hit, sample.time);
    }

    pub(crate) fn finish(self) -> Collected {
        let counts = self.counter.finish();
        let (state, filter, clock) = (self.state, self.filter, counts.clock.clone());
        Collected { state, clock, counted: CountState::All(vec![counts]), filter }
    }
}

impl Sideband {
    /// What a record besides samples changes.
    pub(crate) fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Mmap(mmap) => {
                if mmap.kernel && mmap.path.starts_with(b"[kernel.kallsyms]_") && mmap.offset != 0 {
                    self.kernel_text.get_or_insert(mmap.offset);
                }
                if is_jit_dump(mmap.path) {
                    let dump = (mmap.pid, PathBuf::from(OsStr::from_bytes(mmap.path)));
                    if self.jit_dumps.len() < MOST_JIT_DUMPS {
                        self.jit_dumps.insert(dump);
                    }
                }
                self.tasks.on_mmap(mmap, &mut self.modules);
            }
            Record::Comm(comm) => self.tasks.on_comm(comm),
            Record::Fork(task) => self.tasks.on_fork(task),
            Record::Exit(task) => self.tasks.on_exit(task),
            Record::Ksymbol(function) => self.tasks.on_ksymbol(function),
            _ => {}
        }
    }
}

/// A machine has few processes that write one.
const MOST_JIT_DUMPS: usize = 10_000;

fn is_jit_dump(path: &[u8]) -> bool {
    // The end first: to look for the start of a name goes over all of it.
    path.ends_with(b".dump")
        && path.rsplit(|&byte| byte == b'/').next().is_some_and(|name| name.starts_with(b"jit-"))
}

impl Collected {
    /// What was counted so far.
    pub(crate) fn counts(&self) -> &[Counts] {
        match &self.counted {
            CountState::All(counts) => counts,
            CountState::Places(..) => &[],
        }
    }

    /// Number of blocks that intervals may be made of; 0 if some samples have no time.
    pub(crate) fn blocks(&self) -> usize {
        if self.counts().iter().any(|counts| counts.untimed > 0) { 0 } else { self.clock.len() }
    }

    /// Descriptions of code made at run time, as runtimes mark them by mapping them: process, path.
    pub fn jit_dumps(&self) -> impl Iterator<Item = &(i32, PathBuf)> {
        self.state.jit_dumps.iter()
    }
}
