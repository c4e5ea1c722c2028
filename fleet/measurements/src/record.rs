//! A recording of some seconds, during which processes are asked what they belong to.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pmuscope_counters::Host;
use pmuscope_recorder::{Deadline, EndReason, RecordOptions, Signals, record};

use crate::error::MeasurementError;
use crate::measurement::Scene;
use crate::services::Services;

/// How often processes are asked what they belong to.
const READ_EVERY: Duration = Duration::from_millis(200);
/// The recording, until it has been read.
const RECORDING: &str = "recording.data";

/// Where a recording is, while there is one.
pub(crate) fn path(scene: &Scene<'_>) -> PathBuf {
    scene.into.join(RECORDING)
}

/// Records for this long, and reads meanwhile what processes belong to; returns why it ended early, where it did. `max_size`
/// is the setting of its size.
pub(crate) fn record_for(
    seconds: u64,
    options: &RecordOptions,
    scene: &Scene<'_>,
    services: &mut Services,
    max_size: &str,
) -> Result<Option<String>, MeasurementError> {
    let deadline = Deadline::new(None, Some(Duration::from_secs(seconds)))
        .map_err(|source| MeasurementError::Io { path: options.output.clone(), source })?;
    let over = AtomicBool::new(false);
    let summary = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                services.read_new();
                std::thread::sleep(READ_EVERY);
            }
        });
        // Also where recording panics: nobody else would end the thread.
        let _over = SetAtEnd(&over);
        let signals = Signals { stop: deadline.as_fd(), switch: None };
        record(options, &Host, &scene.machine, signals)
    })?;
    services.read_again(std::iter::empty());
    Ok(match summary.ended {
        EndReason::Interrupted => None,
        EndReason::MaxSize(_) => Some(format!("it ended early, at {max_size}")),
        other => Some(other.to_string()),
    })
}

/// Sets a flag when it goes.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
