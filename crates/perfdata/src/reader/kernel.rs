//! Records of the kernel: their event, time and content.

use pmuscope_abi::AttrFlags;
use pmuscope_abi::record::kind;

use super::bytes::{Endian, Fields};
use super::event::{Events, SampleId};
use super::other;
use super::record::{self, Record};
use super::rewrite::CALLCHAIN_DEFERRED;
use super::sample::{self, ReadValues, Sample};

/// READ, AUX, ITRACE_START, SWITCH, SWITCH_CPU_WIDE, NAMESPACES, BPF_EVENT, CGROUP,
/// TEXT_POKE, AUX_OUTPUT_HW_ID, CALLCHAIN_DEFERRED: known, and of no use to a profile.
const ONLY_FOR_ALL: [u32; 11] = [
    kind::READ,
    kind::AUX,
    ITRACE_START,
    kind::SWITCH,
    kind::SWITCH_CPU_WIDE,
    kind::NAMESPACES,
    kind::BPF_EVENT,
    kind::CGROUP,
    TEXT_POKE,
    AUX_OUTPUT,
    CALLCHAIN_DEFERRED,
];
const ITRACE_START: u32 = 12;
const TEXT_POKE: u32 = 20;
const AUX_OUTPUT: u32 = 21;

/// What use a kind of record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// A profile needs it.
    Profile,
    /// Needed only for inspecting records one by one.
    Listing,
    /// This version does not know it.
    Unknown,
}

impl Use {
    pub(super) fn of(record_kind: u32) -> Self {
        match record_kind {
            kind::SAMPLE
            | kind::MMAP
            | kind::MMAP2
            | kind::COMM
            | kind::FORK
            | kind::EXIT
            | kind::LOST
            | kind::LOST_SAMPLES
            | kind::THROTTLE
            | kind::UNTHROTTLE
            | kind::KSYMBOL => Self::Profile,
            known if ONLY_FOR_ALL.contains(&known) => Self::Listing,
            _ => Self::Unknown,
        }
    }
}

/// Whether a record tells of lost records or of throttling: when and where matters then.
pub(super) fn tells_loss(record_kind: u32) -> bool {
    [kind::LOST, kind::LOST_SAMPLES, kind::THROTTLE, kind::UNTHROTTLE].contains(&record_kind)
}

/// A record with what is known about it without decoding it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identified<'a> {
    pub(super) kind: u32,
    pub(super) misc: u16,
    pub(super) event: usize,
    /// Nanoseconds; `None` if it has no time.
    pub(super) time: Option<u64>,
    pub(super) body: &'a [u8],
}

/// Event and time of a record; `None` for a sample that belongs to no event.
pub(super) fn identify<'a>(
    record_kind: u32,
    misc: u16,
    body: &'a [u8],
    events: &mut Events,
    endian: Endian,
) -> Option<Identified<'a>> {
    let event = if record_kind == kind::SAMPLE {
        events.of_sample(body, endian)?
    } else {
        events.of_other(record_kind, body, endian)
    };
    // perf marks "not known" by all ones.
    let time = events
        .layout(event)
        .and_then(|layout| layout.time(record_kind, body, endian))
        .filter(|&time| time != u64::MAX);
    Some(Identified { kind: record_kind, misc, event, time, body })
}

/// What a sample says; `None` if it is too short.
#[inline(always)]
pub(super) fn decode_sample<'a>(
    found: &Identified<'a>,
    events: &Events,
    endian: Endian,
) -> Option<Sample<'a>> {
    let attr = &events.list.get(found.event)?.attr;
    sample::sample(found.body, found.misc, found.event, attr, endian)
}

/// What a record says; `None` if it is too short for its kind.
pub(super) fn decode<'a>(
    found: &Identified<'a>,
    events: &mut Events,
    endian: Endian,
) -> Option<Record<'a>> {
    let Identified { body, misc, .. } = *found;
    let mut fields = Fields::new(body, endian);
    Some(match found.kind {
        kind::SAMPLE => Record::Sample(decode_sample(found, events, endian)?),
        kind::MMAP | kind::MMAP2 => {
            let has_build_ids = has_build_ids(found, events);
            Record::Mmap(record::mmap(body, found.kind, misc, has_build_ids, endian)?)
        }
        kind::COMM => Record::Comm(record::comm(body, misc, endian)?),
        kind::FORK => Record::Fork(record::task(body, misc, endian)?),
        kind::EXIT => Record::Exit(record::task(body, misc, endian)?),
        kind::KSYMBOL => Record::Ksymbol(record::ksymbol(body, endian)?),
        kind::LOST => {
            let (id, count) = (fields.u64()?, fields.u64()?);
            Record::Lost { event: events.of_id(id), count }
        }
        kind::LOST_SAMPLES => Record::LostSamples { event: found.event, count: fields.u64()? },
        kind::THROTTLE | kind::UNTHROTTLE => {
            let (_time, id) = (fields.u64()?, fields.u64()?);
            let event = events.of_id(id);
            if found.kind == kind::THROTTLE {
                Record::Throttle { event }
            } else {
                Record::Unthrottle { event }
            }
        }
        kind::READ => {
            let format = events.list.get(found.event)?.attr.read_format;
            let (pid, tid) = (fields.u32()? as i32, fields.u32()? as i32);
            Record::Read { pid, tid, values: ReadValues::take(&mut fields, format)? }
        }
        kind::AUX => {
            let (offset, size, flags) = (fields.u64()?, fields.u64()?, fields.u64()?);
            Record::Aux(other::Aux { offset, size, flags })
        }
        ITRACE_START => {
            Record::ItraceStart { pid: fields.u32()? as i32, tid: fields.u32()? as i32 }
        }
        kind::SWITCH | kind::SWITCH_CPU_WIDE => {
            Record::Switch(other::switch(body, found.kind, misc, endian)?)
        }
        kind::NAMESPACES => Record::Namespaces(other::namespaces(body, endian)?),
        kind::BPF_EVENT => Record::BpfEvent(other::bpf_event(body, endian)?),
        kind::CGROUP => Record::Cgroup(other::cgroup(body, endian)?),
        TEXT_POKE => Record::TextPoke(other::text_poke(body, endian)?),
        AUX_OUTPUT => Record::AuxOutput(other::AuxOutput { id: fields.u64()? }),
        CALLCHAIN_DEFERRED => Record::DeferredCallchain(other::deferred_callchain(body, endian)?),
        kind => Record::Other { kind },
    })
}

/// Who a record was made by; of a sample, its own fields say so.
pub(super) fn maker(found: &Identified<'_>, events: &Events, endian: Endian) -> SampleId {
    match events.layout(found.event) {
        Some(layout) if found.kind != kind::SAMPLE => layout.maker(found.body, endian),
        _ => SampleId::default(),
    }
}

/// Whether the event of a mapping record asked for build ids. Records that the recorder made itself
/// have no time and belong to no event: they have build ids if any event asked for them.
fn has_build_ids(found: &Identified<'_>, events: &Events) -> bool {
    let asks = |event: &super::Event| event.attr.flags.contains(AttrFlags::BUILD_ID);
    match found.time {
        Some(time) if time != 0 => events.list.get(found.event).is_some_and(asks),
        _ => events.list.iter().any(asks),
    }
}
