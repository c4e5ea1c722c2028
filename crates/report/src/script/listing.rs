//! Reads a recording in the order of time, and lists it.

use std::io::{self, Write};
use std::sync::Arc;

use pmuscope_perfdata::reader::scan::SampleFields;
use pmuscope_perfdata::reader::{
    CpuMode, Entry, Event, Metadata, ReadError, Reader, Record, Sample, SampledCounts, Tracepoint,
};
use pmuscope_profile::{
    AddressSpaces, ChainEntry, Facts, Filter, Locator, ModuleOffset, SampleThread, StackWalker,
    Symbol, each_chain_entry,
};

use super::batch::{BatchContext, FoundSample, SampleBatch};
use super::line_buffer::LineBuffer;
use super::ordered::{JobQueue, in_order};
use super::place_text::{CommText, PlaceNumbers, Texts};
use super::{Field, Form, LineFormat, RecordClass, RecordView, ScriptOptions, Step};

/// How much is handed on at once, bytes.
#[derive(Debug, Clone, Copy)]
struct BatchSizes {
    /// Samples that wait for names before those are looked up: to look up many names costs little more than to look
    /// up few. It doubles until `largest_window`.
    first_window: usize,
    largest_window: usize,
    /// Samples of a batch at most.
    batch: usize,
}

impl BatchSizes {
    /// The first lines should appear soon, and what a worker makes of a batch should stay in its cache.
    const LINES: Self = Self { first_window: 32 << 10, largest_window: 8 << 20, batch: 512 << 10 };
    /// Columns compress better in large row groups.
    #[cfg(feature = "parquet")]
    const COLUMNS: Self = Self { first_window: 8 << 20, largest_window: 8 << 20, batch: 8 << 20 };

    /// Batches that may wait for a worker: those of two windows.
    fn waiting(self) -> usize {
        2 * self.largest_window / self.batch
    }
}

/// Workers that one reading thread can keep busy, with margin.
const MOST_WORKERS: usize = 8;

/// The name where there is no thread.
const NO_COMM: &[u8] = b"-";

/// Looks up the symbols of places, which are sorted and distinct: an answer for each.
pub type NamePlaces<'a> =
    dyn FnMut(&AddressSpaces, &Metadata, &[ModuleOffset]) -> Vec<Option<Symbol>> + 'a;

/// Why a listing ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output cannot be written.
    #[error("cannot write what is listed")]
    Write(#[source] io::Error),
}

/// Lists a recording.
pub struct ScriptWriter<'a> {
    /// How records are printed.
    pub options: ScriptOptions,
    /// Which samples and records are listed.
    pub filter: Filter,
    /// Records that are listed besides samples; not in tables.
    pub classes: Vec<RecordClass>,
    /// Unwinds stacks; `None` hides callers.
    pub walker: Option<StackWalker<'a>>,
    /// Finds names of functions.
    pub names: Box<NamePlaces<'a>>,
    /// Threads that make lines, 1 at least. The one that reads is not among them.
    pub workers: usize,
}

impl std::fmt::Debug for ScriptWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptWriter")
            .field("options", &self.options)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

