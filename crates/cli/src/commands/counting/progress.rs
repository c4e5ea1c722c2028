//! How far runs are, for whoever waits for them.

use std::path::Path;
use std::time::{Duration, Instant};

use pmuscope_measure::{MeasureError, RunDone, RunFile, RunObserver};
use pmuscope_report::{escape_lines, number};

use crate::commands::bench::runs::keep;

/// How often there is something to tell, and to keep.
const OFTEN: Duration = Duration::from_secs(1);

/// Progress goes to stderr, results to the file, after each run; of runs shorter than a second, once a second.
pub(in crate::commands) struct CountingProgress<'a> {
    path: Option<&'a Path>,
    told: Turn,
    kept: Turn,
}

/// When something was done last.
#[derive(Default)]
struct Turn(Option<Instant>);

impl Turn {
    /// Whether it is time to do it again.
    fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|last| last.elapsed() >= OFTEN);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}

impl<'a> CountingProgress<'a> {
    /// Keeps results in this file, if there is one.
    pub(in crate::commands) fn new(path: Option<&'a Path>) -> Self {
        Self { path, told: Turn::default(), kept: Turn::default() }
    }
}

impl RunObserver for CountingProgress<'_> {
    fn done(&mut self, done: &RunDone) {
        let is_plain = done.runs < done.of && done.exit == 0;
        if !self.told.is_due() && is_plain && done.seconds < OFTEN.as_secs_f64() {
            return;
        }
        let left = if done.runs < done.of {
            format!(" · about {} left", number::duration(done.left_s))
        } else {
            String::new()
        };
        let took = number::duration(done.seconds);
        let failed = if done.exit == 0 { String::new() } else { format!(", status {}", done.exit) };
        say!("{}/{}: {took}{failed}{left}", done.runs, done.of);
    }

    fn failed(&mut self, exit: u8, output: &str) {
        let end: Vec<&str> = output.lines().rev().take(3).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        let end = end.join(" | ");
        say!("pmuscope: the program ended with status {exit}: {}", escape_lines(&end));
    }

    fn keep(&mut self, file: &RunFile) -> Result<(), MeasureError> {
        // All is kept at the end.
        if self.kept.is_due() { keep(file, self.path) } else { Ok(()) }
    }
}
