//! Where threads wait, for some seconds: the part of an agent that runs as a process of its own.
//!
//! ```text
//!  recorder::record ─► waits.data, bounded ─► Waits ─► rows ─► files in the folder that was asked for
//!  /proc/PID/cgroup, read all the time ───────────────┘
//! ```
//! Every switch of the machine is a record, so this is too expensive for all the time. What takes memory, names above all, is
//! gone with the process.

use std::fs;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pmuscope_counters::Host;
use pmuscope_dataset::{Dataset, ImportOrigin, PROFILE, wait_rows};
use pmuscope_events::{CallGraph, EventError, MachineCatalog};
use pmuscope_machine::{Machine, Target};
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::Filter;
use pmuscope_profile::waits::Waits;
use pmuscope_recorder::{Deadline, EndReason, RecordOptions, Signals, Summary, off_cpu, record};
use pmuscope_symbols::{Options as SymbolOptions, Symbolizer};

use crate::agent::{AgentError, own_status};
use crate::config::AgentConfig;
use crate::delivery_name::DeliveryName;
use crate::service::Services;

/// How often processes are asked what they belong to.
const READ_EVERY: Duration = Duration::from_millis(200);
/// The recording, until it has been read.
const RECORDING: &str = "waits.data";

/// What was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct OffCpuSummary {
    /// Waits.
    pub waits: u64,
    /// For so long, seconds: less than was asked for if the recording became too large.
    pub seconds: f64,
    /// Records that were lost.
    pub lost: u64,
    /// Largest memory of this process, bytes.
    pub peak_rss_bytes: Option<i64>,
    /// What changes the reading.
    pub notes: Vec<String>,
}

/// Records where threads wait, as `config` says, and writes the rows as a dataset into the folder `into`, which nobody else
/// uses.
///
/// # Errors
/// [`AgentError`].
pub fn record_off_cpu(config: &AgentConfig, into: &Path) -> Result<OffCpuSummary, AgentError> {
    let failed = |source| AgentError::Io { path: into.to_owned(), source };
    fs::create_dir_all(into).map_err(failed)?;
    let machine = Machine::host();
    let (options, without_wakers) = options(config, &machine, &into.join(RECORDING))?;
    let mut services = Services::new(Machine::host(), config.version.as_deref().map(Arc::from));
    let summary = record_beside(config, &options, &machine, &mut services)?;
    let recording = RecordingFile::open(&options.output)?;
    let mut symbolizer = Symbolizer::new(SymbolOptions { inlined: false });
    let waits = Waits::read(&recording, Filter::default(), PROFILE, &mut symbolizer)?;
    write(config, &machine, &waits, &services, into)?;
    fs::remove_file(&options.output).map_err(failed)?;
    let wakers = without_wakers.map(|error| format!("wakers are not recorded: {error}"));
    let end = match summary.ended {
        EndReason::Interrupted => None,
        EndReason::MaxSize(_) => Some("it ended early, at off_cpu.max_mib".to_owned()),
        other => Some(other.to_string()),
    };
    Ok(OffCpuSummary {
        waits: waits.by_kind.iter().map(|sums| sums.waits).sum(),
        seconds: waits.profile.duration_s.unwrap_or_default(),
        lost: waits.profile.lost.count,
        peak_rss_bytes: own_status("VmHWM:"),
        notes: wakers.into_iter().chain(end).collect(),
    })
}

/// What is recorded, and why there are no wakers where they are missing.
fn options(
    config: &AgentConfig,
    machine: &Machine,
    output: &Path,
) -> Result<(RecordOptions, Option<EventError>), AgentError> {
    let catalog = MachineCatalog::new(machine)?;
    let switches = off_cpu::switches(&catalog, Some(CallGraph::FramePointer))?;
    let (wakeups, without_wakers) = match off_cpu::wakeups(&catalog) {
        Ok(wakeups) => (Some(wakeups), None),
        Err(error) => (None, Some(error)),
    };
    let options = RecordOptions {
        of_all: wakeups.into_iter().collect(),
        max_size: config.off_cpu.map(|off_cpu| off_cpu.max_mib << 20),
        ..RecordOptions::new(Target::System, vec![switches], output.to_owned())
    };
    Ok((options, without_wakers))
}

/// Records for as long as was asked for, and reads meanwhile what processes belong to.
fn record_beside(
    config: &AgentConfig,
    options: &RecordOptions,
    machine: &Machine,
    services: &mut Services,
) -> Result<Summary, AgentError> {
    let length = Duration::from_secs(config.off_cpu.unwrap_or_default().seconds);
    let deadline = Deadline::new(None, Some(length))
        .map_err(|source| AgentError::Io { path: options.output.clone(), source })?;
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                services.read_new();
                std::thread::sleep(READ_EVERY);
            }
        });
        // Also where recording panics: nobody else would end the thread.
        let _over = SetAtEnd(&over);
        let signals = Signals { stop: deadline.as_fd(), switch: None };
        Ok(record(options, &Host, machine, signals)?)
    })
}

/// Sets a flag when it goes.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes the rows.
fn write(
    config: &AgentConfig,
    machine: &Machine,
    waits: &Waits,
    services: &Services,
    into: &Path,
) -> Result<(), AgentError> {
    let info = waits.profile.info().cloned().unwrap_or_default();
    let host: Arc<str> = config.host.as_deref().unwrap_or(&info.machine.hostname).into();
    let end = info.started_clock_ns.saturating_add((info.duration_s * 1e9) as u64);
    let name = DeliveryName::new(&host, machine.boot_id().as_deref(), end).of("off-cpu");
    let origin =
        ImportOrigin { host: Some(host), started: None, bin: config.bin(), batch: name.batch() };
    let mut rows = wait_rows(waits, &origin, &|task| services.identity(task))?;
    rows.label(&config.labels()?);
    let Some(when) = rows.hosts.first().map(|host| host.seen) else { return Ok(()) };
    Ok(Dataset::new(into).write_all(rows, when, &name.to_string())?)
}
