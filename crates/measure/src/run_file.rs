//! The run file, `pmuscope/runs/1`: what every benchmark, `stat` and `sweep` write, and what
//! `compare` reads. Fields are added, never changed in meaning.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::plan::Planned;

/// Kind and version.
pub const SCHEMA: &str = "pmuscope/runs/1";

/// What tells series apart: arm, threads, event, CPU… In the order of their names.
pub type Labels = BTreeMap<String, String>;

/// Names of metrics that more than one command writes.
pub mod metric {
    /// Seconds by the workload's own clock.
    pub const TIME: &str = "time";
    /// Seconds from start to end of the process.
    pub const WALL: &str = "wall";
    /// User seconds of the workload.
    pub const USER: &str = "user";
    /// System seconds of the workload.
    pub const SYSTEM: &str = "system";
    /// Peak resident memory of the workload, bytes.
    pub const MAX_RSS: &str = "max_rss";
    /// Page faults without I/O.
    pub const MINOR_FAULTS: &str = "minor_faults";
    /// Page faults with I/O.
    pub const MAJOR_FAULTS: &str = "major_faults";
}

/// Results of repeated runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// [`SCHEMA`].
    pub schema: String,
    /// Who wrote it.
    pub tool: Program,
    /// What is known of the machine, as `pmuscope doctor --json` has it; kept as it is.
    pub machine: serde_json::Value,
    /// What times depend on, at the start: load, clock control, SMT, limits; kept as it is.
    #[serde(default)]
    pub environment: serde_json::Value,
    /// What in it makes times vary or hard to compare.
    #[serde(default)]
    pub concerns: Vec<Concern>,
    /// The command line, program first.
    pub command: Vec<String>,
    /// Nanoseconds since 1970-01-01 UTC, as text.
    pub started: String,
    /// Seconds from the start of the first run to the end of the last.
    pub duration_s: f64,
    /// Exit status of the program that wrote it; `None` while it still runs, or if it was killed.
    pub status: Option<u8>,
    /// Why `status` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What all runs have in common: event, rate, workload.
    #[serde(default)]
    pub parameters: Labels,
    /// Sentences a reader of the result should see: what was left out, and why.
    #[serde(default)]
    pub notices: Vec<String>,
    /// Seed of the order of runs, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
    /// Virtual machines of the lab that runs were made in; their label `cell` says which.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<Guest>,
    /// Commands that are compared by interleaved runs; the label `arm` of runs and series is the
    /// name. Empty where there is one command, and for benchmarks: their arms are no commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<Arm>,
    /// How alike the runs of a sweep were, by what was counted in each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<Drift>,
    /// Every run, in the order of time.
    pub runs: Vec<Run>,
    /// Every figure of every run.
    pub series: Vec<Series>,
    /// What was looked at again and again during runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
}

/// One of several commands that are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Value of the label `arm`.
    pub name: String,
    /// Its command line, program first.
    pub command: Vec<String>,
}

/// A virtual machine that runs were made in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// Value of the label `cell`.
    pub cell: String,
    /// Release of its kernel, as it says itself; `None` where it never ran.
    pub kernel: Option<String>,
    /// SHA-256 of the kernel's configuration, if that is known.
    pub config_sha256: Option<String>,
    /// The kernel's command line; `None` where it never ran.
    pub command_line: Option<String>,
    /// Kernel settings, by name.
    pub settings: Labels,
    /// What ran its instructions: `kvm`, `tcg`; `None` where it never ran.
    pub acceleration: Option<String>,
    /// Its CPUs, nodes and memory, in words.
    pub topology: String,
}

impl Guest {
    /// Whether its times are an emulator's.
    pub fn is_emulated(&self) -> bool {
        self.acceleration.as_deref() == Some("tcg")
    }
}

/// Name and version of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Something about the machine that makes times vary or hard to compare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concern {
    /// What it does to times.
    pub effect: String,
    /// What was found.
    pub why: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// How an event that was counted in every run differed between runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// The event.
    pub event: String,
    /// The unit of work that it was divided by; `None`: none.
    pub per: Option<String>,
    /// Standard deviation over runs, as a share of the mean.
    pub spread: f64,
    /// How much it grew from the first run to the last, as a share of the mean; `None` where all runs were
    /// made at the same time.
    pub growth: Option<f64>,
    /// Half of the growth's 95 % interval.
    pub growth_half: Option<f64>,
    /// Runs.
    pub n: usize,
}

impl Drift {
    /// Whether the machine or the program changed while it was measured: the growth is not nothing, and
    /// more than a hundredth.
    #[must_use]
    pub fn is_notable(&self) -> bool {
        self.growth
            .zip(self.growth_half)
            .is_some_and(|(growth, half)| growth.abs() > half.max(0.01))
    }
}

