//! `pmuscope metrics`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;
use pmuscope_events::metrics::{Metric, Metrics};
use pmuscope_perfdata::reader::{FileState, Reader};
use pmuscope_profile::available_threads;
use pmuscope_profile::windows::{Attribution, By, Options, Windows, WindowsError};
use pmuscope_report::{
    METRICS_SCHEMA, MetricsReport, MetricsView, RowLimits, Style, escape, metric_list_text,
    metrics_csv, metrics_text,
};

use super::filter::FilterArgs;
use super::input::InputArgs;
use super::output;
use super::report::Limit;
use super::symbols::SymbolArgs;
use crate::commands::answer::Begun;
use crate::exit::{Exit, failure};
use crate::terminal;

/// Rows of a table where no limit is given.
const DEFAULT_ROWS: usize = 40;

/// Flags of `pmuscope metrics`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope record --strobe -- CMD                  windows of 300 cycles, one per million
  pmuscope metrics                                 CPI and misses of each function, with intervals
  pmuscope metrics --metrics basic,stalls --needs  more columns, and how long to record for ±5 %
  pmuscope metrics perf.data --attribution none    windows count for the function they end in
  pmuscope metrics --by line -o lines.csv
  pmuscope metrics --list                          all metrics with their formulas")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Write to FILE, in the format that its name ends in: .txt .json .csv .tsv
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write in this format, whatever the file is called
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    /// Print everything as one JSON object (schema pmuscope/metrics/1)
    #[arg(long)]
    json: bool,
    /// Metrics or groups of them, "all" for all; --list tells them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "basic")]
    metrics: Vec<String>,
    /// Metrics of your own, in the form that --list explains; may be given several times
    #[arg(long, value_name = "FILE")]
    formulas: Vec<PathBuf>,
    /// Show all metrics with their formulas, and read no recording
    #[arg(long)]
    list: bool,
    /// What rows are of
    #[arg(long, value_name = "WHAT", default_value = "function")]
    by: Rows,
    /// What becomes of windows that start in one function and end in another: "none" counts them for
    /// the latter, "discard" for none, "auto" discards where windows are short
    #[arg(long, value_name = "HOW", default_value = "auto")]
    attribution: Attributed,
    /// Tell how many seconds more would bring every interval of a row to ±5 %
    #[arg(long)]
    needs: bool,
    /// Keep windows that are longer or shorter by so many units [default: half of a window]
    #[arg(long, value_name = "N")]
    length_tolerance: Option<u64>,
    /// Take N units of the event off each window: what the interrupt that opens it costs, as an empty
    /// function shows it
    #[arg(long, value_name = "N", default_value_t = 0)]
    interrupt_cost: u64,
    /// Most rows, or "all" [default: 40; of other formats than text all]
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    /// Leave out rows below this share of all windows in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    percent_limit: f64,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    symbols: SymbolArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for people (.txt)
    Text,
    /// One JSON object (.json)
    Json,
    /// Comma-separated values (.csv)
    Csv,
    /// Values separated by tabs (.tsv)
    Tsv,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Rows {
    /// Functions
    Function,
    /// Inlined functions apart from those that hold their code
    Inlined,
    /// Source lines
    Line,
    /// Modules
    Module,
    /// Kernel and user
    Mode,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Attributed {
    None,
    Discard,
    Auto,
}

impl From<Rows> for By {
    fn from(rows: Rows) -> Self {
        match rows {
            Rows::Function => Self::Function,
            Rows::Inlined => Self::Inlined,
            Rows::Line => Self::Line,
            Rows::Module => Self::Module,
            Rows::Mode => Self::Mode,
        }
    }
}

impl From<Attributed> for Attribution {
    fn from(attributed: Attributed) -> Self {
        match attributed {
            Attributed::None => Self::None,
            Attributed::Discard => Self::Discard,
            Attributed::Auto => Self::Auto,
        }
    }
}

impl Args {
    fn format(&self) -> anyhow::Result<Format> {
        if let Some(format) = self.format.or(self.json.then_some(Format::Json)) {
            return Ok(format);
        }
        let Some(path) = &self.output else { return Ok(Format::Text) };
        let end = path.extension().and_then(std::ffi::OsStr::to_str);
        let known = |end: &str| match end {
            "txt" => Some(Format::Text),
            "json" => Some(Format::Json),
            "csv" => Some(Format::Csv),
            "tsv" => Some(Format::Tsv),
            _ => None,
        };
        let is_stdout = path.as_os_str() == "-";
        end.and_then(known).or(is_stdout.then_some(Format::Text)).ok_or_else(|| {
            let message = format!(
                "cannot tell the format of {} by its name. Known are .txt, .json, .csv, .tsv; or name \
                 one: --format csv",
                path.display()
            );
            failure(Exit::BadInput, message)
        })
    }

    fn metrics(&self) -> anyhow::Result<Metrics> {
        let mut metrics = Metrics::builtin();
        for path in &self.formulas {
            let refused = |why: String| {
                failure(Exit::BadInput, format!("--formulas {}: {why}", path.display()))
            };
            let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
            metrics.add(&text).map_err(|error| refused(error.to_string()))?;
        }
        Ok(metrics)
    }

    fn chosen<'a>(&self, metrics: &'a Metrics) -> anyhow::Result<Vec<&'a Metric>> {
        let names: Vec<&str> = self.metrics.iter().map(String::as_str).collect();
        metrics.chosen(&names).map_err(|name| {
            let message = format!(
                "there is no metric or group \"{}\"; groups are {}, and --list shows all",
                escape(name),
                escape(&metrics.groups().join(", "))
            );
            failure(Exit::BadInput, message)
        })
    }

    fn read(&self, path: &Path, metrics: &Metrics) -> anyhow::Result<Windows> {
        let lines = matches!(self.by, Rows::Inlined | Rows::Line);
        let mut symbolizer = self.symbols.symbolizer(lines, path)?;
        let running = symbolizer.running_kernel();
        let filter = {
            let reader = Reader::open(path)?;
            self.filter.filter(path, reader.events(), reader.metadata())?
        };
        let options = Options {
            by: self.by.into(),
            attribution: self.attribution.into(),
            length_tolerance: self.length_tolerance,
            interrupt_cost: self.interrupt_cost,
            filter,
            threads: available_threads(),
            ..Options::default()
        };
        let read = Windows::read(path, &options, metrics, &running, &mut |requests| {
            symbolizer.resolve_all(requests)
        });
        read.map_err(|error| match error {
            WindowsError::Read(error) => error.into(),
            other => failure(Exit::BadInput, other.to_string()),
        })
    }
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let begun = Begun::now();
    let metrics = args.metrics()?;
    let format = args.format()?;
    let output = output::Output::to(args.output.as_deref());
    let style = if output.is_file() { Style::PLAIN } else { terminal::style() };
    if args.list {
        let text = metric_list_text(&metrics, &style);
        output.write(output::Format::Text, |out| out.write_all(text.as_bytes()))?;
        return Ok(Exit::Done);
    }
    let chosen = args.chosen(&metrics)?;
    let path = args.input.path()?;
    let windows = args.read(&path, &metrics)?;
    if windows.total.windows() == 0 {
        let message = format!("{}: no sample ends a window", path.display());
        return Err(failure(Exit::BadInput, message)).context("no metrics");
    }
    let file = path.to_string_lossy();
    let rows = Limit::rows(args.limit, (format == Format::Text).then_some(DEFAULT_ROWS));
    let limits = RowLimits { rows, share: args.percent_limit / 100.0 };
    let view = MetricsView::new(&windows, &file, &metrics, &chosen, limits, args.needs);
    let is_whole = windows.state == FileState::Closed && windows.tally.stopped.is_none();
    let exit = if is_whole { Exit::Done } else { Exit::Incomplete };
    if !is_whole {
        eprintln!(
            "note: {} was not closed or is damaged; this is what could be read",
            escape(&file)
        );
    }
    let text = match format {
        Format::Text => metrics_text(&view, &style),
        Format::Json => begun.json(METRICS_SCHEMA, None, &exit, MetricsReport::new(&view))?,
        Format::Csv => metrics_csv(&view, ','),
        Format::Tsv => metrics_csv(&view, '\t'),
    };
    output.write(output::Format::Text, |out| out.write_all(text.as_bytes()))?;
    Ok(exit)
}
