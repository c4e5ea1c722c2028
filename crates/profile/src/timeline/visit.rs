//! The one way over the samples of a recording, whatever is made of them: a [`SampleVisitor`], which does not
//! know in which order it gets them.
//!
//! ```text
//!  Passes   sideband, by time ─► Sideband, with its past ─► History ◄─ ask ── a visitor for each thread
//!           samples, in no order, as often as asked for ──────────────────────►┘
//!  InOrder  sideband ─► Sideband as it is now ◄─ asks ── the visitor
//!           samples ──────────────────────────────────────►┘
//! ```
//! Where samples carry counts of other events, a visitor gets a sample of each of these, unless it reads counts
//! itself.

use pmuscope_perfdata::reader::scan::{self, Index, RecordOrder, SampleFields};
use pmuscope_perfdata::reader::{
    CountKey, Entry, Metadata, ReadError, Reader, Record, Sample, SampledCounts,
};

use super::lookup::{Current, History, Lookup};
use super::sideband::Sideband;
use super::tasks::Tasks;

/// Takes samples.
pub(crate) trait SampleVisitor: Send {
    /// Whether samples that carry counts of other events are to come as samples of these.
    const SPLITS_COUNTS: bool = true;

    /// As [`scan::Visitor::begin`]; a recording that is read in order is one stretch.
    fn begin(&mut self, _first_record: u64) {}

    /// What the file has said about itself, as far as it was read in order.
    fn learn(&mut self, _metadata: &Metadata, _state: &Sideband) {}

    /// A sample as the recording has it, before what it stands for; `carries_counts`: that may be several
    /// samples, or none.
    fn recorded(&mut self, _hit: &SampleFields<'_>, _carries_counts: bool) {}

    /// A sample, its time, and the moment for which `lookup` knows what was mapped.
    fn sample<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        hit: &SampleFields<'_>,
        time: Option<u64>,
    );
}

/// Hands over what a sample stands for.
#[inline]
fn hand_over<V: SampleVisitor, L: Lookup>(
    visitor: &mut V,
    counts: &mut SampledCounts,
    moment: (&L, L::At),
    hit: &SampleFields<'_>,
    time: Option<u64>,
) {
    let carries_counts = counts.reads_any();
    visitor.recorded(hit, carries_counts);
    // Known when compiled: those that read counts themselves have millions of samples that are nothing but counts.
    if V::SPLITS_COUNTS && carries_counts {
        split(visitor, counts, moment, hit, time);
    } else {
        visitor.sample(moment.0, moment.1, hit, time);
    }
}

/// Not part of what most recordings need, so that the compiler keeps that small.
#[inline(never)]
fn split<V: SampleVisitor, L: Lookup>(
    visitor: &mut V,
    counts: &mut SampledCounts,
    (lookup, at): (&L, L::At),
    hit: &SampleFields<'_>,
    time: Option<u64>,
) {
    counts.split(hit, |hit| visitor.sample(lookup, at, hit, time));
}

/// A recording whose samples can be visited in any order, and again.
#[derive(Debug)]
pub(crate) struct Passes {
    index: Index,
    /// When each change of [`Sideband::tasks`] happened.
    moments: Vec<RecordOrder>,
    counts: SampledCounts,
    threads: usize,
}

