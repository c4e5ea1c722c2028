//! Reads recordings: ours and those of `perf record`, as files and as streams, of either byte order.
//!
//! A file is a thing from anywhere. Whatever it says is checked against its size; what is damaged is
//! read up to the damage, and [`Tally`] says what was left out.
//!
//! ```no_run
//! use pmuscope_perfdata::reader::{Reader, Record};
//!
//! let mut reader = Reader::open("perf.data".as_ref())?;
//! let mut samples = 0;
//! while let Some(entry) = reader.next()? {
//!     if let Record::Sample(_) = entry.record {
//!         samples += 1;
//!     }
//! }
//! println!("{samples} samples of {}", reader.events()[0].name);
//! # Ok::<(), pmuscope_perfdata::reader::ReadError>(())
//! ```
//!
//! Records come in the order of time; each borrows from the reader's buffer, nothing is allocated per
//! record. What waits to be ordered takes memory for two rounds of the recorder, 1 GiB at most.

mod bytes;
mod error;
mod event;
mod header;
mod metadata;
mod name;
mod order;
mod record;
mod stream;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use pmuscope_abi::record::kind;

use crate::info::{MAGIC, PAYLOAD_INFO, RecordingInfo};

pub use bytes::Endian;
pub use error::ReadError;
pub use event::Event;
pub use header::FileState;
pub use metadata::{FileBuildId, Metadata};
pub use record::{Callchain, Comm, CpuMode, KERNEL_PID, Ksymbol, Mmap, Record, Sample, Task};
pub use stream::{StopReason, Stopped};

use bytes::Fields;
use event::Events;
use metadata::NamedIds;
use order::Order;
use stream::{RawRecord, Step, Stream};

/// Name of the input that stands for standard input.
pub const STDIN: &str = "-";
/// More events than this are not one recording's.
const MOST_EVENTS: usize = u16::MAX as usize;

/// Kinds of tool records that matter only to the reader itself, or to nobody here.
mod tool {
    pub(super) const HEADER_ATTR: u32 = 64;
    pub(super) const BUILD_ID: u32 = 67;
    pub(super) const EVENT_UPDATE: u32 = 78;
    /// `type` of an event update that carries a name.
    pub(super) const UPDATE_NAME: u64 = 2;
}

/// A record with its time stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Nanoseconds of the recording's clock; `None` if the record has none.
    pub time: Option<u64>,
    /// The record.
    pub record: Record<'a>,
}

/// What was read, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records read.
    pub records: u64,
    /// Samples that belong to no event of the file.
    pub samples_of_no_event: u64,
    /// Records shorter than their kind demands.
    pub malformed: u64,
    /// Records that came too late to be put in order.
    pub late: u64,
    /// Number of records of each kind that this version does not know.
    pub unknown_kinds: BTreeMap<u32, u64>,
    /// Where and why reading ended before the end of the data.
    pub stopped: Option<Stopped>,
}

/// An open recording.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    endian: Endian,
    state: FileState,
    is_stream: bool,
    metadata: Metadata,
    /// Names that arrive in a stream before or after their events.
    names: Vec<NamedIds>,
    events: Events,
    stream: Stream,
    order: Order,
    tally: Tally,
    done: bool,
}

