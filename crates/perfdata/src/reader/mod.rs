//! Reads recordings of pmuscope and of `perf record`, as files and as streams, of either byte order.
//!
//! A file is untrusted input. Everything in it is checked against its size; what is damaged is read
//! up to the damage, and [`Tally`] says what was left out.
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
//! record. What waits to be ordered takes memory for two rounds of the recorder, half of
//! [`memory_limit`] at most.

mod about;
pub(crate) mod bytes;
mod counts;
mod details;
mod error;
mod event;
mod header;
mod kernel;
mod limit;
mod live;
mod memory;
mod metadata;
mod name;
mod open;
mod order;
mod other;
mod progress;
mod raw;
mod record;
mod rewrite;
mod sample;
pub mod scan;
mod simpleperf;
mod source;
mod spool;
mod stream;
mod tally;
mod tool;
mod tracing;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pmuscope_abi::record::kind;

pub use bytes::Endian;
pub use counts::{CountKey, SampledCounts};
pub use details::{Branch, BranchStack, Details, Registers, Tail, UserStack};
pub use error::ReadError;
pub use event::{Event, SampleId};
pub use header::FileState;
pub use limit::{DEFAULT_MEMORY, limit_memory, memory_limit, order_limit};
pub use live::Live;
pub use memory::{AccessClass, DataSource, Weight};
pub use metadata::{FileBuildId, Metadata};
pub use open::RecordingFile;
pub use other::{
    Aux, AuxOutput, BpfEvent, Cgroup, DeferredCallchain, Namespace, Namespaces, Switch, TextPoke,
};
pub use progress::{Progress, Stage};
pub use raw::{RawEntry, RawReader};
pub use record::{Comm, CpuMode, Inode, KERNEL_PID, Ksymbol, Mmap, Record, TaskRecord};
pub use sample::{Callchain, ReadValue, ReadValues, Sample};
pub use simpleperf::{FileSymbols, is_compiled_code};
pub use stream::{StopReason, Stopped};
pub use tally::{KindCounts, OtherData, Tally};
pub use tracing::{TraceField, TraceValue, Tracepoint};

use about::FileFacts;
use event::Events;
use kernel::{Identified, Use};
use order::Order;
use rewrite::{CALLCHAIN_DEFERRED, DeferredChains, Rewriting};
use source::FileSource;
use stream::{COMPRESSED2, RawRecord, StreamStep};
use tool::ToolRecord;

/// Name that means standard input.
pub const STDIN: &str = "-";

/// A record with its time stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Nanoseconds of the recording's clock; `None` if the record has none.
    pub time: Option<u64>,
    /// Index of the event that the record belongs to. Records that the recorder made itself belong
    /// to the first.
    pub event: usize,
    /// The process and thread that a record other than a sample comes from; only from
    /// [`Reader::open_all`], and for records of loss and throttling.
    pub maker: SampleId,
    /// What follows the record's header, in the byte order of the file; see [`Event::decode_sample`].
    pub body: &'a [u8],
    /// The record.
    pub record: Record<'a>,
}

/// An open recording.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    endian: Endian,
    state: FileState,
    is_stream: bool,
    /// Records that a profile does not need, too.
    all: bool,
    about: FileFacts,
    /// Where the records are, if they can be read starting anywhere.
    seekable: Option<scan::Seekable>,
    source: FileSource,
    order: Order,
    tally: Tally,
    progress: Arc<Progress>,
    done: bool,
    /// The last sample, where it was rewritten.
    rewritten: Vec<u8>,
}

