//! `pmuscope report --by branch`, `--by mem` and `--by data`: what samples carry beside an address.

use pmuscope_perfdata::reader::{FileState, Reader, RecordingFile};
use pmuscope_profile::views::{accesses, branches, data_addresses};
use pmuscope_profile::{GroupBy, Options, TasksBy};
use pmuscope_report::{Document, RecordingView, RowLimits, Style};
use pmuscope_symbols::Symbolizer;

use super::answer::Invocation;
use super::empty;
use super::filter::FilterArgs;
use super::load::{LoadRequest, load};
use super::output::{Format, Output};
use super::progress::Shown;
use crate::exit::Exit;
use crate::version::COMMIT;

/// What of samples is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Details {
    Branches,
    Memory,
    Data,
}

/// How it is shown.
#[derive(Debug)]
pub(super) struct Form<'a> {
    pub(super) begun: Invocation,
    pub(super) format: Format,
    pub(super) limits: RowLimits,
    pub(super) style: &'a Style,
    pub(super) output: &'a Output,
}

/// Enough for the lines above all views.
const HEAD: LoadRequest = LoadRequest {
    apart: GroupBy { chains: false, tasks: TasksBy::Command, cpus: false },
    options: Options::COUNTS,
    stacks: false,
};

/// Reads the recording once more, sample by sample, and prints what is asked for.
pub(super) fn show(
    details: Details,
    recording: &RecordingFile,
    mut symbolizer: Symbolizer,
    filter: &FilterArgs,
    form: &Form<'_>,
) -> anyhow::Result<Exit> {
    let (path, mut reader) = (recording.path(), recording.reader()?);
    let filter = filter.filter(recording, reader.events(), reader.metadata())?;
    let file = path.to_string_lossy();
    // What it cost and lost is said as in every other view.
    let profile = load(recording.reader()?, path, filter.clone(), &mut symbolizer, HEAD)?;
    empty::explain(&profile, recording)?;
    let _shown = Shown::new(reader.progress(), path);
    let view = RecordingView { file: &file, profile: &profile, limits: form.limits };
    match details {
        Details::Branches => {
            let running = symbolizer.running_kernel();
            let found = branches(&mut reader, &filter, &running, &mut |requests| {
                symbolizer.resolve_all(requests)
            })?;
            form.print(&pmuscope_report::branches(&found, view), &reader)
        }
        Details::Data => {
            let found = data_addresses(&mut reader, &filter, &symbolizer)?;
            form.print(&pmuscope_report::data(&found, view), &reader)
        }
        Details::Memory => {
            let found = accesses(&mut reader, &filter)?;
            form.print(&pmuscope_report::accesses(&found, view), &reader)
        }
    }
}

impl Form<'_> {
    /// Prints it in the format that was asked for.
    fn print(&self, document: &Document<'_>, reader: &Reader) -> anyhow::Result<Exit> {
        let is_whole = reader.state() == FileState::Closed && reader.tally().stopped.is_none();
        let exit =
            if is_whole && document.nothing().is_none() { Exit::Done } else { Exit::Incomplete };
        let text = match (self.format, self.format.separator()) {
            (_, Some(separator)) => document.delimited(separator),
            (Format::Json, _) => {
                self.begun.json(document.schema(), None, &exit, document.json())?
            }
            (Format::Html, _) => document.page(COMMIT),
            _ => document.text(self.style),
        };
        if self.format.has_no_head() {
            document.kept_text().inspect(|kept| say!("note: {kept}"));
            document.nothing().inspect(|why| say!("note: {why}"));
        }
        self.output.print(self.format.kind(), &text)?;
        Ok(exit)
    }
}
