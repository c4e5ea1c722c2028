//! Run files as rows: each run stays a row, with its values as they were measured.
//!
//! ```text
//!  RunFile ─► whole runs ─┬─ run ──────────────────────────────────► runs
//!             (intervals   ├─ units of work ────────────────────────► run_values, origin `work`
//!              added up)   ├─ series: a value of each run ──────────► run_values
//!                          └─ the machine ──────────────────────────► hosts
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use pmuscope_measure::compare::whole_runs;
use pmuscope_measure::{Labels as RunLabels, Origin, RawReading, Run, RunFile, RunValue, arms};

use super::Rows;
use super::benchmark::Benchmark;
use crate::column::Timestamp;
use crate::tables::{HostRow, RunRow, RunValueRow};

/// Values of a file at most: a sweep of 4,000 events in 15 rounds has 60,000.
const MOST_VALUES: usize = 1 << 20;
/// Text in all rows of a file at most, bytes: series can have names of any length, and each row has its own.
const MOST_TEXT: usize = 256 << 20;
/// Days from the first run of a file to its last at most: each becomes a file.
const MOST_DAYS: i64 = 366;
/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;
/// The label of runs that says in which virtual machine of the lab they were made.
const CELL: &str = "cell";

/// What a run file does not say of itself.
#[derive(Debug, Clone, Default)]
pub struct RunsOrigin {
    /// Host name, where it is not that of the file.
    pub host: Option<Arc<str>>,
    /// Service that ran.
    pub service: Option<Arc<str>>,
    /// Its version.
    pub version: Option<Arc<str>>,
    /// Name of the benchmark, where it is not that of the program.
    pub benchmark: Option<Arc<str>>,
    /// Id of the import.
    pub batch: i64,
}

/// Why a run file has no rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// It does not say where it was made.
    #[error("the run file does not say on which host it was made. Try: --host NAME")]
    NoHost,
    /// A start that is no time.
    #[error(
        "run {run} starts at {text:?}, which is no number of nanoseconds since 1970. Try: the file as pmuscope wrote it"
    )]
    Start {
        /// The run.
        run: usize,
        /// What it says.
        text: String,
    },
    /// Two runs with one number.
    #[error("run {0} is there twice. Try: the file as pmuscope wrote it")]
    Twice(usize),
    /// More than anybody measures.
    #[error("the run file has more than {MOST_VALUES} values, or {} MiB of names. Try: several files", MOST_TEXT >> 20)]
    TooMany,
    /// More time than anybody measures.
    #[error("the runs of the file are {0} days apart, more than {MOST_DAYS}. Try: several files")]
    TooLong(i64),
}

/// The rows of a run file.
///
/// # Errors
/// [`RunsError`].
pub fn run_rows(file: &RunFile, origin: &RunsOrigin) -> Result<Rows, RunsError> {
    let file = &*whole_runs(file);
    let machine = MachineText { file };
    let host = origin.host.clone().or_else(|| machine.text("/kernel/hostname"));
    let host = host.ok_or(RunsError::NoHost)?;
    let starts = starts(file)?;
    let importing = RunsImport { file, origin, host, machine, starts };
    let Some(seen) = importing.starts.values().min().copied() else { return Ok(Rows::default()) };
    Ok(Rows {
        hosts: vec![importing.host_row(seen)],
        runs: importing.runs(),
        run_values: importing.values()?,
        ..Rows::default()
    })
}

/// Starts of all runs, by their numbers.
fn starts(file: &RunFile) -> Result<BTreeMap<usize, Timestamp>, RunsError> {
    let mut starts = BTreeMap::new();
    for run in &file.runs {
        let malformed =
            || RunsError::Start { run: run.index, text: run.started.chars().take(40).collect() };
        let ns: i64 = run.started.parse().map_err(|_| malformed())?;
        if starts.insert(run.index, Timestamp(ns.div_euclid(1000))).is_some() {
            return Err(RunsError::Twice(run.index));
        }
    }
    let (first, last) = (starts.values().min(), starts.values().max());
    let days = first.zip(last).map_or(0, |(first, last)| last.0.saturating_sub(first.0) / DAY_US);
    if days > MOST_DAYS { Err(RunsError::TooLong(days)) } else { Ok(starts) }
}

/// What is known of the machine, as `pmuscope doctor --json` has it.
#[derive(Clone, Copy)]
struct MachineText<'a> {
    file: &'a RunFile,
}

impl MachineText<'_> {
    fn text(self, path: &str) -> Option<Arc<str>> {
        let text = self.file.machine.pointer(path)?.as_str()?;
        (!text.is_empty()).then(|| text.into())
    }

    fn length(self, path: &str) -> Option<i64> {
        i64::try_from(self.file.machine.pointer(path)?.as_array()?.len()).ok()
    }

    fn emulator(self) -> Option<Arc<str>> {
        self.text("/surroundings/emulator/name")
    }
}

struct RunsImport<'a> {
    file: &'a RunFile,
    origin: &'a RunsOrigin,
    host: Arc<str>,
    machine: MachineText<'a>,
    starts: BTreeMap<usize, Timestamp>,
}

