//! The same command in several guests: every kernel with every setting, each as often as asked for, in
//! random order within a round. A cell that fails is a failed cell; the others go on.

use std::path::Path;
use std::time::{Instant, SystemTime};

use pmuscope_measure::{
    Extract, Guest, Labels, MeasureError, Origin, Plan, Planned, Run, RunFile, metric, parse,
    unix_ns,
};

use crate::{Lab, LabError, Options, Outcome};

/// Label that tells cells apart.
pub const CELL: &str = "cell";

/// Where a benchmark in a guest leaves its runs.
const RUNS: &str = ".pmuscope-runs.json";

/// One guest of the matrix.
#[derive(Debug, Clone)]
pub struct Cell {
    /// What tells it apart: `6.12 kernel.numa_balancing=1`.
    pub name: String,
    /// The guest.
    pub options: Options,
}

/// Whoever waits for the results.
pub trait Observer {
    /// Whether to stop here. Asked a hundred times a second.
    fn stop(&mut self) -> bool;
    /// A guest is over: how many are, of how many, which cell, how long it took or why it failed, and how
    /// many seconds the others will take, about.
    fn done(&mut self, done: (usize, usize), cell: &str, result: Result<f64, &str>, left_s: f64);
    /// What a guest brought, in which round.
    ///
    /// # Errors
    /// If it cannot be kept; the matrix ends.
    fn outcome(&mut self, cell: &str, round: usize, outcome: &Outcome) -> std::io::Result<()>;
    /// The results so far, after every guest.
    ///
    /// # Errors
    /// If they cannot be kept; the matrix ends.
    fn keep(&mut self, file: &RunFile) -> Result<(), MeasureError>;
}

/// Why a matrix ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// Results could not be kept.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// Files of a guest could not be kept.
    #[error("cannot store the results of a guest: {0}")]
    Files(#[from] std::io::Error),
}

/// Runs every cell `rounds` times and adds what they measured to `file`.
///
/// # Errors
/// If results cannot be kept. What fails in a guest is in the file, with the reason.
pub fn matrix(
    lab: &Lab,
    cells: &[Cell],
    (rounds, seed): (usize, u64),
    extracts: &[Extract],
    file: &mut RunFile,
    observer: &mut dyn Observer,
) -> Result<(), MatrixError> {
    let clock = Instant::now();
    let plan = Plan::new(cells.len(), rounds, seed);
    file.seed = Some(plan.seed.to_string());
    file.guests = cells.iter().map(guest).collect();
    observer.keep(file)?;
    for (done, planned) in plan.runs.iter().enumerate() {
        let cell = &cells[planned.arm];
        let options = Options { arguments: arguments(&cell.options), ..cell.options.clone() };
        let started = SystemTime::now();
        let begun = Instant::now();
        let result = lab.run(&options, &mut || observer.stop(), &mut |_| {});
        if matches!(result, Err(LabError::Interrupted)) {
            break;
        }
        let seconds = begun.elapsed().as_secs_f64();
        if let Ok(outcome) = &result {
            describe(&mut file.guests[planned.arm], outcome);
            observer.outcome(&cell.name, planned.round, outcome)?;
        }
        let part = part(file, planned, &result, (started, seconds), extracts);
        let failure = part.runs.iter().find_map(|run| run.why.clone());
        file.absorb(part, &Labels::from([(CELL.to_owned(), cell.name.clone())]));
        file.duration_s = clock.elapsed().as_secs_f64();
        observer.keep(file)?;
        let each = file.duration_s / (done + 1) as f64;
        let left_s = each * (plan.runs.len() - done - 1) as f64;
        let told = failure.as_deref().map_or(Ok(seconds), Err);
        observer.done((done + 1, plan.runs.len()), &cell.name, told, left_s);
    }
    sort(file, cells);
    Ok(())
}

