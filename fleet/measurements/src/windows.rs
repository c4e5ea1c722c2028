//! Counter windows of functions, for some seconds, where there is a hardware PMU.
//!
//! ```text
//!  metrics ─► events that this PMU has ─► record --strobe, bounded ─► Windows ─► sums by function ─► rows
//! ```

use std::fs;
use std::path::PathBuf;

use pmuscope_counters::Host;
use pmuscope_dataset::{WindowsOf, window_rows};
use pmuscope_events::{Event, Group, MachineCatalog, parse};
use pmuscope_machine::Target;
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_recorder::{INSTEAD_OF_WINDOWS, RecordOptions, StrobeOptions};
use pmuscope_symbols::{Options as SymbolOptions, Symbolizer};
use pmuscope_text::number;

use crate::config::WindowsConfig;
use crate::error::MeasurementError;
use crate::hardware::metric_sets;
use crate::measurement::{MeasurementText, Scene};
use crate::record::{path, record_for};
use crate::recording::LoadedRecording;

/// The event that makes windows.
const WINDOW_EVENT: &str = "cycles:u";
/// The groups of metrics whose events are counted, as by `record --strobe`.
const METRICS: [&str; 2] = ["basic", "branches"];

/// Records windows, and writes the sums of functions.
pub(crate) fn measure(
    config: &WindowsConfig,
    scene: &Scene<'_>,
) -> Result<MeasurementText, MeasurementError> {
    let options = options(config, scene, path(scene))?;
    let mut services = scene.services();
    let early = record_for(config.seconds, &options, scene, &mut services, "windows.max_mib")?;
    let recording = RecordingFile::open(&options.output)?;
    let symbolizer = Symbolizer::new(SymbolOptions { inlined: false });
    let LoadedRecording { samples, windows, .. } = LoadedRecording::read(&recording, symbolizer)?;
    fs::remove_file(&options.output)
        .map_err(|source| MeasurementError::Io { path: options.output.clone(), source })?;
    let Some((profile, windows)) = samples.zip(windows) else {
        let why = "the recording has no windows: nothing ran in user mode".to_owned();
        return Err(MeasurementError::Nothing(why));
    };
    let info = profile.info().cloned().unwrap_or_default();
    let end = info.started_clock_ns.saturating_add((info.duration_s * 1e9) as u64);
    let (name, origin) = scene.origin("windows", &info.machine.hostname, end);
    let of = WindowsOf { service: None, version: scene.context.version.clone() };
    scene.write(window_rows(&windows, &profile, &origin, &of)?, &name)?;
    let text = format!(
        "{} in {}, {} lost",
        number::counted(windows.total.kept(), "window"),
        number::duration(info.duration_s),
        number::counted(windows.lost.count, "sample"),
    );
    Ok(MeasurementText { text, notes: early.into_iter().collect() })
}

/// What is recorded: windows of all tasks, in user mode.
fn options(
    config: &WindowsConfig,
    scene: &Scene<'_>,
    output: PathBuf,
) -> Result<RecordOptions, MeasurementError> {
    let catalog = MachineCatalog::new(&scene.machine)?;
    let none = |why: String| MeasurementError::Nothing(format!("{why}. {INSTEAD_OF_WINDOWS}"));
    let groups = match parse(WINDOW_EVENT, &catalog) {
        Ok(groups) => groups,
        Err(error) if error.is_of_machine() => {
            return Err(MeasurementError::Nothing("no hardware PMU (typical in VMs)".to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    let mut windows: Vec<Event> = groups.into_iter().flat_map(|group| group.events).collect();
    let (Some(window), true) = (windows.pop(), windows.is_empty()) else {
        return Err(none(format!(
            "{WINDOW_EVENT} is several events here, one on each kind of core"
        )));
    };
    let sets = metric_sets(&Host, &catalog, &window, 2, &METRICS)?;
    let mut events = vec![window];
    for event in sets.iter().flatten() {
        if !events.iter().any(|known| known.attr == event.attr) {
            events.push(event.clone());
        }
    }
    let group = Group { name: None, events, leader_sampling: true, weak: false, braces: true };
    Ok(RecordOptions {
        strobe: Some(StrobeOptions { sets, ..StrobeOptions::default() }),
        max_size: Some(config.max_mib << 20),
        ..RecordOptions::new(Target::System, vec![group], output)
    })
}