/// One run of one program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What values refer to.
    pub index: usize,
    /// Which in time, from 0.
    pub order: usize,
    /// Runs of one round belong together: done one after the other, in random order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<usize>,
    /// What was run: arm, threads.
    #[serde(default)]
    pub labels: Labels,
    /// Nanoseconds since 1970-01-01 UTC, as text.
    pub started: String,
    /// Seconds.
    pub duration_s: f64,
    /// Exit status of the program, 128 + n if signal n ended it.
    pub exit: Option<i32>,
    /// Why the run is worth nothing, or has no exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How many units of work it did, by name: `packet`, `row`.
    #[serde(default)]
    pub units: BTreeMap<String, f64>,
}

/// One figure over many runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What tells it apart from other series of the metric.
    pub labels: Labels,
    /// Name of the figure.
    pub metric: String,
    /// Unit: `s`, `B`, or empty for a count.
    pub unit: String,
    /// Where the numbers come from.
    pub origin: Origin,
    /// At most one per run.
    pub values: Vec<RunValue>,
}

/// What was looked at again and again during one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// [`Run::index`].
    pub run: usize,
    /// When each reading was, seconds since the work began, ascending.
    pub at_s: Vec<f64>,
    /// What was seen, a value for each reading.
    pub columns: Vec<TimelineColumn>,
}

/// One figure of a [`Timeline`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimelineColumn {
    /// Name of the figure.
    pub metric: String,
    /// Unit, as in [`Series`].
    pub unit: String,
    /// Where the numbers come from.
    pub origin: Origin,
    /// As many as looks; `None`: nothing could be seen then.
    pub values: Vec<Option<f64>>,
}

impl Timeline {
    /// The values of a figure; none if there are none of it.
    #[must_use]
    pub fn column(&self, metric: &str) -> &[Option<f64>] {
        let column = self.columns.iter().find(|column| column.metric == metric);
        column.map_or(&[], |column| &column.values)
    }
}

/// Where a number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Origin {
    /// A counter of the hardware.
    Hardware,
    /// A counter or clock event of the kernel.
    Software,
    /// A counter emulated by a hypervisor or by this program.
    Emulated,
    /// The monotonic clock, read by this program.
    Clock,
    /// The kernel's accounting of a process.
    Kernel,
    /// What the measured program says of itself.
    Program,
    /// What the recording says of itself.
    Recording,
    /// Calculated from other figures of the run.
    Derived,
    /// Estimated, where nothing exact was to be had.
    Estimate,
    /// Of a later version.
    #[serde(other)]
    Other,
}

/// A figure of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunValue {
    /// [`Run::index`].
    pub run: usize,
    /// `None`: not measured.
    pub value: Option<f64>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// It is known to be above this, and no more: what is timed did not happen in the time that was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<f64>,
    /// Half of its own 95 % interval, for values that are estimates within their run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<f64>,
    /// For counters: seconds the event was enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled_s: Option<f64>,
    /// For counters: seconds it was on a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_s: Option<f64>,
    /// For counters: what each descriptor read, as it came from the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<RawReading>,
}

/// What one descriptor of an event has counted in one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawReading {
    /// The CPU it is bound to; absent for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// The thread it observes; absent for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// The count as text, as it may be beyond 2^53; neither scaled nor in the unit of the series.
    /// `None` where the kernel gave the event up.
    pub count: Option<String>,
    /// Nanoseconds enabled, as text.
    pub enabled_ns: Option<String>,
    /// Nanoseconds on a counter, as text.
    pub running_ns: Option<String>,
}

impl RunValue {
    /// A number without times, or the reason why there is none; what is not finite is none.
    pub fn new(run: usize, value: Result<f64, String>) -> Self {
        let (value, why) = match value {
            Ok(number) if number.is_finite() => (Some(number), None),
            Ok(number) => (None, Some(format!("not a finite number: {number}"))),
            Err(why) => (None, Some(why)),
        };
        Self {
            run,
            value,
            why,
            above: None,
            half: None,
            enabled_s: None,
            running_s: None,
            readings: Vec::new(),
        }
    }

    /// One that is above a limit, and the reason why no more is known.
    pub fn beyond(run: usize, above: f64, why: String) -> Self {
        Self { above: Some(above), ..Self::new(run, Err(why)) }
    }
}

impl RunValue {
    /// Takes in that of a later part of the run, of what adds up; without one of them there is no sum.
    pub(crate) fn join(&mut self, later: Self) {
        let sum = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
        self.value = sum(self.value, later.value);
        self.why = self.why.take().or(later.why);
        self.enabled_s = sum(self.enabled_s, later.enabled_s);
        self.running_s = sum(self.running_s, later.running_s);
        self.half = None;
        self.readings.extend(later.readings);
    }
}