impl RunsImport<'_> {
    fn host_row(&self, seen: Timestamp) -> HostRow {
        HostRow {
            seen,
            host: Arc::clone(&self.host),
            boot: None,
            kernel: self.machine.text("/kernel/release"),
            arch: self.machine.text("/kernel/arch"),
            cpu_model: self.machine.text("/processor/model_name"),
            cpus: self.machine.length("/topology/cpus"),
            nodes: self.machine.length("/topology/nodes"),
            emulator: self.machine.emulator(),
            labels: None,
        }
    }

    fn runs(&self) -> Vec<RunRow> {
        let Benchmark { name, command_id } = Benchmark::of(self.file);
        let benchmark = self.origin.benchmark.clone().unwrap_or(name);
        let usable: HashSet<usize> = self.file.counting_runs().map(|run| run.index).collect();
        let (kernel, arch) =
            (self.machine.text("/kernel/release"), self.machine.text("/kernel/arch"));
        let cpu_model = self.machine.text("/processor/model_name");
        let tool = format!("{} {}", self.file.tool.name, self.file.tool.version).into();
        let row = |run: &Run| {
            let guest = run
                .labels
                .get(CELL)
                .and_then(|cell| self.file.guests.iter().find(|guest| guest.cell == *cell));
            let of_guest = guest.filter(|guest| guest.is_emulated());
            let emulator = of_guest.and_then(|guest| guest.acceleration.as_deref()).map(Arc::from);
            RunRow {
                start: self.start(run.index),
                duration_us: microseconds(run.duration_s),
                host: Arc::clone(&self.host),
                boot: None,
                service: self.origin.service.clone(),
                version: self.origin.version.clone(),
                benchmark: Arc::clone(&benchmark),
                command_id,
                arm: run.labels.get(arms::ARM).map(|arm| arm.as_str().into()),
                run: number(run.index),
                round_number: run.round.map(number),
                settings: labels(&run.labels),
                usable: usable.contains(&run.index),
                exit_status: run.exit.map(i64::from),
                why: run.why.as_deref().map(Arc::from),
                kernel: match guest {
                    Some(guest) => guest.kernel.as_deref().map(Arc::from),
                    None => kernel.clone(),
                },
                arch: arch.clone(),
                cpu_model: cpu_model.clone(),
                emulator: emulator.or_else(|| self.machine.emulator()),
                tool: Arc::clone(&tool),
                batch: self.origin.batch,
            }
        };
        self.file.runs.iter().map(row).collect()
    }

    /// Series, then units of work.
    fn values(&self) -> Result<Vec<RunValueRow>, RunsError> {
        let mut rows = ValueRows::default();
        for series in &self.file.series {
            let row = RunValueRow {
                name: series.metric.as_str().into(),
                part: labels(&series.labels),
                value_unit: series.unit.as_str().into(),
                origin: origin_name(series.origin).into(),
                ..self.value_row()
            };
            for value in &series.values {
                rows.push(self.measured(&row, value))?;
            }
        }
        // A unit has one name for all runs.
        let mut names: HashMap<&str, Arc<str>> = HashMap::new();
        let (origin, value_unit): (Arc<str>, Arc<str>) = ("work".into(), "".into());
        for run in &self.file.runs {
            for (name, &amount) in &run.units {
                let name = names.entry(name).or_insert_with(|| name.as_str().into());
                rows.push(RunValueRow {
                    start: self.start(run.index),
                    run: number(run.index),
                    name: Arc::clone(name),
                    value: Some(amount),
                    value_unit: Arc::clone(&value_unit),
                    origin: Arc::clone(&origin),
                    ..self.value_row()
                })?;
            }
        }
        Ok(rows.rows)
    }

    /// What all values of the file have in common.
    fn value_row(&self) -> RunValueRow {
        RunValueRow {
            host: Arc::clone(&self.host),
            service: self.origin.service.clone(),
            version: self.origin.version.clone(),
            batch: self.origin.batch,
            ..RunValueRow::default()
        }
    }

    fn measured(&self, of: &RunValueRow, value: &RunValue) -> RunValueRow {
        RunValueRow {
            start: self.start(value.run),
            run: number(value.run),
            value: value.value,
            above: value.above,
            half: value.half,
            count: count(&value.readings),
            enabled_us: value.enabled_s.map(microseconds),
            running_us: value.running_s.map(microseconds),
            why: value.why.as_deref().map(Arc::from),
            ..of.clone()
        }
    }

    /// Loaded files have a run for each value.
    fn start(&self, run: usize) -> Timestamp {
        self.starts.get(&run).copied().unwrap_or_default()
    }
}

/// Rows of values, up to what a file may have.
#[derive(Default)]
struct ValueRows {
    rows: Vec<RunValueRow>,
    text: usize,
}

impl ValueRows {
    fn push(&mut self, row: RunValueRow) -> Result<(), RunsError> {
        let optional = [&row.service, &row.version, &row.part, &row.why];
        let length: usize = optional.into_iter().flatten().map(|text| text.len()).sum();
        self.text += length + row.host.len() + row.name.len() + row.value_unit.len();
        if self.rows.len() >= MOST_VALUES || self.text > MOST_TEXT {
            return Err(RunsError::TooMany);
        }
        self.rows.push(row);
        Ok(())
    }
}

/// What all descriptors of a counter read; nothing where one of them did not.
fn count(readings: &[RawReading]) -> Option<i64> {
    let count = |reading: &RawReading| reading.count.as_ref()?.parse::<u64>().ok();
    let sum = readings.iter().map(count).try_fold(0_u64, |sum, count| sum.checked_add(count?))?;
    i64::try_from(sum).ok().filter(|_| !readings.is_empty())
}

/// Labels other than the arm, as `;cpu=0;`; nothing without any.
fn labels(labels: &RunLabels) -> Option<Arc<str>> {
    let others = labels.iter().filter(|(name, _)| *name != arms::ARM);
    let text: String = others.map(|(name, value)| format!("{name}={value};")).collect();
    (!text.is_empty()).then(|| format!(";{text}").into())
}

/// The name of an origin in run files.
fn origin_name(origin: Origin) -> String {
    let name = serde_json::to_value(origin).ok();
    name.and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_else(|| "other".to_owned())
}

fn microseconds(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

fn number(of: usize) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}
