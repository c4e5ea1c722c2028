//! Windows of counters as rows: what was counted in functions.

use std::sync::Arc;

use pmuscope_profile::Profile;
use pmuscope_profile::windows::{SetSums, WindowRow, Windows};

use super::{ImportError, ImportOrigin, Importing, Kind, Rows, signed};
use crate::column::Timestamp;
use crate::measured::WINDOWS_EVENT;
use crate::tables::{IntervalRow, WindowSumRow};

/// What all processes of a recording of windows belong to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowsOf {
    /// Its service.
    pub service: Option<Arc<str>>,
    /// Version of the service.
    pub version: Option<Arc<str>>,
}

/// The rows of windows; `profile` is of the same recording.
///
/// # Errors
/// As [`rows`](crate::rows).
pub fn window_rows(
    windows: &Windows,
    profile: &Profile,
    origin: &ImportOrigin,
    of: &WindowsOf,
) -> Result<Rows, ImportError> {
    let importing = Importing::new(profile, origin, Kind::Samples)?;
    let rows = windows.rows.iter().flat_map(|row| importing.windows_of(row, windows, of));
    let windows_rows = rows.collect();
    let intervals = importing.intervals_of_windows(windows);
    let hosts = vec![importing.host_row()];
    Ok(Rows { windows: windows_rows, intervals, hosts, ..Rows::default() })
}

impl Importing<'_> {
    /// Rows of a function: one for each event of each set.
    fn windows_of(&self, row: &WindowRow, windows: &Windows, of: &WindowsOf) -> Vec<WindowSumRow> {
        let (start, bin_us) = self.all_bins();
        let module = row.key.module.and_then(|module| windows.modules.get(module as usize));
        let module: Arc<str> = module.map_or("-", |module| &module.path).into();
        let (tested, same) = row.tested();
        let scale = windows.ends_per_window(row);
        let mut rows = Vec::new();
        for SetSums { set, windows: kept, sums } in row.sets() {
            let names = &windows.event_sets()[set];
            // The second event of a window's two has no name: it counts what the first one does.
            let has_name = |name: &&str| !name.is_empty();
            let mut sorted: Vec<&str> = names.iter().map(|name| &**name).filter(has_name).collect();
            sorted.sort_unstable();
            let event_set: Arc<str> = sorted.join(",").into();
            for (name, &count) in names.iter().zip(sums).filter(|(name, _)| !name.is_empty()) {
                rows.push(WindowSumRow {
                    start: Timestamp(start),
                    bin_us,
                    host: Arc::clone(&self.host),
                    boot: self.boot.clone(),
                    service: of.service.clone(),
                    version: of.version.clone(),
                    function: row.key.function.clone(),
                    module: Arc::clone(&module),
                    event_set: Arc::clone(&event_set),
                    event: Arc::from(&**name),
                    windows: signed(kept),
                    count: signed(count),
                    count_of_all: (scale * count as f64).round() as i64,
                    tested: signed(tested),
                    same_at_both_ends: signed(same),
                    batch: self.origin.batch,
                });
            }
        }
        rows
    }

    /// When windows were recorded; how many and what was lost is in the last bin.
    fn intervals_of_windows(&self, windows: &Windows) -> Vec<IntervalRow> {
        let (first, length_us) = self.all_bins();
        let mut rows: Vec<IntervalRow> = (first..first + length_us)
            .step_by(usize::try_from(self.bin_us()).unwrap_or(usize::MAX))
            .map(|bin| IntervalRow { lost: Some(0), ..self.empty_interval(bin, WINDOWS_EVENT) })
            .collect();
        if let Some(last) = rows.last_mut() {
            last.samples = signed(windows.total.windows());
            last.lost = Some(signed(windows.lost.count));
            last.throttled = signed(windows.throttled);
        }
        rows
    }
}
