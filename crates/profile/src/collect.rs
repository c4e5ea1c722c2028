//! Reads a recording: in two passes on several threads where it can be read from any place on, else
//! in order.
//!
//! ```text
//!  two passes   sideband, by time ─► Tasks, with their past ─► Past ◄── asks ── Counter, one per thread
//!               samples, in no order ───────────────────────────────────────────►┘
//!  in order     sideband ─► Tasks as they are now ◄── asks ── Counter
//!               samples ─────────────────────────────────────►┘
//! ```
//! Both come to the same: what is counted does not depend on the way or on the number of threads.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use pmuscope_perfdata::reader::scan::{Hit, Index, Moment, Pieces, Visitor};
use pmuscope_perfdata::reader::{Event, Metadata, ReadError, Reader, Record, Sample};

use crate::blocks::Clock;
use crate::counter::{Apart, Counter, Counting, Counts};
use crate::filter::Filter;
use crate::lookup::{Past, Present};
use crate::loss::StreamLoss;
use crate::modules::Modules;
use crate::tasks::{CommId, Tasks};
use crate::unwinding::{Facts, Tables, Unwinding, Walker};

/// What a recording holds, before addresses have names.
#[derive(Debug)]
pub struct Collected {
    pub(crate) state: State,
    pub(crate) counts: Vec<Counts>,
    pub(crate) clock: Clock,
    pub(crate) filter: Filter,
}

/// What records besides samples tell.
#[derive(Debug, Default)]
pub(crate) struct State {
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
        Self::read(reader, Apart::default(), available_threads(), None)
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
        match reader.index_in(threads, pieces)? {
            Some(index) => Self::in_two_passes(reader, index, counting, threads, unwinding),
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
            let Some(entry) = reader.next()? else { break };
            ordered.state.loss.take(&entry);
            ordered.take(&entry.record);
        }
        Ok(ordered.finish())
    }

    fn in_two_passes(
        reader: &mut Reader,
        mut index: Index,
        counting: Counting,
        threads: usize,
        unwinding: Option<Unwinding<'_>>,
    ) -> Result<Self, ReadError> {
        let has_period = has_period(reader);
        let mut state = State { tasks: Tasks::new(true), ..State::default() };
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
        let past = Past::new(&state.tasks, &state.modules, &moments);
        let tables = unwinding.map(|unwinding| {
            let facts = Facts::new(reader.metadata(), &state, &unwinding);
            (Arc::new(Tables::new(unwinding)), Arc::new(facts))
        });
        let sampling = |_| {
            let shared = tables.as_ref();
            let walker = shared.map(|(one, two)| Walker::new(Arc::clone(one), Arc::clone(two)));
            let counter = Counter::new(&counting, &has_period, nameless, clock.clone(), walker);
            Sampling { past: &past, counter }
        };
        let visitors = (0..threads.clamp(1, index.chunks())).map(sampling).collect();
        let visited = index.visit(visitors)?;
        let counts = std::thread::scope(|scope| {
            let finishing: Vec<_> = visited
                .into_iter()
                .map(|sampling| scope.spawn(|| sampling.counter.finish()))
                .collect();
            let joined = |thread: ScopedJoinHandle<'_, Counts>| thread.join();
            let counts: Result<Vec<Counts>, _> = finishing.into_iter().map(joined).collect();
            counts.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        Ok(Self { state, counts, clock, filter: counting.filter })
    }
}

/// CPUs that this program may use.
#[must_use]
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn has_period(reader: &Reader) -> Vec<bool> {
    reader.events().iter().map(pmuscope_perfdata::reader::Event::has_period).collect()
}

/// The name of samples that do not tell their thread.
fn nameless(tasks: &mut Tasks) -> CommId {
    tasks.intern(b"-")
}

struct Sampling<'a, 'u> {
    past: &'a Past<'a>,
    counter: Counter<'u>,
}

impl Visitor for Sampling<'_, '_> {
    #[inline]
    fn sample(&mut self, moment: Moment, hit: &Hit<'_>) {
        self.counter.sample(self.past, moment, hit, Some(hit.time));
    }
}

/// Takes records in the order of time.
#[derive(Debug)]
pub(crate) struct InOrder<'u> {
    state: State,
    filter: Filter,
    counter: Counter<'u>,
    chain: Vec<[u8; 8]>,
}

impl<'u> InOrder<'u> {
    /// One entry per event: whether its samples carry periods.
    pub(crate) fn new(has_period: &[bool], counting: impl Into<Counting>) -> Self {
        let counting = counting.into();
        let mut state = State::default();
        let nameless = nameless(&mut state.tasks);
        let counter = Counter::new(&counting, has_period, nameless, Clock::default(), None);
        Self { state, filter: counting.filter, counter, chain: Vec::new() }
    }

    /// Stacks are to be unwound.
    pub(crate) fn unwind(&mut self, unwinding: Unwinding<'u>) {
        let tables = Arc::new(Tables::new(unwinding));
        self.counter.walker = Some(Walker::new(tables, Arc::default()));
    }

    /// Takes what the file has said about itself until now.
    pub(crate) fn tell(&mut self, metadata: &Metadata) {
        if let Some(walker) = &mut self.counter.walker {
            walker.tell(metadata, &self.state);
        }
    }

    pub(crate) fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Sample(sample) => self.sample(sample),
            other => self.state.take(other),
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.chain.clear();
        self.chain.extend(sample.callchain.iter().map(u64::to_ne_bytes));
        let hit = Hit {
            event: sample.event,
            mode: sample.mode,
            ip: sample.ip,
            task: sample.pid.zip(sample.tid),
            time: sample.time.unwrap_or(0),
            cpu: sample.cpu,
            period: sample.period,
            read: sample.read,
            chain: &self.chain,
            user: sample.tail.with_stack(),
        };
        let now = Present { tasks: &self.state.tasks, modules: &self.state.modules };
        self.counter.sample(&now, (), &hit, sample.time);
    }

    pub(crate) fn finish(self) -> Collected {
        let counts = self.counter.finish();
        let (state, filter, clock) = (self.state, self.filter, counts.clock.clone());
        Collected { state, clock, counts: vec![counts], filter }
    }
}

impl State {
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
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    name.starts_with(b"jit-") && name.ends_with(b".dump")
}

impl Collected {
    /// Descriptions of code made at run time, as runtimes mark them by mapping them: process, path.
    pub fn jit_dumps(&self) -> impl Iterator<Item = &(i32, PathBuf)> {
        self.state.jit_dumps.iter()
    }

    /// Number of blocks that intervals may be made of; 0 if some samples have no time.
    pub(crate) fn blocks(&self) -> usize {
        if self.counts.iter().any(|counts| counts.untimed > 0) { 0 } else { self.clock.len() }
    }
}
