//! What is recorded, and under which conditions.

use std::ffi::OsString;
use std::fmt;

use pmuscope_measure::{Extract, Labels, child, metric};

use super::Options;
use crate::error::BenchError;
use crate::runner::Bench;

/// What is recorded.
#[derive(Debug, Clone)]
pub enum Workload {
    /// Our bulk-synchronous stencil, under every combination of these.
    Stencil {
        /// Threads.
        threads: Vec<usize>,
        /// Seconds it should take alone.
        seconds: Vec<f64>,
        /// Edge of each thread's block, in cells.
        size: usize,
    },
    /// Any program.
    Command(Vec<OsString>),
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stencil { size, .. } => write!(f, "stencil, {size} x {size} cells per thread"),
            Self::Command(argv) => {
                let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
                f.write_str(&words.join(" "))
            }
        }
    }
}

impl Workload {
    /// What our stencil prints of itself.
    pub(super) fn own_extracts(&self) -> Vec<Extract> {
        let known = [
            (metric::TIME, "s", r"^Time in seconds = ([0-9.]+)$"),
            ("mops", "Mop/s", r"^Mop/s total = ([0-9.]+)$"),
        ];
        match self {
            // All of these are regular expressions with a group, as a test has it.
            Self::Stencil { .. } => known
                .iter()
                .filter_map(|(metric, unit, pattern)| Extract::new(metric, unit, pattern).ok())
                .collect(),
            Self::Command(_) => Vec::new(),
        }
    }
}

/// The workload under one set of conditions.
#[derive(Debug, Clone)]
pub struct Condition {
    /// What tells it from the others.
    pub(super) labels: Labels,
    /// The command line.
    pub(super) argv: Vec<OsString>,
    /// Seconds it will take alone, about; `None` where nobody knows yet.
    pub(super) expected_s: Option<f64>,
}

/// All conditions; a fixed amount of work each, so that runs can be compared by their time.
pub(super) fn conditions(
    options: &Options,
    bench: &mut Bench<'_>,
) -> Result<Vec<Condition>, BenchError> {
    let (threads, seconds, size) = match &options.workload {
        Workload::Stencil { threads, seconds, size } => (threads, seconds, *size),
        Workload::Command(argv) => {
            let (labels, argv) = (Labels::new(), argv.clone());
            return Ok(vec![Condition { labels, argv, expected_s: None }]);
        }
    };
    let mut conditions = Vec::new();
    for &threads in threads {
        let mut labels = Labels::from([("threads".to_owned(), threads.to_string())]);
        bench.watch.note(&format!("calibrating: threads {threads}"));
        let argv = stencil(options, threads, size, &["--seconds", "1"]);
        let outcome = child::run(&argv, bench.folder(), || bench.stop.is_given())?;
        if bench.stop.is_given() {
            break;
        }
        let rate = steps_per_second(&outcome.output)?;
        for &seconds in seconds {
            labels.insert("seconds".to_owned(), seconds.to_string());
            let steps = (rate * seconds).ceil().max(1.0) as u64;
            let argv = stencil(options, threads, size, &["--steps", &steps.to_string()]);
            conditions.push(Condition { labels: labels.clone(), argv, expected_s: Some(seconds) });
        }
    }
    Ok(conditions)
}

/// The stencil's command line.
pub(super) fn stencil(
    options: &Options,
    threads: usize,
    size: usize,
    until: &[&str],
) -> Vec<OsString> {
    let mut argv: Vec<OsString> = vec![options.program.clone().into()];
    let (threads, size) = (threads.to_string(), size.to_string());
    argv.extend(
        ["workload", "stencil", "--threads", &threads, "--size", &size].map(OsString::from),
    );
    argv.extend(until.iter().map(OsString::from));
    argv
}

fn steps_per_second(output: &str) -> Result<f64, BenchError> {
    let number = |pattern| {
        let extract = Extract::new("", "", pattern).map_err(|error| error.to_string())?;
        extract.find(output)
    };
    let rate = number(r"^Steps = ([0-9]+)$")
        .and_then(|steps| Ok(steps / number(r"^Time in seconds = ([0-9.]+)$")?));
    rate.map_err(|why| {
        let said = output.trim();
        BenchError::Alone { why: if said.is_empty() { why } else { said.to_owned() } }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stencils_figures_are_found() {
        let stencil = Workload::Stencil { threads: vec![], seconds: vec![], size: 1024 };
        let output = "stencil: 2 threads\nMop/s total = 5934.50\nTime in seconds = 11.310\n";
        let found: Vec<_> =
            stencil.own_extracts().iter().map(|e| (e.metric.clone(), e.find(output))).collect();
        assert_eq!(found, [("time".to_owned(), Ok(11.31)), ("mops".to_owned(), Ok(5934.5))]);
        assert_eq!(steps_per_second("Steps = 500\nTime in seconds = 0.5\n").unwrap(), 1000.0);
        let error = steps_per_second("pmuscope: no\n").unwrap_err().to_string();
        assert_eq!(error, "the workload fails without a recorder: pmuscope: no");
        assert_eq!(stencil.to_string(), "stencil, 1024 x 1024 cells per thread");
    }
}