impl Reader {
    /// Opens the recording at `path`; [`STDIN`] reads a stream from standard input.
    ///
    /// # Errors
    /// If it cannot be read at all; see [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        if path.as_os_str() == STDIN {
            return Self::open_stream(path, Box::new(io::stdin()));
        }
        let io = |what| {
            let path = path.to_path_buf();
            move |source| ReadError::Io { path, what, source }
        };
        let mut file = File::open(path).map_err(io("open"))?;
        let kind = file.metadata().map_err(io("open"))?.file_type();
        if kind.is_dir() {
            return Err(ReadError::Directory(path.to_path_buf()));
        }
        if !kind.is_file() {
            return Self::open_stream(path, Box::new(file));
        }
        let header = header::read(&file, path)?;
        let Some(layout) = header.layout else {
            return Self::open_stream(path, Box::new(file));
        };
        let (metadata, names) = metadata::read(&file, path, &layout, header.endian)?;
        file.seek(SeekFrom::Start(layout.data.offset)).map_err(io("read"))?;
        let input = Box::new(file.take(layout.data.size));
        let stream = Stream::new(input, layout.data.offset, header.endian);
        let mut reader = Self::new(path, header.endian, stream);
        reader.state = layout.state;
        reader.metadata = metadata;
        reader.names = names;
        for event in layout.events {
            reader.add_event(event);
        }
        reader.name_events();
        reader.check_events()?;
        Ok(reader)
    }

    fn open_stream(path: &Path, mut input: Box<dyn Read + Send>) -> Result<Self, ReadError> {
        let mut front = [0; header::STREAM_SIZE as usize];
        let read = read_up_to(&mut input, &mut front).map_err(|source| ReadError::Io {
            path: path.to_path_buf(),
            what: "read",
            source,
        })?;
        let magic = &front[..read.min(8)];
        let Some(endian) = header::endian_of(magic) else {
            return Err(ReadError::magic(path, magic));
        };
        let size = Fields::new(&front[8..read.max(8)], endian).u64().unwrap_or(0);
        if size != header::STREAM_SIZE {
            let problem = format!("{size}; a stream has 16, and a file cannot be read from a pipe");
            return Err(ReadError::Header { path: path.to_path_buf(), field: "size", problem });
        }
        let mut reader = Self::new(path, endian, Stream::new(input, header::STREAM_SIZE, endian));
        reader.is_stream = true;
        // Descriptions come first; the first record of the kernel ends them.
        while !reader.done && reader.order.is_empty() {
            reader.advance()?;
        }
        if reader.events.list.is_empty() {
            return Err(ReadError::NoEvents(path.to_path_buf()));
        }
        reader.check_events()?;
        Ok(reader)
    }

    fn new(path: &Path, endian: Endian, stream: Stream) -> Self {
        Self {
            path: path.to_path_buf(),
            endian,
            state: FileState::Closed,
            is_stream: false,
            metadata: Metadata::default(),
            names: Vec::new(),
            events: Events::new(),
            stream,
            order: Order::default(),
            tally: Tally::default(),
            done: false,
        }
    }

    fn check_events(&self) -> Result<(), ReadError> {
        if self.events.distinguishable() {
            return Ok(());
        }
        Err(ReadError::NoCommonId { path: self.path.clone(), events: self.events.list.len() })
    }

    /// The events, in the order of the file.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events.list
    }

    /// What the file says about machine and recording. In a stream, and in a recording that was cut
    /// off, this is complete only at the end.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// How the file ends, by its header.
    #[must_use]
    pub fn state(&self) -> FileState {
        self.state
    }

    /// What was read so far, and what not.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The next record in time; `None` at the end.
    ///
    /// # Errors
    /// Only if the operating system fails to read. Damage ends the records early; see [`Tally::stopped`].
    #[allow(clippy::should_implement_trait)] // an iterator cannot lend
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, ReadError> {
        while !self.order.is_ready() {
            if self.done {
                return Ok(None);
            }
            self.advance()?;
        }
        let Self { order, events, tally, endian, .. } = self;
        Ok(order.pop().map(|raw| {
            let record = decode(&raw, events, *endian).unwrap_or_else(|| {
                tally.malformed += 1;
                Record::Other { kind: raw.kind }
            });
            Entry { time: raw.time, record }
        }))
    }

    /// Takes one record from the stream.
    fn advance(&mut self) -> Result<(), ReadError> {
        let step = self.stream.next().map_err(|source| ReadError::Io {
            path: self.path.clone(),
            what: "read",
            source,
        })?;
        let raw = match step {
            Step::Record(raw) => raw,
            Step::End | Step::Stopped(_) => {
                if let Step::Stopped(stopped) = step {
                    self.tally.stopped = Some(stopped);
                }
                self.order.finish();
                self.done = true;
                return Ok(());
            }
        };
        self.tally.records += 1;
        let kind = raw.kind;
        match kind {
            kind::FINISHED_ROUND => self.order.finish_round(),
            0..64 => queue(&raw, &mut self.events, &mut self.order, &mut self.tally, self.endian),
            _ => {
                let tool = ToolRecord::read(&raw, self.endian, self.is_stream);
                self.take(tool, kind);
            }
        }
        self.tally.late = self.order.late();
        Ok(())
    }

    /// What a tool's record means for the reader.
    fn take(&mut self, record: ToolRecord, kind: u32) {
        match record {
            ToolRecord::Event(event) => {
                self.add_event(*event);
                self.name_events();
            }
            ToolRecord::Feature { bit, bytes } => {
                self.names.extend(self.metadata.take_feature(bit, &bytes, self.endian));
                self.name_events();
            }
            ToolRecord::BuildId { misc, body } => self.metadata.take_build_id(misc, &body),
            ToolRecord::EventName { id, name } => self.events.rename(id, &name),
            ToolRecord::Info(info) => {
                // The copy written at close knows more than any in the stream.
                if !self.metadata.info.as_ref().is_some_and(|info| info.complete) {
                    self.metadata.info = Some(*info);
                }
            }
            ToolRecord::PassedOver => {}
            ToolRecord::Unknown => *self.tally.unknown_kinds.entry(kind).or_default() += 1,
        }
    }

    fn add_event(&mut self, event: Event) {
        if self.events.list.len() < MOST_EVENTS {
            self.events.push(event);
        }
    }

    /// Gives events the names of the EVENT_DESC feature.
    fn name_events(&mut self) {
        let same_number = self.names.len() == self.events.list.len();
        for (index, named) in self.names.iter().enumerate() {
            if let Some(&id) = named.ids.first() {
                self.events.rename(id, &named.name);
            } else if same_number {
                self.events.rename_at(index, &named.name);
            }
        }
    }
}

