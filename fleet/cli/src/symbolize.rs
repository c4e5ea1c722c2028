//! `pmuscope fleet symbolize`.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input, failure, not_possible};
use pmuscope_console::limit::Limit;
use pmuscope_console::output::OutputArgs;
use pmuscope_console::say;
use pmuscope_dataset::{DatasetLocation, Timestamp};
use pmuscope_delivery::{FileSink, FolderSink, S3Sink, SinkError};
use pmuscope_query::Engine;
use pmuscope_report::{SymbolizeView, SymbolizedModule, escape};
use pmuscope_symbolization::{DayRange, ModuleOutcome, symbolize};
use pmuscope_symbols::{Options, Sources, Symbolizer, debuginfod_available, debuginfod_failure};
use pmuscope_text::number;

use crate::select::{location, time};

pmuscope_console::forms!(SymbolizeFormats: Text Json Csv Tsv, "pmuscope/fleet-symbolize/1");

/// Rows of a text.
const ROWS: usize = 20;
/// A folder of the dataset that changes places with a merged one meanwhile is met once, not again and again.
const TRIES: usize = 3;

/// Flags of `pmuscope fleet symbolize`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope fleet symbolize profiles --dry-run        what could be named, and where from
  pmuscope fleet symbolize profiles --debug-dir /srv/debug --since 7d
  pmuscope fleet symbolize s3://fleet/profiles --debuginfod

Files and debug files count by build ID only. Names are added, nothing is replaced: agents, questions and compact may go
on meanwhile.")]
pub(crate) struct Args {
    /// The dataset: a folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "DATASET", value_parser = location())]
    dataset: DatasetLocation,
    /// From the day of this time on: 2026-11-25T12:00:00Z, or 7d for seven days ago
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// Up to the day of this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Timestamp>,
    /// Only show what could be named
    #[arg(long)]
    dry_run: bool,
    /// Show at most N modules, or all [default: 20]
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    #[command(flatten)]
    symbols: SymbolArgs,
    #[command(flatten)]
    output: OutputArgs<SymbolizeFormats>,
}

/// Where symbols may come from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Symbols")]
struct SymbolArgs {
    /// Look for binaries below DIR first
    ///
    /// As in the root of a container or of another machine.
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,
    /// Look for debug files below DIR, too; several times for several
    ///
    /// In DIR/.build-id/ab/cdef….debug, as in /usr/lib/debug.
    #[arg(long, value_name = "DIR")]
    debug_dir: Vec<PathBuf>,
    /// Fetch missing symbols from the servers in DEBUGINFOD_URLS
    #[arg(long)]
    debuginfod: bool,
}

impl SymbolArgs {
    fn symbolizer(&self) -> anyhow::Result<Symbolizer> {
        let symfs = self.symfs.iter().map(|folder| ("--symfs", folder));
        let mut folders = symfs.chain(self.debug_dir.iter().map(|folder| ("--debug-dir", folder)));
        if let Some((flag, folder)) = folders.find(|(_, folder)| !folder.is_dir()) {
            let folder = folder.display();
            return Err(bad_input(format!("{flag} {folder}: there is no such folder")));
        }
        if self.debuginfod {
            debuginfod_available().map_err(|why| not_possible(format!("--debuginfod: {why}")))?;
        }
        let default = Sources::default();
        let debug_dirs = self.debug_dir.iter().chain(&default.debug_dirs).cloned().collect();
        let sources = Sources {
            symfs: self.symfs.clone(),
            debug_dirs,
            debuginfod: self.debuginfod,
            // What is found is in the dataset; what is not may be there the next time.
            cache: None,
            ..default
        };
        let mut symbolizer = Symbolizer::with_sources(Options { inlined: true }, sources);
        symbolizer.use_debug_files_alone();
        Ok(symbolizer)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let form = args.output.form()?;
    form.check()?;
    let mut symbolizer = args.symbols.symbolizer()?;
    let engine = Engine::open(&args.dataset)?;
    let days = DayRange { since: args.since, until: args.until };
    let sink = sink(&args.dataset)?;
    let staging = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = (!args.dry_run).then(|| staging.path());
    let found = symbolize(&engine, days, &mut symbolizer, folder, |file, path| {
        deliver(&sink, file, path).map_err(anyhow::Error::from)
    })?;
    let mut rows: Vec<SymbolizedModule> = found.modules.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.addresses));
    let missing = Incomplete::of(&rows);
    let exit = if missing.is_some() { Exit::Incomplete } else { Exit::Done };
    let dataset = args.dataset.to_string();
    let view = SymbolizeView {
        dataset: &dataset,
        dry_run: args.dry_run,
        files: found.files,
        rows: &rows,
        limit: form.rows(args.limit, ROWS),
    };
    form.show(&view, &exit)?;
    missing.map_or(Ok(()), |missing| Err(missing.report()))
}

fn sink(location: &DatasetLocation) -> Result<FileSink, SinkError> {
    Ok(match location {
        DatasetLocation::Folder(root) => FileSink::Folder(FolderSink::new(root)),
        DatasetLocation::S3(place) => FileSink::S3(S3Sink::new(place, None)?),
    })
}

/// Delivers a file, once more where its folder changed places with a merged one in between.
fn deliver(sink: &FileSink, file: &Path, path: &Path) -> Result<(), SinkError> {
    let is_gone = |error: &SinkError| matches!(error, SinkError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound);
    let mut delivered = sink.deliver(file, path);
    for _ in 1..TRIES {
        match &delivered {
            Err(error) if is_gone(error) => delivered = sink.deliver(file, path),
            _ => break,
        }
    }
    delivered
}

fn row(outcome: ModuleOutcome) -> SymbolizedModule {
    let ModuleOutcome { build_id, module, addresses, named, state, file } = outcome;
    let file = file.map(|file| file.display().to_string());
    SymbolizedModule { build_id, module, addresses, named, state, file }
}

/// Names that are missing although somebody has them.
struct Incomplete {
    /// Modules with files that cannot be read, and why.
    unusable: Vec<(String, String)>,
    /// Why a server of debuginfod was not asked.
    server: Option<&'static str>,
}

impl Incomplete {
    fn of(rows: &[SymbolizedModule]) -> Option<Self> {
        let reason = |row: &SymbolizedModule| {
            row.reason().unwrap_or_else(|| "a file of it may not be read by this user".to_owned())
        };
        let bad = rows.iter().filter(|row| row.has_unusable_file());
        let unusable: Vec<_> = bad.map(|row| (row.module.clone(), reason(row))).collect();
        let server = debuginfod_failure();
        (!unusable.is_empty() || server.is_some()).then_some(Self { unusable, server })
    }

    fn report(&self) -> anyhow::Error {
        if let (Some(why), [_, ..]) = (self.server, &self.unusable[..]) {
            say!(
                "warning: --debuginfod: a server in DEBUGINFOD_URLS could not be asked: {}",
                escape(why)
            );
        }
        let message = match (&self.unusable[..], self.server) {
            ([], why) => {
                let why = escape(why.unwrap_or_default());
                format!(
                    "a server in DEBUGINFOD_URLS could not be asked: {why}. Try: again later; names that were found are there"
                )
            }
            ([(module, why), rest @ ..], _) => {
                let more = match rest.len() {
                    0 => String::new(),
                    more => format!(", and {} more", number::counted(more as u64, "module")),
                };
                let (module, why) = (escape(module), escape(why));
                format!(
                    "cannot name {module}{more}: {why}. Try: install its debug package again, then run this again"
                )
            }
        };
        failure(Exit::Incomplete, message)
    }
}
