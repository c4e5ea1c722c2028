//! Hits of watchpoints: who touched what, from where, from which value to which, how often.
//!
//! A recording of `pmuscope watch` has two sources. The kernel's table of writers counts every hit while
//! points were armed, by thread and instruction: numbers of hits are from there. Records are what a
//! limit, a condition or a full ring left: values, moments and call chains are from there. Where the table is
//! missing (the recorder was killed, or could not use BPF) numbers are those of the records too, and say
//! so ([`TargetHits::exact`]).
//!
//! A place is looked up as the access: on x86 a data breakpoint traps behind it, so one address before, as for
//! callers; everywhere else where the trap is.

mod bottom_k;
mod build;
pub(crate) mod estimate;
mod frequent;
mod history;
mod matrix;
mod over_time;
mod pass;
mod sharing;
mod steps;
mod transfers;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pmuscope_abi::event_type;
use pmuscope_perfdata::reader::{FileState, Metadata, ReadError, Reader, RecordingFile, Tally};
use pmuscope_perfdata::watch::WatchInfo;
use pmuscope_stats::{Estimate, Interval};
use pmuscope_symbols::{KernelIdentity, Symbolizer};
use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::address_spaces::{AddressSpaces, ModuleOffset};
use crate::names::naming::Names;

pub use frequent::Frequent;
pub use history::{History, HitRecord};
pub use matrix::{Counts, Matrix, MatrixRow, Shown, ShownRow, Site, Thread};
pub use over_time::{Block, BlockValues};
pub use sharing::{CacheLine, SharingVerdict, Word};
pub use transfers::{Transfer, TransferEnd};
pub use value::HitValue;

/// How much of a recording is kept one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// First and last hits of each target.
    pub ends: usize,
    /// Hits of each target between these.
    pub between: usize,
    /// Values and transitions of each target.
    pub values: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { ends: 20, between: 2000, values: 20 }
    }
}

/// Why there are no hits to tell of.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HitsError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It is one of breakpoints, by another command.
    #[error(
        "{}: it is a recording of breakpoints ({events}), not of pmuscope watch: it has the \
         locations of hits, but no values and no exact counts. Try: pmuscope report {}",
        path.display(), path.display()
    )]
    Breakpoints {
        /// The recording.
        path: PathBuf,
        /// Names of the events, escaped.
        events: String,
    },
    /// It is of something else.
    #[error(
        "{}: it was not recorded by pmuscope watch, so it has no watchpoint hits. Try: pmuscope \
         report {}",
        path.display(), path.display()
    )]
    NotWatched {
        /// The recording.
        path: PathBuf,
    },
    /// A recording that was not closed tells only at its end what was watched.
    #[error(
        "hits cannot be read from a stream, as what was watched must be known first. Try: save it \
         to a file first"
    )]
    Stream,
}

/// When the value of a hit was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueRead {
    /// After the access (x86): it is the new one.
    After,
    /// Before the access (arm64): it is the old one, the new one is what the next hit found.
    Before,
    /// No hit has a value.
    Never,
}

/// All hits of a recording.
#[derive(Debug)]
pub struct Hits {
    /// What was watched, and how.
    pub info: WatchInfo,
    /// By target.
    pub targets: Vec<TargetHits>,
    /// Places in code.
    pub sites: Vec<Site>,
    /// Threads.
    pub threads: Vec<Thread>,
    /// Cache lines of which several words were watched, the most hit first.
    pub lines: Vec<CacheLine>,
    /// How lines went from thread to thread, those that happened most first, of words that are watched for writes and for
    /// reads; none where hits were left out.
    pub transfers: Vec<(Transfer, u64)>,
    /// When values were read.
    pub value_read: ValueRead,
    /// Time stamp of the start, nanoseconds; times are told from here.
    pub start_ns: u64,
    /// Seconds that were watched.
    pub seconds: f64,
    /// Share of the time that points were armed; `None` where that is not known.
    pub armed: Option<f64>,
    /// Not all points fitted: they took turns.
    pub took_turns: bool,
    /// Share of the target's CPU time that hits took while points were armed, where it is too much to tell
    /// how often they would have been hit without.
    pub in_hits: Option<f64>,
    /// Hits that were written down.
    pub records: u64,
    /// Whether they have call chains.
    pub has_chains: bool,
    /// Variables and functions at addresses that pointers held, see [`Hits::name_pointers`]. Foreign text.
    pub points_to: BTreeMap<u64, Arc<str>>,
    /// What the file says about itself.
    pub metadata: Metadata,
    /// How the file ends.
    pub state: FileState,
    /// What was read of it.
    pub tally: Tally,
    pointers: FxHashMap<u64, ModuleOffset>,
    present: AddressSpaces,
}

