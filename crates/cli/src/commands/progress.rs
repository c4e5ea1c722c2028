//! How far long work has come, on standard error, where that is a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmuscope_perfdata::reader::{Progress, Stage};
use pmuscope_report::escape;
use pmuscope_report::number::duration;

/// What takes no longer is shown without.
const PATIENCE: Duration = Duration::from_millis(1500);
/// From line to line.
const STEP: Duration = Duration::from_millis(250);
/// An estimate from less than this share says nothing.
const LEAST: f64 = 0.02;

/// A line that is there as long as this is.
#[derive(Debug)]
pub(super) struct Shown {
    shared: Arc<ProgressState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct ProgressState {
    progress: Arc<Progress>,
    file: String,
    is_read: AtomicBool,
    ended: Mutex<bool>,
    end: Condvar,
}

impl Shown {
    /// Shows how far the reader of the recording at `path` has come; `None` where nobody would see it.
    pub(super) fn new(progress: Arc<Progress>, path: &Path) -> Option<Self> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let shared = Arc::new(ProgressState {
            progress,
            file: escape(&path.to_string_lossy()).into_owned(),
            is_read: AtomicBool::new(false),
            ended: Mutex::new(false),
            end: Condvar::new(),
        });
        let its = Arc::clone(&shared);
        // Without it the work is the same.
        let thread = std::thread::Builder::new().spawn(move || its.show()).ok()?;
        Some(Self { shared, thread: Some(thread) })
    }

    /// As [`Shown::new`], for a command whose output comes meanwhile: not if that goes to a terminal too.
    pub(super) fn beside_output(progress: Arc<Progress>, path: &Path) -> Option<Self> {
        if std::io::stdout().is_terminal() { None } else { Self::new(progress, path) }
    }

    /// All is read; names come next.
    pub(super) fn is_read(&self) {
        self.shared.is_read.store(true, Ordering::Relaxed);
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.end.notify_all();
        if let Some(thread) = self.thread.take() {
            // A line that could not be shown is no reason to fail.
            let _ = thread.join();
        }
    }
}

impl ProgressState {
    /// Until the end; then the line goes.
    fn show(&self) {
        let begun = Instant::now();
        let mut stage = (self.progress.stage(), begun);
        let mut is_shown = false;
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let waited = self.end.wait_timeout(ended, STEP).unwrap_or_else(PoisonError::into_inner);
            ended = waited.0;
            if *ended {
                break;
            }
            let now = self.progress.stage();
            if now != stage.0 {
                stage = (now, Instant::now());
            }
            if begun.elapsed() < PATIENCE {
                continue;
            }
            let text = if self.is_read.load(Ordering::Relaxed) {
                format!("{}: looking up names", self.file)
            } else {
                line(&self.file, now, self.progress.share(), stage.1.elapsed())
            };
            is_shown = true;
            // To the start of the line, and what was there before goes.
            let _ = write!(std::io::stderr(), "\r{text}\x1b[K");
        }
        if is_shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// `x.data: counting samples, 45 %, about 3 s left`.
fn line(file: &str, stage: Stage, share: Option<f64>, elapsed: Duration) -> String {
    let what = match stage {
        Stage::Records => "reading",
        Stage::Headers => "reading headers",
        Stage::Samples => "counting samples",
    };
    let Some(share) = share else { return format!("{file}: {what}") };
    let percent = (share * 100.0).floor();
    if share < LEAST {
        return format!("{file}: {what}, {percent} %");
    }
    let left = (elapsed.as_secs_f64() * (1.0 - share) / share).ceil();
    let left = if left < 60.0 { format!("{left} s") } else { duration(left) };
    format!("{file}: {what}, {percent}%, about {left} left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_from_what_was_done() {
        let line = |share, seconds| {
            line("x.data", Stage::Samples, share, Duration::from_secs_f64(seconds))
        };
        assert_eq!(line(Some(0.25), 3.0), "x.data: counting samples, 25%, about 9 s left");
        assert_eq!(line(Some(0.5), 80.0), "x.data: counting samples, 50%, about 1 min 20 s left");
        assert_eq!(line(Some(0.01), 3.0), "x.data: counting samples, 1 %");
        assert_eq!(line(None, 3.0), "x.data: counting samples");
    }

    #[test]
    fn what_is_no_terminal_gets_nothing() {
        // Tests run with their output kept; by hand, on a terminal, there is a line to see.
        if std::io::stderr().is_terminal() {
            return eprintln!("skipped: standard error is a terminal");
        }
        assert!(Shown::new(Arc::default(), Path::new("x")).is_none());
    }
}