impl ScriptWriter<'_> {
    /// Writes what is listed of `reader`'s recording, which is called `file`, in the order of time. The output
    /// does not depend on the number of workers.
    ///
    /// # Errors
    /// Those of the reader and of `out`; lines made before are written.
    pub fn write(
        self,
        reader: &mut Reader,
        file: &str,
        out: &mut (dyn Write + Send),
    ) -> Result<(), ScriptError> {
        let events: Arc<[Event]> = reader.events().into();
        let format = LineFormat::new(self.options.clone(), &events);
        if format.options.form == Form::Parquet {
            return self.write_columns(reader, (&format, events), file, out);
        }
        out.write_all(format.head(&events, file).as_bytes()).map_err(ScriptError::Write)?;
        let workers = self.workers.min(MOST_WORKERS);
        let mut listing = Listing::new(self, &format, events, BatchSizes::LINES);
        let lines = |batch: &mut SampleBatch,
                     made: &mut LineBuffer,
                     flush: &mut dyn FnMut(&mut LineBuffer)| {
            batch.lines(&format, made, flush);
        };
        let write = |made: &mut LineBuffer| {
            let written = out.write_all(made.as_bytes());
            made.clear();
            written
        };
        let (read, written) =
            in_order((workers, BatchSizes::LINES.waiting()), lines, write, |queue| {
                listing.run(reader, queue)
            });
        written.map_err(ScriptError::Write)?;
        Ok(read?)
    }

    #[cfg(feature = "parquet")]
    fn write_columns(
        self,
        reader: &mut Reader,
        (lines, events): (&LineFormat, Arc<[Event]>),
        file: &str,
        out: &mut (dyn Write + Send),
    ) -> Result<(), ScriptError> {
        use super::parquet::{ColumnFormat, RowGroup};

        let format = ColumnFormat::new(lines, file).map_err(ScriptError::Write)?;
        let mut table = format.file(out).map_err(ScriptError::Write)?;
        let workers = self.workers.min(MOST_WORKERS);
        let mut listing = Listing::new(self, lines, events, BatchSizes::COLUMNS);
        type Encoded = Option<io::Result<RowGroup>>;
        let encode =
            |batch: &mut SampleBatch, made: &mut Encoded, _: &mut dyn FnMut(&mut Encoded)| {
                *made = Some(format.row_group(batch));
            };
        let write = |made: &mut Encoded| match made.take() {
            Some(group) => table.append(group?),
            None => Ok(()),
        };
        let (read, written) =
            in_order((workers, BatchSizes::COLUMNS.waiting()), encode, write, |queue| {
                listing.run(reader, queue)
            });
        written.and_then(|()| table.finish()).map_err(ScriptError::Write)?;
        Ok(read?)
    }

    #[cfg(not(feature = "parquet"))]
    fn write_columns(
        self,
        _: &mut Reader,
        _: (&LineFormat, Arc<[Event]>),
        _: &str,
        _: &mut (dyn Write + Send),
    ) -> Result<(), ScriptError> {
        Err(ScriptError::Write(io::ErrorKind::Unsupported.into()))
    }
}

/// The reading side.
struct Listing<'a, 'f> {
    writer: ScriptWriter<'a>,
    format: &'f LineFormat,
    passes_all: bool,
    /// Events when the listing began: only their samples are listed.
    events: Arc<[Event]>,
    spaces: AddressSpaces,
    locator: Locator,
    /// Makes samples of the counts that samples carry, where they do.
    counts: Option<SampledCounts>,
    batch: SampleBatch,
    /// Batches that wait for names, and their bytes.
    pending: Vec<SampleBatch>,
    pending_bytes: usize,
    window: usize,
    sizes: BatchSizes,
    context: BatchContext,
    texts: Texts,
    place_numbers: PlaceNumbers,
}

impl<'a, 'f> Listing<'a, 'f> {
    fn new(
        writer: ScriptWriter<'a>,
        format: &'f LineFormat,
        events: Arc<[Event]>,
        sizes: BatchSizes,
    ) -> Self {
        Self {
            passes_all: writer.filter.passes_all(),
            writer,
            format,
            context: BatchContext { events: Arc::clone(&events), ..BatchContext::default() },
            events,
            spaces: AddressSpaces::default(),
            locator: Locator::default(),
            counts: None,
            batch: SampleBatch::default(),
            pending: Vec::new(),
            pending_bytes: 0,
            window: sizes.first_window,
            sizes,
            texts: Texts::default(),
            place_numbers: PlaceNumbers::default(),
        }
    }

    fn run(
        &mut self,
        reader: &mut Reader,
        queue: &mut JobQueue<'_, SampleBatch>,
    ) -> Result<(), ReadError> {
        let counts = SampledCounts::new(&self.events);
        self.counts = counts.reads_any().then_some(counts);
        self.spaces.read_code(&self.events, reader.metadata());
        self.context.clock = reader.metadata().clock;
        let mut goes_on = true;
        while goes_on {
            if let Some(walker) = &mut self.writer.walker {
                walker.tell(reader.metadata(), &self.spaces);
            }
            if reader.has_windows() {
                self.counts = None;
            } else if let Some(counts) = &mut self.counts {
                counts.learn(reader.events(), reader.ids());
            }
            goes_on = self.follow_stream(reader, queue);
            let Some(entry) = reader.next()? else { break };
            if self.writer.filter.is_over(entry.time) {
                break;
            }
            self.take(&entry);
            if self.batch.size() >= self.window.min(self.sizes.batch) {
                goes_on &= self.close_batch(reader, queue);
            }
        }
        if goes_on {
            self.close_batch(reader, queue);
            self.send(reader, queue);
        }
        Ok(())
    }

