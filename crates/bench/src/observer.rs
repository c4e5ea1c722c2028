//! Whoever waits for a benchmark: is told how far it is, keeps results, and may stop it.

use pmuscope_measure::{Labels, MeasureError, RunFile};

/// What happens, for whoever waits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// The workload runs once alone, to learn how much it does in a second.
    Calibrating(&'a Labels),
    /// Arms cannot run here: which, and why, as a sentence without full stop.
    LeftOut(&'a str),
    /// All is known.
    Planned {
        /// Runs to come.
        runs: usize,
        /// Seconds they will take, about; `None` where nobody knows yet.
        seconds: Option<f64>,
    },
    /// A run is over.
    Done {
        /// How many are.
        runs: usize,
        /// Of how many.
        of: usize,
        /// What it was.
        labels: &'a Labels,
        /// Its wall time in seconds, or what went wrong.
        result: Result<f64, &'a str>,
        /// Seconds that the others will take, about; `None` where nobody knows yet.
        left_s: Option<f64>,
    },
}

/// Whoever waits for the results.
pub trait BenchObserver {
    /// Whether to stop here. Asked several times a second.
    fn stop(&mut self) -> bool;
    /// Something happened.
    fn progress(&mut self, progress: &Progress<'_>);
    /// The results so far, after every run.
    ///
    /// # Errors
    /// If they cannot be kept; the benchmark ends.
    fn keep(&mut self, file: &RunFile) -> Result<(), MeasureError>;
}
