//! `pmuscope sharing`.

mod watched;

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::limit::Limit;
use pmuscope_console::output::{Format, OutputArgs};
use pmuscope_console::say;
use std::path::Path;

use pmuscope_perfdata::reader::scan::Pieces;
use pmuscope_perfdata::reader::{FileState, RecordingFile};
use pmuscope_profile::sharing::{Options, SharedLines, SharingError};
use pmuscope_profile::{Filter, GroupBy, TasksBy, available_threads, cpu_nodes};
use pmuscope_report::{RecordingView, RowLimits, SharingBy, SharingView};
use pmuscope_symbols::Symbolizer;

use crate::commands::choice::one_of;
use crate::commands::empty;
use crate::commands::filter::FilterArgs;
use crate::commands::input::InputArgs;
use crate::commands::load::{LoadRequest, load};
use crate::commands::progress::Shown;
use crate::commands::symbols::SymbolArgs;

/// Bytes of a cache line, where nothing else is asked for.
const LINE_BYTES: u32 = 64;
/// Lines in the table of a terminal, and on a page.
const TEXT_LINES: usize = 20;
const PAGE_LINES: usize = 200;
/// Lines that are shown offset by offset at a terminal, and on a page.
const TEXT_DETAILED: usize = 3;
const PAGE_DETAILED: usize = 50;
/// Pairs of reader and writer of each of these.
const TEXT_PAIRS: usize = 5;
const PAGE_PAIRS: usize = 50;

/// Enough for the lines above the result.
const HEAD: LoadRequest = LoadRequest {
    apart: GroupBy { chains: false, tasks: TasksBy::Command, cpus: false },
    options: pmuscope_profile::Options::COUNTS,
    stacks: false,
    progress: true,
};

/// Flags of `pmuscope sharing`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope record --sharing -- CMD     record loads and stores with their addresses
  pmuscope sharing                     which lines, by which functions, true or false sharing
  pmuscope sharing perf.data           of a file of perf c2c record or perf mem record
  pmuscope sharing --limit 5 --offsets 5
  pmuscope sharing --by field          which fields of which variables
  pmuscope sharing --by object         which allocation sites (record --sharing --alloc)
  pmuscope sharing --physical          memory that processes share is one (record --phys-data)
  pmuscope sharing -o sharing.html     a page with every line by offset
  pmuscope sharing --json              offsets, code, threads and CPUs of each line
  pmuscope sharing --watch 1           count reads and writes of the first line's words, in its process
  pmuscope sharing --watch queue -p 4711 --timeout 5s
                                       of the cache line of a variable, without a recording")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs<SharingFormats>,
    /// Group contended loads by line, function, field, object, thread or node
    #[arg(long, value_name = "WHAT", default_value = "line", value_parser = one_of(GROUPS))]
    by: SharingBy,
    /// Set the bytes of a cache line, a power of two
    ///
    /// 128 shows what CPUs do that fetch lines in pairs.
    #[arg(long, value_name = "N", default_value_t = LINE_BYTES, value_parser = clap::value_parser!(u32).range(16..=4096))]
    line_size: u32,
    /// Take lines by physical address (record --phys-data)
    ///
    /// Memory that processes share is one then, also without a file: shmget, MAP_ANONYMOUS|MAP_SHARED.
    #[arg(long)]
    physical: bool,
    /// Show at most N rows, or "all" [default: 20]
    ///
    /// 200 in HTML, all in other forms.
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    /// Hide lines below PERCENT of the latency of contended loads
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1)]
    percent_limit: f64,
    /// Show N lines by offset, or "all" [default: 3]
    ///
    /// 50 in HTML; JSON and CSV have all.
    #[arg(long, value_name = "N")]
    offsets: Option<Limit>,
    #[command(flatten)]
    watched: watched::WatchLineArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// The shared lines of a recording, of the usual size, all that are large enough to be looked at.
pub(super) fn read(
    recording: &RecordingFile,
    path: &Path,
    filter: Filter,
    symbolizer: &mut Symbolizer,
) -> anyhow::Result<SharedLines> {
    let (threads, pieces) = (available_threads(), Pieces::default());
    let line_bytes = LINE_BYTES;
    let options =
        Options { filter, line_bytes, physical: false, least_share: 0.0, threads, pieces };
    read_lines((recording, path), &options, symbolizer)
}

