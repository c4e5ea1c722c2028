//! The events of a recording, and how the event and the time of a record are found.

use std::collections::HashMap;

use pmuscope_abi::record::kind;
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type, software};

use super::bytes::{Endian, Fields};
use super::details::TailLayout;
use super::sample::{self, Sample};

/// An event as the file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Name as the recorder had it; made from the attribute where the file has none.
    pub name: String,
    /// The attribute.
    pub attr: Attr,
    /// Ids of its descriptors.
    pub ids: Vec<u64>,
}

impl Event {
    /// Whether samples carry the period they stand for.
    #[must_use]
    pub fn has_period(&self) -> bool {
        self.attr.sample_type.contains(SampleType::PERIOD)
    }

    /// Whether samples carry the address of the data that were accessed, and where these came from.
    #[must_use]
    pub fn has_data_sources(&self) -> bool {
        self.attr.sample_type.contains(SampleType::ADDR | SampleType::DATA_SRC)
    }

    /// Whether samples carry counts, see [`SampledCounts`](super::SampledCounts).
    #[must_use]
    pub fn has_counts(&self) -> bool {
        self.attr.sample_type.contains(SampleType::READ)
    }

    /// Whether samples carry callchains, recorded by the kernel or kept by the CPU.
    #[must_use]
    pub fn has_chains(&self) -> bool {
        self.attr.sample_type.contains(SampleType::CALLCHAIN) || self.has_call_stacks()
    }

    /// Whether the branches of samples are a call stack that the CPU kept (LBR in call-stack mode).
    #[must_use]
    pub fn has_call_stacks(&self) -> bool {
        TailLayout::with_calls(&self.attr).is_some()
    }

    /// Whether it is the time that threads spent off the CPU, in nanoseconds, as `perf record --off-cpu` measures it.
    #[must_use]
    pub fn is_off_cpu_time(&self) -> bool {
        let Self { name, attr, .. } = self;
        name.split(':').next() == Some("offcpu-time")
            && (attr.event_type, attr.config) == (event_type::SOFTWARE, software::BPF_OUTPUT)
    }

    /// Whether samples carry the data for unwinding stacks: registers and stack of the program.
    #[must_use]
    pub fn has_stacks(&self) -> bool {
        self.attr.sample_type.contains(SampleType::REGS_USER | SampleType::STACK_USER)
    }

    /// Decodes the body of one of its samples, as [`Entry::body`](super::Entry::body) has it, `index` being the
    /// event's own and `misc` [`Sample::misc`]. A thread can so decode samples that another one has read.
    /// `None` if the body is too short for the event's fields.
    #[inline]
    #[must_use]
    pub fn decode_sample<'a>(
        &self,
        index: usize,
        misc: u16,
        body: &'a [u8],
        endian: Endian,
    ) -> Option<Sample<'a>> {
        sample::sample(body, misc, index, &self.attr, endian)
    }

    /// Bytes of the stack that samples are to carry.
    #[must_use]
    pub fn stack_copy(&self) -> Option<u32> {
        self.has_stacks().then_some(self.attr.sample_stack_user)
    }
}

/// The process and thread that a record comes from, if the record has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleId {
    /// Process and thread.
    pub task: Option<(i32, i32)>,
    /// CPU.
    pub cpu: Option<u32>,
}

/// Where identification stands in records of an event, in bytes of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IdLayout {
    /// From the front of a sample.
    sample_id: Option<usize>,
    sample_time: Option<usize>,
    /// From the end of any other record.
    other_id: Option<usize>,
    other_time: Option<usize>,
    other_task: Option<usize>,
    other_cpu: Option<usize>,
}

