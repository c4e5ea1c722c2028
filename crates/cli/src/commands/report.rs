//! `pmuscope report`.

use std::ffi::OsString;
use std::path::Path;

use clap::Parser as _;
use pmuscope_console::exit::{Exit, bad_input, not_possible};
use pmuscope_console::limit::Limit;
use pmuscope_console::output::{Form, Format, OutputArgs};
use pmuscope_console::say;
use pmuscope_profile::export::Source;
use pmuscope_profile::{Detail, Intervals, Options, RankBy};
use pmuscope_report::{
    RECORDING_SCHEMA, RecordingReport, RowLimits, Summary, kept_text, modules_text, recording_text,
};

use super::exports;
use crate::commands::annotate::AnnotateArgs;
use crate::commands::browse;
use crate::commands::browser;
use crate::commands::details;
use crate::commands::empty;
use crate::commands::input::InputArgs;
use crate::commands::load::{LoadArgs, LoadRequest, is_whole};
#[cfg(feature = "serve")]
use crate::commands::serve;
use crate::commands::views::{View, ViewArgs};
use crate::commands::waits;

/// Flags of `pmuscope report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope report                         functions by samples, of ./pmuscope.data
  pmuscope report perf.data --modules     where symbols come from, and which are missing
  pmuscope report -o profile.html         a page: flame graph, tables, CPUs over time
  pmuscope report --comm db --time 10%-40%   one program, part of the time
  pmuscope report --annotate parse        one function: source lines and instructions
  pmuscope report -o a.html --annotate-top 10   a page with the code of ten functions
  pmuscope report --open                  the page, in the browser
  pmuscope report --serve                 the page and the Firefox Profiler, from this machine
  pmuscope report --by branch             branches between functions (record -b)
  pmuscope report --by wait               where threads wait, and what wakes them (record --off-cpu)
  pmuscope report --json | jq '.events[0].functions[0]'")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs<ReportFormats>,
    /// Look around with keys, as pmuscope browse does
    #[arg(long, conflicts_with_all = ["by", "group", "call_tree", "peek", "annotate", "modules"])]
    tui: bool,
    /// Show DSOs and where their symbols come from
    ///
    /// DSO: the binary or shared library. For files without symbols, the reason and what to do.
    #[arg(long)]
    modules: bool,
    /// Rank functions by total: samples in them and in what they called
    #[arg(long, conflicts_with_all = ["by", "group", "call_tree", "peek", "annotate", "modules", "tui"])]
    children: bool,
    /// Show at most N rows per event, or "all" [default: 40]
    ///
    /// 200 with --call-tree, all in JSON.
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    /// Hide rows below PERCENT
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    percent_limit: f64,
    #[command(flatten)]
    browser: BrowserArgs,
    #[command(flatten)]
    views: ViewArgs,
    #[command(flatten)]
    annotate: AnnotateArgs,
    #[command(flatten)]
    load: LoadArgs,
}

/// Flags of showing a page in a browser.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
struct BrowserArgs {
    /// Open the HTML page in the browser ($BROWSER, else xdg-open)
    ///
    /// The page is a private file in the cache folder. With --serve, the served page is opened.
    #[arg(long, conflicts_with_all = OTHER_FORMS)]
    open: bool,
    /// Serve the page and the Firefox Profiler's data on this machine only
    ///
    /// ADDR is PORT or 127.0.0.1:PORT; by default, a free port. The printed address is a secret. Source and assembly
    /// are served too, of the recorded programs only. From another machine: ssh -L, as the first lines say.
    #[arg(
        long,
        value_name = "ADDR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with_all = OTHER_FORMS
    )]
    serve: Option<String>,
}

/// Flags of results that are no page.
const OTHER_FORMS: [&str; 11] = [
    "output",
    "format",
    "json",
    "csv",
    "html",
    "by",
    "group",
    "call_tree",
    "peek",
    "modules",
    "tui",
];

pmuscope_console::forms!(ReportFormats: Text Json Csv Tsv Folded Svg Html Pprof Firefox, "pmuscope/report/1");

