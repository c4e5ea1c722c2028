//! Samples and records one by one, in the order of time.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use pmuscope_abi::event_type;
use pmuscope_perfdata::reader::scan::SampleFields;
use pmuscope_perfdata::reader::{
    CpuMode, Details, Endian, Entry, Event, Reader, Record, Sample, SampledCounts, Tracepoint,
};
use pmuscope_profile::{
    AddressSpaces, ChainEntry, Facts, Filter, ModuleOffset, StackWalker, callchain,
};
use pmuscope_report::script::{
    Field, Names, RecordClass, RecordView, SampleView, ScriptOptions, Step,
};
use pmuscope_symbols::{KernelIdentity, Symbolizer};

use super::paper::Paper;

/// Bytes that wait for names before they are looked up: at first few, so that something is seen soon.
const FIRST_WINDOW: usize = 128 << 10;
/// And at most: names of many samples cost little more than those of few.
const LARGEST_WINDOW: usize = 32 << 20;

/// The name where there is no task.
pub(super) const NO_COMM: Cow<'_, [u8]> = Cow::Borrowed(b"-");

/// What is listed, and how far it is.
pub(super) struct Listing<'a> {
    options: ScriptOptions,
    filter: Filter,
    classes: Vec<RecordClass>,
    /// Unwinds stacks, where callers are shown.
    walker: Option<StackWalker<'a>>,
    present: AddressSpaces,
    names: Names,
    window: usize,
    symbolizer: Symbolizer,
    /// Those that the symbolizer knows.
    jit_dumps: BTreeSet<(i32, PathBuf)>,
    running: KernelIdentity,
    /// Formats of tracepoints, and the byte order of their data.
    tracepoints: (Arc<[Tracepoint]>, Endian),
    /// Makes samples of the counts that samples carry, where they do.
    counts: Option<SampledCounts>,
}

impl<'a> Listing<'a> {
    pub(super) fn new(
        options: ScriptOptions,
        filter: Filter,
        classes: Vec<RecordClass>,
        walker: Option<StackWalker<'a>>,
        symbolizer: Symbolizer,
    ) -> Self {
        let running = symbolizer.running_kernel();
        let (present, names, window) = (AddressSpaces::default(), Names::default(), FIRST_WINDOW);
        let jit_dumps = BTreeSet::new();
        let tracepoints = (Arc::default(), Endian::NATIVE);
        Self {
            options,
            filter,
            classes,
            walker,
            present,
            names,
            window,
            symbolizer,
            jit_dumps,
            running,
            tracepoints,
            counts: None,
        }
    }

    pub(super) fn run(&mut self, reader: &mut Reader, paper: &mut dyn Paper) -> anyhow::Result<()> {
        let events = reader.events().to_vec();
        let counts = SampledCounts::new(&events);
        self.counts = counts.reads_any().then_some(counts);
        loop {
            if let Some(walker) = &mut self.walker {
                walker.tell(reader.metadata(), &self.present);
            }
            // In a stream they come before the first sample.
            self.tracepoints = (Arc::clone(&reader.metadata().tracepoints), reader.endian());
            if reader.has_windows() {
                self.counts = None;
            } else if let Some(counts) = &mut self.counts {
                counts.learn(reader.events(), reader.ids());
            }
            let Some(entry) = reader.next()? else { break };
            if self.filter.is_over(entry.time) {
                break;
            }
            self.take(paper, &entry, &events);
            if paper.waiting() >= self.window {
                self.write(paper, reader)?;
                self.window = (2 * self.window).min(LARGEST_WINDOW);
            }
        }
        self.write(paper, reader)
    }

    fn take(&mut self, paper: &mut dyn Paper, entry: &Entry<'_>, events: &[Event]) {
        if let Record::Sample(sample) = &entry.record {
            self.split(paper, sample, events);
            return;
        }
        self.present.take(&entry.record);
        let class = RecordClass::of(&entry.record);
        if !class.is_some_and(|class| self.classes.contains(&class)) {
            return;
        }
        let task = entry.maker.task;
        let comm = self.comm(task);
        let comm = &*comm;
        let facts = Facts { task, comm, cpu: entry.maker.cpu, time: entry.time, event: None };
        if self.filter.passes(&facts) {
            let (record, time, maker) = (&entry.record, entry.time, entry.maker);
            paper.record(&RecordView { record, time, maker, comm, events });
        }
    }

