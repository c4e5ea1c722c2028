//! The recording file: many readers append to it, and at every moment it is readable.
//!
//! An append has three steps, so that the slow one, the write, runs without a lock:
//!
//! ```text
//!  reserve      under the lock: takes the next bytes of the file ── this fixes the order of records
//!  write        by the reader, at that offset
//!  complete     under the lock: all bytes before the first gap are good ── data.size is patched
//!
//!        committed            next
//!   data ████████████░░░░████░░░░ │         ░ reserved, not yet written
//!                    └ first gap: a reader of the file sees what is before it
//! ```
//!
//! **Rounds.** perf sorts records by time and hands out, at each FINISHED_ROUND record, everything
//! older than the newest record before the *previous* one. So nothing that follows round n + 1 may be
//! older than the newest of round n. A round is finished when every ring has been looked at since the
//! last one, the reading at least [`ROUND_SLACK`] after it:
//!
//! ```text
//!   round n ──┤FR├── slack ──┬─ look at ring A ─┬─ look at ring B ─┤FR├── round n + 2
//!              │             │
//!              │             └ what the readings do not see yet was published after this point
//!              └ everything in round n was published before this point
//! ```
//!
//! A record is stamped a little before it is published (in a task that may be preempted in between);
//! the slack is what covers that, where perf has none.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pmuscope_abi::record::{RecordBuilder, kind};
use pmuscope_perfdata::writer::{self, Closing, FileEvent};
use rustix::process::{Gid, Uid};

use crate::tally::RecordTally;
use crate::wake::Wake;

/// Pieces of one `pwritev(2)`: the kernel's `UIO_MAXIOV`.
const MOST_SLICES: usize = 1024;
/// Shortest time between the end of a round and the readings that count for the next.
pub(crate) const ROUND_SLACK: Duration = Duration::from_millis(20);

/// Bytes of the data section that one append has taken, and what is in them.
#[derive(Debug)]
#[must_use = "an extent that is never completed hides everything after it"]
pub(crate) struct Extent {
    start: u64,
    end: u64,
    tally: RecordTally,
}

/// Why nothing more is written.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The system refused a write.
    Failed(io::Error),
    /// The file has the size it may have.
    Full(u64),
}

/// What holds for each file of a recording.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FileLimits {
    /// It may grow to so many bytes.
    pub(crate) largest: Option<u64>,
    /// User and group it belongs to, if not our own.
    pub(crate) owner: Option<(u32, u32)>,
}

/// A file that is being recorded into.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    path: PathBuf,
    data_offset: u64,
    largest: Option<u64>,
    state: Mutex<OutputState>,
    stopped: OnceLock<Stopped>,
    refuses: AtomicBool,
    wake: Wake,
}

#[derive(Debug)]
struct OutputState {
    next: u64,
    committed: u64,
    /// What is in the committed bytes.
    tally: RecordTally,
    /// Extents behind a gap, by their start.
    ahead: BTreeMap<u64, Extent>,
    rounds: Rounds,
}

impl Output {
    /// Creates the file, with the rights of the invoking user only, and writes what stands in front of
    /// the data and the first records, at once: stock perf refuses a file that has none yet. `wake` is
    /// rung when writing has to stop.
    ///
    /// # Errors
    /// Those of creating and writing.
    pub(crate) fn create(
        path: &Path,
        events: &[FileEvent],
        first: &[u8],
        rings: usize,
        limits: &FileLimits,
        wake: Wake,
    ) -> io::Result<Self> {
        let (file, is_new) = open_private(path)?;
        // A device stays whose it is.
        if let Some((user, group)) = limits.owner.filter(|_| is_new) {
            let owner = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
            rustix::fs::fchown(&file, owner.0, owner.1)?;
        }
        let front = writer::front_with_records(events, first);
        file.write_all_at(&front, 0)?;
        let committed = first.len() as u64;
        let state = OutputState {
            next: committed,
            committed,
            tally: RecordTally::default(),
            ahead: BTreeMap::new(),
            rounds: Rounds::new(rings),
        };
        Ok(Self {
            file,
            path: path.to_owned(),
            data_offset: front.len() as u64 - committed,
            largest: limits.largest,
            state: Mutex::new(state),
            stopped: OnceLock::new(),
            refuses: AtomicBool::new(false),
            wake,
        })
    }