impl Args {
    fn form(&self) -> anyhow::Result<Form> {
        let form = self.output.form()?;
        let format = form.format;
        if self.modules && format.is_of_counts() {
            return Err(bad_input("--modules is for text and JSON only"));
        }
        let is_file = format.is_of_counts() && format.separator().is_none();
        let is_view = self.views.view().is_some() || self.views.details()?.is_some();
        if is_view && self.views.waits()?.is_none() && !format.is_of_a_table() {
            return Err(bad_input(
                "--by and --group are for text, JSON, CSV, TSV and HTML, --call-tree and --peek for text only",
            ));
        }
        if let Some(view) = self.views.view().filter(|_| format != Format::Text) {
            if view.is_text_only() {
                return Err(bad_input("--call-tree and --peek are for text only"));
            }
            if format == Format::Json && matches!(view, View::SideBySide(_)) {
                return Err(bad_input("--group has no JSON. Try: --by without it"));
            }
        }
        if self.annotate.function().is_some() && is_file && format != Format::Html {
            return Err(bad_input("--annotate is for text, JSON, CSV, TSV and HTML only"));
        }
        if self.annotate.top().is_some() && format != Format::Html {
            return Err(bad_input("--annotate-top is for pages. Try: -o FILE.html"));
        }
        Ok(form)
    }

    /// Shows a view that is not made of a profile's rows, if one was asked for.
    fn other_view(&self, path: &Path, form: &Form) -> anyhow::Result<Option<Exit>> {
        if let Some(name) = self.annotate.function().filter(|_| form.format != Format::Html) {
            let all = matches!(self.limit, Some(Limit::All));
            return self.annotate.show(name, path, &self.load, all, form).map(Some);
        }
        let Some(details) = self.views.details()? else { return Ok(None) };
        if self.load.symbol_filter.is_asked() {
            let message =
                "--dsos, --symbol-filter and --focus are not for --by branch, mem and data";
            return Err(bad_input(message));
        }
        let recording = self.load.symbols.open(path)?;
        let symbolizer = self.load.symbols.symbolizer(false, &recording)?;
        details::show(
            details,
            &recording,
            symbolizer,
            &self.load.filter,
            self.limits(form.format),
            form,
        )
        .map(Some)
    }

    /// Serves the recording at `path` until a signal ends it.
    #[cfg(feature = "serve")]
    fn serve(self, address: &str, path: &Path) -> anyhow::Result<Exit> {
        let address = serve::address(address)?;
        let recording = self.load.symbols.open(path)?;
        if recording.is_stream() {
            return Err(bad_input(
                "--serve reads the recording several times, and a stream can be read once. Try: a file",
            ));
        }
        // What is no recording is reported now, not to a browser.
        recording.reader()?;
        let limits = self.limits(Format::Html);
        let site = serve::Site::new(recording, self.load, self.annotate, limits);
        serve::run(address, site, self.browser.open)
    }

    #[cfg(not(feature = "serve"))]
    fn serve(self, _: &str, _: &Path) -> anyhow::Result<Exit> {
        Err(not_possible(
            "this pmuscope was built without its server. Try: pmuscope report --open; or build it with: cargo build \
             --release",
        ))
    }

    fn limits(&self, format: Format) -> RowLimits {
        let default = (format == Format::Text).then(|| self.views.default_rows());
        let rows = Limit::rows(self.limit, default);
        let rank = if self.children { RankBy::Total } else { RankBy::Own };
        RowLimits { rows, share: self.percent_limit / 100.0, rank }
    }
}

/// How a recording is shown once it is made: what the flags of `report` ask for.
#[derive(Debug, Clone)]
pub(super) struct ViewRequest {
    /// `--open`
    pub(super) open: bool,
    /// `--serve`, with its address.
    pub(super) serve: Option<String>,
}

impl ViewRequest {
    /// Shows it, if anything was asked for; where it is served until a signal ends that.
    pub(super) fn show(&self, recording: &Path) -> anyhow::Result<()> {
        #[derive(clap::Parser)]
        struct Words {
            #[command(flatten)]
            args: Args,
        }
        if !self.open && self.serve.is_none() {
            return Ok(());
        }
        let serve = self.serve.as_ref().map(|address| match &**address {
            "" => "--serve".to_owned(),
            address => format!("--serve={address}"),
        });
        let flags = self.open.then(|| "--open".to_owned()).into_iter().chain(serve);
        let words = std::iter::once("report".to_owned()).chain(flags).map(OsString::from);
        let words = words.chain(["-i".into(), recording.into()]);
        run(Words::try_parse_from(words)?.args).map(drop)
    }
}

