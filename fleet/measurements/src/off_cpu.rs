//! Where threads wait, for some seconds.
//!
//! ```text
//!  recorder::record ─► recording, bounded ─► Waits ─► rows ─► files in the folder that was asked for
//!  /proc/PID/cgroup, read all the time ────────────────┘
//! ```
//! Every switch of the machine is a record, so this is too expensive for all the time.

use std::fs;
use std::path::Path;

use pmuscope_dataset::{PROFILE, wait_rows};
use pmuscope_events::{CallGraph, EventError, MachineCatalog};
use pmuscope_machine::{Machine, Target};
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::Filter;
use pmuscope_profile::waits::Waits;
use pmuscope_recorder::{RecordOptions, off_cpu};
use pmuscope_symbols::{Options as SymbolOptions, Symbolizer};
use pmuscope_text::number;

use crate::config::OffCpuConfig;
use crate::error::MeasurementError;
use crate::measurement::{MeasurementText, Scene};
use crate::record::{path, record_for};
use crate::services::Services;

/// Records where threads wait, and writes the rows.
pub(crate) fn measure(
    config: &OffCpuConfig,
    scene: &Scene<'_>,
) -> Result<MeasurementText, MeasurementError> {
    let (options, without_wakers) = options(config, &scene.machine, &path(scene))?;
    let mut services = scene.services();
    let early = record_for(config.seconds, &options, scene, &mut services, "off_cpu.max_mib")?;
    let recording = RecordingFile::open(&options.output)?;
    let mut symbolizer = Symbolizer::new(SymbolOptions { inlined: false });
    let waits = Waits::read(&recording, Filter::default(), PROFILE, &mut symbolizer)?;
    write(scene, &waits, &services)?;
    fs::remove_file(&options.output)
        .map_err(|source| MeasurementError::Io { path: options.output.clone(), source })?;
    let wakers = without_wakers.map(|error| format!("wakers are not recorded: {error}"));
    let all: u64 = waits.by_kind.iter().map(|sums| sums.waits).sum();
    let text = format!(
        "{} in {}, {} lost",
        number::counted(all, "wait"),
        number::duration(waits.profile.duration_s.unwrap_or_default()),
        number::counted(waits.profile.lost.count, "record"),
    );
    Ok(MeasurementText { text, notes: wakers.into_iter().chain(early).collect() })
}

/// What is recorded, and why there are no wakers where they are missing.
fn options(
    config: &OffCpuConfig,
    machine: &Machine,
    output: &Path,
) -> Result<(RecordOptions, Option<EventError>), MeasurementError> {
    let catalog = MachineCatalog::new(machine)?;
    let switches = off_cpu::switches(&catalog, Some(CallGraph::FramePointer))?;
    let (wakeups, without_wakers) = match off_cpu::wakeups(&catalog) {
        Ok(wakeups) => (Some(wakeups), None),
        Err(error) => (None, Some(error)),
    };
    let options = RecordOptions {
        of_all: wakeups.into_iter().collect(),
        max_size: Some(config.max_mib << 20),
        ..RecordOptions::new(Target::System, vec![switches], output.to_owned())
    };
    Ok((options, without_wakers))
}

/// Writes the rows.
fn write(scene: &Scene<'_>, waits: &Waits, services: &Services) -> Result<(), MeasurementError> {
    let info = waits.profile.info().cloned().unwrap_or_default();
    let end = info.started_clock_ns.saturating_add((info.duration_s * 1e9) as u64);
    let (name, origin) = scene.origin("off-cpu", &info.machine.hostname, end);
    let rows = wait_rows(waits, &origin, &|task| services.identity(task))?;
    scene.write(rows, &name)
}