    /// Ends the batch where a stream has said something that is not true of its samples. False if nothing can be
    /// written any more.
    fn follow_stream(&mut self, reader: &Reader, queue: &mut JobQueue<'_, SampleBatch>) -> bool {
        let tracepoints: &Arc<[Tracepoint]> = &reader.metadata().tracepoints;
        let has_more_events = reader.events().len() != self.context.events.len();
        if !has_more_events && Arc::ptr_eq(tracepoints, &self.context.tracepoints) {
            return true;
        }
        let goes_on = self.batch.is_empty() && self.pending.is_empty()
            || self.close_batch(reader, queue) && self.send(reader, queue);
        self.context.tracepoints = Arc::clone(tracepoints);
        self.context.endian = reader.endian();
        if has_more_events {
            self.context.events = reader.events().into();
        }
        goes_on
    }

    fn take(&mut self, entry: &Entry<'_>) {
        if let Record::Sample(sample) = &entry.record {
            self.spaces.at(sample.time.unwrap_or(0));
            self.split(sample, entry.body);
            return;
        }
        self.spaces.take(&entry.record);
        if let Record::Cgroup(cgroup) = &entry.record {
            Arc::make_mut(&mut self.context.cgroups).take(cgroup);
        }
        let class = RecordClass::of(&entry.record);
        if !class.is_some_and(|class| self.writer.classes.contains(&class)) {
            return;
        }
        let task = entry.maker.task;
        let comm = task.map_or(NO_COMM.into(), |(_, tid)| self.spaces.comm(tid));
        let comm = &*comm;
        let facts = Facts { task, comm, cpu: entry.maker.cpu, time: entry.time, event: None };
        if self.writer.filter.passes(&facts) {
            let (record, time, maker) = (&entry.record, entry.time, entry.maker);
            let view = RecordView { record, time, maker, comm, events: &self.events };
            self.format.record(&mut self.batch.records, &view);
        }
    }

    /// A line for each event that a sample stands for: counts of a group are read with those of one.
    fn split(&mut self, sample: &Sample<'_>, body: &[u8]) {
        let stored_for = sample.event;
        let Some(mut counts) = self.counts.take() else {
            return self.sample(sample, body, stored_for);
        };
        counts.split(&SampleFields::of(sample), |hit| {
            let sample = Sample { event: hit.event, period: hit.period, ..*sample };
            self.sample(&sample, body, stored_for);
        });
        self.counts = Some(counts);
    }

    fn sample(&mut self, sample: &Sample<'_>, body: &[u8], stored_for: usize) {
        if sample.event >= self.events.len() {
            return;
        }
        let task = sample.pid.zip(sample.tid);
        let thread = self.locator.thread(&self.spaces, task);
        if !self.passes_all {
            let comm = &*self.locator.comm(&self.spaces, thread.comm);
            let (cpu, time, event) = (sample.cpu, sample.time, Some(sample.event));
            if !self.writer.filter.passes(&Facts { task, comm, cpu, time, event }) {
                return;
            }
        }
        let ip = sample.ip.filter(|_| self.writer.options.fields.want_places());
        let place = ip.map(|ip| self.locator.place(&self.spaces, thread, sample.mode, ip));
        let chain = self.chain(sample, thread);
        let branches = self.branches(sample, thread);
        let comm = thread.comm;
        let found = FoundSample { stored_for, comm, place, chain, branches };
        self.batch.push(sample, body, found);
    }

