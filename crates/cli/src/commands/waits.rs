//! `pmuscope report --by wait`: where threads wait, as a table, as JSON, or in the forms that profiles have,
//! weighed by time off the CPU.

use std::path::Path;

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::output::Form;
use pmuscope_console::say;
use pmuscope_profile::export::Source;
use pmuscope_profile::waits::{WaitBy, Waits, WaitsError};
use pmuscope_profile::{Intervals, Options};
use pmuscope_report::{RowLimits, WaitsView, waits_summary};

use super::exports;
use super::load::{LoadArgs, is_whole};

/// Reads the waits of the recording at `path` and writes them.
pub(super) fn show(
    by: &[WaitBy],
    path: &Path,
    load: &LoadArgs,
    limits: RowLimits,
    form: &Form,
) -> anyhow::Result<Exit> {
    let format = form.format;
    let filter = load.filter.of_threads().ok_or_else(|| {
        let message = "--by wait is for whole threads and all of the time: of the filters --pid, --tid and \
                       --comm go with it";
        bad_input(message)
    })?;
    if load.symbol_filter.is_asked() {
        let message = "--dsos, --symbol-filter and --focus are not for --by wait";
        return Err(bad_input(message));
    }
    let recording = load.symbols.open(path)?;
    let mut symbolizer = load.symbols.symbolizer(false, &recording)?;
    // Files have rows of their own.
    let options = Options { detail: exports::detail(format), ..Options::COUNTS };
    let waits = match Waits::read(&recording, filter, options, &mut symbolizer) {
        Err(WaitsError::Read(error)) => return Err(error.into()),
        other => other.map_err(bad_input)?,
    };
    let is_there = waits.threads > 0;
    let exit = if is_whole(&waits.profile) && is_there { Exit::Done } else { Exit::Incomplete };
    let file = path.to_string_lossy();
    if !is_there {
        say!("warning: {}: no context switches of the selected threads", path.display());
    }
    let rows = waits.rows(by, limits.rows.unwrap_or(Intervals::MOST));
    let view = WaitsView { file: &file, waits: &waits, by, rows: &rows, limits };
    if !format.is_of_a_table() {
        let (source, summary) = (Source::new(&waits.profile), waits_summary(&view));
        form.output.write(format.kind(), |out| {
            exports::write(format, &source, &summary, limits, &[], out)
        })?;
        return Ok(exit);
    }
    form.show(&view, &exit)?;
    Ok(exit)
}
