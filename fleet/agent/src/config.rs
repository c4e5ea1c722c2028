//! The configuration of an agent: what it records, and where it delivers that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pmuscope_dataset::{DatasetLocation, LabelError, Labels, LocationError, S3Location};
use pmuscope_measurements::{
    CountsConfig, LocalityConfig, Measurement, MeasurementContext, OffCpuConfig, SettingError,
    WindowsConfig,
};
use serde::Deserialize;

/// Samples per second and CPU that are asked for at most: an agent is there all the time.
const MOST_HZ: u64 = 1000;
/// Length of a bin, seconds.
const BINS: std::ops::RangeInclusive<u64> = 1..=86_400;

/// What cannot be used of a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file.
    #[error("cannot read {path}: {source}")]
    Io {
        /// It.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Its syntax, or a name that it must not have.
    #[error("{path}: {source}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<toml::de::Error>,
    },
    /// A value.
    #[error("{name} = {value}: {why}")]
    Value {
        /// The setting.
        name: &'static str,
        /// What it is set to.
        value: u64,
        /// What it must be.
        why: &'static str,
    },
    /// A name that is empty.
    #[error("{0} is empty. Try: a name, or no such line")]
    Empty(&'static str),
    /// A place where bins are to be delivered.
    #[error("sink.s3 = {0}")]
    Location(#[from] LocationError),
    /// A label.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// No place where bins could be delivered.
    #[error(
        "no sink for files. Try: [sink] with folder = \"/mnt/profiles\" or s3 = \"s3://BUCKET/PREFIX\""
    )]
    NoSink,
    /// A folder where an object store has to be.
    #[error(
        "sink.s3 = {0}: not an object store. Try: sink.folder for a folder, or s3://BUCKET/PREFIX"
    )]
    NotS3(String),
    /// A setting of a measurement.
    #[error(transparent)]
    Measurement(#[from] SettingError),
    /// Measurements are of the whole machine.
    #[error(
        "{measurement} and cgroup = {cgroup}: {measurement} is of the whole machine. Try: without one of them"
    )]
    OfCgroup {
        /// The measurement.
        measurement: &'static str,
        /// The cgroup that samples are of.
        cgroup: String,
    },
    /// The budget.
    #[error("budget_percent = {0}: must be above 0, and 100 at most. Try: 0.5")]
    Budget(f64),
}

/// What an agent does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Host name, where it is not that of the machine.
    #[serde(default)]
    pub host: Option<String>,
    /// Record this cgroup and those below it only, such as `/system.slice`; otherwise the whole machine.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// Samples per second and CPU.
    #[serde(default = "frequency_hz")]
    pub frequency_hz: u64,
    /// What is counted together, seconds of wall-clock time.
    #[serde(default = "bin_seconds")]
    pub bin_seconds: u64,
    /// Whether samples have call stacks, by frame pointers.
    #[serde(default = "yes")]
    pub call_stacks: bool,
    /// CPU time that recording may take, percent of the machine: the sampling rate is lowered to keep it.
    #[serde(default = "budget_percent")]
    pub budget_percent: f64,
    /// Time over which the budget is kept, seconds: a burst of new names does not change the rate.
    #[serde(default = "budget_seconds")]
    pub budget_seconds: u64,
    /// Memory from which on names and processes that were kept are forgotten, MiB.
    #[serde(default = "memory_mib")]
    pub memory_mib: u64,
    /// Version of all services of this host.
    #[serde(default)]
    pub version: Option<String>,
    /// Labels of this host.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Record where threads wait, now and then.
    #[serde(default)]
    pub off_cpu: Option<OffCpuConfig>,
    /// Record counter windows of functions, now and then.
    #[serde(default)]
    pub windows: Option<WindowsConfig>,
    /// Count events by service, now and then.
    #[serde(default)]
    pub counts: Option<CountsConfig>,
    /// Look where memory lies, now and then.
    #[serde(default)]
    pub locality: Option<LocalityConfig>,
    /// Where bins wait for delivery.
    pub spool: SpoolConfig,
    /// Where they are delivered.
    pub sink: SinkConfig,
}