/// What is known of a guest before it ran.
fn guest(cell: &Cell) -> Guest {
    Guest {
        cell: cell.name.clone(),
        config_sha256: cell.options.kernel.config_sha256.clone(),
        settings: cell.options.settings.iter().cloned().collect(),
        topology: cell.options.topology.describe(),
        ..Guest::default()
    }
}

fn describe(guest: &mut Guest, outcome: &Outcome) {
    guest.kernel = Some(outcome.kernel.clone());
    guest.command_line = Some(outcome.command_line.clone());
    guest.acceleration = Some(outcome.acceleration.name().to_owned());
}

/// Benchmarks tell their runs in a file, which comes back as all files do.
fn arguments(options: &Options) -> Vec<String> {
    let mut arguments = options.arguments.clone();
    let own = arguments.iter().take_while(|word| *word != "--");
    let has_json = own.clone().any(|word| word == "--json" || word.starts_with("--json="));
    if arguments.first().is_some_and(|word| word == "bench") && arguments.len() > 1 && !has_json {
        arguments.insert(2, format!("--json={RUNS}"));
    }
    arguments
}

/// What one guest measured: the runs of its benchmark, else the command as one run.
fn part(
    whole: &RunFile,
    planned: &Planned,
    result: &Result<Outcome, LabError>,
    (started, seconds): (SystemTime, f64),
    extracts: &[Extract],
) -> RunFile {
    let mut part = RunFile::new(whole.tool.clone(), Vec::new(), started);
    let mut run = Run {
        index: 0,
        order: planned.order,
        round: Some(0),
        labels: Labels::new(),
        started: unix_ns(started),
        duration_s: seconds,
        exit: None,
        why: None,
        units: Default::default(),
    };
    match result {
        Ok(outcome) => {
            let why = (outcome.timed_out || outcome.exit != 0).then(|| complaint(outcome));
            if let Some(mut runs) = runs_of(outcome) {
                if outcome.timed_out {
                    // Those that it made until then are whole.
                    let index = runs.runs.iter().map(|run| run.index + 1).max().unwrap_or(0);
                    let order = runs.runs.iter().map(|run| run.order + 1).max().unwrap_or(0);
                    runs.runs.push(Run { index, order, why, ..run });
                }
                return runs;
            }
            run.exit = Some(outcome.exit).filter(|_| !outcome.timed_out);
            run.why = why;
            let none = Labels::new();
            let emulated = outcome.acceleration.is_emulation();
            let origin = if emulated { Origin::Emulated } else { Origin::Clock };
            part.add(0, &none, metric::WALL, ("s", origin), Ok(outcome.command_s));
            let said = String::from_utf8_lossy(&outcome.stdout);
            for extract in extracts {
                let kind = (extract.unit.as_str(), Origin::Program);
                part.add(0, &none, &extract.metric, kind, extract.find(&said));
            }
        }
        Err(error) => run.why = Some(error.to_string()),
    }
    part.runs.push(run);
    part
}

/// The run file that a benchmark left behind; one without a run is none.
fn runs_of(outcome: &Outcome) -> Option<RunFile> {
    let files = outcome.files.iter().filter(|f| f.path.extension().is_some_and(|e| e == "json"));
    let mut found = files.filter_map(|file| parse(&file.content, Path::new(RUNS)).ok());
    found.find(|file| !file.runs.is_empty())
}

/// The last line that a command complained of.
fn complaint(outcome: &Outcome) -> String {
    if outcome.timed_out {
        let seconds = outcome.command_s;
        return format!("it was ended after {seconds:.0} s. Try: a longer --timeout");
    }
    let text = String::from_utf8_lossy(&outcome.stderr);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    format!("status {}: {}", outcome.exit, line.unwrap_or("no message"))
}

