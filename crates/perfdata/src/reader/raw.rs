//! Raw records of a recording: in the order of the file, including those of tools, each with its
//! offset. For inspecting what is really in the file.

use std::path::Path;

use super::bytes::Endian;
use super::event::{Event, SampleId};
use super::header::FileState;
use super::kernel;
use super::metadata::Metadata;
use super::record::Record;
use super::stream::StreamStep;
use super::tool::{self, ToolRecord};
use super::{ReadError, Reader, Tally, note};

/// Reads a recording in the order of the file.
#[derive(Debug)]
pub struct RawReader {
    reader: Reader,
}

/// A record and its offset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RawEntry<'a> {
    /// The file, where a recording is a directory of several.
    pub file: Option<&'a Path>,
    /// Byte offset in the file of the record, or of the compressed record that holds it.
    pub offset: u64,
    /// It was compressed.
    pub packed: bool,
    /// See [`pmuscope_abi::record::kind`].
    pub kind: u32,
    /// See [`pmuscope_abi::record::misc`].
    pub misc: u16,
    /// What follows the header, in the byte order of the file.
    pub body: &'a [u8],
    /// Bytes after the record that belong to it and are not read.
    pub payload: u64,
    /// Nanoseconds of the recording's clock, if the record has any.
    pub time: Option<u64>,
    /// Index of the event it belongs to; `None` for a tool's record, and where there is none.
    pub event: Option<usize>,
    /// The process and thread that a record of the kernel comes from, for records other than
    /// samples.
    pub maker: SampleId,
    /// What it says; `None` for a tool's record and for one that is too short for its kind.
    pub record: Option<Record<'a>>,
}

impl RawReader {
    pub(super) fn new(reader: Reader) -> Self {
        Self { reader }
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// Only if the operating system fails to read. Damage ends the records early; see [`Tally::stopped`].
    #[allow(clippy::should_implement_trait)] // an iterator cannot lend
    pub fn next(&mut self) -> Result<Option<RawEntry<'_>>, ReadError> {
        while !self.reader.done && !self.read_one()? {}
        if self.reader.done {
            return Ok(None);
        }
        let Reader { source, about, tally, endian, is_stream, .. } = &mut self.reader;
        let endian = *endian;
        let (raw, file) = source.last();
        let Some(raw) = raw else { return Ok(None) };
        note(&raw, tally);
        let mut entry = RawEntry {
            file,
            offset: raw.place.offset,
            packed: raw.place.packed,
            kind: raw.kind,
            misc: raw.misc,
            body: raw.body,
            payload: raw.place.payload,
            time: None,
            event: None,
            maker: SampleId::default(),
            record: None,
        };
        if raw.kind >= tool::FIRST {
            if !about.take(ToolRecord::read(&raw, endian, *is_stream), endian) {
                tally.unknown(raw.kind);
            }
            return Ok(Some(entry));
        }
        if kernel::Use::of(raw.kind) == kernel::Use::Unknown {
            tally.unknown(raw.kind);
        }
        match kernel::identify(raw.kind, raw.misc, raw.body, &mut about.events, endian) {
            Some(found) => {
                entry.time = found.time;
                entry.event = (found.event < about.events.list.len()).then_some(found.event);
                entry.maker = kernel::maker(&found, &about.events, endian);
                entry.record = kernel::decode(&found, &mut about.events, endian);
                tally.malformed += u64::from(entry.record.is_none());
            }
            None => tally.samples_of_no_event += 1,
        }
        Ok(Some(entry))
    }

    /// Goes to the next record; false if a file of several, or all, ended instead.
    fn read_one(&mut self) -> Result<bool, ReadError> {
        let Reader { source, tally, path, .. } = &mut self.reader;
        let step = source.next().map_err(|source| ReadError::Io {
            path: path.clone(),
            what: "read",
            source,
        })?;
        if let StreamStep::Record(_) = step {
            return Ok(true);
        }
        if let StreamStep::Stopped(stopped) = step {
            tally.stopped.get_or_insert(stopped);
        }
        self.reader.end_part();
        Ok(false)
    }

    /// The events, in the order of the file; in a stream, those that came so far.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        self.reader.events()
    }

    /// What the file says about machine and recording; in a stream, what it said so far.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        self.reader.metadata()
    }

    /// How the file ends, by its header.
    #[must_use]
    pub fn state(&self) -> FileState {
        self.reader.state()
    }

    /// Byte order of the machine that recorded.
    #[must_use]
    pub fn endian(&self) -> Endian {
        self.reader.endian()
    }

    /// What was read so far, and what not.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        self.reader.tally()
    }
}
