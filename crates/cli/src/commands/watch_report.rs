//! The answer of `pmuscope watch`, of a recording that was just made or of one that was kept.

use std::path::{Path, PathBuf};

use pmuscope_perfdata::reader::FileState;
use pmuscope_profile::hits::{Hits, HitsError, Options};
use pmuscope_report::{WatchLimits, WatchView};

use super::answer::Invocation;
use super::output::{Form, Format};
use super::report::Limit;
use super::symbols::SymbolArgs;
use super::windows::WithDumps;
use crate::exit::{Exit, bad_input};

/// How the answer is told.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Answer")]
pub(crate) struct ReportArgs {
    /// Write the answer to FILE, in the format that its name ends in: .html .txt .json .csv .tsv
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the answer as one JSON object (schema pmuscope/watch/1)
    #[arg(long)]
    json: bool,
    /// Most rows of places, or "all" [default: 20; in HTML 100, in other formats all]
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    /// Show so many hits one by one, from the beginning and from the end [default: 5; in HTML and JSON 20]
    #[arg(long, value_name = "N")]
    history: Option<usize>,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Forms of the answer.
const FORMATS: [Format; 5] = [Format::Text, Format::Json, Format::Csv, Format::Tsv, Format::Html];

impl ReportArgs {
    /// What an answer will be, asked before anything is recorded.
    ///
    /// # Errors
    /// If the name of the file does not tell.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.form().and_then(|form| form.check())
    }

    fn form(&self) -> anyhow::Result<Form> {
        let asked = self.json.then_some(Format::Json);
        let file = self.report.as_deref();
        Ok(Form::new(Format::choose(asked, file, &FORMATS, "--report x.html")?, file))
    }

    fn limits(&self, format: Format) -> WatchLimits {
        let defaults = match format {
            Format::Text => WatchLimits::TEXT,
            Format::Html => WatchLimits::PAGE,
            _ => WatchLimits::ALL,
        };
        let rows = Limit::rows(self.limit, Some(defaults.rows)).unwrap_or(usize::MAX);
        let history = self.history.unwrap_or(defaults.history);
        WatchLimits { rows, history, ..defaults }
    }
}

/// Reads the recording at `path` and tells what it says. `kept`: it will still be there afterwards, so the
/// answer names it. `exit` is how all before ended; the status is that, or that something is missing.
///
/// # Errors
/// If the recording cannot be read, is none of watchpoints, or the answer cannot be written.
pub(crate) fn tell(
    path: &Path,
    kept: bool,
    args: &ReportArgs,
    begun: Invocation,
    exit: Exit,
) -> anyhow::Result<Exit> {
    let form = Form { begun, ..args.form()? };
    let hits = read(path, args)?;
    let is_whole = hits.state == FileState::Closed && hits.tally.stopped.is_none();
    let exit = if is_whole { exit } else { exit.with_missing() };
    let file = kept.then(|| path.to_string_lossy());
    let view = WatchView::new(&hits, file.as_deref(), args.limits(form.format));
    form.show(&view, &exit)?;
    Ok(exit)
}

fn read(path: &Path, args: &ReportArgs) -> anyhow::Result<Hits> {
    let recording = args.symbols.open(path)?;
    let mut symbolizer = args.symbols.symbolizer(true, &recording)?;
    let running = symbolizer.running_kernel();
    let mut options = Options::default();
    options.ends = args.history.unwrap_or(options.ends).max(1);
    let names = &mut WithDumps(&mut symbolizer);
    let mut hits =
        Hits::read(&recording, &options, &running, names).map_err(|error| match error {
            HitsError::Read(error) => error.into(),
            other => bad_input(other),
        })?;
    hits.name_pointers(&symbolizer);
    Ok(hits)
}