    /// Adds the steps of a sample's call stack; returns their number.
    fn chain(&mut self, sample: &Sample<'_>, thread: SampleThread) -> usize {
        let fields = &self.writer.options.fields;
        let Some(walker) = self.writer.walker.as_mut().filter(|_| fields.has(Field::Ip)) else {
            return 0;
        };
        // Columns of places of callers have their functions only, and CSV has their addresses.
        let shows_places = match self.writer.options.form {
            Form::Text | Form::Json => fields.want_places(),
            Form::Parquet => fields.has(Field::Sym),
            Form::Csv => false,
        };
        let walked = self.spaces.unwind(walker, sample);
        let before = self.batch.steps();
        let Self { spaces, locator, batch, .. } = self;
        each_chain_entry(sample, |ChainEntry { mode, address, code }| {
            if walked.is_some() && mode == CpuMode::User {
                return;
            }
            let place = if shows_places { locator.place(spaces, thread, mode, code) } else { 0 };
            batch.push_step(Step { address, place });
        });
        for (address, place) in walked.into_iter().flatten() {
            let place = if shows_places { locator.known_place(place) } else { 0 };
            batch.push_step(Step { address, place });
        }
        batch.steps() - before
    }

    /// Adds the steps of a sample's branches, where their functions are shown; returns their number.
    fn branches(&mut self, sample: &Sample<'_>, thread: SampleThread) -> usize {
        let ScriptOptions { form, fields, .. } = &self.writer.options;
        if *form != Form::Text || !fields.has(Field::Brstacksym) {
            return 0;
        }
        let Some(stack) = sample.details().and_then(|details| details.branches) else { return 0 };
        for branch in stack.iter() {
            for address in [branch.from, branch.to] {
                // The mode of a branch follows from its address.
                let mode = CpuMode::Unknown;
                let place = self.locator.place(&self.spaces, thread, mode, address);
                self.batch.push_step(Step { address, place });
            }
        }
        2 * stack.len()
    }

    /// Ends the batch. It goes to the workers once the names of its places are known: at once where no place is
    /// new, else when enough others wait. False if nothing can be written any more.
    fn close_batch(&mut self, reader: &Reader, queue: &mut JobQueue<'_, SampleBatch>) -> bool {
        let next = queue.used().map(|mut used| {
            used.clear();
            used
        });
        let batch = std::mem::replace(&mut self.batch, next.unwrap_or_default());
        self.pending_bytes += batch.size();
        self.pending.push(batch);
        let has_new =
            self.locator.new_places().len() > 0 && self.writer.options.fields.want_symbols();
        if has_new && self.pending_bytes < self.window {
            return true;
        }
        self.send(reader, queue)
    }

    /// Makes the texts of new names and places, and hands on all batches that wait for them. False if nothing can
    /// be written any more.
    fn send(&mut self, reader: &Reader, queue: &mut JobQueue<'_, SampleBatch>) -> bool {
        self.window = (2 * self.window).min(self.sizes.largest_window);
        self.pending_bytes = 0;
        if self.add_texts(reader.metadata()) {
            self.context.texts = Arc::new(self.texts.clone());
        }
        self.pending.drain(..).all(|mut batch| {
            batch.context.clone_from(&self.context);
            queue.push(batch)
        })
    }

    /// Whether there were any.
    fn add_texts(&mut self, metadata: &Metadata) -> bool {
        let Self { writer, spaces, locator, texts, place_numbers, .. } = self;
        let comms = texts.comms.len()..locator.comms();
        let new: Vec<ModuleOffset> = locator.new_places().collect();
        if comms.is_empty() && new.is_empty() {
            return false;
        }
        for number in comms {
            let name = locator.comm(spaces, number as u32);
            texts.comms.push(CommText::new(writer.options.form, &name));
        }
        let mut order: Vec<usize> = (0..new.len()).collect();
        order.sort_unstable_by_key(|&at| new[at]);
        let sorted: Vec<ModuleOffset> = order.iter().map(|&at| new[at]).collect();
        let mut symbols: Vec<Option<Symbol>> = vec![None; new.len()];
        if writer.options.fields.want_symbols() {
            let found = (writer.names)(spaces, metadata, &sorted);
            order.into_iter().zip(found).for_each(|(at, symbol)| symbols[at] = symbol);
        }
        let number = |(place, symbol): (&ModuleOffset, &Option<Symbol>)| {
            let path = spaces.module(place.module).path;
            place_numbers.number(&mut texts.places, &writer.options, symbol.as_ref(), path)
        };
        texts.new_places = new.iter().zip(&symbols).map(number).collect();
        locator.number_places(&texts.new_places);
        true
    }
}