    /// The file's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of whole records that a reader of the file sees.
    pub(crate) fn committed(&self) -> u64 {
        self.state().committed
    }

    /// Samples that a reader of the file sees.
    pub(crate) fn samples(&self) -> u64 {
        self.state().tally.all_samples()
    }

    /// What a reader of the file sees.
    pub(crate) fn tally(&self) -> RecordTally {
        self.state().tally.clone()
    }

    /// Why writing stopped, if it did.
    pub(crate) fn stopped(&self) -> Option<&Stopped> {
        self.stopped.get()
    }

    /// Takes the next `bytes` bytes, in which `tally` will be; `None` once writing has stopped.
    pub(crate) fn reserve(&self, bytes: usize, tally: RecordTally) -> Option<Extent> {
        if self.refuses.load(Ordering::Relaxed) {
            return None;
        }
        let extent = self.reserve_in(&mut self.state(), bytes, tally);
        self.or_stop(extent)
    }

    /// The next bytes; or the size that the file may have, where they do not fit.
    fn reserve_in(
        &self,
        state: &mut OutputState,
        bytes: usize,
        tally: RecordTally,
    ) -> Result<Extent, u64> {
        let start = state.next;
        let end = start + bytes as u64;
        match self.largest.filter(|largest| self.data_offset + end > *largest) {
            Some(largest) => Err(largest),
            None => {
                state.next = end;
                Ok(Extent { start, end, tally })
            }
        }
    }

    /// Ends writing where there is no room, without the lock.
    fn or_stop(&self, extent: Result<Extent, u64>) -> Option<Extent> {
        extent.map_err(|largest| self.stop(Stopped::Full(largest))).ok()
    }

    /// Writes the pieces to the extent and completes it. A failure stops the recording; it is kept,
    /// not returned, since the readers have nothing to do about it.
    pub(crate) fn write(&self, extent: Extent, pieces: &[&[u8]]) {
        match self.write_pieces(&extent, pieces) {
            Ok(()) => self.complete(extent),
            Err(error) => self.stop(Stopped::Failed(error)),
        }
    }

    /// Reserves, writes and completes records without samples.
    pub(crate) fn append(&self, bytes: &[u8]) {
        self.append_counted(bytes, RecordTally::default());
    }

    /// Reserves, writes and completes records in which `tally` is.
    pub(crate) fn append_counted(&self, bytes: &[u8], tally: RecordTally) {
        if let Some(extent) = self.reserve(bytes.len(), tally) {
            self.write(extent, &[bytes]);
        }
    }

    /// The file and the offset in it, for a write by other means; then [`Output::complete`] or
    /// [`Output::stop`].
    pub(crate) fn target(&self, extent: &Extent) -> (&File, u64) {
        (&self.file, self.data_offset + extent.start)
    }

    /// The extent's bytes are in the file.
    pub(crate) fn complete(&self, extent: Extent) {
        let mut state = self.state();
        let before = state.committed;
        state.ahead.insert(extent.start, extent);
        while let Some(extent) = state.take_next() {
            state.committed = extent.end;
            state.tally.add(extent.tally);
        }
        let committed = state.committed;
        if committed == before {
            return;
        }
        let patch = writer::data_size_patch(committed);
        // Under the lock, so that an older size never overwrites a newer one.
        let patched = self.file.write_all_at(&patch, writer::DATA_SIZE_OFFSET);
        drop(state);
        if let Err(error) = patched {
            self.stop(Stopped::Failed(error));
        }
    }

    /// Ends writing; only the first reason is kept.
    pub(crate) fn stop(&self, reason: Stopped) {
        self.refuses.store(true, Ordering::Relaxed);
        if self.stopped.set(reason).is_ok() {
            self.wake.ring();
        }
    }