/// Hits of a target.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetHits {
    /// Its points.
    pub points: Vec<u32>,
    /// Hits while points were armed. An access that reaches over several points hits each.
    pub hits: u64,
    /// The kernel counted them; else they are those written down and those lost.
    pub exact: bool,
    /// It counted them by thread and place too; else records tell these.
    pub has_writers: bool,
    /// Records in the file.
    pub records: u64,
    /// Hits that these stand for.
    pub written: u64,
    /// Hits that the condition let pass, where there is one.
    pub passed: Option<u64>,
    /// Hits that were to be written down and found no room; `None` where not known.
    pub lost: Option<u64>,
    /// Hits had its points been armed all the time; `None` where they were, or where nothing tells.
    pub estimate: Option<Estimate>,
    /// The same from below, where hits took too much of the target's time for an estimate; `None` elsewhere.
    pub at_least: Option<Estimate>,
    /// Where hits may have been missed and nothing estimates them all: hits from the first to the last counted
    /// one by the values of a counter, if each missed hit added 1 as each counted one did.
    pub steps: Option<u64>,
    /// Hits per second over all the time; without an interval where none were missed.
    pub rate: Option<Rate>,
    /// Hits that changed the value.
    pub changed: Option<HitShare>,
    /// Hits whose new value was the old one and one more.
    pub plus_one: Option<HitShare>,
    /// By place and thread.
    pub matrix: Matrix,
    /// Records that came shortly after one another.
    pub successions: Successions,
    /// One by one.
    pub history: History,
    /// Values that hits found, by point: the new ones where they are read after the access, else the old.
    pub values: Frequent<(u32, u64)>,
    /// Old and new values by point.
    pub transitions: Frequent<(u32, u64, u64)>,
    /// By blocks of time.
    pub blocks: Vec<Block>,
}

/// Pairs of records of a target, one within 0.2 ms of the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Successions {
    /// All pairs.
    pub of: u64,
    /// Pairs of two different threads.
    pub changes: u64,
}

/// Hits per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// The rate.
    pub value: f64,
    /// Its 95 % interval, where hits were missed.
    pub interval: Option<Interval>,
    /// Stretches of time that stand behind it; 0 where none were missed.
    pub n: usize,
}

/// A part of hits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HitShare {
    /// These.
    pub part: u64,
    /// Of so many, whose value before is known.
    pub of: u64,
    /// 95 % interval over blocks of time, where the hits are not all there were.
    pub interval: Option<Interval>,
    /// The kernel counted them; else the records tell.
    pub exact: bool,
}

impl HitShare {
    /// 0 to 1; `None` of nothing.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        (self.of > 0).then(|| self.part as f64 / self.of as f64)
    }
}

impl Hits {
    /// Reads a recording. Names of places are from `names`, `running` is the kernel that this
    /// program runs on.
    ///
    /// # Errors
    /// See [`HitsError`].
    pub fn read(
        recording: &RecordingFile,
        options: &Options,
        running: &KernelIdentity,
        names: &mut dyn Names,
    ) -> Result<Self, HitsError> {
        if recording.is_stream() {
            return Err(HitsError::Stream);
        }
        let mut reader = recording.reader()?;
        if reader.metadata().info.is_none() {
            // One that was not closed has copies among its records.
            while reader.next()?.is_some() {}
        }
        let about = reader.metadata().clone();
        let Some(info) = about.info.as_ref().and_then(|info| info.watch.clone()) else {
            return Err(not_watched(recording.path(), &reader));
        };
        let mut reader = recording.reader()?;
        let pass = pass::Pass::read(&mut reader, &about, &info, options)?;
        Ok(build::build(pass, &reader, info, options, running, names))
    }

    /// Whether hits were missed while points were not armed, or may have been.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.took_turns || self.armed.is_some_and(|armed| armed < 1.0)
    }

    /// Looks up what pointers point to: variables and functions that symbol tables of `symbolizer` name.
    pub fn name_pointers(&mut self, symbolizer: &Symbolizer) {
        self.points_to = build::pointers(self, symbolizer);
    }

    /// The value of a point.
    #[must_use]
    pub fn value(&self, point: u32, bits: u64) -> HitValue<'_> {
        let of = self.info.points.get(point as usize);
        match of.and_then(|of| Some((of, self.info.targets.get(of.target as usize)?))) {
            Some((point, target)) => HitValue::of(target, point.bytes, bits),
            None => HitValue::Bytes(bits, 8),
        }
    }
}

fn not_watched(path: &Path, reader: &Reader) -> HitsError {
    let is_breakpoint = |attr: &pmuscope_abi::Attr| attr.event_type == event_type::BREAKPOINT;
    let events = reader.events().iter().filter(|event| is_breakpoint(&event.attr));
    let events: Vec<String> =
        events.map(|event| event.name.escape_debug().to_string()).take(4).collect();
    match events.is_empty() {
        true => HitsError::NotWatched { path: path.to_owned() },
        false => HitsError::Breakpoints { path: path.to_owned(), events: events.join(", ") },
    }
}
