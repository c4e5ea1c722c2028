//! How far runs are, for whoever waits for them.

use std::path::Path;

use pmuscope_measure::{Done, MeasureError, RunFile, Watch};
use pmuscope_report::number;

use crate::commands::bench::runs::keep;

/// Progress goes to stderr, a line per run; results to the file after each.
pub(in crate::commands) struct Progress<'a> {
    path: Option<&'a Path>,
}

impl<'a> Progress<'a> {
    /// Keeps results in this file, if there is one.
    pub(in crate::commands) fn new(path: Option<&'a Path>) -> Self {
        Self { path }
    }
}

impl Watch for Progress<'_> {
    fn done(&mut self, done: &Done) {
        let left = if done.runs < done.of {
            format!(" · about {} left", number::duration(done.left_s))
        } else {
            String::new()
        };
        let took = number::duration(done.seconds);
        let failed = if done.exit == 0 { String::new() } else { format!(", status {}", done.exit) };
        eprintln!("{}/{}: {took}{failed}{left}", done.runs, done.of);
    }

    fn failed(&mut self, exit: u8, output: &str) {
        let end: Vec<&str> = output.lines().rev().take(3).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        eprintln!("pmuscope: the program ended with status {exit}: {}", end.join(" | "));
    }

    fn keep(&mut self, file: &RunFile) -> Result<(), MeasureError> {
        keep(file, self.path)
    }
}
