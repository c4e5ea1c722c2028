//! Samples: which there are, in which order, and their bytes.

use crate::aggregate::{FrameId, SampleCell, StackId, Stacks, TaskId};
use crate::export::protobuf::{push_head, push_varint, varint_length};
use crate::export::{ExportedEvent, Source};

use super::tables::SampleTables;
use super::{has_units, profile, sample_field, within};

/// Samples that are written at a time, at most.
const IN_BLOCK: usize = 8192;

/// Stack, task, CPU.
pub(super) type SampleKey = (StackId, TaskId, Option<u32>);

/// Samples in the order of their keys: each stands for one cell of every event that has one of that key.
#[derive(Debug, Clone)]
pub(super) struct SampleRange<'a> {
    /// Cells of each event, in the order of their keys.
    of_events: Vec<&'a [SampleCell]>,
}

impl<'a> SampleRange<'a> {
    pub(super) fn new(source: &Source<'a>) -> Self {
        let of_event = |event: &ExportedEvent| source.counts.of_event(event.index);
        Self { of_events: source.events.iter().map(of_event).collect() }
    }

    /// Hands out the key of each sample with its cells, one for each event.
    pub(super) fn for_each(mut self, mut take: impl FnMut(SampleKey, &[Option<&SampleCell>])) {
        let mut cells = Vec::with_capacity(self.of_events.len());
        while let Some(first) = self.of_events.iter().filter_map(|rest| rest.first()).map(key).min()
        {
            cells.clear();
            for rest in &mut self.of_events {
                let same = rest.iter().take_while(|cell| key(cell) == first).count();
                let (found, after) = rest.split_at(same);
                cells.push(found.first());
                *rest = after;
            }
            take(first, &cells);
        }
    }

    /// The same in blocks, one after another. They do not depend on the number of CPUs.
    pub(super) fn blocks(mut self) -> Vec<Self> {
        let step = IN_BLOCK / self.of_events.len().max(1) + 1;
        let of_events = self.of_events.iter();
        let mut starts: Vec<SampleKey> =
            of_events.flat_map(|cells| cells.iter().step_by(step).skip(1).map(key)).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut blocks: Vec<Self> =
            starts.into_iter().map(|start| self.split_before(start)).collect();
        blocks.push(self);
        blocks
    }

    /// Takes out what comes before a key.
    fn split_before(&mut self, start: SampleKey) -> Self {
        let split = |rest: &mut &'a [SampleCell]| {
            let (before, after) = rest.split_at(rest.partition_point(|cell| key(cell) < start));
            *rest = after;
            before
        };
        Self { of_events: self.of_events.iter_mut().map(split).collect() }
    }

    /// Appends the samples as fields of a profile.
    pub(super) fn append(
        self,
        events: &[ExportedEvent],
        tables: &SampleTables<'_>,
        to: &mut Vec<u8>,
    ) {
        let mut locations = LocationList::new(tables);
        let mut values = Vec::new();
        self.for_each(|key, cells| {
            locations.go_to(key.0);
            values.clear();
            for (event, cell) in events.iter().zip(cells) {
                push_varint(&mut values, within(cell.map_or(0, |cell| cell.samples)));
                if has_units(event) {
                    let units = cell.and_then(|cell| event.units(cell)).unwrap_or(0);
                    push_varint(&mut values, within(units));
                }
            }
            let labels = tables.labels(key);
            let lists = [
                (sample_field::LOCATION, [&locations.innermost[..], &locations.callers]),
                (sample_field::VALUE, [&values, &[]]),
            ];
            let of_lists: usize = lists.iter().map(|(_, parts)| packed_length(*parts)).sum();
            let of_labels: usize = labels.iter().map(|label| label.len()).sum();
            push_head(to, profile::SAMPLE, of_lists + of_labels);
            for (field, parts) in lists {
                push_packed(to, field, parts);
            }
            labels.iter().for_each(|label| to.extend_from_slice(label));
        });
    }
}

/// Bytes of packed numbers with their head, of which there are none in an empty list.
fn packed_length(parts: [&[u8]; 2]) -> usize {
    let length = parts[0].len() + parts[1].len();
    // Field numbers up to 15 take a byte.
    if length == 0 { 0 } else { 1 + varint_length(length as u64) + length }
}

fn push_packed(to: &mut Vec<u8>, field: u64, parts: [&[u8]; 2]) {
    let length = parts[0].len() + parts[1].len();
    if length > 0 {
        push_head(to, field, length);
        parts.iter().for_each(|part| to.extend_from_slice(part));
    }
}

fn key(cell: &SampleCell) -> SampleKey {
    (cell.stack, cell.task, cell.cpu)
}

/// The locations of a stack as packed numbers. Stacks that follow one another often have the same callers, so these
/// are kept.
struct LocationList<'a> {
    tables: &'a SampleTables<'a>,
    innermost: Vec<u8>,
    callers: Vec<u8>,
    /// The stack that `callers` are of.
    caller: StackId,
    /// Frames of a location.
    frames: Vec<FrameId>,
}

impl<'a> LocationList<'a> {
    fn new(tables: &'a SampleTables<'a>) -> Self {
        let (innermost, callers, frames) = (Vec::new(), Vec::new(), Vec::new());
        Self { tables, innermost, callers, caller: Stacks::ROOT, frames }
    }

    fn go_to(&mut self, stack: StackId) {
        self.innermost.clear();
        let Some((location, caller)) = self.tables.innermost(stack, &mut self.frames) else {
            self.callers.clear();
            self.caller = stack;
            return;
        };
        push_varint(&mut self.innermost, location.into());
        if caller == self.caller {
            return;
        }
        self.caller = caller;
        self.callers.clear();
        let mut at = caller;
        while let Some((location, caller)) = self.tables.innermost(at, &mut self.frames) {
            push_varint(&mut self.callers, location.into());
            at = caller;
        }
    }
}
