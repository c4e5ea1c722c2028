//! Samples that no ring of perf's has: who makes them is asked at the times of a recording.
//!
//! ```text
//!  recorder   open sideband ─ watch each thread ─ create file ─ begin ─┬─ … ─┬─ end ─┐
//!  source                     (until none is missed)                   │     │       │
//!  its thread                                           └─ run ── append ── append ──┴─ append what is left
//! ```
//!
//! Mappings, tasks, names and build ids come into the file as with any recording, so that all that reads
//! recordings reads these.

use std::os::fd::AsFd as _;
use std::time::Duration;

use pmuscope_counters::{EventRequest, Pending};
use pmuscope_perfdata::info::RecordingInfo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clock::{clock_ns, monotonic_ns};
use crate::control::{ControlState, Phase};
use crate::error::RecorderError;
use crate::tally::RecordTally;
use crate::wake::Wake;

/// What makes samples beside the kernel.
pub trait Source: Sync {
    /// Its events as the file lists them, behind those of the kernel, with the ids of their samples.
    fn events(&self) -> Vec<(EventRequest, u64)>;

    /// Observes a thread and all that it starts from now on. A thread that is gone is no error.
    ///
    /// # Errors
    /// [`RecorderError::Source`].
    fn observe_thread(&self, tid: u32) -> Result<(), RecorderError>;

    /// Observes all that runs on a CPU.
    ///
    /// # Errors
    /// [`RecorderError::Source`].
    fn observe_cpu(&self, cpu: u32) -> Result<(), RecorderError>;

    /// Forgets all threads: they will be told anew.
    fn forget_threads(&self);

    /// Samples are wanted from now on.
    ///
    /// # Errors
    /// [`RecorderError::Source`].
    fn begin(&self) -> Result<(), RecorderError>;

    /// No more are. Called from another thread than [`Source::run`] is.
    fn end(&self);

    /// Hands samples over, on a thread of its own, until [`Feed::is_over`] and nothing is left. Begins
    /// before [`Source::begin`].
    fn run(&self, feed: &Feed<'_>);

    /// What the file is to say of it; its events begin at `first` in `info.events`. `complete` in a file
    /// that is closed, not in the copies in the stream.
    fn describe(&self, info: &mut RecordingInfo, first: usize, complete: bool);
}

/// The way of a source's samples into the file.
#[derive(Debug)]
pub struct Feed<'a> {
    pub(crate) shared: &'a ControlState<'a>,
    /// The number that rounds know it by.
    pub(crate) ring: usize,
    pub(crate) wake: &'a Wake,
    pub(crate) clockid: i32,
}

impl Feed<'_> {
    /// Whether nothing new will come: what is there is to be handed over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.phase() == Phase::Draining
    }

    /// Waits so long, or until the recording is over.
    pub fn wait(&self, time: Duration) {
        let time =
            Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        // Interrupted or not, the caller looks at what there is.
        let _ = poll(&mut [PollFd::new(&self.wake.as_fd(), PollFlags::IN)], Some(&time));
    }

    /// The clock of the time stamps, nanoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        clock_ns(self.clockid)
    }

    /// A moment before a reading of what there is.
    #[must_use]
    pub fn position(&self) -> SourceReading {
        SourceReading(monotonic_ns())
    }

    /// Appends whole records: all that were there at the reading, perhaps none.
    pub fn append(&self, reading: SourceReading, records: &[u8]) {
        let output = self.shared.output();
        if !records.is_empty() {
            let index = self.shared.index();
            let mut tally = RecordTally::new(&index);
            tally.count(&Pending::of_copy(records), &index);
            output.append_counted(records, tally);
        }
        output.looked_at(self.ring, reading.0);
    }
}

/// When a source looked, see [`Feed::position`].
#[derive(Debug, Clone, Copy)]
pub struct SourceReading(u64);
