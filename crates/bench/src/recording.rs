//! What a run leaves in its folder: a recording, ours or perf's, and what the workload knows of itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pmuscope_measure::child;
use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::read_info;
use pmuscope_workloads::WorkloadFacts;

use crate::count::{self, RecordCounts};
use crate::runner::Bench;

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

impl Recorder {
    /// Its program: this one, or perf; `None` where nothing records. Where perf is not installed its name.
    pub(crate) fn program<'p>(self, own: &'p Path, perf: Option<&'p Path>) -> Option<&'p Path> {
        match self {
            Self::Nothing => None,
            Self::Pmuscope => Some(own),
            Self::Perf => Some(perf.unwrap_or(Path::new("perf"))),
        }
    }

    /// Whether there is a recording.
    pub(crate) fn records(self) -> bool {
        self != Self::Nothing
    }

    /// Runs it by `argv` around next to nothing.
    ///
    /// # Errors
    /// Why it does not work, as a sentence fragment.
    pub(crate) fn attempt(
        self,
        perf: Option<&Path>,
        argv: &[OsString],
        bench: &Bench<'_>,
    ) -> Result<(), String> {
        if self == Self::Perf && perf.is_none() {
            return Err("perf is not installed".to_owned());
        }
        let folder = bench.folder();
        let outcome = child::run(argv, folder, || bench.stop.is_given());
        let outcome = outcome.map_err(|error| error.to_string())?;
        // perf built without a feature says so and goes on without it.
        let ignored = outcome.output.lines().find(|line| line.contains("being ignored"));
        if let Some(line) = ignored {
            return Err(line.trim().to_owned());
        }
        if outcome.exit() != 0 || !facts_path(folder).exists() {
            return Err(complaint(&outcome.output, outcome.exit()));
        }
        if self.records() && !recording_path(folder).exists() {
            return Err("it wrote no recording".to_owned());
        }
        Ok(())
    }
}

/// What a program that failed had to say: the first line that looks like an error, else the last.
pub(crate) fn complaint(output: &str, exit: i32) -> String {
    // perf puts the word on a line of its own.
    let says = |line: &&str| !line.is_empty() && *line != "Error:";
    let lines = || output.lines().map(str::trim).filter(says);
    let is_error = |line: &&str| {
        let line = line.to_ascii_lowercase();
        ["pmuscope:", "error", "cannot", "failed", "invalid", "unknown", "not "]
            .iter()
            .any(|word| line.contains(word))
    };
    match lines().find(is_error).or(lines().next_back()) {
        Some(line) => format!("exit status {exit}: {line}"),
        None => format!("exit status {exit}"),
    }
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
    let own = read_info(path).map_err(fail)?.ok_or("the recording has no metadata of pmuscope")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_tells_the_reason_is_found() {
        let perf = "\n  Error: unknown option `affinity=cpu'\n\n Usage: perf record [<options>]\n";
        assert_eq!(complaint(perf, 129), "exit status 129: Error: unknown option `affinity=cpu'");
        let perf = "Error:\nAccess to performance monitoring is not permitted.\nConsider\n";
        let said = "exit status 255: Access to performance monitoring is not permitted.";
        assert_eq!(complaint(perf, 255), said);
        assert_eq!(complaint("some text\nthe end\n", 3), "exit status 3: the end");
        assert_eq!(complaint("", 139), "exit status 139");
    }
}