impl Run {
    /// Whether it did what it was to do: it ended with status 0, or has no status, because we ended it as was
    /// planned, or only watched what runs without us.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.why.is_none() && self.exit.is_none_or(|status| status == 0)
    }
}

impl RunFile {
    /// Runs whose figures are told: the good ones; where all that was done was one, that one however it
    /// ended ([`RunFile::ended`]), since it is not averaged with others. A run may have a part for each interval.
    pub fn counting_runs(&self) -> impl Iterator<Item = &Run> {
        let is_single = self.is_single();
        self.runs.iter().filter(move |run| is_single || run.is_good())
    }

    /// The label that separates figures of a run from those of other arms; none where it is of no arm.
    #[must_use]
    pub fn arm_of(&self, run: usize) -> Labels {
        let run = self.runs.get(run);
        let arm = run.and_then(|run| run.labels.get_key_value(crate::arms::ARM));
        arm.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// How the only run ended, if not as it should have.
    #[must_use]
    pub fn ended(&self) -> Option<String> {
        let run = self.runs.iter().find(|run| !run.is_good()).filter(|_| self.is_single())?;
        Some(match (&run.why, run.exit) {
            (Some(why), _) => why.clone(),
            (None, status) => format!("status {}", status.unwrap_or_default()),
        })
    }

    fn is_single(&self) -> bool {
        let is_part = |run: &Run| run.labels.contains_key(crate::counting::INTERVAL);
        let is_same = |runs: &[Run]| runs[0].order == runs[1].order && runs.iter().all(is_part);
        self.runs.windows(2).all(is_same)
    }

    /// A file without runs yet.
    pub fn new(tool: Program, command: Vec<String>, started: SystemTime) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            tool,
            machine: serde_json::Value::Null,
            environment: serde_json::Value::Null,
            concerns: Vec::new(),
            command,
            started: unix_ns(started),
            duration_s: 0.0,
            status: None,
            why: Some("not finished".to_owned()),
            parameters: Labels::new(),
            notices: Vec::new(),
            seed: None,
            guests: Vec::new(),
            arms: Vec::new(),
            drift: Vec::new(),
            runs: Vec::new(),
            series: Vec::new(),
            timelines: Vec::new(),
        }
    }

    /// Says that the program that writes it is done.
    pub fn finish(&mut self, status: u8) {
        self.status = Some(status);
        self.why = None;
    }

    /// Adds a run of a plan: when it began, and how many seconds it took. It has done what it was to do, unless
    /// the caller says otherwise of it.
    pub fn add_run(
        &mut self,
        planned: &Planned,
        labels: Labels,
        (started, seconds): (SystemTime, f64),
    ) -> &mut Run {
        self.runs.push(Run {
            index: self.runs.len(),
            order: planned.order,
            round: Some(planned.round),
            labels,
            started: unix_ns(started),
            duration_s: seconds,
            exit: Some(0),
            why: None,
            units: BTreeMap::new(),
        });
        let last = self.runs.len() - 1;
        &mut self.runs[last]
    }

    /// As [`RunFile::add_run`], for a benchmark that measures itself: the seconds, by the monotonic clock, are its
    /// metric [`metric::TIME`] too; and how many units of work it did.
    pub fn add_timed(
        &mut self,
        planned: &Planned,
        labels: Labels,
        took: (SystemTime, f64),
        (unit, number): (&str, f64),
    ) -> &mut Run {
        self.add(self.runs.len(), &labels, metric::TIME, ("s", Origin::Clock), Ok(took.1));
        let run = self.add_run(planned, labels, took);
        run.units.insert(unit.to_owned(), number);
        run
    }

    /// Adds a figure of a run to the series of its labels and metric. `value` is the number or the
    /// reason why there is none; what is not finite is none.
    pub fn add(
        &mut self,
        run: usize,
        labels: &Labels,
        metric: &str,
        (unit, origin): (&str, Origin),
        value: Result<f64, String>,
    ) {
        self.add_value(labels, metric, (unit, origin), RunValue::new(run, value));
    }

    /// As [`RunFile::add`], for an estimate, with half of its 95 % interval where it has one.
    pub fn add_estimate(
        &mut self,
        run: usize,
        labels: &Labels,
        metric: &str,
        kind: (&str, Origin),
        value: Result<(f64, Option<f64>), String>,
    ) {
        let half = value.as_ref().ok().and_then(|(_, half)| *half).filter(|half| half.is_finite());
        let value = RunValue { half, ..RunValue::new(run, value.map(|(value, _)| value)) };
        self.add_value(labels, metric, kind, value);
    }

    /// As [`RunFile::add`], for a value that brings more than its number.
    pub fn add_value(
        &mut self,
        labels: &Labels,
        metric: &str,
        (unit, origin): (&str, Origin),
        value: RunValue,
    ) {
        let known = self
            .series
            .iter_mut()
            .find(|s| s.metric == metric && s.labels == *labels && s.origin == origin);
        match known {
            Some(series) => series.values.push(value),
            None => self.series.push(Series {
                labels: labels.clone(),
                metric: metric.to_owned(),
                unit: unit.to_owned(),
                origin,
                values: vec![value],
            }),
        }
    }
}

