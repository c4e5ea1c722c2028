//! How far runs are, for whoever waits for them.

use std::path::Path;
use std::time::{Duration, Instant};

use pmuscope_console::say;
use pmuscope_measure::arms::ARM;
use pmuscope_measure::{Labels, MeasureError, RunDone, RunFile, RunObserver};
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
    fn note(&mut self, text: &str) {
        say!("{}", escape_lines(text));
    }

    fn planned(&mut self, runs: usize, seconds: Option<f64>) {
        let time = seconds.map_or(String::new(), |s| format!(", about {}", number::duration(s)));
        say!("{}{time}; Ctrl-C keeps what is done", number::counted(runs, "run"));
    }

    fn done(&mut self, done: &RunDone<'_>) {
        let RunDone { runs, of, run, left_s } = *done;
        let is_plain = runs < of && run.exit == Some(0) && run.why.is_none();
        if !self.told.is_due() && is_plain && run.duration_s < OFTEN.as_secs_f64() {
            return;
        }
        let left = match runs < of {
            true => format!(" · about {} left", number::duration(left_s)),
            false => String::new(),
        };
        let took = number::duration(run.duration_s);
        let result = match (&run.why, run.exit) {
            (Some(why), _) => format!("FAILED, {}", escape_lines(why)),
            (None, Some(0)) => took,
            (None, exit) => format!("{took}, status {}", exit.unwrap_or(-1)),
        };
        say!("{runs}/{of}{}: {result}{left}", name(&run.labels));
    }

    fn failed(&mut self, exit: u8, output: &str) {
        let end: Vec<&str> = output.lines().rev().take(3).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        let end = end.join(" | ");
        say!("warning: the program ended with status {exit}: {}", escape_lines(&end));
    }

    fn keep(&mut self, file: &RunFile) -> Result<(), MeasureError> {
        // All is kept at the end.
        if self.kept.is_due() { keep(file, self.path) } else { Ok(()) }
    }
}

/// ` AIO1-CPU, threads 2`: labels of a run.
fn name(labels: &Labels) -> String {
    let word = |(key, value): (&String, &String)| match key.as_str() {
        ARM => value.clone(),
        _ => format!("{key} {value}"),
    };
    let words: Vec<String> = labels.iter().map(word).collect();
    if words.is_empty() { String::new() } else { format!(" {}", escape_lines(&words.join(", "))) }
}
