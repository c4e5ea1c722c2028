//! `pmuscope report --by wait`: where threads wait, as a table, as JSON, or in the forms that profiles have,
//! weighed by time off the CPU.

use std::path::Path;

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::output::{Form, Format};
use pmuscope_console::say;
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::export::Source;
use pmuscope_profile::waits::{CollectedWaits, WaitBy, Waits};
use pmuscope_profile::{Filter, Intervals, Options, Unwinding};
use pmuscope_report::{RowLimits, WaitsView, waits_summary};
use pmuscope_symbols::Symbolizer;

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
        let message = "--symbol-filter and --focus are not for --by wait";
        return Err(bad_input(message));
    }
    let recording = load.symbols.open(path)?;
    let mut symbolizer = load.symbols.symbolizer(false, &recording)?;
    let waits = read(&recording, filter, format, &mut symbolizer)?;
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

fn read(
    recording: &RecordingFile,
    filter: Filter,
    format: Format,
    symbolizer: &mut Symbolizer,
) -> anyhow::Result<Waits> {
    let running = symbolizer.running_kernel();
    let (collected, reader) = {
        let unwinder = symbolizer.unwinder();
        let unwinding = Unwinding { unwinder: &unwinder, running: &running };
        CollectedWaits::read(recording, filter, Some(unwinding)).map_err(bad_input)?
    };
    for (pid, dump) in collected.jit_dumps() {
        symbolizer.add_jit_dump(*pid, dump.clone());
    }
    // Files have rows of their own.
    let options = Options { detail: exports::detail(format), ..Options::COUNTS };
    Ok(collected
        .waits(&reader, &running, options, &mut |requests| symbolizer.resolve_all(requests))?)
}