    /// Ring number `ring` was looked at `now` (nanoseconds of a monotonic clock, taken before the reading)
    /// and what was seen is reserved. Finishes the round if it was the last one.
    pub(crate) fn looked_at(&self, ring: usize, now: u64) {
        let record = finished_round();
        let extent = {
            let mut state = self.state();
            if !state.rounds.looked_at(ring, now) || self.refuses.load(Ordering::Relaxed) {
                return;
            }
            // Under the same lock: looks of others count for the next round from now on, and what they see
            // must not come to lie before the end of this one.
            self.reserve_in(&mut state, record.len(), RecordTally::default())
        };
        if let Some(extent) = self.or_stop(extent) {
            self.write(extent, &[&record]);
        }
    }

    /// From now on rounds may finish: what existed before the recording is described in the file.
    pub(crate) fn begin_rounds(&self) {
        self.state().rounds.begin();
    }

    /// Closes the file. A tail that does not fit leaves the file as the last flush left it: readable,
    /// without names and metadata.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn close(&self, closing: impl FnOnce(u64, u64) -> Closing) -> io::Result<()> {
        let committed = self.committed();
        let closing = closing(self.data_offset, committed);
        if !self.file.metadata()?.is_file() {
            return Ok(()); // /dev/null, for measuring: there is nothing to close
        }
        // Reserved but never written: gone, and its space is what the tail may need.
        self.file.set_len(closing.tail_offset)?;
        let written = self.file.write_all_at(&closing.tail, closing.tail_offset);
        if written.is_err() {
            self.file.set_len(closing.tail_offset)?;
            return written;
        }
        self.file.write_all_at(&closing.header, 0)
    }

    fn write_pieces(&self, extent: &Extent, pieces: &[&[u8]]) -> io::Result<()> {
        let (_, mut offset) = self.target(extent);
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut left = slices.as_mut_slice();
        while left.iter().any(|slice| !slice.is_empty()) {
            let most = left.len().min(MOST_SLICES);
            let written = match rustix::io::pwritev(&self.file, &left[..most], offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            offset += written as u64;
            IoSlice::advance_slices(&mut left, written);
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, OutputState> {
        // Each change is complete before the lock goes; a panic elsewhere leaves it consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputState {
    /// The extent that closes the first gap.
    fn take_next(&mut self) -> Option<Extent> {
        self.ahead.remove(&self.committed)
    }
}

/// Which rings have been looked at in the current round.
#[derive(Debug)]
struct Rounds {
    seen: Vec<bool>,
    missing: usize,
    not_before: u64,
    begun: bool,
}

impl Rounds {
    fn new(rings: usize) -> Self {
        Self { seen: vec![false; rings], missing: rings, not_before: 0, begun: false }
    }

    fn begin(&mut self) {
        self.begun = true;
    }

    /// True if this reading finishes the round.
    fn looked_at(&mut self, ring: usize, now: u64) -> bool {
        if !self.begun || now < self.not_before || std::mem::replace(&mut self.seen[ring], true) {
            return false;
        }
        self.missing -= 1;
        if self.missing > 0 {
            return false;
        }
        self.seen.fill(false);
        self.missing = self.seen.len();
        self.not_before = crate::clock::monotonic_ns() + ROUND_SLACK.as_nanos() as u64;
        true
    }
}

/// The record that ends a round.
pub(crate) fn finished_round() -> Vec<u8> {
    let mut record = Vec::new();
    RecordBuilder::new(&mut record, kind::FINISHED_ROUND, 0).finish();
    record
}

/// A new file that only its owner can read: addresses and command lines are nobody else's business. Or what
/// is no file and was there before, as a device. A file that somebody else put there is not written to.
fn open_private(path: &Path) -> io::Result<(File, bool)> {
    use std::os::unix::fs::OpenOptionsExt as _;
    match File::options().read(true).write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let there = File::options().read(true).write(true).open(path)?;
            if there.metadata()?.is_file() { Err(error) } else { Ok((there, false)) }
        }
        created => Ok((created?, true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_abi::record::Records;

    fn output(dir: &Path, rings: usize, largest: Option<u64>) -> Output {
        let limits = FileLimits { largest, owner: None };
        Output::create(&dir.join("x"), &[], &[], rings, &limits, Wake::new().unwrap()).unwrap()
    }

    fn data(output: &Output) -> Vec<u8> {
        let file = std::fs::read(output.path()).unwrap();
        let size = u64::from_ne_bytes(file[48..56].try_into().unwrap());
        let start = output.data_offset as usize;
        file[start..start + size as usize].to_vec()
    }

    #[test]
    fn a_file_that_somebody_else_put_there_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (path, theirs) = (dir.path().join("x"), dir.path().join("theirs"));
        std::fs::write(&theirs, "1").unwrap();
        std::os::unix::fs::symlink(&theirs, &path).unwrap();
        assert_eq!(open_private(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "1");
        assert!(!open_private(Path::new("/dev/null")).unwrap().1);
        assert!(open_private(&dir.path().join("y")).unwrap().1);
    }

    #[test]
    fn a_gap_hides_what_is_behind_it_until_it_is_filled() {
        let dir = tempfile::tempdir().unwrap();
        let output = output(dir.path(), 1, None);
        let samples = |count| RecordTally { samples: vec![count], ..RecordTally::default() };
        let first = output.reserve(8, samples(1)).unwrap();
        let second = output.reserve(16, samples(2)).unwrap();
        output.write(second, &[b"22222222", b"33333333"]);
        assert_eq!((data(&output).len(), output.samples()), (0, 0));
        output.write(first, &[b"11111111"]);
        assert_eq!(data(&output), b"111111112222222233333333");
        assert_eq!(output.samples(), 3);
    }

    #[test]
    fn the_first_records_are_there_with_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let limits = FileLimits::default();
        let output =
            Output::create(&path, &[], b"firstone", 1, &limits, Wake::new().unwrap()).unwrap();
        assert_eq!((data(&output), output.committed()), (b"firstone".to_vec(), 8));
        output.append(b"12345678");
        assert_eq!(data(&output), b"firstone12345678");
    }

    #[test]
    fn the_largest_size_is_kept_and_rings_the_bell_once() {
        let dir = tempfile::tempdir().unwrap();
        let output = output(dir.path(), 1, Some(104 + 16));
        output.append(b"12345678");
        output.append(b"12345678");
        assert!(output.stopped().is_none());
        output.append(b"12345678");
        assert!(matches!(output.stopped(), Some(Stopped::Full(120))));
        assert_eq!(output.committed(), 16);
    }

    #[test]
    fn a_round_needs_a_look_at_every_ring_after_the_slack() {
        let mut rounds = Rounds::new(2);
        let late = u64::MAX;
        assert!(!rounds.looked_at(0, late), "rounds have not begun");
        rounds.begin();
        assert!(!rounds.looked_at(0, late));
        assert!(!rounds.looked_at(0, late), "the same ring twice is one look");
        assert!(rounds.looked_at(1, late));
        let soon = crate::clock::monotonic_ns();
        assert!(!rounds.looked_at(0, soon), "within the slack");
        assert!(!rounds.looked_at(1, late));
        assert!(rounds.looked_at(0, late));
    }

    #[test]
    fn a_finished_round_stands_behind_what_it_covers() {
        let dir = tempfile::tempdir().unwrap();
        let output = output(dir.path(), 1, None);
        output.begin_rounds();
        let mut sample = Vec::new();
        RecordBuilder::new(&mut sample, kind::SAMPLE, 0).u64(1).finish();
        output.append(&sample);
        output.looked_at(0, u64::MAX);
        let kinds: Vec<u32> = Records::new(&data(&output)).map(|(header, _)| header.kind).collect();
        assert_eq!(kinds, [kind::SAMPLE, kind::FINISHED_ROUND]);
    }

    #[test]
    fn many_threads_leave_no_hole() {
        let dir = tempfile::tempdir().unwrap();
        let output = output(dir.path(), 4, None);
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let output = &output;
                scope.spawn(move || (0..200).for_each(|_| output.append(&[b'a' + thread; 8])));
            }
        });
        let data = data(&output);
        assert_eq!(data.len(), 4 * 200 * 8);
        assert!(data.chunks(8).all(|piece| piece.iter().all(|byte| *byte == piece[0])));
    }
}
