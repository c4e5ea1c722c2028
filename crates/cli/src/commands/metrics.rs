//! `pmuscope metrics`.

use std::path::PathBuf;

use clap::ValueEnum;
use pmuscope_report::{
    METRICS_SCHEMA, MetricsReport, MetricsView, RowLimits, Style, escape, metric_list_text,
    metrics_csv, metrics_text,
};

use super::filter::FilterArgs;
use super::input::InputArgs;
use super::output;
use super::report::Limit;
use super::symbols::SymbolArgs;
use super::windows::{WindowArgs, chosen, is_whole};
use crate::commands::answer::Begun;
use crate::exit::Exit;
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
    /// Show all metrics with their formulas, and read no recording
    #[arg(long)]
    list: bool,
    /// Tell how many seconds more would bring every interval of a row to ±5 %
    #[arg(long)]
    needs: bool,
    #[command(flatten)]
    windows: WindowArgs,
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

/// Ends of file names.
const ENDINGS: [(&str, Format); 4] =
    [(".txt", Format::Text), (".json", Format::Json), (".csv", Format::Csv), (".tsv", Format::Tsv)];

impl Args {
    fn format(&self) -> anyhow::Result<Format> {
        let asked = self.format.or(self.json.then_some(Format::Json));
        output::choose(asked, self.output.as_deref(), &ENDINGS, Format::Text, "csv")
    }
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let begun = Begun::now();
    let metrics = args.windows.metrics()?;
    let format = args.format()?;
    let output = output::Output::to(args.output.as_deref());
    let style = if output.is_file() { Style::PLAIN } else { terminal::style() };
    if args.list {
        let text = metric_list_text(&metrics, &style);
        output.write(output::Format::Text, |out| out.write_all(text.as_bytes()))?;
        return Ok(Exit::Done);
    }
    let chosen = chosen(&metrics, &args.metrics)?;
    let path = args.input.path()?;
    let windows = args.windows.read(&path, &metrics, &args.filter, &args.symbols)?;
    let file = path.to_string_lossy();
    let rows = Limit::rows(args.limit, (format == Format::Text).then_some(DEFAULT_ROWS));
    let limits = RowLimits { rows, share: args.percent_limit / 100.0 };
    let view = MetricsView::new(&windows, &file, &metrics, &chosen, limits, args.needs);
    let exit = if is_whole(&windows) { Exit::Done } else { Exit::Incomplete };
    if !is_whole(&windows) {
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