impl Passes {
    /// Takes all that is no sample; `note` gets it too.
    pub(crate) fn new(
        reader: &mut Reader,
        index: Index,
        threads: usize,
        mut note: impl FnMut(&Entry<'_>),
    ) -> Result<(Self, Sideband), ReadError> {
        let state = Sideband { tasks: Tasks::new(true), ..Sideband::default() };
        Self::going_on(state, reader, (index, threads), &mut note)
    }

    /// The same with code that processes generate, by time, where times are of the clock of its descriptions.
    pub(crate) fn with_code(
        reader: &mut Reader,
        index: Index,
        threads: usize,
    ) -> Result<(Self, Sideband), ReadError> {
        let mut state = Sideband { tasks: Tasks::new(true), ..Sideband::default() };
        state.read_code(reader.events(), reader.metadata());
        Self::going_on(state, reader, (index, threads), &mut |_| {})
    }

    fn going_on(
        mut state: Sideband,
        reader: &mut Reader,
        (mut index, threads): (Index, usize),
        note: &mut dyn FnMut(&Entry<'_>),
    ) -> Result<(Self, Sideband), ReadError> {
        let mut moments = Vec::new();
        reader.replay(&mut index, |moment, entry| {
            let before = state.tasks.epoch();
            state.take_entry(entry);
            note(entry);
            moments.extend((state.tasks.epoch() != before).then_some(moment));
        })?;
        let counts = match reader.has_windows() {
            true => SampledCounts::default(),
            false => SampledCounts::new(reader.events()),
        };
        Ok((Self { index, moments, counts, threads }, state))
    }

    /// Time stamps of the first and the last sample, nanoseconds.
    pub(crate) fn times(&self) -> Option<(u64, u64)> {
        self.index.times()
    }

    /// Hands each sample to one of several visitors, which have a thread each.
    pub(crate) fn visit<V: SampleVisitor>(
        &self,
        state: &Sideband,
        mut visitor: impl FnMut() -> V,
    ) -> Result<Vec<V>, ReadError> {
        let history = History::new(&state.tasks, &state.modules, &self.moments);
        let threads = self.threads.clamp(1, self.index.chunks().max(1));
        let visiting = (0..threads).map(|_| Visiting {
            history: &history,
            counts: if V::SPLITS_COUNTS { self.counts.clone() } else { SampledCounts::default() },
            visitor: visitor(),
        });
        let visited: Vec<Visiting<'_, V>> = self.index.visit(visiting.collect())?;
        Ok(visited.into_iter().map(|visiting| visiting.visitor).collect())
    }
}

/// A visitor and what it asks.
struct Visiting<'a, V> {
    history: &'a History<'a>,
    counts: SampledCounts,
    visitor: V,
}

impl<V: SampleVisitor> scan::Visitor for Visiting<'_, V> {
    fn begin(&mut self, first_record: u64) {
        self.visitor.begin(first_record);
    }

    fn resume(&mut self, counts: &[(CountKey, u64)]) {
        self.counts.resume(counts);
    }

    #[inline]
    fn sample(&mut self, moment: RecordOrder, hit: &SampleFields<'_>) {
        let Self { history, counts, visitor } = self;
        hand_over(visitor, counts, (*history, moment), hit, Some(moment.time));
    }
}

/// A visitor of records that come in the order of time.
#[derive(Debug)]
pub(crate) struct InOrder<V> {
    pub(crate) state: Sideband,
    pub(crate) visitor: V,
    /// Makes samples of the counts that samples carry.
    pub(crate) counts: SampledCounts,
    fields: FieldsOfSample,
}

impl<V: SampleVisitor> InOrder<V> {
    /// A visitor of what comes after `state`.
    pub(crate) fn after(state: Sideband, visitor: V) -> Self {
        let (counts, fields) = (SampledCounts::default(), FieldsOfSample::default());
        Self { state, visitor, counts, fields }
    }

    /// Takes all that is left of a recording; `note` gets what is no sample, too.
    pub(crate) fn read(
        &mut self,
        reader: &mut Reader,
        mut note: impl FnMut(&Entry<'_>),
    ) -> Result<(), ReadError> {
        self.visitor.begin(0);
        loop {
            self.visitor.learn(reader.metadata(), &self.state);
            if V::SPLITS_COUNTS && !reader.has_windows() {
                self.counts.learn(reader.events(), reader.ids());
            } else if self.counts.reads_any() {
                self.counts = SampledCounts::default();
            }
            let Some(entry) = reader.next()? else { return Ok(()) };
            if !matches!(entry.record, Record::Sample(_)) {
                note(&entry);
            }
            self.take_entry(&entry);
        }
    }

    /// Takes the next record, which may tell of a loss.
    pub(crate) fn take_entry(&mut self, entry: &Entry<'_>) {
        self.state.loss.take(entry);
        self.take(&entry.record);
    }

    /// Takes what the next record says of samples and processes.
    pub(crate) fn take(&mut self, record: &Record<'_>) {
        let Record::Sample(sample) = record else { return self.state.take(record) };
        self.state.modules.now = sample.time.unwrap_or(0);
        let now = Current { tasks: &self.state.tasks, modules: &self.state.modules };
        let hit = self.fields.of(sample);
        hand_over(&mut self.visitor, &mut self.counts, (&now, ()), &hit, sample.time);
    }
}

/// Samples that come one by one, as visitors take them.
#[derive(Debug, Default)]
pub(crate) struct FieldsOfSample {
    chain: Vec<[u8; 8]>,
}

impl FieldsOfSample {
    /// What `sample` tells, its call chain and stack too.
    pub(crate) fn of<'a>(&'a mut self, sample: &Sample<'a>) -> SampleFields<'a> {
        self.chain.clear();
        self.chain.extend(sample.callchain.iter().map(u64::to_ne_bytes));
        let user = sample.tail.with_stack();
        SampleFields { chain: &self.chain, user, ..SampleFields::of(sample) }
    }
}
