//! `pmuscope report --by branch`, `--by mem` and `--by data`: what samples carry next to an address.

use pmuscope_console::exit::Exit;
use pmuscope_console::output::Form;
use pmuscope_console::say;
use pmuscope_perfdata::reader::{FileState, Reader, RecordingFile};
use pmuscope_profile::views::{
    AccessBy, AccessorNames, DataBy, accesses, branches, data_addresses,
};
use pmuscope_profile::{GroupBy, Options, TasksBy, cpu_nodes};
use pmuscope_report::{Document, RecordingView, RowLimits};
use pmuscope_symbols::Symbolizer;

use super::empty;
use super::filter::FilterArgs;
use super::load::{LoadRequest, load};
use super::progress::Shown;

/// What of samples is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Details {
    Branches,
    Memory(AccessBy),
    Data(DataBy),
}

/// Enough for the lines above all views.
const HEAD: LoadRequest = LoadRequest {
    apart: GroupBy { chains: false, tasks: TasksBy::Command, cpus: false },
    options: Options::COUNTS,
    stacks: false,
    progress: true,
};

/// Reads the recording once more, sample by sample, and prints what is asked for.
pub(super) fn show(
    details: Details,
    recording: &RecordingFile,
    mut symbolizer: Symbolizer,
    filter: &FilterArgs,
    limits: RowLimits,
    form: &Form,
) -> anyhow::Result<Exit> {
    let (path, mut reader) = (recording.path(), recording.reader()?);
    let filter = filter.filter(recording, reader.events(), reader.metadata())?;
    let file = path.to_string_lossy();
    // What it cost and lost is said as in every other view.
    let profile = load(recording.reader()?, path, filter.clone(), &mut symbolizer, HEAD)?;
    empty::explain(&profile, recording)?;
    let _shown = Shown::new(reader.progress(), path);
    let view = RecordingView { file: &file, profile: &profile, limits };
    let nodes = cpu_nodes(reader.metadata());
    let node_of = |cpu: u32| nodes.get(&cpu).copied();
    let mut names = AccessorNames { node_of: &node_of, symbolizer: &mut symbolizer };
    match details {
        Details::Branches => {
            let running = names.symbolizer.running_kernel();
            let found = branches(&mut reader, &filter, &running, &mut |requests| {
                names.symbolizer.resolve_all(requests)
            })?;
            print(&pmuscope_report::branches(&found, view), &reader, form)
        }
        Details::Data(by) => {
            let found = data_addresses(&mut reader, &filter, by, &mut names)?;
            print(&pmuscope_report::data(&found, view), &reader, form)
        }
        Details::Memory(by) => {
            let found = accesses(&mut reader, &filter, by, &mut names)?;
            print(&pmuscope_report::accesses(&found, view), &reader, form)
        }
    }
}

/// Prints it in the format that was asked for.
fn print(document: &Document<'_>, reader: &Reader, form: &Form) -> anyhow::Result<Exit> {
    let is_whole = reader.state() == FileState::Closed && reader.tally().stopped.is_none();
    let exit = if is_whole && document.nothing().is_none() { Exit::Done } else { Exit::Incomplete };
    if form.format.has_no_head() {
        document.kept_text().inspect(|kept| say!("note: {kept}"));
        document.nothing().inspect(|why| say!("note: {why}"));
    }
    form.show(document, &exit)?;
    Ok(exit)
}
