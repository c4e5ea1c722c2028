//! A recording, read for its rows: samples, waits, and windows, whichever it has.

use pmuscope_dataset::PROFILE;
use pmuscope_events::metrics::Metrics;
use pmuscope_live::KnownNames;
use pmuscope_perfdata::reader::{Event, Reader, RecordingFile};
use pmuscope_profile::waits::{Waits, tells_waits};
use pmuscope_profile::windows::{Options as WindowOptions, Windows, WindowsError};
use pmuscope_profile::{
    Collected, Counting, Filter, GroupBy, Profile, Unwinding, available_threads,
};
use pmuscope_symbols::{Request, Symbolizer};

use crate::error::MeasurementError;

/// What a recording has.
#[derive(Debug)]
pub struct LoadedRecording {
    /// Samples of its events; of a recording of waits alone there are none.
    pub samples: Option<Profile>,
    /// Where threads wait, if that was recorded.
    pub waits: Option<Waits>,
    /// Windows of counters, if any were recorded.
    pub windows: Option<Windows>,
}

impl LoadedRecording {
    /// Reads a recording, with the names that `symbolizer` finds.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn read(
        recording: &RecordingFile,
        mut symbolizer: Symbolizer,
    ) -> Result<Self, MeasurementError> {
        let reader = recording.reader()?;
        let is_of_waits = tells_waits(reader.events());
        let waits = is_of_waits
            .contains(&true)
            .then(|| Waits::read(recording, Filter::default(), PROFILE, &mut symbolizer))
            .transpose()?;
        let samples = (waits.is_none() || is_of_waits.contains(&false))
            .then(|| samples(reader, is_of_waits, &mut symbolizer))
            .transpose()?;
        let windows = windows(recording, symbolizer)?;
        Ok(Self { samples, waits, windows })
    }
}

/// Windows of counters by function; none in most recordings.
fn windows(
    recording: &RecordingFile,
    symbolizer: Symbolizer,
) -> Result<Option<Windows>, MeasurementError> {
    if !recording.reader()?.events().iter().any(Event::has_counts) {
        return Ok(None);
    }
    let running = symbolizer.running_kernel();
    let options = WindowOptions { threads: available_threads(), ..WindowOptions::default() };
    let mut names = KnownNames::new(symbolizer);
    match Windows::read(recording, &options, &Metrics::builtin(), &running, &mut names) {
        Ok(windows) => Ok(Some(windows)),
        Err(
            WindowsError::NoCounts { .. } | WindowsError::NoSamples { .. } | WindowsError::Stream,
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Samples of the events that do not tell of waits.
fn samples(
    mut reader: Reader,
    is_of_waits: Vec<bool>,
    symbolizer: &mut Symbolizer,
) -> Result<Profile, MeasurementError> {
    let events =
        is_of_waits.contains(&true).then(|| is_of_waits.into_iter().map(|tells| !tells).collect());
    let filter = Filter { events, ..Filter::default() };
    let running = symbolizer.running_kernel();
    let collected = {
        let unwinder = symbolizer.unwinder();
        let unwinding = Unwinding { unwinder: &unwinder, running: &running };
        let apart = GroupBy { chains: true, ..GroupBy::default() };
        let counting = Counting { apart, filter, ..Counting::default() };
        Collected::read(&mut reader, counting, available_threads(), Some(unwinding))?
    };
    for (pid, dump) in collected.jit_dumps() {
        symbolizer.add_jit_dump(*pid, dump.clone());
    }
    let resolve = &mut |requests: &[Request<'_>]| symbolizer.resolve_all(requests);
    Ok(collected.profile(&reader, &running, PROFILE, resolve)?)
}
