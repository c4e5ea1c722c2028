//! The bytes of a `perf.data` file, and their offsets.
//!
//! The order in the file keeps it readable at any time during a recording, also by stock perf:
//!
//! ```text
//!  created                       while recording             closed
//!  ┌───────────────┐             ┌───────────────┐           ┌───────────────┐
//!  │ header        │  data.size  │ header        │           │ header        │ features, final tables
//!  │ attrs, ids    │ ◄─ patched  │ attrs, ids    │           │ attrs, ids    │ (now unused)
//!  └───────────────┘  at each    │ records …     │           │ records       │
//!                     flush      └───────────────┘           │ feature table │
//!                                                            │ features      │
//!                                                            │ attrs, ids    │ with ids found late
//!                                                            └───────────────┘
//! ```
//!
//! Layout: `tools/perf/Documentation/perf.data-file-format.txt`; that perf accepts tables after the
//! data and a patched `data.size` was measured (perf 6.1).

mod features;
mod tracing;

use pmuscope_abi::{ATTR_SIZE_VER0, Attr};

pub use crate::clock_data::ClockData;
pub use features::{BuildIdEntry, Compression, Features, NodeEntry};
pub use tracing::TracingData;

const MAGIC: &[u8; 8] = b"PERFILE2";
const HEADER_SIZE: u64 = 104;
const SECTION_SIZE: usize = 16;

/// Offset in the file of the size of the data section; see [`data_size_patch`].
pub const DATA_SIZE_OFFSET: u64 = 48;

/// An event as the file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvent {
    /// The attribute as opened.
    pub attr: Attr,
    /// The name shown to people.
    pub name: String,
    /// Ids of all descriptors opened for it.
    pub ids: Vec<u64>,
}

/// A piece of the file: an offset in bytes and a length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct FileSection {
    offset: u64,
    size: u64,
}

/// What comes before the data: the header with provisional tables. The data start right after it.
#[must_use]
pub fn front(events: &[FileEvent]) -> Vec<u8> {
    front_with_records(events, &[])
}

/// [`front`] followed by whole records, already counted as data: stock perf rejects a file without
/// any.
#[must_use]
pub fn front_with_records(events: &[FileEvent], records: &[u8]) -> Vec<u8> {
    let tables = Tables::new(events, HEADER_SIZE);
    let offset = HEADER_SIZE + tables.bytes.len() as u64;
    let mut out = tables.header(FileSection { offset, size: records.len() as u64 }, &[0; 32]);
    out.extend_from_slice(&tables.bytes);
    out.extend_from_slice(records);
    out
}

/// The eight bytes for [`DATA_SIZE_OFFSET`] after `size` bytes of whole records are in the file.
#[must_use]
pub fn data_size_patch(size: u64) -> [u8; 8] {
    size.to_ne_bytes()
}

/// What closes a file: first write `tail` at `tail_offset`, then `header` at offset 0. Between the
/// two writes the file is unchanged for readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    /// Feature table, features, final attribute and id tables.
    pub tail: Vec<u8>,
    /// The offset of `tail`: right after the data.
    pub tail_offset: u64,
    /// The final header.
    pub header: Vec<u8>,
}

/// Builds the end of a file with a data section of `data_size` bytes at `data_offset`.
#[must_use]
pub fn closing(
    events: &[FileEvent],
    features: &Features,
    data_offset: u64,
    data_size: u64,
) -> Closing {
    let tail_offset = data_offset + data_size;
    let sections = features.sections(events);
    let mut bitmap = [0_u8; 32];
    let mut offset = tail_offset + (sections.len() * SECTION_SIZE) as u64;
    let mut tail = Vec::new();
    for (bit, payload) in &sections {
        bitmap[*bit as usize / 8] |= 1 << (bit % 8);
        push_section(&mut tail, FileSection { offset, size: payload.len() as u64 });
        offset += payload.len() as u64;
    }
    for (_, payload) in &sections {
        tail.extend_from_slice(payload);
    }
    let tables = Tables::new(events, offset);
    tail.extend_from_slice(&tables.bytes);
    let data = FileSection { offset: data_offset, size: data_size };
    let header = tables.header(data, &bitmap);
    Closing { tail, tail_offset, header }
}

/// The attribute section, the same once more as an event type section, and the id arrays both point
/// to. perf takes ids from the former; linux-perf-data (samply) takes them from the latter as long
/// as there is no EVENT_DESC feature, that is, in a file that was never closed. The two differ in
/// where the header's entry size ends:
///
/// ```text
///  attrs:       │ attr │ ids ││ attr │ ids │         entry = attr + ids
///  event types: │ attr │ ids │ ids ││ attr │ ids │ ids │   entry = (attr + ids) + ids
/// ```
struct Tables {
    /// Bytes of an attribute and the section after it.
    entry: usize,
    attrs: FileSection,
    event_types: FileSection,
    bytes: Vec<u8>,
}

