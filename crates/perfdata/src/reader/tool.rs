//! Records written by the recording tool, as far as the reader itself needs them.

use pmuscope_abi::ATTR_SIZE_VER0;
use pmuscope_abi::record::kind;

use crate::info::{MAGIC, PAYLOAD_INFO, RecordingInfo};
use crate::strobe::{EpochUpdate, PAYLOAD_EPOCHS};

use super::bytes::{Endian, Fields, until_zero};
use super::event::Event;
use super::simpleperf::{self, FileSymbol, FileSymbols};
use super::stream::{AUXTRACE, COMPRESSED2, RawRecord, SIMPLEPERF_TRACING_DATA, TRACING_DATA};
use super::{header, name};

/// The first kind of a tool's records.
pub(super) const FIRST: u32 = 64;
const HEADER_ATTR: u32 = 64;
const BUILD_ID: u32 = 67;
const EVENT_UPDATE: u32 = 78;
/// `type` of an event update that carries a name.
const UPDATE_NAME: u64 = 2;
/// What matters to nobody here: id index, hardware trace information and errors, thread and CPU maps,
/// counts of `perf stat`, clock conversion, the end of synthesised records, what BPF programs and the
/// scheduler tell.
const PASSED_OVER: [u32; 13] = [69, 70, 72, 73, 74, 75, 76, 77, 79, 82, 84, 85, 86];

/// A record that a tool wrote, as far as the reader wants it.
#[derive(Debug)]
pub(super) enum ToolRecord {
    Event(Box<Event>),
    Feature {
        bit: u32,
        bytes: Vec<u8>,
    },
    BuildId {
        misc: u16,
        body: Vec<u8>,
    },
    EventName {
        id: u64,
        name: String,
    },
    TracingData(Vec<u8>),
    Info(Box<RecordingInfo>),
    Epochs {
        update: EpochUpdate,
        bytes: usize,
    },
    /// A file that simpleperf numbered, in 2016.
    File {
        number: u64,
        file: FileSymbols,
    },
    /// A symbol of the file of this number.
    Symbol {
        file: u64,
        symbol: FileSymbol,
        bytes: usize,
    },
    PassedOver,
    Unknown,
}

impl ToolRecord {
    /// In a file, sections have attributes and features: the records are for others.
    pub(super) fn read(raw: &RawRecord<'_>, endian: Endian, is_stream: bool) -> Self {
        let wanted = match raw.kind {
            HEADER_ATTR if is_stream => header_attr(raw.body, endian),
            kind::HEADER_FEATURE if is_stream => header_feature(raw.body, endian),
            HEADER_ATTR | kind::HEADER_FEATURE => Some(Self::PassedOver),
            BUILD_ID => Some(Self::BuildId { misc: raw.misc, body: raw.body.to_vec() }),
            EVENT_UPDATE => event_update(raw.body, endian),
            kind::HEADER_EVENT_TYPE => info(raw.body, endian),
            // Their contents come as records of their own, or are skipped by the stream.
            kind::COMPRESSED | COMPRESSED2 | AUXTRACE => Some(Self::PassedOver),
            TRACING_DATA | SIMPLEPERF_TRACING_DATA => tracing_data(raw, endian),
            simpleperf::FILE => simpleperf::file_record(Fields::new(raw.body, endian))
                .map(|(number, file)| Self::File { number, file }),
            simpleperf::SYMBOL => simpleperf::symbol_record(Fields::new(raw.body, endian))
                .map(|(file, symbol)| Self::Symbol { file, symbol, bytes: raw.body.len() }),
            // Who reads in the order of time has taken it before.
            kind::FINISHED_ROUND => Some(Self::PassedOver),
            kind if PASSED_OVER.contains(&kind) => Some(Self::PassedOver),
            _ => Some(Self::Unknown),
        };
        wanted.unwrap_or(Self::PassedOver)
    }
}

fn header_attr(body: &[u8], endian: Endian) -> Option<ToolRecord> {
    let attr = header::attr_from(body, endian)?;
    let declared = Fields::new(body.get(4..)?, endian).u32()? as usize;
    let size = if declared == 0 { ATTR_SIZE_VER0 } else { declared };
    let ids = header::ids_from(body.get(size..).unwrap_or_default(), endian);
    Some(ToolRecord::Event(Box::new(Event { name: name::of(&attr), attr, ids })))
}

fn header_feature(body: &[u8], endian: Endian) -> Option<ToolRecord> {
    let mut fields = Fields::new(body, endian);
    let bit = u32::try_from(fields.u64()?).ok()?;
    Some(ToolRecord::Feature { bit, bytes: fields.rest().to_vec() })
}

fn event_update(body: &[u8], endian: Endian) -> Option<ToolRecord> {
    let mut fields = Fields::new(body, endian);
    let (what, id) = (fields.u64()?, fields.u64()?);
    let name = String::from_utf8_lossy(until_zero(fields.rest())).into_owned();
    (what == UPDATE_NAME).then_some(ToolRecord::EventName { id, name })
}

/// `u32 size, bytes`, in a record of any size: what its header cannot hold follows it.
fn tracing_data(raw: &RawRecord<'_>, endian: Endian) -> Option<ToolRecord> {
    let bytes = [raw.body, raw.attached].concat();
    let mut fields = Fields::new(&bytes, endian);
    let size = usize::try_from(fields.u32()?).ok()?;
    fields.take(size).map(|bytes| ToolRecord::TracingData(bytes.to_vec()))
}

/// Our own record; its words are in the byte order of the file as all others.
fn info(body: &[u8], endian: Endian) -> Option<ToolRecord> {
    let mut fields = Fields::new(body.strip_prefix(MAGIC)?, endian);
    let (kind, size) = (fields.u32()?, fields.u32()?);
    let json = fields.take(usize::try_from(size).ok()?)?;
    match kind {
        PAYLOAD_INFO => Some(ToolRecord::Info(Box::new(RecordingInfo::from_json(json)?))),
        PAYLOAD_EPOCHS => Some(ToolRecord::Epochs {
            update: serde_json::from_slice::<EpochUpdate>(json).ok()?,
            bytes: json.len(),
        }),
        _ => None,
    }
}