/// Puts a record of the kernel where it waits for its turn.
fn queue(
    raw: &RawRecord<'_>,
    events: &mut Events,
    order: &mut Order,
    tally: &mut Tally,
    endian: Endian,
) {
    let event = match raw.kind {
        kind::SAMPLE => match events.of_sample(raw.body, endian) {
            Some(event) => event,
            None => {
                tally.samples_of_no_event += 1;
                return;
            }
        },
        kind::MMAP
        | kind::MMAP2
        | kind::COMM
        | kind::FORK
        | kind::EXIT
        | kind::LOST
        | kind::LOST_SAMPLES
        | kind::THROTTLE
        | kind::KSYMBOL => events.of_other(raw.kind, raw.body, endian),
        _ => {
            if !KERNEL_KINDS_PASSED_OVER.contains(&raw.kind) {
                *tally.unknown_kinds.entry(raw.kind).or_default() += 1;
            }
            return;
        }
    };
    // perf marks "not known" by all ones.
    let time = events
        .layout(event)
        .and_then(|layout| layout.time(raw.kind, raw.body, endian))
        .filter(|&time| time != u64::MAX);
    order.push(raw.kind, raw.misc, event, time, raw.body);
}

/// UNTHROTTLE, READ, AUX, ITRACE_START, SWITCH, SWITCH_CPU_WIDE, NAMESPACES, BPF_EVENT, CGROUP,
/// TEXT_POKE, AUX_OUTPUT_HW_ID, CALLCHAIN_DEFERRED.
const KERNEL_KINDS_PASSED_OVER: [u32; 12] =
    [kind::UNTHROTTLE, kind::READ, kind::AUX, 12, 14, 15, 16, 18, 19, 20, 21, 22];
/// Of the tools' kinds: old event types, trace formats, id index, hardware trace information and
/// errors, thread and CPU maps, counts of `perf stat`, clock conversion, features (in a file they are
/// for others: sections have them), end of synthesised records.
const TOOL_KINDS_PASSED_OVER: [u32; 14] = [65, 66, 69, 70, 71, 72, 73, 74, 75, 76, 77, 79, 80, 82];