impl IdLayout {
    pub(super) fn new(attr: &Attr) -> Self {
        let has = |bits: SampleType| attr.sample_type.intersects(bits);
        let words = |bits: SampleType| 8 * (attr.sample_type & bits).bits().count_ones() as usize;
        let in_front = |bits| words(SampleType::IDENTIFIER | SampleType::IP | bits);
        let behind = |bits| words(SampleType::STREAM_ID | SampleType::CPU | bits);
        let all = attr.flags.contains(AttrFlags::SAMPLE_ID_ALL);
        let tail = SampleType::IDENTIFIER | SampleType::ID;
        Self {
            sample_id: if has(SampleType::IDENTIFIER) {
                Some(0)
            } else {
                has(SampleType::ID)
                    .then(|| in_front(SampleType::TID | SampleType::TIME | SampleType::ADDR))
            },
            sample_time: has(SampleType::TIME).then(|| in_front(SampleType::TID)),
            other_id: if all && has(SampleType::IDENTIFIER) {
                Some(8)
            } else {
                (all && has(SampleType::ID)).then(|| behind(tail))
            },
            other_time: (all && has(SampleType::TIME)).then(|| behind(tail | SampleType::TIME)),
            other_task: (all && has(SampleType::TID))
                .then(|| behind(tail | SampleType::TIME | SampleType::TID)),
            other_cpu: (all && has(SampleType::CPU))
                .then(|| words(SampleType::CPU | SampleType::IDENTIFIER)),
        }
    }

    /// Process, thread and CPU that a record other than a sample was made by.
    pub(super) fn maker(self, body: &[u8], endian: Endian) -> SampleId {
        let at = |position: Option<usize>| {
            Some(Fields::new(body.get(body.len().checked_sub(position?)?..)?, endian))
        };
        let task = at(self.other_task)
            .and_then(|mut fields| Some((fields.u32()? as i32, fields.u32()? as i32)));
        SampleId { task, cpu: at(self.other_cpu).and_then(|mut fields| fields.u32()) }
    }

    /// Time stamp of a record, nanoseconds.
    pub(super) fn time(self, record_kind: u32, body: &[u8], endian: Endian) -> Option<u64> {
        if record_kind == kind::SAMPLE {
            u64_at(body, self.sample_time?, endian)
        } else {
            u64_at(body, body.len().checked_sub(self.other_time?)?, endian)
        }
    }

    #[inline]
    fn id(self, record_kind: u32, body: &[u8], endian: Endian) -> Option<u64> {
        if record_kind == kind::SAMPLE {
            u64_at(body, self.sample_id?, endian)
        } else {
            u64_at(body, body.len().checked_sub(self.other_id?)?, endian)
        }
    }
}

#[inline]
fn u64_at(body: &[u8], at: usize, endian: Endian) -> Option<u64> {
    body.get(at..)?.first_chunk().map(|bytes| endian.u64(*bytes))
}

/// Finds the event of a record.
#[derive(Debug, Clone)]
pub(super) struct Events {
    pub(super) list: Vec<Event>,
    layouts: Vec<IdLayout>,
    by_id: HashMap<u64, usize>,
    /// Ids that were met, with their events, by their lowest bits: records come in long runs of one ring, hence of few
    /// ids, which the kernel numbers one after another. 0 is none.
    recent: [(u64, usize); RECENT],
}

/// Ids that are found without a hash.
const RECENT: usize = 64;

impl Events {
    pub(super) fn new() -> Self {
        let recent = [(0, 0); RECENT];
        Self { list: Vec::new(), layouts: Vec::new(), by_id: HashMap::new(), recent }
    }

    pub(super) fn push(&mut self, event: Event) {
        let index = self.list.len();
        self.recent = [(0, 0); RECENT];
        for &id in &event.ids {
            self.by_id.insert(id, index);
        }
        self.layouts.push(IdLayout::new(&event.attr));
        self.list.push(event);
    }

    /// Ids of all descriptors.
    pub(super) fn ids(&self) -> usize {
        self.by_id.len()
    }

    /// Event `index` has a further descriptor.
    pub(super) fn add_id(&mut self, index: usize, id: u64) {
        if let Some(event) = self.list.get_mut(index) {
            event.ids.push(id);
            self.by_id.insert(id, index);
            self.recent[id as usize % RECENT] = (0, 0);
        }
    }

    /// Gives the event that owns `id` a better name.
    pub(super) fn rename(&mut self, id: u64, name: &str) {
        if let Some(&index) = self.by_id.get(&id) {
            self.rename_at(index, name);
        }
    }

    /// Gives event `index` a better name.
    pub(super) fn rename_at(&mut self, index: usize, name: &str) {
        if let Some(event) = self.list.get_mut(index)
            && !name.is_empty()
        {
            name.clone_into(&mut event.name);
        }
    }

