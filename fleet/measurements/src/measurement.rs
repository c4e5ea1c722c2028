//! One measurement: which it is, when it is due, what it says.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pmuscope_dataset::{Dataset, ImportOrigin, Labels, Rows};
use pmuscope_machine::Machine;
use pmuscope_machine::child::own_usage;
use serde::{Deserialize, Serialize};

use crate::config::{
    CountsConfig, LocalityConfig, OffCpuConfig, SettingError, WindowsConfig, check,
};
use crate::delivery_name::DeliveryName;
use crate::error::MeasurementError;
use crate::services::Services;
use crate::{counts, locality, off_cpu, windows};

/// What is measured, with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measurement {
    /// Where threads wait.
    OffCpu(OffCpuConfig),
    /// Counter windows of functions.
    Windows(WindowsConfig),
    /// Counts of events by service.
    Counts(CountsConfig),
    /// Where the memory of processes lies, and where their threads run.
    Locality(LocalityConfig),
}

/// When a measurement is due, and for how long it measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasurementTimes {
    /// Length, seconds.
    pub seconds: u64,
    /// Seconds from one measurement to the next, on average.
    pub every_seconds: u64,
}

/// The host that the rows of a measurement are of.
#[derive(Debug, Clone)]
pub struct MeasurementContext {
    /// Host name, where it is not that of the machine.
    pub host: Option<Arc<str>>,
    /// Version of all services.
    pub version: Option<Arc<str>>,
    /// Labels of the host.
    pub labels: Labels,
    /// Length of a bin.
    pub bin: Duration,
}

/// What was measured, for a person and for the accounts of an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasurementSummary {
    /// In a line, such as `1,930 waits in 10.0 s, 0 records lost`.
    pub text: String,
    /// What changes the reading.
    pub notes: Vec<String>,
    /// Largest memory of this process, bytes.
    pub peak_rss_bytes: Option<i64>,
    /// CPU time of this process, seconds.
    pub cpu_s: f64,
}

impl Measurement {
    /// Its name in configurations and messages, and of its files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::OffCpu(_) => "off_cpu",
            Self::Windows(_) => "windows",
            Self::Counts(_) => "counts",
            Self::Locality(_) => "locality",
        }
    }

    /// When it is due.
    #[must_use]
    pub fn times(&self) -> MeasurementTimes {
        let (seconds, every_seconds) = match self {
            Self::OffCpu(config) => (config.seconds, config.every_seconds),
            Self::Windows(config) => (config.seconds, config.every_seconds),
            Self::Counts(config) => (config.seconds, config.every_seconds),
            Self::Locality(config) => (config.seconds, config.every_seconds),
        };
        MeasurementTimes { seconds, every_seconds }
    }

    /// Refuses settings that cannot be used.
    ///
    /// # Errors
    /// The first of them.
    pub fn check(&self) -> Result<(), SettingError> {
        let limit = match self {
            Self::OffCpu(config) => config.limit(),
            Self::Windows(config) => config.limit(),
            Self::Counts(config) => config.limit(),
            Self::Locality(config) => config.limit(),
        };
        check(self.name(), self.times(), &limit)
    }

    /// Measures, and writes the rows as a dataset into the folder `into`, which nobody else uses.
    ///
    /// # Errors
    /// [`MeasurementError`]. A machine on which there is nothing to measure is none: the summary says why.
    pub fn measure(
        &self,
        context: &MeasurementContext,
        into: &Path,
    ) -> Result<MeasurementSummary, MeasurementError> {
        std::fs::create_dir_all(into)
            .map_err(|source| MeasurementError::Io { path: into.to_owned(), source })?;
        let scene = Scene { context, into, machine: Machine::host() };
        let done = match self {
            Self::OffCpu(config) => off_cpu::measure(config, &scene),
            Self::Windows(config) => windows::measure(config, &scene),
            Self::Counts(config) => counts::measure(config, &scene),
            Self::Locality(config) => locality::measure(config, &scene),
        };
        let (text, notes) = match done {
            Ok(MeasurementText { text, notes }) => (text, notes),
            Err(MeasurementError::Nothing(why)) => (format!("not measured: {why}"), Vec::new()),
            Err(error) => return Err(error),
        };
        // It fails only for other kinds of processes (getrusage(2)).
        let cpu_s = own_usage().map_or(0.0, |usage| usage.user_s + usage.system_s);
        Ok(MeasurementSummary { text, notes, peak_rss_bytes: peak_rss_bytes(), cpu_s })
    }
}

/// What a measurement says of itself.
#[derive(Debug)]
pub(crate) struct MeasurementText {
    /// In a line.
    pub(crate) text: String,
    /// What changes the reading.
    pub(crate) notes: Vec<String>,
}

/// Where and for whom a measurement is made.
pub(crate) struct Scene<'a> {
    pub(crate) context: &'a MeasurementContext,
    pub(crate) into: &'a Path,
    pub(crate) machine: Machine,
}

impl Scene<'_> {
    /// Nothing known yet of what processes belong to.
    pub(crate) fn services(&self) -> Services {
        Services::new(self.machine.clone(), self.context.version.clone())
    }

    /// The host's name, where neither the configuration nor a recording has one.
    pub(crate) fn host(&self, recorded: &str) -> Arc<str> {
        self.context.host.clone().unwrap_or_else(|| recorded.into())
    }

    /// The names of the files of a measurement that ended at `end_ns` of the monotonic clock, and the origin of its rows.
    pub(crate) fn origin(
        &self,
        what: &str,
        recorded_host: &str,
        end_ns: u64,
    ) -> (DeliveryName, ImportOrigin) {
        let host = self.host(recorded_host);
        let name = DeliveryName::new(&host, self.machine.boot_id().as_deref(), end_ns).of(what);
        let (bin, batch) = (self.context.bin, name.batch());
        (name, ImportOrigin { host: Some(host), started: None, bin, batch })
    }

    /// Writes rows of this host.
    pub(crate) fn write(
        &self,
        mut rows: Rows,
        name: &DeliveryName,
    ) -> Result<(), MeasurementError> {
        rows.label(&self.context.labels);
        let Some(when) = rows.intervals.first().map(|row| row.start) else { return Ok(()) };
        Ok(Dataset::new(self.into).write_all(rows, when, &name.to_string())?)
    }
}

/// `VmHWM` of `/proc/self/status`.
fn peak_rss_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: i64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
