//! Whose generated code a perf map describes: process ids are used again, and a map stays behind in `/tmp`.

use std::fs::Metadata;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pmuscope_machine::Machine;

use crate::RecordingOrigin;
use crate::cache::user_cache;
use crate::kept::place_of_copy;

/// Clocks of file systems lag behind by a timer tick, and starts of processes are rounded.
const SLACK: Duration = Duration::from_secs(1);

/// Generated code of a process, as a recording identifies it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeOrigin {
    /// Start of the process in wall-clock time, where it started while it was recorded.
    pub started: Option<SystemTime>,
    /// Descriptions of its code that the recorder kept.
    pub copies: Vec<CodeCopy>,
    /// The recording.
    pub recording: Arc<RecordingOrigin>,
}

/// The copy of a perf map or jitdump.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeCopy {
    /// Its path, as the process saw it. Foreign text.
    pub path: PathBuf,
    /// Name of the copy; see [`crate::HeldCode::keep`]. Foreign text.
    pub copy: String,
}

impl CodeCopy {
    /// Path of the copy in the user's cache, whether it is still there or not; `None` without a cache.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        place_of_copy(&user_cache()?, &self.copy)
    }
}

impl CodeOrigin {
    /// Start of process `pid`: as recorded, else of the one that runs now, unless that is a later one.
    pub(crate) fn start_of(origin: Option<&Self>, pid: i32) -> Option<SystemTime> {
        if let Some(started) = origin.and_then(|origin| origin.started) {
            return Some(started);
        }
        if origin.is_some_and(|origin| origin.recording.is_of_other_host) {
            return None;
        }
        let until = origin.and_then(|origin| origin.recording.until);
        let started = start_of_running(u32::try_from(pid).ok()?)?;
        until.is_none_or(|until| started <= until).then_some(started)
    }
}

/// Start of a process that runs.
pub(crate) fn start_of_running(pid: u32) -> Option<SystemTime> {
    let machine = Machine::host();
    let ticks = machine.task(pid, pid).ok()?.start;
    let since_boot = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    let age = (machine.uptime_s()? - since_boot).max(0.0);
    SystemTime::now().checked_sub(Duration::try_from_secs_f64(age).ok()?)
}

/// Whether a file was last written before a process started: another process of the same id wrote it.
pub(crate) fn is_older(file: &Metadata, started: Option<SystemTime>) -> bool {
    let written = file.modified().ok().and_then(|time| time.checked_add(SLACK));
    written.zip(started).is_some_and(|(written, started)| written < started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_starts_before_now_and_after_old_files() {
        let own = start_of_running(std::process::id()).unwrap();
        let age = own.elapsed().unwrap();
        assert!(age < Duration::from_secs(600), "{age:?}");
        let file = tempfile::tempfile().unwrap();
        let is_older_than = |started| is_older(&file.metadata().unwrap(), started);
        assert!(!is_older_than(Some(own)) && !is_older_than(None));
        assert!(is_older_than(Some(SystemTime::now() + Duration::from_secs(60))));
    }

    #[test]
    fn a_process_that_took_the_id_after_the_recording_is_another() {
        let pid = std::process::id() as i32;
        let until = |until| CodeOrigin {
            recording: Arc::new(RecordingOrigin {
                until: Some(until),
                ..RecordingOrigin::default()
            }),
            ..CodeOrigin::default()
        };
        assert!(CodeOrigin::start_of(Some(&until(SystemTime::now())), pid).is_some());
        assert_eq!(CodeOrigin::start_of(Some(&until(SystemTime::UNIX_EPOCH)), pid), None);
        let recorded =
            CodeOrigin { started: Some(SystemTime::UNIX_EPOCH), ..CodeOrigin::default() };
        assert_eq!(CodeOrigin::start_of(Some(&recorded), pid), recorded.started);
    }
}
