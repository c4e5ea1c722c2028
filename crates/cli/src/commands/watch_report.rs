//! The answer of `pmuscope watch`, of a recording that was just made or of one that was kept.

use std::path::{Path, PathBuf};

use pmuscope_machine::FileKind;
use pmuscope_perfdata::reader::FileState;
use pmuscope_profile::hits::{Hits, HitsError, Options};
use pmuscope_report::{
    Style, WATCH_SCHEMA, WatchLimits, WatchReport, WatchView, watch_page, watch_text,
};

use super::answer::Invocation;
use super::output;
use super::report::Limit;
use super::symbols::SymbolArgs;
use super::windows::WithDumps;
use crate::exit::{Exit, failure};
use crate::terminal;

/// How the answer is told.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Answer")]
pub(crate) struct ReportArgs {
    /// Write the answer to FILE, in the format that its name ends in: .html .txt .json
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the answer as one JSON object (schema pmuscope/watch/1)
    #[arg(long)]
    json: bool,
    /// Most rows of places, or "all" [default: 20; in HTML 100, in JSON all]
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    /// Show so many hits one by one, from the beginning and from the end [default: 5; in HTML and JSON 20]
    #[arg(long, value_name = "N")]
    history: Option<usize>,
    #[command(flatten)]
    symbols: SymbolArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    Html,
}

impl Format {
    fn kind(self) -> FileKind {
        match self {
            Self::Text => FileKind::Text,
            Self::Json => FileKind::Json,
            Self::Html => FileKind::Page,
        }
    }
}

/// Ends of file names.
const ENDINGS: [(&str, Format); 4] = [
    (".txt", Format::Text),
    (".json", Format::Json),
    (".html", Format::Html),
    (".htm", Format::Html),
];

impl ReportArgs {
    /// What an answer will be, asked before anything is recorded.
    ///
    /// # Errors
    /// If the name of the file does not tell.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let output = output::Output::to(self.report.as_deref());
        output.check(self.format()?.kind())
    }

    fn format(&self) -> anyhow::Result<Format> {
        let asked = self.json.then_some(Format::Json);
        output::choose(asked, self.report.as_deref(), &ENDINGS, Format::Text, "--report x.html")
    }

    fn limits(&self, format: Format) -> WatchLimits {
        let defaults = match format {
            Format::Text => WatchLimits::TEXT,
            Format::Html => WatchLimits::PAGE,
            Format::Json => WatchLimits::ALL,
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
    let format = args.format()?;
    let hits = read(path, args)?;
    let is_whole = hits.state == FileState::Closed && hits.tally.stopped.is_none();
    let exit = if is_whole { exit } else { exit.with_missing() };
    let output = output::Output::to(args.report.as_deref());
    let style = if output.is_file() { Style::PLAIN } else { terminal::style() };
    let file = kept.then(|| path.to_string_lossy());
    let view = WatchView::new(&hits, file.as_deref(), args.limits(format));
    let text = match format {
        Format::Text => watch_text(&view, &style),
        Format::Json => begun.json(WATCH_SCHEMA, None, &exit, WatchReport::new(&view))?,
        Format::Html => watch_page(&view, crate::version::COMMIT),
    };
    output.print(format.kind(), &text)?;
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
            other => failure(Exit::BadInput, other.to_string()),
        })?;
    hits.name_pointers(&symbolizer);
    Ok(hits)
}