    /// Whether every sample can be given to its event.
    pub(super) fn distinguishable(&self) -> bool {
        self.list.len() < 2 || self.common(|layout| layout.sample_id).is_some()
    }

    /// A position all events agree on.
    fn common(&self, position: impl Fn(&IdLayout) -> Option<usize>) -> Option<usize> {
        let first = position(self.layouts.first()?)?;
        self.layouts.iter().all(|layout| position(layout) == Some(first)).then_some(first)
    }

    /// Event of a sample; `None` if its id belongs to none.
    #[inline]
    pub(super) fn of_sample(&mut self, body: &[u8], endian: Endian) -> Option<usize> {
        if self.list.len() == 1 {
            return Some(0);
        }
        let id = self.layouts.first()?.id(kind::SAMPLE, body, endian)?;
        self.of_id(id)
    }

    /// Event that owns a descriptor's id.
    #[inline]
    pub(super) fn of_id(&mut self, id: u64) -> Option<usize> {
        let (known, event) = self.recent[id as usize % RECENT];
        if known == id && id != 0 {
            return Some(event);
        }
        self.of_other_id(id)
    }

    fn of_other_id(&mut self, id: u64) -> Option<usize> {
        let index = *self.by_id.get(&id)?;
        self.recent[id as usize % RECENT] = (id, index);
        Some(index)
    }

    /// Event of any other record of the kernel. Synthesised ones have id 0: the first event's, whose
    /// layout all recorders use for them.
    pub(super) fn of_other(&mut self, record_kind: u32, body: &[u8], endian: Endian) -> usize {
        if self.list.len() < 2 {
            return 0;
        }
        self.layouts
            .first()
            .and_then(|layout| layout.id(record_kind, body, endian))
            .and_then(|id| self.of_id(id))
            .unwrap_or(0)
    }

    pub(super) fn layout(&self, event: usize) -> Option<IdLayout> {
        self.layouts.get(event).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(sample_type: SampleType) -> Attr {
        Attr { sample_type, flags: AttrFlags::SAMPLE_ID_ALL, ..Attr::default() }
    }

    /// Positions counted by hand from the order of fields in perf_event.h.
    #[test]
    fn positions_follow_the_order_of_fields() {
        let old = SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::ADDR
            | SampleType::ID
            | SampleType::CPU
            | SampleType::PERIOD;
        let layout = IdLayout::new(&attr(old));
        // sample: ip tid time addr id; other: tid time id cpu
        assert_eq!((layout.sample_id, layout.sample_time), (Some(32), Some(16)));
        assert_eq!((layout.other_id, layout.other_time), (Some(16), Some(24)));

        let ours = SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CPU;
        let layout = IdLayout::new(&attr(ours));
        assert_eq!((layout.sample_id, layout.sample_time), (Some(0), Some(24)));
        assert_eq!((layout.other_id, layout.other_time), (Some(8), Some(24)));
        let mut body = [7_u32, 8].map(u32::to_le_bytes).concat();
        body.extend([55_u64, 3, 99].iter().flat_map(|word| word.to_le_bytes())); // time, CPU, id
        let maker = layout.maker(&body, Endian::Little);
        assert_eq!(maker, SampleId { task: Some((7, 8)), cpu: Some(3) });
        assert_eq!(layout.maker(&body[..20], Endian::Little).task, None);

        let bare = IdLayout::new(&Attr { sample_type: old, ..Attr::default() });
        assert_eq!((bare.other_id, bare.other_time), (None, None));
    }

    #[test]
    fn two_events_without_ids_cannot_be_told_apart() {
        let event =
            |sample_type, id| Event { name: String::new(), attr: attr(sample_type), ids: vec![id] };
        let all = |list: Vec<Event>| {
            let mut events = Events::new();
            list.into_iter().for_each(|event| events.push(event));
            events.distinguishable()
        };
        let with = |a, b| all(vec![event(a, 1), event(b, 2)]);
        let id = SampleType::IDENTIFIER;
        assert!(!with(SampleType::IP, SampleType::IP));
        assert!(!with(id, SampleType::IP | SampleType::ID));
        assert!(with(id | SampleType::IP, id));
        assert!(all(vec![event(SampleType::IP, 1)]));
    }
}