fn decode<'a>(raw: &order::Ordered<'a>, events: &mut Events, endian: Endian) -> Option<Record<'a>> {
    let body = raw.body;
    Some(match raw.kind {
        kind::SAMPLE => {
            let attr = &events.list.get(raw.event)?.attr;
            Record::Sample(record::sample(body, raw.misc, raw.event, attr, endian)?)
        }
        kind::MMAP | kind::MMAP2 => Record::Mmap(record::mmap(body, raw.kind, raw.misc, endian)?),
        kind::COMM => Record::Comm(record::comm(body, raw.misc, endian)?),
        kind::FORK => Record::Fork(record::task(body, raw.misc, endian)?),
        kind::EXIT => Record::Exit(record::task(body, raw.misc, endian)?),
        kind::KSYMBOL => Record::Ksymbol(record::ksymbol(body, endian)?),
        kind::LOST => {
            let mut fields = Fields::new(body, endian);
            let (id, count) = (fields.u64()?, fields.u64()?);
            Record::Lost { event: events.of_id(id), count }
        }
        kind::LOST_SAMPLES => {
            Record::LostSamples { event: raw.event, count: Fields::new(body, endian).u64()? }
        }
        kind::THROTTLE => {
            let mut fields = Fields::new(body, endian);
            let (_time, id) = (fields.u64()?, fields.u64()?);
            Record::Throttle { event: events.of_id(id) }
        }
        kind => Record::Other { kind },
    })
}

/// A record that a tool wrote, as far as the reader wants it.
enum ToolRecord {
    Event(Box<Event>),
    Feature { bit: u32, bytes: Vec<u8> },
    BuildId { misc: u16, body: Vec<u8> },
    EventName { id: u64, name: String },
    Info(Box<RecordingInfo>),
    PassedOver,
    Unknown,
}

impl ToolRecord {
    fn read(raw: &RawRecord<'_>, endian: Endian, is_stream: bool) -> Self {
        let wanted = match raw.kind {
            tool::HEADER_ATTR if is_stream => header_attr(raw.body, endian),
            kind::HEADER_FEATURE if is_stream => header_feature(raw.body, endian),
            tool::BUILD_ID => Some(Self::BuildId { misc: raw.misc, body: raw.body.to_vec() }),
            tool::EVENT_UPDATE => event_update(raw.body, endian),
            kind::HEADER_EVENT_TYPE => info(raw.body, endian),
            kind if TOOL_KINDS_PASSED_OVER.contains(&kind) => Some(Self::PassedOver),
            _ => Some(Self::Unknown),
        };
        wanted.unwrap_or(Self::PassedOver)
    }
}

fn header_attr(body: &[u8], endian: Endian) -> Option<ToolRecord> {
    let attr = header::attr_from(body, endian)?;
    let declared = Fields::new(body.get(4..)?, endian).u32()? as usize;
    let size = if declared == 0 { pmuscope_abi::ATTR_SIZE_VER0 } else { declared };
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
    let name = String::from_utf8_lossy(bytes::until_zero(fields.rest())).into_owned();
    (what == tool::UPDATE_NAME).then_some(ToolRecord::EventName { id, name })
}

/// Our own record; its words are in the byte order of the file as all others.
fn info(body: &[u8], endian: Endian) -> Option<ToolRecord> {
    let mut fields = Fields::new(body.strip_prefix(MAGIC)?, endian);
    let (kind, size) = (fields.u32()?, fields.u32()?);
    let json = fields.take(usize::try_from(size).ok()?)?;
    let info = (kind == PAYLOAD_INFO).then(|| RecordingInfo::from_json(json)).flatten()?;
    Some(ToolRecord::Info(Box::new(info)))
}

/// Fills `buffer` as far as the input goes.
fn read_up_to(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
