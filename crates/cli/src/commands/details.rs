//! `pmuscope report --by branch`, `--by mem` and `--by data`: what samples carry beside an address.

use std::path::Path;

use pmuscope_perfdata::reader::{FileState, Reader};
use pmuscope_profile::views::{accesses, branches, data_addresses};
use pmuscope_profile::{Apart, Detail, Intervals, Options, TasksBy};
use pmuscope_report::{
    ACCESSES_SCHEMA, AccessesReport, BRANCHES_SCHEMA, BranchesReport, DATA_SCHEMA, DataReport,
    DetailsView, RowLimits, Style, accesses_text, branches_text, data_csv, data_text, kept_text,
};
use pmuscope_symbols::Symbolizer;

use super::answer::Begun;
use super::filter::FilterArgs;
use super::load::{Wanted, load};
use super::output::Format;
use super::progress::Shown;
use crate::exit::{Exit, failure};

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
    pub(super) begun: Begun,
    pub(super) format: Format,
    pub(super) limits: RowLimits,
    pub(super) style: &'a Style,
}

/// Enough for the lines above all views.
const HEAD: Wanted = Wanted {
    apart: Apart { chains: false, tasks: TasksBy::Command, cpus: false },
    options: Options { rows: Some(0), intervals: Intervals::None, detail: Detail::Function },
    stacks: false,
};

/// Reads the recording once more, sample by sample; the text, JSON or CSV of it.
pub(super) fn show(
    details: Details,
    path: &Path,
    mut symbolizer: Symbolizer,
    filter: &FilterArgs,
    form: &Form<'_>,
) -> anyhow::Result<(String, Exit)> {
    if form.format == Format::Csv && details != Details::Data {
        return Err(failure(Exit::BadInput, "--by branch and --by mem are for text and JSON only"));
    }
    let mut reader = Reader::open(path)?;
    let filter = filter.filter(path, reader.events(), reader.metadata())?;
    let file = path.to_string_lossy();
    // What it cost and lost is said as in every other view.
    let profile = load(Reader::open(path)?, path, filter.clone(), &mut symbolizer, HEAD)?;
    let _shown = Shown::new(reader.progress(), path);
    let view = DetailsView { file: &file, profile: &profile, limits: form.limits };
    let exit = |reader: &Reader, is_there: bool| {
        let is_whole = reader.state() == FileState::Closed && reader.tally().stopped.is_none();
        if is_whole && is_there { Exit::Done } else { Exit::Incomplete }
    };
    Ok(match details {
        Details::Branches => {
            let running = symbolizer.running_kernel();
            let found = branches(&mut reader, &filter, &running, &mut |requests| {
                symbolizer.resolve_all(requests)
            })?;
            let exit = exit(&reader, found.branches > 0);
            let text = if form.format == Format::Json {
                let result = BranchesReport::new(&found, &view);
                form.begun.json(BRANCHES_SCHEMA, None, &exit, result)?
            } else {
                branches_text(&found, &view, form.style)
            };
            (text, exit)
        }
        Details::Data => {
            let found = data_addresses(&mut reader, &filter, &symbolizer)?;
            let exit = exit(&reader, found.with_address > 0);
            let text = match form.format {
                Format::Json => {
                    form.begun.json(DATA_SCHEMA, None, &exit, DataReport::new(&found, &view))?
                }
                Format::Csv => {
                    if let Some(kept) = kept_text(&profile) {
                        say!("note: {kept}");
                    }
                    data_csv(&found, form.limits)
                }
                _ => data_text(&found, &view, form.style),
            };
            (text, exit)
        }
        Details::Memory => {
            let found = accesses(&mut reader, &filter)?;
            let exit = exit(&reader, found.with_source > 0);
            let text = if form.format == Format::Json {
                let result = AccessesReport::new(&found, &view);
                form.begun.json(ACCESSES_SCHEMA, None, &exit, result)?
            } else {
                accesses_text(&found, &view, form.style)
            };
            (text, exit)
        }
    })
}