fn read_lines(
    (recording, path): (&RecordingFile, &Path),
    options: &Options,
    symbolizer: &mut Symbolizer,
) -> anyhow::Result<SharedLines> {
    let running = symbolizer.running_kernel();
    let shown = Shown::new(recording.reader()?.progress(), path);
    let found = SharedLines::read(recording, options, &running, symbolizer);
    drop(shown);
    found.map_err(|error| match error {
        SharingError::Read(error) => error.into(),
        other => bad_input(other),
    })
}

/// Values of `--by`.
const GROUPS: [(&str, &str, SharingBy); 6] = [
    ("line", "Cache lines, the largest by offset", SharingBy::Line),
    ("function", "Functions that access them", SharingBy::Function),
    ("field", "Variables and their fields", SharingBy::Field),
    ("object", "Variables, and heap objects by allocation site", SharingBy::Object),
    ("thread", "Threads", SharingBy::Thread),
    ("node", "NUMA nodes of the CPUs that access them", SharingBy::Node),
];

pmuscope_console::forms!(SharingFormats: Text Json Csv Tsv Html, "pmuscope/sharing/1");

impl Args {
    fn filter(&self, recording: &RecordingFile) -> anyhow::Result<Filter> {
        let reader = recording.reader()?;
        self.filter.filter(recording, reader.events(), reader.metadata())
    }

    /// The shared lines of a recording.
    fn read(
        &self,
        recording: &RecordingFile,
        path: &Path,
        filter: Filter,
        symbolizer: &mut Symbolizer,
    ) -> anyhow::Result<SharedLines> {
        let options = Options {
            filter,
            line_bytes: self.line_size,
            physical: self.physical,
            least_share: self.percent_limit / 100.0,
            threads: available_threads(),
            pieces: Pieces::default(),
        };
        read_lines((recording, path), &options, symbolizer)
    }

    fn limits(&self, format: Format) -> (RowLimits, usize) {
        let (lines, detailed) = match format {
            Format::Text => (Some(TEXT_LINES), TEXT_DETAILED),
            Format::Html => (Some(PAGE_LINES), PAGE_DETAILED),
            _ => (None, 0),
        };
        let rows = Limit::rows(self.limit, lines);
        let detailed = Limit::rows(self.offsets, Some(detailed)).unwrap_or(usize::MAX);
        (RowLimits { rows, share: self.percent_limit / 100.0, ..RowLimits::ALL }, detailed)
    }
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let form = args.output.form()?;
    if args.watched.is_asked() {
        return watched::run(&args, &form);
    }
    args.watched.check()?;
    if !args.line_size.is_power_of_two() {
        let message = format!("--line-size {}: no power of two. Try: 64 or 128", args.line_size);
        return Err(bad_input(message));
    }
    let path = args.input.path()?;
    let recording = args.symbols.open(&path)?;
    let mut symbolizer = args.symbols.symbolizer(true, &recording)?;
    let filter = args.filter(&recording)?;
    let nodes = cpu_nodes(recording.reader()?.metadata());
    let found = args.read(&recording, &path, filter.clone(), &mut symbolizer)?;
    // Overhead and losses are shown as in every other view.
    let profile = load(recording.reader()?, &path, filter, &mut symbolizer, HEAD)?;
    empty::explain(&profile, &recording)?;
    let file = path.to_string_lossy();
    let (limits, detailed) = args.limits(form.format);
    let view = RecordingView { file: &file, profile: &profile, limits };
    let pairs = if form.format == Format::Html { PAGE_PAIRS } else { TEXT_PAIRS };
    let view = SharingView { found: &found, view, nodes: &nodes, by: args.by, detailed, pairs };
    let is_whole = profile.state == FileState::Closed && profile.tally.stopped.is_none();
    let nothing = view.nothing();
    let exit = if is_whole && nothing.is_none() { Exit::Done } else { Exit::Incomplete };
    if form.format.has_no_head() {
        nothing.inspect(|why| say!("note: {why}"));
    }
    form.show(&view, &exit)?;
    Ok(exit)
}
