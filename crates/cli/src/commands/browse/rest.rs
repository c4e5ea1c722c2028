//! Callers, threads and CPUs of a large recording, read while functions are looked at.
//!
//! ```text
//!  functions by command, as `report` reads them ─► drawn ─► keys ───────────────► all views
//!                                                    └─► a thread reads again: stacks by thread and CPU ─┘
//! ```
//! The second reading takes three times as long as the first, and longer where stacks are unwound.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use anyhow::anyhow;
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::Profile;
use pmuscope_symbols::Symbolizer;

use crate::commands::load::{LoadArgs, LoadRequest};

/// A file of fewer bytes is read at once: in a third of a second (docs/benchmarks.md).
const LARGE: u64 = 64 << 20;

/// Whether functions come first.
pub(super) fn is_worth_it(recording: &RecordingFile, load: &LoadArgs) -> bool {
    let bytes = recording.file().and_then(|file| Some(file.metadata().ok()?.len()));
    // Filters by caller take callers.
    bytes.is_some_and(|bytes| bytes >= LARGE) && !load.symbol_filter.need_chains()
}

/// A second reading that is to be.
pub(super) struct DeferredReading {
    pub(super) recording: RecordingFile,
    pub(super) symbolizer: Symbolizer,
    pub(super) load: LoadArgs,
    pub(super) wanted: LoadRequest,
}

impl DeferredReading {
    /// Begins.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn start(mut self) -> std::io::Result<RestReading> {
        let (send, read) = sync_channel(1);
        std::thread::Builder::new().name("callers".into()).spawn(move || {
            // Nobody takes it once the user has left.
            let _ = send.send(self.load.load(&self.recording, &mut self.symbolizer, self.wanted));
        })?;
        Ok(RestReading { read })
    }
}

/// The second reading. Left behind where the user leaves earlier: the program's end is its end.
pub(super) struct RestReading {
    read: Receiver<anyhow::Result<Profile>>,
}

impl RestReading {
    /// What was read, or why it could not be; `None` while it is being read.
    pub(super) fn outcome(&self) -> Option<anyhow::Result<Profile>> {
        match self.read.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(anyhow!("reading broke off"))),
        }
    }
}
