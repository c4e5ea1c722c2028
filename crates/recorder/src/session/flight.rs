//! The flight recorder (`--overwrite`): rings keep the newest records, nobody reads them until a
//! snapshot is asked for.
//!
//! ```text
//!   copy rings (they are not paused) ─ create file ─ name what exists ─ write the copies ─ close
//! ```
//!
//! What existed is described once, at the start; what came later is in the sideband, whose rings are
//! read all the time.

use std::path::PathBuf;

use pmuscope_counters::spawn::HeldChild;
use pmuscope_counters::{Pending, Ring};

use super::files::ClockReading;
use super::old_file::Previous;
use super::outcome::{Loss, Summary};
use super::sideband::Sideband;
use super::{Due, Session, why_stopped};
use crate::error::RecorderError;
use crate::options::Switch;
use crate::sys::local_timestamp;
use crate::tally::{IdIndex, RecordTally};
use crate::wake::Wake;

/// What the memory of a flight recorder is.
struct Held<'a> {
    /// Of samples.
    rings: &'a [Ring],
    sideband: &'a Sideband,
    /// Records of what existed at the start.
    first: &'a [u8],
    index: &'a IdIndex,
    /// What was lost before the start.
    loss_before: &'a Loss,
}

/// What a snapshot came to.
pub(super) struct Snapshot {
    pub(super) path: PathBuf,
    pub(super) tally: RecordTally,
    pub(super) bytes: u64,
    /// What is missing in it, as a sentence.
    pub(super) incomplete: Option<String>,
}

impl Session<'_> {
    /// Samples in rings that nobody reads before a snapshot.
    pub(super) fn run_flight_recorder(
        &self,
        rings: Vec<Ring>,
        child: Option<&mut HeldChild>,
    ) -> Result<Summary, RecorderError> {
        let (rings, others): (Vec<Ring>, Vec<Ring>) =
            rings.into_iter().partition(Ring::is_backward);
        let sideband = Sideband::new(others);
        let stop = Wake::new().map_err(RecorderError::system("eventfd"))?;
        let set = &self.set;
        std::thread::scope(|threads| {
            std::thread::Builder::new()
                .name("sideband".to_owned())
                .spawn_scoped(threads, || sideband.keep_up(set, &stop))
                .map_err(RecorderError::system("starting a reader"))?;
            let result = self.keep_samples(&rings, &sideband, child);
            stop.ring();
            result
        })
    }

    fn keep_samples(
        &self,
        rings: &[Ring],
        sideband: &Sideband,
        child: Option<&mut HeldChild>,
    ) -> Result<Summary, RecorderError> {
        let mut first = Vec::new();
        self.describe_what_exists(false, &mut |records| first.extend_from_slice(records));
        let begun = ClockReading::now(self.options.clockid);
        let (index, loss_before) = (self.index(), self.read_loss());
        let held =
            Held { rings, sideband, first: &first, index: &index, loss_before: &loss_before };
        let (mut snapshots, mut missing) = (Vec::new(), Vec::new());
        let bell = Wake::new().map_err(RecorderError::system("eventfd"))?;
        let measured = self.measure(&bell, child, &mut |due, _| {
            if let Due::Switch = due {
                match self.snapshot(&held, &begun, false) {
                    Ok(snapshot) => {
                        self.drop_oldest(&mut snapshots);
                        snapshots.push(snapshot.path);
                        missing.extend(snapshot.incomplete);
                    }
                    // The rings still hold it: the next one, or that of the end, may do better.
                    Err(error) => missing.push(format!("cannot write a snapshot: {error}")),
                }
            }
            Ok(())
        })?;
        Previous::keep(&self.options.output, self.options.replace)?.begun();
        let last = self.snapshot(&held, &measured.started, true)?;
        self.drop_oldest(&mut snapshots);
        Ok(self.flight_summary(&measured, last, snapshots, missing))
    }

    /// Writes what the rings hold to a file: the user's name at the end, with the time before.
    fn snapshot(
        &self,
        held: &Held<'_>,
        started: &ClockReading,
        last: bool,
    ) -> Result<Snapshot, RecorderError> {
        let Held { rings, index, .. } = held;
        let mut copies: Vec<Vec<u8>> = rings.iter().map(Ring::backward).collect();
        // After the samples: who made them is known by then.
        let (sideband, dropped) = held.sideband.all();
        copies.extend(sideband);
        let now = ClockReading::now(self.options.clockid);
        let mut path = self.options.output.clone().into_os_string();
        if !last || self.options.switch == Some(Switch::Signal) {
            path.push(format!(".{}", local_timestamp(now.wall_ns)));
        }
        let path = PathBuf::from(path);
        let bell = Wake::new().map_err(RecorderError::system("eventfd"))?;
        let output = self.begin_file(&path, rings.len(), &bell)?;
        output.append(held.first);
        if dropped {
            self.name_what_exists(&output, true);
        }
        output.begin_rounds();
        for copy in copies.iter().filter(|copy| !copy.is_empty()) {
            let mut tally = RecordTally::new(index);
            tally.count(&Pending::of_copy(copy), index);
            output.append_counted(copy, tally);
        }
        let tally = output.tally();
        let loss = self.read_loss().since(held.loss_before);
        let mut info = self.file_info(started, &now, &tally, &loss);
        info.ended_by = Some("snapshot of the flight recorder".into());
        info.cost.bytes = output.committed();
        info.notices.push(
            "flight recorder: each ring buffer holds only its newest records, so buffers begin at \
             different times"
                .into(),
        );
        if dropped {
            info.notices.push(
                "flight recorder: sideband events (mmap, comm, fork, exit) exceeded the 64 MiB \
                 kept in memory: processes that started long ago and have ended may have no name"
                    .into(),
            );
        }
        let without_end = self.close(&output, &tally, &info, started);
        let incomplete = output
            .stopped()
            .map(|_| format!("{} is incomplete: {}", path.display(), why_stopped(&output)))
            .or(without_end);
        Ok(Snapshot { path, tally, bytes: output.committed(), incomplete })
    }
}
