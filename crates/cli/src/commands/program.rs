//! A program that a command runs beside what it does: `-- CMD`.

use std::io;
use std::time::{Duration, Instant};

use pmuscope_counters::CountersError;
use pmuscope_counters::spawn::{HeldChild, Status};
use rustix::process::Signal;

use crate::exit::{Exit, failure};

/// Why it cannot be started, with the status that env(1) would have.
pub(super) fn not_started(error: &CountersError) -> anyhow::Error {
    let exit = match error {
        CountersError::Spawn { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
        CountersError::Spawn { .. } => 126,
        _ => 125,
    };
    failure(Exit::Target(exit), error.to_string())
}

/// Waits for its end. After an interrupt it usually had the same signal as we; if not, it gets one.
///
/// # Errors
/// What the kernel says.
pub(super) fn end(child: &mut HeldChild, interrupted: bool) -> io::Result<Status> {
    const GRACE: Duration = Duration::from_millis(500);
    if interrupted {
        let asked = Instant::now();
        while asked.elapsed() < GRACE && child.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill(Signal::TERM);
    }
    child.wait()
}