impl Tables {
    fn new(events: &[FileEvent], offset: u64) -> Self {
        let attr_size = attr_size(events);
        let entry = attr_size + SECTION_SIZE;
        let attrs = FileSection { offset, size: (events.len() * entry) as u64 };
        let event_types = FileSection {
            offset: attrs.offset + attrs.size,
            size: (events.len() * (entry + SECTION_SIZE)) as u64,
        };
        let mut ids_offset = event_types.offset + event_types.size;
        let ids: Vec<FileSection> = events
            .iter()
            .map(|event| {
                let ids = FileSection { offset: ids_offset, size: (event.ids.len() * 8) as u64 };
                ids_offset += ids.size;
                ids
            })
            .collect();
        let mut bytes = Vec::new();
        for sections_per_entry in [1, 2] {
            for (event, ids) in events.iter().zip(&ids) {
                bytes.extend_from_slice(&event.attr.to_sized_bytes(attr_size));
                (0..sections_per_entry).for_each(|_| push_section(&mut bytes, *ids));
            }
        }
        for id in events.iter().flat_map(|event| &event.ids) {
            bytes.extend_from_slice(&id.to_ne_bytes());
        }
        Self { entry, attrs, event_types, bytes }
    }

    fn header(&self, data: FileSection, features: &[u8; 32]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_SIZE as usize);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&HEADER_SIZE.to_ne_bytes());
        out.extend_from_slice(&(self.entry as u64).to_ne_bytes());
        push_section(&mut out, self.attrs);
        push_section(&mut out, data);
        push_section(&mut out, self.event_types);
        out.extend_from_slice(features);
        out
    }
}

/// One size for all attributes of a file: the smallest that holds each.
fn attr_size(events: &[FileEvent]) -> usize {
    events.iter().map(|event| event.attr.smallest_size()).max().unwrap_or(ATTR_SIZE_VER0)
}

fn push_section(out: &mut Vec<u8>, section: FileSection) {
    out.extend_from_slice(&section.offset.to_ne_bytes());
    out.extend_from_slice(&section.size.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux_perf_data::{PerfFileReader, PerfFileRecord};
    use pmuscope_abi::record::{RecordBuilder, kind, misc};
    use pmuscope_abi::{AttrFlags, SampleType, event_type};

    fn event(name: &str, ids: &[u64]) -> FileEvent {
        let sample_type = SampleType::IDENTIFIER | SampleType::IP | SampleType::TIME;
        let attr = Attr {
            event_type: event_type::SOFTWARE,
            sample: 1_000_000,
            sample_type,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        FileEvent { attr, name: name.into(), ids: ids.to_vec() }
    }

    fn sample(out: &mut Vec<u8>, id: u64, time: u64) {
        RecordBuilder::new(out, kind::SAMPLE, misc::USER).u64(id).u64(0x1234).u64(time).finish();
    }

    /// Event index and time of each sample, by a reader that we did not write.
    fn read_back(file: &[u8]) -> Vec<(usize, u64)> {
        let PerfFileReader { mut perf_file, mut record_iter } =
            PerfFileReader::parse_file(std::io::Cursor::new(file)).unwrap();
        let mut seen = Vec::new();
        while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
            if let PerfFileRecord::EventRecord { attr_index, record } = record {
                seen.push((attr_index, record.timestamp().unwrap()));
            }
        }
        seen
    }

    fn two_event_file() -> (Vec<FileEvent>, Vec<u8>, usize) {
        let events = vec![event("first", &[1, 2]), event("second", &[3])];
        let mut file = front(&events);
        let data_offset = file.len();
        sample(&mut file, 3, 20);
        sample(&mut file, 1, 10);
        (events, file, data_offset)
    }

    #[test]
    fn a_file_that_was_never_closed_is_read_up_to_its_last_patch() {
        let (_, mut file, data_offset) = two_event_file();
        let size = (file.len() - data_offset) as u64;
        file[48..56].copy_from_slice(&data_size_patch(size));
        file.extend_from_slice(&[9, 0, 0]); // a record cut off
        assert_eq!(read_back(&file), [(0, 10), (1, 20)]);
    }

    #[test]
    fn a_closed_file_knows_names_and_ids_found_late() {
        let (mut events, mut file, data_offset) = two_event_file();
        sample(&mut file, 77, 30);
        events[1].ids.push(77);
        let features = Features { hostname: Some("host".into()), ..Features::default() };
        let size = (file.len() - data_offset) as u64;
        let end = closing(&events, &features, data_offset as u64, size);
        assert_eq!(end.tail_offset, file.len() as u64);
        file.extend_from_slice(&end.tail);
        file[..104].copy_from_slice(&end.header);
        assert_eq!(read_back(&file), [(0, 10), (1, 20), (1, 30)]);

        let reader = PerfFileReader::parse_file(std::io::Cursor::new(&file)).unwrap();
        let names: Vec<_> = reader
            .perf_file
            .event_attributes()
            .iter()
            .map(|a| a.name().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["first", "second"]);
        assert_eq!(reader.perf_file.hostname().unwrap(), Some("host"));
    }
}
