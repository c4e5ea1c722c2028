//! Samples on their way from the thread that reads them to one that makes lines of them.

use std::sync::Arc;

use pmuscope_abi::event_type;
use pmuscope_perfdata::ClockData;
use pmuscope_perfdata::reader::{Details, Endian, Event, Sample, Tracepoint};

use super::cgroups::Cgroups;
use super::line_buffer::LineBuffer;
use super::place_text::Texts;
use super::{LineFormat, SampleView, Step};

/// Bytes of lines that a batch makes before they are handed on.
const LARGEST_PIECE: usize = 4 << 20;

/// Number of a place where none is shown.
const NO_PLACE: u32 = u32::MAX;

/// Samples, and other records as lines, in order.
#[derive(Debug, Default)]
pub(super) struct SampleBatch {
    samples: Vec<BatchSample>,
    /// Bodies of the samples, as stored.
    bodies: Vec<u8>,
    /// Of all samples: callers, then branches.
    steps: Vec<Step>,
    /// Lines of other records.
    pub(super) records: String,
    pub(super) context: BatchContext,
}

/// What all samples of a batch have in common.
#[derive(Debug, Clone)]
pub(super) struct BatchContext {
    pub(super) events: Arc<[Event]>,
    pub(super) tracepoints: Arc<[Tracepoint]>,
    pub(super) endian: Endian,
    pub(super) clock: Option<ClockData>,
    pub(super) cgroups: Arc<Cgroups>,
    pub(super) texts: Arc<Texts>,
}

impl Default for BatchContext {
    fn default() -> Self {
        Self {
            events: Arc::default(),
            tracepoints: Arc::default(),
            endian: Endian::NATIVE,
            clock: None,
            cgroups: Arc::default(),
            texts: Arc::default(),
        }
    }
}

/// A sample of a batch.
#[derive(Debug, Clone, Copy)]
struct BatchSample {
    body: (usize, usize),
    misc: u16,
    /// Index of the event that it is listed as, and of the one that it was stored for.
    event: u32,
    stored_for: u32,
    period: Option<u64>,
    comm: u32,
    place: u32,
    /// Number of steps.
    chain: u32,
    branches: u32,
    /// Bytes of other records' lines in front of it.
    records: usize,
}

/// What the reading thread knows about a sample that it adds to a batch, after its steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundSample {
    /// Index of the event that it was stored for.
    pub(super) stored_for: usize,
    pub(super) comm: u32,
    pub(super) place: Option<u32>,
    /// Steps added for it.
    pub(super) chain: usize,
    pub(super) branches: usize,
}

impl SampleBatch {
    pub(super) fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.records.is_empty()
    }

    /// Bytes held.
    pub(super) fn size(&self) -> usize {
        self.bodies.len()
            + self.records.len()
            + self.samples.len() * size_of::<BatchSample>()
            + self.steps.len() * size_of::<Step>()
    }

    pub(super) fn clear(&mut self) {
        self.samples.clear();
        self.bodies.clear();
        self.steps.clear();
        self.records.clear();
        self.context = BatchContext::default();
    }

    #[inline]
    pub(super) fn push_step(&mut self, step: Step) {
        self.steps.push(step);
    }

    #[inline]
    pub(super) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Adds a sample with its stored body.
    pub(super) fn push(&mut self, sample: &Sample<'_>, body: &[u8], found: FoundSample) {
        let start = self.bodies.len();
        self.bodies.extend_from_slice(body);
        self.samples.push(BatchSample {
            body: (start, self.bodies.len()),
            misc: sample.misc,
            event: sample.event as u32,
            stored_for: found.stored_for as u32,
            period: sample.period,
            comm: found.comm,
            place: found.place.unwrap_or(NO_PLACE),
            chain: found.chain as u32,
            branches: found.branches as u32,
            records: self.records.len(),
        });
    }

    /// Appends all lines; `flush` writes and empties what is there.
    pub(super) fn lines(
        &self,
        format: &LineFormat,
        out: &mut LineBuffer,
        flush: &mut dyn FnMut(&mut LineBuffer),
    ) {
        let mut printed = 0;
        self.each(format.needs_details, |records, view| {
            out.extend(&self.records.as_bytes()[printed..records]);
            printed = records;
            format.sample(out, view);
            if out.len() > LARGEST_PIECE {
                flush(out);
            }
        });
        out.extend(&self.records.as_bytes()[printed..]);
    }

    /// Passes all samples to `take`, each with the number of bytes of other records' lines in front of it.
    pub(super) fn each(&self, details: bool, mut take: impl FnMut(usize, &SampleView<'_>)) {
        let BatchContext { events, tracepoints, endian, clock, cgroups, texts } = &self.context;
        let mut steps = &self.steps[..];
        for found in &self.samples {
            let (own, rest) = steps.split_at((found.chain + found.branches) as usize);
            let (chain, branches) = own.split_at(found.chain as usize);
            steps = rest;
            let (start, end) = found.body;
            let (body, stored_for) = (&self.bodies[start..end], found.stored_for as usize);
            // The reading thread has decoded it, too.
            let (Some(event), Some(stored)) =
                (events.get(found.event as usize), events.get(stored_for))
            else {
                continue;
            };
            let Some(mut sample) = stored.decode_sample(stored_for, found.misc, body, *endian)
            else {
                continue;
            };
            (sample.event, sample.period) = (found.event as usize, found.period);
            let details: Option<Details<'_>> = details.then(|| sample.details()).flatten();
            let is_traced =
                found.event == found.stored_for && event.attr.event_type == event_type::TRACEPOINT;
            let is_of = |one: &&Tracepoint| one.id == event.attr.config;
            let tracepoint = is_traced.then(|| tracepoints.iter().find(is_of)).flatten();
            take(
                found.records,
                &SampleView {
                    sample: &sample,
                    details: details.as_ref(),
                    event,
                    comm: found.comm,
                    place: (found.place != NO_PLACE).then_some(found.place),
                    chain,
                    branches,
                    tracepoint: tracepoint.map(|tracepoint| (tracepoint, *endian)),
                    unix_ns: sample.time.and_then(|time| clock.as_ref()?.wall_ns_at(time)),
                    cgroups,
                    texts,
                },
            );
        }
    }
}