/// Opens a page that was written.
fn show(page: &Path, exit: Exit) -> anyhow::Result<Exit> {
    let page = page.to_string_lossy();
    browser::open(&page).map(|()| exit).map_err(|why| {
        not_possible(format!(
            "cannot open a browser: {why}. The page is {page}. Try: pmuscope report --serve, which other machines reach \
             by ssh -L; or set BROWSER"
        ))
    })
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    if args.tui {
        if args.output.is_asked() {
            return Err(bad_input(
                "--tui draws on the terminal only. Try: without -o, or without --tui",
            ));
        }
        return browse::show(&args.input.path()?, &args.load);
    }
    let is_shown = args.browser.open || args.browser.serve.is_some();
    // Wrong flags are reported before a file that is not there.
    let mut form = if is_shown { Form::new(Format::Html, None) } else { args.form()? };
    let path = args.input.path()?;
    if let Some(address) = args.browser.serve.clone() {
        return args.serve(&address, &path);
    }
    let opened = args.browser.open.then(|| browser::page_of(&path)).transpose()?;
    if let Some(page) = &opened {
        form = Form::new(Format::Html, Some(page));
    }
    let file = path.to_string_lossy();
    let format = form.format;
    let limits = args.limits(format);
    let (rows, intervals) = match limits.rows {
        // Files have rows and intervals of their own.
        _ if args.modules || format.is_of_counts() => (Some(0), Intervals::None),
        rows => (rows, Intervals::Largest(rows.unwrap_or(Intervals::MOST))),
    };
    if let Some(by) = args.views.waits()? {
        return waits::show(&by, &path, &args.load, limits, &form);
    }
    if let Some(exit) = args.other_view(&path, &form)? {
        return Ok(exit);
    }
    let view = args.views.view();
    let (apart, options) = match &view {
        Some(view) => (view.apart(), view.options()),
        None => {
            let totals = format == Format::Json;
            let detail =
                if args.annotate.is_asked() { Detail::Address } else { exports::detail(format) };
            let rank = limits.rank;
            let totals = totals || rank == RankBy::Total;
            (exports::group_by(format, rank), Options { rows, intervals, totals, rank, detail })
        }
    };
    let needs_lines = args.annotate.is_asked() || view.as_ref().is_some_and(View::needs_lines);
    // With --modules too: it says which files of split debug information are missing, and finds what earlier reports kept.
    let inlined = needs_lines || !args.load.no_inline;
    // Wrong flags are told before a large file is read.
    let recording = args.load.symbols.open(&path)?;
    let mut symbolizer = args.load.symbols.symbolizer(inlined, &recording)?;
    // The head of the report says how many stacks are complete.
    let wanted = LoadRequest { apart, options, stacks: !args.modules, progress: true };
    let profile = args.load.load(&recording, &mut symbolizer, wanted)?;
    let is_empty = empty::explain(&profile, &recording)?;
    let exit = if is_whole(&profile) && !is_empty { Exit::Done } else { Exit::Incomplete };
    if let Some(kept) = kept_text(&profile).filter(|_| format.has_no_head()) {
        say!("note: {kept}");
    }
    if view.is_none() && format.is_of_counts() {
        let (source, summary) = (Source::new(&profile), Summary::new(&profile, &file));
        let code = args.annotate.of_page(&profile, &mut symbolizer)?;
        form.output.write(format.kind(), |out| {
            exports::write(format, &source, &summary, limits, &code, out)
        })?;
        if let Some(left_out) = exports::left_out(format, &source) {
            say!("{left_out}");
        }
        return opened.map_or(Ok(exit), |page| show(&page, exit));
    }
    if let Some(view) = view {
        form.show(&view.report((&profile, &file), limits, format)?, &exit)?;
        return Ok(exit);
    }
    let text = if format == Format::Json {
        form.invocation.json(
            RECORDING_SCHEMA,
            None,
            &exit,
            RecordingReport::new(&profile, &file, limits),
        )?
    } else if args.modules {
        modules_text(&profile, &file, limits, &form.style)
    } else {
        recording_text(&profile, &file, limits, &form.style)
    };
    form.print(&text)?;
    Ok(exit)
}