    /// A line for each event that a sample stands for: counts of a group are read with those of one.
    fn split(&mut self, paper: &mut dyn Paper, sample: &Sample<'_>, events: &[Event]) {
        let (sampled, counts) = (sample.event, self.counts.take());
        let mut one = |sample: &Sample<'_>| {
            if let Some(event) = events.get(sample.event) {
                self.sample(paper, sample, event, sampled);
            }
        };
        let Some(mut counts) = counts else { return one(sample) };
        counts.split(&SampleFields::of(sample), |hit| {
            one(&Sample { event: hit.event, period: hit.period, ..*sample });
        });
        self.counts = Some(counts);
    }

    /// `sampled` is the event that attached what the sample carries.
    fn sample(
        &mut self,
        paper: &mut dyn Paper,
        sample: &Sample<'_>,
        event: &Event,
        sampled: usize,
    ) {
        let task = sample.pid.zip(sample.tid);
        let (cpu, time, event_index) = (sample.cpu, sample.time, Some(sample.event));
        let comm = self.comm(task);
        if !self.filter.passes(&Facts { task, comm: &comm, cpu, time, event: event_index }) {
            return;
        }
        let walked = self.walked(sample);
        let comm = self.comm(task);
        let details = sample.details();
        let place = sample.ip.filter(|_| self.wants_places());
        let place = place.map(|ip| self.step(sample.mode, sample.pid, ip, ip));
        let chain = self.chain(sample, walked);
        let branches = self.branches(sample, details.as_ref());
        let (tracepoints, endian) = &self.tracepoints;
        let is_of = |one: &&Tracepoint| one.id == event.attr.config;
        let is_own = sample.event == sampled;
        let traced = is_own && event.attr.event_type == event_type::TRACEPOINT;
        let tracepoint = traced.then(|| tracepoints.iter().find(is_of)).flatten();
        paper.sample(&SampleView {
            sample,
            details: details.as_ref(),
            event,
            comm: &comm,
            place,
            chain: &chain,
            branches: &branches,
            present: &self.present,
            tracepoint: tracepoint.map(|tracepoint| (tracepoint, *endian)),
        });
    }

    fn comm(&self, task: Option<(i32, i32)>) -> Cow<'_, [u8]> {
        task.map_or(NO_COMM, |(pid, tid)| self.present.comm(pid, tid))
    }

    fn wants_places(&self) -> bool {
        let fields = &self.options.fields;
        fields.want_symbols() || fields.has(Field::Dso)
    }

    /// An address, and where `code` of it lies.
    fn step(&self, mode: CpuMode, pid: Option<i32>, address: u64, code: u64) -> Step {
        Step { address, spot: self.present.find(mode, pid, code) }
    }

    /// The program's frames, where the sample carries its stack.
    fn walked(&mut self, sample: &Sample<'_>) -> Option<Vec<Step>> {
        let walker = self.walker.as_mut().filter(|_| self.options.fields.has(Field::Ip))?;
        let frames = self.present.unwind(walker, sample)?;
        Some(frames.into_iter().map(|(address, spot)| Step { address, spot }).collect())
    }

    fn chain(&self, sample: &Sample<'_>, walked: Option<Vec<Step>>) -> Vec<Step> {
        if self.walker.is_none() || !self.options.fields.has(Field::Ip) {
            return Vec::new();
        }
        let is_shown = |entry: &ChainEntry| walked.is_none() || entry.mode != CpuMode::User;
        let step = |ChainEntry { mode, address, code }: ChainEntry| {
            self.step(mode, sample.pid, address, code)
        };
        let mut steps: Vec<Step> =
            callchain(sample).into_iter().filter(is_shown).map(step).collect();
        steps.extend(walked.into_iter().flatten());
        steps
    }

    fn branches(&self, sample: &Sample<'_>, details: Option<&Details<'_>>) -> Vec<(Step, Step)> {
        let fields = &self.options.fields;
        if !fields.has(Field::Brstack) && !fields.has(Field::Brstacksym) {
            return Vec::new();
        }
        let Some(stack) = details.and_then(|details| details.branches) else { return Vec::new() };
        // A branch tells no mode, its address does.
        let step = |address| self.step(CpuMode::Unknown, sample.pid, address, address);
        stack.iter().map(|branch| (step(branch.from), step(branch.to))).collect()
    }

    /// Finds the names that are wanted, and writes.
    fn write(&mut self, paper: &mut dyn Paper, reader: &Reader) -> anyhow::Result<()> {
        let mut wanted: Vec<ModuleOffset> =
            paper.spots().filter(|spot| !self.names.contains_key(spot)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if !wanted.is_empty() {
            for (pid, path) in self.present.jit_dumps() {
                if self.jit_dumps.insert((*pid, path.clone())) {
                    self.symbolizer.add_jit_dump(*pid, path.clone());
                }
            }
            let Self { present, symbolizer, running, .. } = self;
            let found = present.resolve(&wanted, reader.metadata(), running, &mut |requests| {
                symbolizer.resolve_all(requests)
            });
            self.names.extend(wanted.into_iter().zip(found));
        }
        paper.write(&self.names).context("cannot write what is listed")
    }
}
