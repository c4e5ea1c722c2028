//! Objects on the heap in contended lines, by allocation site.

use std::collections::BTreeMap;

use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_symbols::{KernelIdentity, Symbolizer};

use super::detail::LineDetails;
use super::key::{LineFinder, LineKey, LineSpace, SharedFiles, is_of_kernel};
use super::ranking::{AccessReader, accessed_data};
use super::{EventSampling, Options, Ranked, SharedLine, SharedLines, SharingError, resolve};
use crate::count::unwinding::Unwinding;
use crate::heap::{
    AllocationCounts, AllocationStack, HeapObject, HeapPass, HeapRecords, WantedMemory, name_stacks,
};
use crate::timeline::lookup::Current;
use crate::timeline::visit::FieldsOfSample;

/// Objects of a line that are kept, those that were met first: memory is reused.
const MOST_OBJECTS: usize = 256;

/// Allocations of a recording with shared lines.
#[derive(Debug)]
pub struct SharedHeap {
    /// Call stacks that allocate; objects point here.
    pub stacks: Vec<AllocationStack>,
    /// What was recorded.
    pub counts: AllocationCounts,
    /// Accesses to the lines whose memory was of no known object: memory that is not of the heap among them.
    pub unnamed: u64,
}

/// An object on the heap that was accessed in a line; objects that followed each other at the same place with the same
/// size and call stack are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineHeapObject {
    /// Its first byte.
    pub address: u64,
    /// Bytes that were asked for.
    pub size: u64,
    /// Position in [`SharedHeap::stacks`].
    pub stack: u32,
    /// Sampled accesses to it, in this line.
    pub accesses: u64,
    /// Objects that it stands for.
    pub allocations: u64,
    /// Whether no record was lost between an allocation and an access: else it may be another object.
    pub is_certain: bool,
}

/// What is kept apart.
type ObjectKey = (u64, u64, u32);

#[derive(Debug, Default)]
struct ObjectUses {
    accesses: u64,
    allocations: u64,
    /// The one that was met last.
    last: Option<u32>,
    is_uncertain: bool,
    offsets: BTreeMap<u32, u64>,
}

/// The objects of lines.
#[derive(Debug, Default)]
struct UsedObjects {
    lines: BTreeMap<LineKey, BTreeMap<ObjectKey, ObjectUses>>,
    unnamed: u64,
}

impl UsedObjects {
    fn add(&mut self, line: LineKey, offset: u32, object: Option<HeapObject>) {
        let Some(object) = object else {
            self.unnamed += 1;
            return;
        };
        let objects = self.lines.entry(line).or_default();
        let key = (object.address, object.size, object.stack);
        if objects.len() >= MOST_OBJECTS && !objects.contains_key(&key) {
            self.unnamed += 1;
            return;
        }
        let uses = objects.entry(key).or_default();
        uses.accesses += 1;
        uses.allocations += u64::from(uses.last != Some(object.allocation));
        uses.last = Some(object.allocation);
        uses.is_uncertain |= !object.is_certain;
        *uses.offsets.entry(offset).or_default() += 1;
    }
}

/// Where names of heap memory come from.
pub(super) struct HeapNaming<'a> {
    pub(super) recording: &'a RecordingFile,
    pub(super) options: &'a Options,
    pub(super) running: &'a KernelIdentity,
    /// By event.
    pub(super) sampling: &'a [EventSampling],
    /// Whether allocations were.
    pub(super) is_recorded: bool,
}

impl HeapNaming<'_> {
    /// Names objects in `lines`, by another pass over the recording; `addresses` are those of the lines in processes.
    pub(super) fn name(
        &self,
        mut lines: SharedLines,
        (ranked, addresses): (&Ranked, Vec<u64>),
        symbolizer: &mut Symbolizer,
    ) -> Result<SharedLines, SharingError> {
        if !self.is_recorded {
            return Ok(lines);
        }
        let (used, records) = self.read(ranked, addresses, symbolizer)?;
        for (pid, dump) in records.spaces.jit_dumps() {
            symbolizer.add_jit_dump(*pid, dump.clone());
        }
        let of = (records.reader.metadata(), self.running);
        let stacks = name_stacks(&records.spaces, &records.stacks, of, &mut resolve(symbolizer));
        let UsedObjects { lines: mut by_line, unnamed } = used;
        for line in &mut lines.lines {
            let space = match (line.physical, line.pid) {
                (Some(_), _) => LineSpace::Physical,
                (None, Some(pid)) => LineSpace::Process(pid),
                (None, None) => continue,
            };
            let first = line.physical.unwrap_or(line.address);
            if let Some(objects) = by_line.remove(&LineKey { space, first }) {
                put(line, objects);
            }
        }
        lines.heap = Some(SharedHeap { stacks, counts: records.counts, unnamed });
        Ok(lines)
    }

    fn read(
        &self,
        ranked: &Ranked,
        addresses: Vec<u64>,
        symbolizer: &Symbolizer,
    ) -> Result<(UsedObjects, HeapRecords), SharingError> {
        let Options { filter, line_bytes, physical, .. } = self.options;
        // Lines of files that processes share are not of the heap.
        let shared = SharedFiles::default();
        let mut finder = LineFinder::new(&shared, *line_bytes, *physical);
        let mut access = AccessReader::new(filter, self.sampling);
        let (mut used, mut fields) = (UsedObjects::default(), FieldsOfSample::default());
        let unwinder = symbolizer.unwinder();
        let unwinding = Unwinding { unwinder: &unwinder, running: self.running };
        let wanted = WantedMemory::lines(addresses, *line_bytes);
        let records = HeapPass::read(self.recording, wanted, unwinding, |sample, spaces, heap| {
            let (tasks, modules) = spaces.current();
            let now = Current { tasks, modules };
            let hit = fields.of(sample);
            let Some(ran) = access.tasks.ran(&now, (), &hit, sample.time) else { return };
            let Some(data) = access.read(&hit).and_then(|one| accessed_data(&hit, &one)) else {
                return;
            };
            let Some((line, offset)) = finder.find(&now, (), (ran.view, data.pid), &data) else {
                return;
            };
            if ranked.numbers.contains_key(&line) && !is_of_kernel(data.address) {
                used.add(line, offset, heap.get(data.pid, data.address));
            }
        })?;
        Ok((used, records))
    }
}

fn put(line: &mut SharedLine, objects: BTreeMap<ObjectKey, ObjectUses>) {
    let mut most: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    for (number, ((address, size, stack), uses)) in (0..).zip(objects) {
        line.heap_objects.push(LineHeapObject {
            address,
            size,
            stack,
            accesses: uses.accesses,
            allocations: uses.allocations,
            is_certain: !uses.is_uncertain,
        });
        for (offset, accesses) in uses.offsets {
            let best = most.entry(offset).or_insert((accesses, number));
            if accesses > best.0 {
                *best = (accesses, number);
            }
        }
    }
    for offset in &mut line.offsets {
        offset.heap_object = most.get(&offset.offset).map(|best| best.1);
    }
}

/// Addresses at which processes have the lines.
pub(super) fn addresses(ranked: &Ranked, found: &LineDetails, line_bytes: u32) -> Vec<u64> {
    let within = u64::from(line_bytes) - 1;
    let private = ranked.keys.iter().filter(|key| matches!(key.space, LineSpace::Process(_)));
    let mapped = found.mappings.iter().filter(|mapping| mapping.1.is_some());
    private.map(|key| key.first).chain(mapped.map(|mapping| mapping.2 & !within)).collect()
}
