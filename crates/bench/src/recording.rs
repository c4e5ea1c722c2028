//! What a run leaves in its folder: a recording, ours or perf's, and what the workload knows of itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::read_info;
use pmuscope_workloads::WorkloadFacts;

use crate::count::{self, RecordCounts};

/// What records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorder {
    /// Nothing: the workload alone.
    Nothing,
    /// This program.
    Pmuscope,
    /// Stock perf, where it is installed.
    Perf,
}

/// A recording, ours or perf's.
pub(crate) struct Recording {
    /// Bytes.
    pub(crate) file_size: u64,
    /// Why they are not known, where they are not.
    pub(crate) counts: Result<Samples, String>,
    /// What ours tells of itself.
    pub(crate) own: Option<RecordingInfo>,
}

/// How many.
pub(crate) struct Samples {
    pub(crate) samples: u64,
    /// `None` where it is not told.
    pub(crate) lost: Option<u64>,
    /// Times that sampling was suspended.
    pub(crate) throttled: u64,
}

impl From<RecordCounts> for Samples {
    fn from(counts: RecordCounts) -> Self {
        Self { samples: counts.samples, lost: Some(counts.lost()), throttled: counts.throttled }
    }
}

/// The facts that a workload left.
///
/// # Errors
/// Why there are none.
pub(crate) fn read_facts(path: &Path) -> Result<WorkloadFacts, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// A recording of `recorder`.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn read_recording(recorder: Recorder, path: &Path) -> Result<Recording, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    let file_size = count::size(path).map_err(fail)?;
    if recorder != Recorder::Pmuscope {
        let counts = count::count(path).map(Samples::from).map_err(|error| error.to_string());
        return Ok(Recording { file_size, counts, own: None });
    }
    let own = read_info(path).map_err(fail)?.ok_or("the recording tells nothing of itself")?;
    let counts = Samples {
        samples: own.samples(),
        lost: own.lost(),
        throttled: own.events.iter().map(|event| event.throttled).sum(),
    };
    Ok(Recording { file_size, counts: Ok(counts), own: Some(own) })
}

/// The facts of the workload, in the folder of the run.
pub(crate) fn facts_path(folder: &Path) -> PathBuf {
    folder.join("facts.json")
}

/// The flag by which a workload writes them.
pub(crate) fn facts_flag(folder: &Path) -> OsString {
    let mut flag = OsString::from("--json=");
    flag.push(facts_path(folder));
    flag
}

/// The recording, in the folder of the run.
pub(crate) fn recording_path(folder: &Path) -> PathBuf {
    folder.join("recording.data")
}
