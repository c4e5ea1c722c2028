//! `pmuscope metrics`.

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::limit::Limit;
use pmuscope_console::output::{Form, Format, OutputArgs};
use pmuscope_console::say;
use pmuscope_machine::FileKind;
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::windows::{By, Windows};
use pmuscope_report::{
    MetricsView, PageLimits, RowLimits, Tints, escape, flame_svg, metric_list_text, metrics_page,
    metrics_title,
};

use super::filter::FilterArgs;
use super::input::InputArgs;
use super::metrics_flame;
use super::symbols::SymbolArgs;
use super::windows::{WindowArgs, chosen, is_whole};
use crate::version::COMMIT;

/// Rows of a table where no limit is given.
const DEFAULT_ROWS: usize = 40;

/// Flags of `pmuscope metrics`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope record --strobe -- CMD                  windows of 300 cycles, one per million
  pmuscope metrics                                 CPI and misses per function, with CIs
  pmuscope metrics --metrics basic,stalls --needs  more columns, and recording time for ±5%
  pmuscope metrics perf.data --attribution none    count windows for the function they end in
  pmuscope metrics --by line -o lines.csv
  pmuscope metrics -o metrics.html                 a page, colored by CPI
  pmuscope metrics --color-by BM/KI -o misses.svg  a flame graph, colored by branch misses
  pmuscope metrics --list                          all metrics with their formulas")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs<MetricsFormats>,
    /// Show these metrics or groups, or "all" (see --list)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "basic")]
    metrics: Vec<String>,
    /// Color functions in HTML and SVG by METRIC
    ///
    /// [default: CPI where it was counted, else the first that was]
    #[arg(long, value_name = "METRIC", alias = "colour-by")]
    color_by: Option<String>,
    /// List all metrics with their formulas; read no recording
    #[arg(long)]
    list: bool,
    /// Show recording time needed for a ±5% CI per row
    #[arg(long)]
    needs: bool,
    #[command(flatten)]
    windows: WindowArgs,
    /// Show at most N rows, or "all" [default: 40]
    ///
    /// 500 in HTML, all in other forms.
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    /// Hide rows below PERCENT of all windows
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    percent_limit: f64,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    symbols: SymbolArgs,
}

pmuscope_console::forms!(MetricsFormats: Text Json Csv Tsv Html Svg, "pmuscope/metrics/1");

impl Args {
    fn form(&self) -> anyhow::Result<Form> {
        let form = self.output.form()?;
        let format = form.format;
        let refused = |message: &str| Err(bad_input(message));
        if self.color_by.is_some() && !is_picture(format) {
            return refused("--color-by is for HTML and SVG. Try: -o FILE.html");
        }
        if format == Format::Svg && !self.has_functions() {
            return refused("a flame graph is of functions. Try: --by function, or -o FILE.html");
        }
        Ok(form)
    }

    /// Whether rows are of functions, as boxes of flame graphs are.
    fn has_functions(&self) -> bool {
        matches!(self.windows.by(), By::Function | By::Inlined)
    }

    /// Metrics to show, the one that colors them too.
    fn names(&self) -> Vec<String> {
        self.metrics.iter().chain(&self.color_by).cloned().collect()
    }

    fn limits(&self, format: Format) -> RowLimits {
        let default = match format {
            Format::Text => Some(DEFAULT_ROWS),
            Format::Html => Some(PageLimits::default().rows),
            _ => None,
        };
        let rows = Limit::rows(self.limit, default);
        RowLimits { rows, share: self.percent_limit / 100.0, ..RowLimits::ALL }
    }

    /// Colors by the metric that was asked for, else by CPI, else by the first that was counted.
    fn tints<'a>(&self, view: &'a MetricsView<'a>) -> anyhow::Result<Option<Tints<'a>>> {
        let Some(name) = &self.color_by else {
            let first = || view.tints(view.first_counted()?);
            return Ok(view.tints("CPI").or_else(first));
        };
        match view.tints(name) {
            Some(tints) => Ok(Some(tints)),
            None => {
                let message = format!(
                    "{} was not counted in this recording, or is a group of metrics. Try: pmuscope \
                     metrics --list",
                    escape(name)
                );
                Err(bad_input(message))
            }
        }
    }

    /// A page or a picture.
    fn picture(
        &self,
        format: Format,
        recording: &RecordingFile,
        windows: &Windows,
        view: &MetricsView<'_>,
    ) -> anyhow::Result<String> {
        let tints = self.tints(view)?;
        let flame = match tints.as_ref().filter(|_| self.has_functions()) {
            Some(tints) => {
                let limits = PageLimits::default().flame;
                let how = (&self.filter, &self.symbols);
                Some(metrics_flame::flame(recording, windows, view, tints, how, limits)?)
            }
            None => None,
        };
        match (format, flame) {
            (Format::Svg, Some(flame)) => {
                Ok(flame_svg(&flame, &recording.path().to_string_lossy(), &metrics_title(view)))
            }
            (Format::Svg, None) => Err(bad_input(
                "no metric has its events in this recording, so nothing can be colored. Try: pmuscope \
                 metrics --list",
            )),
            (_, flame) => Ok(metrics_page(view, tints.as_ref(), flame.as_ref(), COMMIT)),
        }
    }
}

fn is_picture(format: Format) -> bool {
    matches!(format, Format::Html | Format::Svg)
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let metrics = args.windows.metrics()?;
    let form = args.form()?;
    if args.list {
        let text = metric_list_text(&metrics, &form.style);
        form.output.print(FileKind::Text, &text)?;
        return Ok(Exit::Done);
    }
    let chosen = chosen(&metrics, &args.names())?;
    let path = args.input.path()?;
    let recording = args.symbols.open(&path)?;
    let windows = args.windows.read(&recording, &metrics, &args.filter, &args.symbols)?;
    let file = path.to_string_lossy();
    let limits = args.limits(form.format);
    let view = MetricsView::new(&windows, &file, &metrics, &chosen, limits, args.needs);
    let exit = if is_whole(&windows) { Exit::Done } else { Exit::Incomplete };
    if !is_whole(&windows) {
        say!("note: {} was not closed or is damaged; this is what could be read", escape(&file));
    }
    if is_picture(form.format) {
        form.print(&args.picture(form.format, &recording, &windows, &view)?)?;
    } else {
        form.show(&view, &exit)?;
    }
    Ok(exit)
}