impl Series {
    /// The numbers that were measured.
    pub fn numbers(&self) -> Vec<f64> {
        self.values.iter().filter_map(|v| v.value).collect()
    }
}

/// Nanoseconds since 1970-01-01 UTC as text, as they are beyond 2^53.
pub fn unix_ns(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(arm: &str) -> Labels {
        Labels::from([("arm".to_owned(), arm.to_owned())])
    }

    #[test]
    fn what_was_not_measured_is_null_with_a_reason() {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], UNIX_EPOCH);
        file.add(0, &labels("BASE"), "time", ("s", Origin::Program), Ok(11.31));
        file.add(1, &labels("BASE"), "time", ("s", Origin::Program), Err("no match".into()));
        file.add(2, &labels("BASE"), "time", ("s", Origin::Program), Ok(f64::NAN));
        assert_eq!(file.series.len(), 1);
        assert_eq!(file.series[0].numbers(), [11.31]);
        assert_eq!(
            serde_json::to_string(&file.series[0]).unwrap(),
            r#"{"labels":{"arm":"BASE"},"metric":"time","unit":"s","origin":"program","values":[{"run":0,"value":11.31},{"run":1,"value":null,"why":"no match"},{"run":2,"value":null,"why":"not a finite number: NaN"}]}"#
        );
    }

    #[test]
    fn unfinished_files_say_so() {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], UNIX_EPOCH);
        assert_eq!((file.status, file.why.as_deref()), (None, Some("not finished")));
        file.finish(1);
        assert_eq!((file.status, file.why.as_deref()), (Some(1), None));
    }

    #[test]
    fn fields_and_origins_of_later_versions_are_passed_over() {
        let series: Series = serde_json::from_str(
            r#"{"labels": {}, "metric": "m", "unit": "", "origin": "crystal", "new": 1,
                "values": [{"run": 0, "value": 1, "enabled_s": 2.0, "running_s": 1.0, "x": []}]}"#,
        )
        .unwrap();
        assert_eq!(series.origin, Origin::Other);
        assert_eq!(series.values[0].running_s, Some(1.0));
    }

    /// Names of all fields, at any depth.
    fn fields(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => {
                for (name, value) in map {
                    found.push(name.clone());
                    // Names in these are not ours.
                    if !["labels", "units", "parameters"].contains(&name.as_str()) {
                        fields(value, found);
                    }
                }
            }
            serde_json::Value::Array(list) => list.iter().for_each(|v| fields(v, found)),
            _ => {}
        }
    }

    #[test]
    fn every_field_is_documented() {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], UNIX_EPOCH);
        file.concerns.push(Concern {
            effect: String::new(),
            why: String::new(),
            fix: Some(String::new()),
        });
        file.seed = Some("1".into());
        file.guests.push(Guest::default());
        file.arms.push(Arm { name: "A".into(), command: vec!["./a".into()] });
        file.drift.push(Drift {
            event: String::new(),
            per: None,
            spread: 0.0,
            growth: None,
            growth_half: None,
            n: 0,
        });
        file.runs.push(Run {
            index: 0,
            order: 0,
            round: Some(0),
            labels: Labels::new(),
            started: "0".into(),
            duration_s: 0.0,
            exit: None,
            why: Some("killed".into()),
            units: BTreeMap::new(),
        });
        file.add(0, &Labels::new(), "m", ("", Origin::Hardware), Err("no".into()));
        file.series[0].values[0].enabled_s = Some(1.0);
        file.series[0].values[0].half = Some(1.0);
        file.series[0].values[0].running_s = Some(1.0);
        file.series[0].values[0].readings.push(RawReading {
            cpu: Some(0),
            thread: Some(1),
            count: Some("1".into()),
            enabled_ns: Some("1".into()),
            running_ns: Some("1".into()),
        });
        let mut found = Vec::new();
        fields(&serde_json::to_value(&file).unwrap(), &mut found);
        assert!(found.contains(&"running_s".to_owned()) && found.contains(&"fix".to_owned()));
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
        let text = std::fs::read_to_string(document).unwrap();
        let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for field in found {
            assert!(words.contains(&field.as_str()), "docs/json.md does not tell of {field}");
        }
    }
}
