//! The flight recorder (`--overwrite`): rings keep the newest records, nobody reads them until a
//! snapshot is asked for.
//!
//! ```text
//!   copy rings (they are not paused) ─ create file ─ name what exists ─ write the copies ─ close
//! ```
//!
//! The sideband shares the rings: a process that ended, and whose start has been overwritten, has
//! samples without a name.

use std::path::PathBuf;

use pmuscope_counters::{Pending, Ring};

use super::files::Moment;
use super::outcome::Loss;
use super::{Session, why_stopped};
use crate::error::RecorderError;
use crate::options::Switch;
use crate::sys::local_timestamp;
use crate::tally::{IdIndex, Tally};
use crate::wake::Wake;

/// What a snapshot came to.
pub(super) struct Snapshot {
    pub(super) path: PathBuf,
    pub(super) tally: Tally,
    pub(super) bytes: u64,
    /// What is missing in it, as a sentence.
    pub(super) incomplete: Option<String>,
}

impl Session<'_> {
    /// Writes what the rings hold to a file: the user's name at the end, with the time before.
    pub(super) fn snapshot(
        &self,
        rings: &[Ring],
        index: &IdIndex,
        started: &Moment,
        loss_before: &Loss,
        last: bool,
    ) -> Result<Snapshot, RecorderError> {
        let copies: Vec<Vec<u8>> = rings.iter().map(Ring::backward).collect();
        let now = Moment::now(self.options.clockid);
        let mut path = self.options.output.clone().into_os_string();
        if !last || self.options.switch == Some(Switch::Signal) {
            path.push(format!(".{}", local_timestamp(now.wall_ns)));
        }
        let path = PathBuf::from(path);
        let bell = Wake::new().map_err(RecorderError::system("eventfd"))?;
        let output = self.begin_file(&path, rings.len(), &bell)?;
        self.name_what_exists(&output, true);
        for copy in copies.iter().filter(|copy| !copy.is_empty()) {
            let mut tally = Tally::new(index);
            tally.count(&Pending::of_copy(copy), index);
            output.append_counted(copy, tally);
        }
        let tally = output.tally();
        let loss = self.read_loss().since(loss_before);
        let mut info = self.file_info(started, &now, &tally, &loss);
        info.ended_by = Some("snapshot of the flight recorder".into());
        info.cost.bytes = output.committed();
        info.notices.push(
            "flight recorder: each ring holds its newest records only, so rings begin at different times"
                .into(),
        );
        let without_end = self.close(&output, &tally, &info, started);
        let incomplete = output
            .stopped()
            .map(|_| format!("{} is not whole: {}", path.display(), why_stopped(&output)))
            .or(without_end);
        Ok(Snapshot { path, tally, bytes: output.committed(), incomplete })
    }
}
