//! What a user sees of a benchmark while it runs.

use std::path::PathBuf;

use pmuscope_bench::capture::{ARM, BenchObserver, Progress};
use pmuscope_measure::{Labels, MeasureError, RunFile};
use pmuscope_report::number;

use super::runs::{RunOutputArgs, keep};
use crate::signals::Stop;

/// Progress goes to stderr, a line per run; results to the file after each.
pub(super) struct RunProgress {
    stop: Stop,
    path: Option<PathBuf>,
}

impl RunProgress {
    /// Whoever waits at the terminal; results go to the file asked for.
    pub(super) fn new(output: &RunOutputArgs) -> anyhow::Result<Self> {
        output.check()?;
        Ok(Self { stop: Stop::new()?, path: output.path().map(PathBuf::from) })
    }

    /// Whether the user has asked to stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.asked()
    }
}

impl BenchObserver for RunProgress {
    fn stop(&mut self) -> bool {
        self.stop.asked()
    }

    fn keep(&mut self, file: &RunFile) -> Result<(), MeasureError> {
        keep(file, self.path.as_deref())
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        let about =
            |seconds: Option<f64>| seconds.map(|s| format!("about {}", number::duration(s)));
        match progress {
            Progress::Calibrating(labels) => say!("calibrating: {}", name(labels)),
            Progress::LeftOut(notice) => say!("{notice}"),
            Progress::Planned { runs, seconds } => {
                let time = about(*seconds).map_or(String::new(), |time| format!(", {time}"));
                say!("{}{time}; Ctrl-C keeps what is done", number::counted(*runs, "run"));
            }
            Progress::Done { runs, of, labels, result, left_s } => {
                let result = match result {
                    Ok(seconds) => number::duration(*seconds),
                    Err(why) => format!("FAILED, {why}"),
                };
                let left = about(*left_s).filter(|_| runs < of);
                let left = left.map_or(String::new(), |left| format!(" · {left} left"));
                say!("{runs}/{of} {}: {result}{left}", name(labels));
            }
            _ => {}
        }
    }
}

/// `AIO1-CPU, threads 2`.
fn name(labels: &Labels) -> String {
    let arm = labels.get(ARM).cloned();
    let others = labels.iter().filter(|(key, _)| *key != ARM).map(|(k, v)| format!("{k} {v}"));
    arm.into_iter().chain(others).collect::<Vec<_>>().join(", ")
}
