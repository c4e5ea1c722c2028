//! Settings of measurements, as an agent's configuration has them: each is off unless it is there.

use serde::Deserialize;

use crate::measurement::MeasurementTimes;

/// Length of a measurement at most, seconds.
const LONGEST_S: u64 = 600;
/// From one measurement to the next at most, seconds.
const MOST_EVERY_S: u64 = 86_400;
/// Cgroups that can be counted at most.
const MOST_CGROUPS: u64 = 1024;

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} = {value}: {why}")]
pub struct SettingError {
    /// The setting.
    pub name: String,
    /// What it is set to.
    pub value: u64,
    /// What it must be, and what to type.
    pub why: String,
}

/// Recordings of where threads wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OffCpuConfig {
    /// Length of a recording, seconds.
    pub seconds: u64,
    /// Seconds from one recording to the next, on average; the moment is drawn at random.
    pub every_seconds: u64,
    /// Size of a recording at most, MiB: it ends earlier then.
    pub max_mib: u64,
}

/// 16 MiB are some 45,000 switches.
impl Default for OffCpuConfig {
    fn default() -> Self {
        Self { seconds: 10, every_seconds: 600, max_mib: 16 }
    }
}

/// Recordings of counter windows of functions; they take a hardware PMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WindowsConfig {
    /// Length of a recording, seconds.
    pub seconds: u64,
    /// Seconds from one recording to the next, on average; the moment is drawn at random.
    pub every_seconds: u64,
    /// Size of a recording at most, MiB: it ends earlier then.
    pub max_mib: u64,
}

impl Default for WindowsConfig {
    fn default() -> Self {
        Self { seconds: 10, every_seconds: 600, max_mib: 64 }
    }
}

/// Counts of events by service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CountsConfig {
    /// How long is counted, seconds.
    pub seconds: u64,
    /// Seconds from one measurement to the next, on average; the moment is drawn at random.
    pub every_seconds: u64,
    /// Events, as `pmuscope stat -e` takes them; otherwise those of software, and of hardware those of one metric after
    /// another.
    pub events: Option<String>,
    /// Cgroups that are counted at most: those that use the CPUs most. 1 to 1,024, as each takes a thread.
    pub max_cgroups: usize,
}

impl Default for CountsConfig {
    fn default() -> Self {
        Self { seconds: 10, every_seconds: 600, events: None, max_cgroups: 32 }
    }
}

/// Where the memory of processes lies, and where their threads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalityConfig {
    /// How long threads are observed, seconds.
    pub seconds: u64,
    /// Seconds from one measurement to the next, on average; the moment is drawn at random.
    pub every_seconds: u64,
    /// Processes that are observed at most: those with the most memory.
    pub max_processes: usize,
}

impl Default for LocalityConfig {
    fn default() -> Self {
        Self { seconds: 5, every_seconds: 600, max_processes: 64 }
    }
}

/// A setting that limits a measurement.
pub(crate) struct MeasurementLimit {
    name: &'static str,
    value: u64,
    /// What it is by default.
    usual: u64,
    /// What it can be at most, and why.
    most: Option<(u64, &'static str)>,
}

impl OffCpuConfig {
    pub(crate) fn limit(&self) -> MeasurementLimit {
        let usual = Self::default().max_mib;
        MeasurementLimit { name: "max_mib", value: self.max_mib, usual, most: None }
    }
}

impl WindowsConfig {
    pub(crate) fn limit(&self) -> MeasurementLimit {
        let usual = Self::default().max_mib;
        MeasurementLimit { name: "max_mib", value: self.max_mib, usual, most: None }
    }
}

impl CountsConfig {
    pub(crate) fn limit(&self) -> MeasurementLimit {
        let [value, usual] = [self, &Self::default()].map(|config| config.max_cgroups as u64);
        let most = Some((MOST_CGROUPS, "each takes a thread"));
        MeasurementLimit { name: "max_cgroups", value, usual, most }
    }
}

impl LocalityConfig {
    pub(crate) fn limit(&self) -> MeasurementLimit {
        let [value, usual] = [self, &Self::default()].map(|config| config.max_processes as u64);
        MeasurementLimit { name: "max_processes", value, usual, most: None }
    }
}

/// Refuses times and bounds of the table `of` that cannot be used.
pub(crate) fn check(
    of: &str,
    times: MeasurementTimes,
    limit: &MeasurementLimit,
) -> Result<(), SettingError> {
    let wrong = |name: &str, value, why: String| {
        Err(SettingError { name: format!("{of}.{name}"), value, why })
    };
    let MeasurementTimes { seconds, every_seconds } = times;
    if !(1..=LONGEST_S).contains(&seconds) {
        return wrong("seconds", seconds, format!("must be 1 to {LONGEST_S}. Try: 10"));
    }
    if every_seconds <= seconds || every_seconds > MOST_EVERY_S {
        let why = format!("must be above {of}.seconds, and {MOST_EVERY_S} at most. Try: 600");
        return wrong("every_seconds", every_seconds, why);
    }
    let MeasurementLimit { name, value, usual, most } = *limit;
    match most {
        Some((most, why)) if !(1..=most).contains(&value) => {
            wrong(name, value, format!("must be 1 to {most}: {why}. Try: {usual}"))
        }
        None if value == 0 => wrong(name, value, format!("must be 1 or more. Try: {usual}")),
        _ => Ok(()),
    }
}
