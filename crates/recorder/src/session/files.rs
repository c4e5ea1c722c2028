//! The files of a recording: one, or one after the other (`--switch-output`).
//!
//! Rings are drained without a pause while files change over: the new file takes appends as soon as it
//! has a front; the old one is closed when its last write is done.
//!
//! ```text
//!   readers   ── append A ── append A ──┬── append B ── append B ── …
//!   main                  create B ─ switch ─ name what exists in B ─ begin rounds in B
//!                                            └ wait for writes to A ─ close A
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pmuscope_perfdata::writer::Compression;

use super::outcome::{EndReason, Loss};
use super::{Session, output_error, why_stopped};
use crate::clock::{clock_ns, monotonic_ns, wall_ns};
use crate::compress::LARGEST_PIECE;
use crate::control::ControlState;
use crate::error::RecorderError;
use crate::options::Switch;
use crate::output::{FileLimits, Output, finished_round};
use crate::sys::local_timestamp;
use crate::tally::RecordTally;
use crate::wake::Wake;

/// A moment on the clocks that a file names.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClockReading {
    pub(super) monotonic_ns: u64,
    pub(super) wall_ns: u64,
    /// On the clock of the time stamps.
    pub(super) clock_ns: u64,
}

impl ClockReading {
    pub(super) fn now(clockid: i32) -> Self {
        Self { monotonic_ns: monotonic_ns(), wall_ns: wall_ns(), clock_ns: clock_ns(clockid) }
    }

    pub(super) fn seconds_since(&self, earlier: &Self) -> f64 {
        (self.monotonic_ns - earlier.monotonic_ns) as f64 / 1e9
    }
}

/// Files that were finished before the last one, and what is needed to begin another.
pub(super) struct Files<'a> {
    pub(super) bell: &'a Wake,
    pub(super) rings: usize,
    /// When the current file began.
    pub(super) started: ClockReading,
    /// Loss before the current file.
    pub(super) loss_before: Loss,
    /// Paths of the files that are closed and still there, oldest first.
    pub(super) closed: Vec<PathBuf>,
    /// Whether the current file is not the first.
    pub(super) switched: bool,
    /// Why an earlier file could not be written to its end.
    pub(super) stopped: Option<EndReason>,
    /// What is in them.
    pub(super) closed_tally: RecordTally,
    /// Bytes of records in them.
    pub(super) closed_bytes: u64,
    /// What is missing in them, as sentences.
    pub(super) missing: Vec<String>,
}

impl Session<'_> {
    /// Where the next file goes: the name the user gave, with the time where there are several.
    pub(super) fn next_path(&self, moment: &ClockReading) -> PathBuf {
        if self.options.switch.is_none() {
            return self.options.output.clone();
        }
        let mut path = self.options.output.as_os_str().to_owned();
        path.push(format!(".{}", local_timestamp(moment.wall_ns)));
        path.into()
    }

    /// Creates a file.
    pub(super) fn create_output(
        &self,
        rings: usize,
        bell: &Wake,
        moment: &ClockReading,
    ) -> Result<Arc<Output>, RecorderError> {
        self.begin_file(&self.next_path(moment), rings, bell).map(Arc::new)
    }

    /// Creates a file. Its first record says how what follows is compressed; without compression an
    /// empty round stands there.
    pub(super) fn begin_file(
        &self,
        path: &Path,
        rings: usize,
        bell: &Wake,
    ) -> Result<Output, RecorderError> {
        let limits = FileLimits { largest: self.options.max_size, owner: self.options.owner };
        let first =
            self.compression(1).map_or_else(finished_round, |compression| compression.record());
        Output::create(path, &self.file_events(), &first, rings, &limits, bell.clone())
            .map_err(output_error("create", path))
    }

    /// How records are compressed, by so many to one.
    pub(super) fn compression(&self, ratio: u32) -> Option<Compression> {
        let level = self.options.compression?.unsigned_abs();
        Some(Compression { level, ratio, largest: LARGEST_PIECE as u32 })
    }

    /// Whether the current file is done.
    pub(super) fn is_switch_due(&self, output: &Output, since: &ClockReading) -> bool {
        let age = Duration::from_nanos(monotonic_ns() - since.monotonic_ns);
        match self.options.switch {
            Some(Switch::Bytes(bytes)) => output.committed() >= bytes,
            Some(Switch::Time(time)) => age >= time,
            Some(Switch::Signal) | None => false,
        }
    }

    /// Continues in a new file and closes the old one.
    pub(super) fn switch_files(
        &self,
        shared: &ControlState<'_>,
        files: &mut Files<'_>,
    ) -> Result<(), RecorderError> {
        let now = ClockReading::now(self.options.clockid);
        let next = self.create_output(files.rings, files.bell, &now)?;
        let old = shared.switch_to(next.clone());
        self.name_what_exists(&next, true);
        let is_still_written = !wait_for_writers(&old);
        files.stopped = files.stopped.take().or(old.stopped().map(|_| why_stopped(&old)));
        let loss = self.read_loss();
        let tally = old.tally();
        let mut info =
            self.file_info(&files.started, &now, &tally, &loss.since(&files.loss_before));
        info.ended_by = Some("the next file was started".into());
        info.cost.bytes = old.committed();
        files.missing.extend(match is_still_written {
            // A tail would lie where the late writes go.
            true => Some(format!(
                "{} has no names and no summary, and its last samples are not counted: it was \
                 still being written {} s after the next file was started",
                old.path().display(),
                LONGEST_WRITE.as_secs()
            )),
            false => self.close(&old, &tally, &info, &files.started),
        });
        files.closed_tally.add(tally);
        files.closed_bytes += old.committed();
        files.closed.push(old.path().to_owned());
        files.switched = true;
        files.started = now;
        files.loss_before = loss;
        self.drop_oldest(&mut files.closed);
        Ok(())
    }

    /// Keeps as many closed files as the user wants.
    pub(super) fn drop_oldest(&self, closed: &mut Vec<PathBuf>) {
        let Some(most) = self.options.max_files else { return };
        while closed.len() >= most.max(1) {
            let oldest: PathBuf = closed.remove(0);
            remove(&oldest);
        }
    }
}

/// A file that somebody has taken away is gone, as was wanted.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// A disk that takes longer than this for its last writes leaves a file without its end, readable.
const LONGEST_WRITE: Duration = Duration::from_secs(10);

/// Waits until nobody but us holds the file: readers let go of it at their next reading, asynchronous
/// writes when they have ended. Whether that is so.
fn wait_for_writers(output: &Arc<Output>) -> bool {
    let start = std::time::Instant::now();
    while Arc::strong_count(output) > 1 {
        if start.elapsed() >= LONGEST_WRITE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