/// Where bins wait for delivery.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpoolConfig {
    /// Its folder.
    pub folder: PathBuf,
    /// What it takes at most, MiB. Then the oldest samples are dropped.
    #[serde(default = "max_mib")]
    pub max_mib: u64,
}

/// Where bins are delivered: to each of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkConfig {
    /// Folder of the dataset, such as one that all hosts share.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// The dataset in an S3-compatible object store, `s3://BUCKET/PREFIX`.
    #[serde(default)]
    pub s3: Option<String>,
    /// URL of that store, where it is not Amazon's and not in `AWS_ENDPOINT_URL`.
    #[serde(default)]
    pub s3_endpoint: Option<String>,
    /// URL of a receiver of OTLP profiles; best effort.
    #[serde(default)]
    pub otlp: Option<String>,
    /// URL of a receiver of pprof profiles; best effort.
    #[serde(default)]
    pub pprof: Option<String>,
}

impl SinkConfig {
    /// The part of a bucket.
    ///
    /// # Errors
    /// What is none.
    pub fn s3(&self) -> Result<Option<S3Location>, ConfigError> {
        let Some(url) = &self.s3 else { return Ok(None) };
        match DatasetLocation::parse(url.as_ref())? {
            DatasetLocation::S3(location) => Ok(Some(location)),
            DatasetLocation::Folder(_) => Err(ConfigError::NotS3(url.clone())),
        }
    }
}

/// A prime, so that it is in step with nothing.
fn frequency_hz() -> u64 {
    19
}

fn budget_percent() -> f64 {
    0.5
}

fn budget_seconds() -> u64 {
    60
}

fn memory_mib() -> u64 {
    100
}

fn bin_seconds() -> u64 {
    300
}

fn yes() -> bool {
    true
}

fn max_mib() -> u64 {
    1024
}

impl AgentConfig {
    /// Reads the file.
    ///
    /// # Errors
    /// [`ConfigError`] if it cannot be read or used.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
        let config: Self = toml::from_str(&text).map_err(|source| ConfigError::Syntax {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        config.check()?;
        Ok(config)
    }

    /// # Errors
    /// [`ConfigError::Value`].
    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |name, value, why| Err(ConfigError::Value { name, value, why });
        if !(1..=MOST_HZ).contains(&self.frequency_hz) {
            return wrong("frequency_hz", self.frequency_hz, "must be 1 to 1000. Try: 19");
        }
        if !BINS.contains(&self.bin_seconds) {
            return wrong("bin_seconds", self.bin_seconds, "must be 1 to 86400. Try: 300");
        }
        if !(self.budget_percent > 0.0 && self.budget_percent <= 100.0) {
            return Err(ConfigError::Budget(self.budget_percent));
        }
        if self.memory_mib == 0 {
            return wrong("memory_mib", 0, "must be 1 or more. Try: 100");
        }
        for measurement in self.measurements() {
            measurement.check()?;
            if let Some(cgroup) = &self.cgroup {
                let (measurement, cgroup) = (measurement.name(), cgroup.clone());
                return Err(ConfigError::OfCgroup { measurement, cgroup });
            }
        }
        for (name, text) in [("host", &self.host), ("version", &self.version)] {
            if text.as_deref() == Some("") {
                return Err(ConfigError::Empty(name));
            }
        }
        if self.spool.max_mib == 0 {
            return wrong("spool.max_mib", 0, "must be 1 or more. Try: 1024");
        }
        self.labels()?;
        if self.sink.s3()?.is_none() && self.sink.folder.is_none() {
            return Err(ConfigError::NoSink);
        }
        Ok(())
    }

    /// Labels of this host.
    ///
    /// # Errors
    /// What cannot be one.
    pub fn labels(&self) -> Result<Labels, ConfigError> {
        Ok(Labels::new(self.labels.clone())?)
    }