impl Reader {
    /// Opens the recording at `path`, a file or a directory of `perf record --threads`; [`STDIN`] reads
    /// from standard input.
    ///
    /// # Errors
    /// If it cannot be read at all; see [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        RecordingFile::open(path)?.reader()
    }

    /// As [`Reader::open`], for records that a profile does not need too: switches, namespaces,
    /// hardware trace, …
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_all(path: &Path) -> Result<Self, ReadError> {
        RecordingFile::open(path)?.reader_of_all()
    }

    /// Opens the recording at `path` for reading in the order of the file.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_raw(path: &Path) -> Result<RawReader, ReadError> {
        RecordingFile::open(path)?.raw()
    }

    /// Reads a stream up to its first record of the kernel: descriptions come before.
    fn primed(mut self) -> Result<Self, ReadError> {
        while self.is_stream && !self.done && self.order.is_empty() {
            self.advance()?;
        }
        self.about.name_by_order();
        let rewriting = Rewriting::of(&mut self.about.events.list);
        self.about.rewriting = rewriting;
        if self.is_stream && DeferredChains::are_of(self.events()) {
            self.about.rewriting.deferred = Some(Arc::default());
        }
        let events = &self.about.events;
        if events.list.is_empty() {
            return Err(ReadError::NoEvents(self.path));
        }
        if !events.distinguishable() {
            let events = events.list.len();
            return Err(ReadError::NoCommonId { path: self.path, events });
        }
        Ok(self)
    }

    /// The events, in the order of the file.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.about.events.list
    }

    /// Ids of descriptors that the events have. In a stream the number grows with what it says.
    #[must_use]
    pub fn ids(&self) -> usize {
        self.about.events.ids()
    }

    /// Whether samples are the ends of windows, as those of strobing are: each end samples by itself, and
    /// the counts it reads are those of its window.
    #[must_use]
    pub fn has_windows(&self) -> bool {
        self.metadata().info.as_ref().is_some_and(|info| info.strobe.is_some())
    }

    /// What the file says about machine and recording. In a stream, and in a recording that was cut
    /// off, this is complete only at the end.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.about.metadata
    }

    /// How the file ends, by its header.
    #[must_use]
    pub fn state(&self) -> FileState {
        self.state
    }

    /// Byte order of the machine that recorded.
    #[must_use]
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// What was read so far, and what not.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The progress of reading, also available meanwhile.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
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
        let Self { order, about, tally, endian, all, rewritten, .. } = self;
        Ok(order.pop().map(|found| {
            let found = about.in_form_of_attribute(found, *endian, rewritten);
            entry(&found, &mut about.events, tally, *endian, *all)
        }))
    }

    /// A record of the kernel that waits for no other.
    fn alone(&mut self, raw: &RawRecord<'_>) -> Result<Option<Entry<'_>>, ReadError> {
        let Self { about, order, tally, endian, all, .. } = self;
        queue(raw, about, order, tally, *endian, *all);
        self.order.finish();
        self.next()
    }

    /// Takes one record from the source.
    fn advance(&mut self) -> Result<(), ReadError> {
        let is_many = self.source.is_many();
        if is_many && let Some(time) = self.source.turn() {
            self.order.release_up_to(time);
        }
        let step = self.source.next().map_err(|source| ReadError::Io {
            path: self.path.clone(),
            what: "read",
            source,
        })?;
        let raw = match step {
            StreamStep::Record(raw) => raw,
            step => {
                if let StreamStep::Stopped(stopped) = step {
                    self.tally.take_back(&stopped.reason);
                    self.tally.stopped.get_or_insert(stopped);
                }
                self.end_part();
                return Ok(());
            }
        };
        note(&raw, &mut self.tally);
        if raw.kind == CALLCHAIN_DEFERRED && self.is_stream {
            self.about.take_deferred(raw.body, self.endian);
        }
        match raw.kind {
            kind::FINISHED_ROUND => self.finish_rounds(is_many),
            0..tool::FIRST => {
                let Self { about, order, tally, endian, all, .. } = self;
                if let Some(time) = queue(&raw, about, order, tally, *endian, *all) {
                    self.source.saw(time);
                }
            }
            kind => {
                let tool = ToolRecord::read(&raw, self.endian, self.is_stream);
                if !self.about.take(tool, self.endian) {
                    self.tally.unknown(kind);
                }
            }
        }
        (self.tally.late, self.tally.early) = (self.order.late(), self.order.early());
        Ok(())
    }

    /// Takes the mark of a round that came last, and copies of it that follow: after the second of them
    /// all that came before has gone, so more change nothing.
    fn finish_rounds(&mut self, is_many: bool) {
        let repeated = self.source.skip_repeated();
        self.tally.kinds.add_many(kind::FINISHED_ROUND, repeated);
        self.tally.records += repeated;
        for _ in 0..(1 + repeated).min(2) {
            if !is_many {
                self.order.finish_round();
            }
        }
    }

    fn end_part(&mut self) {
        if !self.source.end_part() {
            self.order.finish();
            self.done = true;
        }
    }
}

/// What a record says; one that says too little is counted.
#[inline]
fn entry<'a>(
    found: &Identified<'a>,
    events: &mut Events,
    tally: &mut Tally,
    endian: Endian,
    all: bool,
) -> Entry<'a> {
    let maker = match all || kernel::tells_loss(found.kind) {
        true => kernel::maker(found, events, endian),
        false => SampleId::default(),
    };
    let record = match found.kind {
        // Most records, decoded where they are returned: a sample is large to move.
        kind::SAMPLE => kernel::decode_sample(found, events, endian).map(Record::Sample),
        _ => kernel::decode(found, events, endian),
    };
    let record = record.unwrap_or_else(|| {
        tally.malformed += 1;
        Record::Other { kind: found.kind }
    });
    Entry { time: found.time, event: found.event, maker, body: found.body, record }
}

/// Counts a record as it stands in the file.
fn note(raw: &RawRecord<'_>, tally: &mut Tally) {
    tally.kinds.add(raw.kind);
    tally.skipped_bytes = tally.skipped_bytes.saturating_add(raw.place.payload);
    tally.records += u64::from(!matches!(raw.kind, kind::COMPRESSED | COMPRESSED2));
}

/// Puts a record of the kernel where it waits for its turn; tells its time.
fn queue(
    raw: &RawRecord<'_>,
    about: &mut FileFacts,
    order: &mut Order,
    tally: &mut Tally,
    endian: Endian,
    all: bool,
) -> Option<u64> {
    match Use::of(raw.kind) {
        Use::Unknown => tally.unknown(raw.kind),
        Use::Listing if !all => return None,
        Use::Profile | Use::Listing => {}
    }
    if Use::of(raw.kind) == Use::Unknown && !all {
        return None;
    }
    let Some(mut found) = kernel::identify(raw.kind, raw.misc, raw.body, &mut about.events, endian)
    else {
        tally.samples_of_no_event += 1;
        return None;
    };
    found.time = about.rewriting.time(found.time, order.youngest());
    order.push(&found);
    found.time
}