/// Series in the order of cells, whatever the order of guests was.
fn sort(file: &mut RunFile, cells: &[Cell]) {
    let place = |labels: &Labels| cells.iter().position(|c| labels.get(CELL) == Some(&c.name));
    file.series.sort_by_key(|series| place(&series.labels));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Acceleration;
    use crate::run::Produced;
    use pmuscope_measure::Program;

    fn outcome(exit: i32, stdout: &str, files: Vec<Produced>) -> Outcome {
        Outcome {
            exit,
            timed_out: false,
            heard: 0,
            stdout: stdout.into(),
            stderr: b"warning\npmuscope: it broke\n\n".to_vec(),
            files,
            kernel: "6.1.0".into(),
            command_line: "quiet".into(),
            acceleration: Acceleration::Tcg,
            why_emulated: None,
            starts: 1,
            boot_s: Some(5.0),
            command_s: 1.5,
            wall_s: 7.0,
        }
    }

    fn file() -> RunFile {
        let tool = Program { name: "pmuscope".into(), version: "1".into() };
        RunFile::new(tool, vec![], SystemTime::UNIX_EPOCH)
    }

    fn part_of(result: &Result<Outcome, LabError>, extracts: &[Extract]) -> RunFile {
        let planned = Planned { order: 4, round: 1, arm: 0 };
        part(&file(), &planned, result, (SystemTime::UNIX_EPOCH, 7.0), extracts)
    }

    #[test]
    fn a_command_is_one_run_with_the_guests_clock() {
        let extract = Extract::named("mops=Mop/s = ([0-9.]+)").unwrap();
        let part = part_of(&Ok(outcome(0, "Mop/s = 12.5\n", vec![])), &[extract]);
        assert_eq!((part.runs[0].exit, part.runs[0].why.as_deref()), (Some(0), None));
        let figures: Vec<_> =
            part.series.iter().map(|s| (s.metric.as_str(), s.origin, s.numbers())).collect();
        let expected =
            [("wall", Origin::Emulated, vec![1.5]), ("mops", Origin::Program, vec![12.5])];
        assert_eq!(figures, expected);
    }

    #[test]
    fn failures_keep_their_reason() {
        let part = part_of(&Ok(outcome(3, "", vec![])), &[]);
        assert_eq!(part.runs[0].why.as_deref(), Some("status 3: pmuscope: it broke"));
        let part = part_of(&Err(LabError::Refused("no such setting".into())), &[]);
        assert_eq!(part.runs[0].exit, None);
        assert_eq!(part.runs[0].why.as_deref(), Some("the guest failed: no such setting"));
        assert!(part.series.is_empty());
    }

    #[test]
    fn runs_that_a_benchmark_made_before_its_time_was_over_are_kept() {
        let inner = part_of(&Ok(outcome(0, "", vec![])), &[]);
        let content = serde_json::to_vec(&inner).unwrap();
        let produced = Produced { path: RUNS.into(), mode: 0o600, content };
        let late = Outcome { timed_out: true, ..outcome(143, "", vec![produced]) };
        let part = part_of(&Ok(late), &[]);
        let ended: Vec<(usize, Option<i32>)> =
            part.runs.iter().map(|run| (run.index, run.exit)).collect();
        assert_eq!(ended, [(0, Some(0)), (1, None)]);
        assert!(part.runs[1].why.as_ref().unwrap().contains("--timeout"), "{part:?}");
        let part = part_of(&Ok(Outcome { timed_out: true, ..outcome(143, "", vec![]) }), &[]);
        assert_eq!(part.runs[0].exit, None);
    }

    #[test]
    fn a_benchmarks_own_runs_are_taken() {
        let mut inner = part_of(&Ok(outcome(0, "", vec![])), &[]);
        inner.runs[0].labels = Labels::from([("arm".into(), "BASE".into())]);
        let content = serde_json::to_vec(&inner).unwrap();
        let produced = Produced { path: RUNS.into(), mode: 0o600, content };
        let other = Produced { path: "x.json".into(), mode: 0o600, content: b"{}".to_vec() };
        let part = part_of(&Ok(outcome(1, "", vec![other, produced])), &[]);
        assert_eq!(part.runs[0].labels["arm"], "BASE");
    }
}