    /// What is measured now and then.
    #[must_use]
    pub fn measurements(&self) -> Vec<Measurement> {
        let Self { off_cpu, windows, counts, locality, .. } = self;
        let off_cpu = off_cpu.map(Measurement::OffCpu);
        let windows = windows.map(Measurement::Windows);
        let counts = counts.clone().map(Measurement::Counts);
        let locality = locality.map(Measurement::Locality);
        [off_cpu, windows, counts, locality].into_iter().flatten().collect()
    }

    /// The host that the rows of measurements are of.
    ///
    /// # Errors
    /// Labels that cannot be any.
    pub fn context(&self) -> Result<MeasurementContext, ConfigError> {
        Ok(MeasurementContext {
            host: self.host.as_deref().map(Arc::from),
            version: self.version.as_deref().map(Arc::from),
            labels: self.labels()?,
            bin: self.bin(),
        })
    }

    /// Length of a bin.
    #[must_use]
    pub fn bin(&self) -> Duration {
        Duration::from_secs(self.bin_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AgentConfig, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.toml");
        std::fs::write(&path, text).unwrap();
        AgentConfig::read(&path)
    }

    const LEAST: &str = "spool.folder = '/var/lib/pmuscope'\nsink.folder = '/mnt/profiles'\n";

    #[test]
    fn two_folders_are_enough() {
        let config = read(LEAST).unwrap();
        assert_eq!((config.frequency_hz, config.bin_seconds, config.call_stacks), (19, 300, true));
        assert!(config.measurements().is_empty());
        assert_eq!((config.spool.max_mib, config.host), (1024, None));
        let all = "off_cpu = {}\nwindows = {}\ncounts = {}\nlocality = {}\n";
        let all = read(&format!("{all}{LEAST}")).unwrap();
        let off_cpu = all.off_cpu.unwrap();
        assert_eq!((off_cpu.seconds, off_cpu.every_seconds, off_cpu.max_mib), (10, 600, 16));
        let names: Vec<&str> = all.measurements().iter().map(Measurement::name).collect();
        assert_eq!(names, ["off_cpu", "windows", "counts", "locality"]);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let fails = |more: &str, with: &str| {
            let text = read(&format!("{more}\n{LEAST}")).unwrap_err().to_string();
            assert!(text.contains(with), "{more}: {text}");
        };
        fails("frequency_hz = 0", "frequency_hz = 0: must be 1 to 1000");
        fails("bin_seconds = 100000", "bin_seconds = 100000: must be 1 to 86400");
        fails("spool.max_mib = 0", "spool.max_mib = 0: must be 1 or more");
        fails("off_cpu.seconds = 0", "off_cpu.seconds = 0: must be 1 to 600");
        fails("off_cpu.every_seconds = 10", "off_cpu.every_seconds = 10: must be above");
        fails("off_cpu.max_mib = 0", "off_cpu.max_mib = 0: must be 1 or more");
        fails("off_cpu.hz = 1", "unknown field `hz`");
        let why = "must be 1 to 1024: each takes a thread. Try: 32";
        fails("counts.max_cgroups = 0", &format!("counts.max_cgroups = 0: {why}"));
        fails("counts.max_cgroups = 2000", &format!("counts.max_cgroups = 2000: {why}"));
        fails("locality.max_processes = 0", "locality.max_processes = 0: must be 1 or more");
        fails("cgroup = '/a'\noff_cpu = {}", "off_cpu and cgroup = /a: off_cpu is of the whole");
        fails("labels = { team = 'a b' }", "label team=a b: names and values");
        fails("host = ''", "host is empty. Try: a name");
        fails("version = ''", "version is empty. Try: a name");
        fails("frequency = 19", "unknown field `frequency`");
        fails("sink.s3 = 'gs://fleet/a'", "gs://fleet/a: only folders and s3:// are known");
        fails("sink.s3 = 'fleet'", "sink.s3 = fleet: not an object store");
        let nowhere = read("spool.folder = '/var/lib/pmuscope'\n[sink]").unwrap_err().to_string();
        assert!(nowhere.starts_with("no sink for files. Try: "), "{nowhere}");
        let missing = AgentConfig::read(Path::new("/nonexistent.toml")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read /nonexistent.toml: "), "{missing}");
    }
}
