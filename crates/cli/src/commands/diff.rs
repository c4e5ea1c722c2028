//! `pmuscope diff`.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::limit::Limit;
use pmuscope_console::output::{Form, Format, OutputArgs};
use pmuscope_console::say;
use pmuscope_profile::diff::{INTERVALS, Order, diff};
use pmuscope_profile::export::{folded, sources};
use pmuscope_profile::sharing::SharingDiff;
use pmuscope_profile::{GroupBy, Intervals, Options, Profile, metrics};
use pmuscope_report::{DiffView, MetricsDiffView, SharingDiffView, escape, kept_text};

use super::choice::one_of;
use super::empty;
use super::load::{LoadArgs, LoadRequest, is_whole};
use super::sharing;
use super::windows::{self, WindowArgs, chosen};

/// Rows of a table where no limit is given.
const DEFAULT_ROWS: usize = 25;

/// Flags of `pmuscope diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope diff before.data after.data
  pmuscope diff a1.data a2.data a3.data -- b1.data b2.data b3.data
  pmuscope diff before.data after.data -o diff.html      a page: flame graph of changes, table
  pmuscope diff --sort total before.data after.data      by seconds, not percentages
  pmuscope diff --sharing before.data after.data         shared cache lines, from record --sharing
  pmuscope diff --metrics=CPI,BM/KI before.data after.data   metrics of functions, from counter windows

With several recordings on each side, CIs include the variation from run to run.")]
pub(crate) struct Args {
    /// Recordings before, or just the two to compare
    #[arg(required = true, value_name = "BEFORE")]
    before: Vec<PathBuf>,
    /// Recordings after
    #[arg(last = true, value_name = "AFTER")]
    after: Vec<PathBuf>,
    /// Sort by change of percentage, or of the total
    ///
    /// The total is in seconds or in units of the event.
    #[arg(long, value_name = "BY", default_value = "share", value_parser = one_of(ORDERS))]
    sort: Order,
    /// Show at most N rows per event, or "all" [default: 25]
    ///
    /// All in other forms, 500 on a page.
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    output: OutputArgs<DiffFormats>,
    /// Compare metrics of functions instead of percentages
    ///
    /// Metrics or groups, or "all"; pmuscope metrics --list shows them [default: basic]. Needs
    /// counter windows (record --strobe).
    #[arg(
        long,
        value_name = "LIST",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        default_missing_value = "basic"
    )]
    metrics: Option<Vec<String>>,
    /// Compare what shared cache lines cost instead of percentages
    ///
    /// Latency of contended loads per second, by variable. Needs loads with data sources (record --sharing).
    #[arg(long, conflicts_with = "metrics")]
    sharing: bool,
    #[command(flatten, next_help_heading = "With --metrics")]
    windows: WindowArgs,
}

pmuscope_console::forms!(DiffFormats: Text Json Csv Tsv Folded Svg Html, "pmuscope/diff/1, metrics-diff/1 or sharing-diff/1");

/// Values of `--sort`.
const ORDERS: [(&str, &str, Order); 2] = [("share", "", Order::Share), ("total", "", Order::Total)];

impl Args {
    /// The two sides.
    fn sides(&self) -> anyhow::Result<[&[PathBuf]; 2]> {
        match (&self.before[..], &self.after[..]) {
            ([before, after], []) => {
                Ok([std::slice::from_ref(before), std::slice::from_ref(after)])
            }
            (_, []) => Err(bad_input(format!(
                "diff needs two recordings; got {}. Try: pmuscope diff BEFORE AFTER, or pmuscope diff \
                 BEFORE... -- AFTER...",
                self.before.len()
            ))),
            (before, after) => Ok([before, after]),
        }
    }

    fn form(&self) -> anyhow::Result<Form> {
        let refused = |message: &str| Err(bad_input(message));
        let form = self.output.form()?;
        if self.sharing {
            if self.load.symbol_filter.is_asked() {
                return refused("--dsos, --symbol-filter and --focus are not for --sharing");
            }
            if has_stacks(form.format) {
                return refused(
                    "pages, flame graphs and folded stacks are not of shared lines. Try: without --sharing, or -o \
                     FILE.csv",
                );
            }
            return Ok(form);
        }
        if self.metrics.is_some() {
            if self.load.symbol_filter.is_asked() {
                return refused("--dsos, --symbol-filter and --focus are not for --metrics");
            }
            if has_stacks(form.format) {
                return refused(
                    "pages, flame graphs and folded stacks are not of metrics. Try: without --metrics, or -o FILE.csv",
                );
            }
            return Ok(form);
        }
        if matches!(form.format, Format::Csv | Format::Tsv) {
            return refused(
                "CSV and TSV are of metrics and shared lines. Try: --metrics, --sharing, or -o FILE.json",
            );
        }
        if self.windows.is_asked() {
            return refused(
                "--by, --attribution, --formulas, --length-tolerance and --interrupt-cost are of \
                 metrics. Try: --metrics with them",
            );
        }
        Ok(form)
    }

    /// Shared cache lines of both sides.
    fn sharing(&self, form: &Form) -> anyhow::Result<Exit> {
        let sides = self.sides()?;
        let read = |path: &PathBuf| {
            let read = || {
                let recording = self.load.symbols.open(path)?;
                let mut symbolizer = self.load.symbols.symbolizer(true, &recording)?;
                let reader = recording.reader()?;
                let filter =
                    self.load.filter.filter(&recording, reader.events(), reader.metadata())?;
                sharing::read(&recording, path, filter, &mut symbolizer)
            };
            read().with_context(|| format!("cannot compare {}", path.display()))
        };
        let all = |paths: &[PathBuf]| paths.iter().map(read).collect::<anyhow::Result<Vec<_>>>();
        let found = [all(sides[0])?, all(sides[1])?];
        let diff = SharingDiff::new(&found[0], &found[1]);
        let files = sides.map(names_of);
        let view = SharingDiffView {
            diff: &diff,
            files: [&files[0], &files[1]],
            rows: form.rows(self.limit, DEFAULT_ROWS),
        };
        form.show(&view, &Exit::Done)?;
        Ok(Exit::Done)
    }

    /// Metrics with these names or of these groups, from windows.
    fn metrics(&self, names: &[String], form: &Form) -> anyhow::Result<Exit> {
        let metrics = self.windows.metrics()?;
        let chosen = chosen(&metrics, names)?;
        let sides = self.sides()?;
        let read = |path: &PathBuf| {
            let read = self.load.symbols.open(path).and_then(|recording| {
                self.windows.read(&recording, &metrics, &self.load.filter, &self.load.symbols)
            });
            let windows = read.with_context(|| format!("cannot compare {}", path.display()))?;
            if !windows::is_whole(&windows) {
                let file = path.to_string_lossy();
                say!("note: {}: {NOT_WHOLE}", escape(&file));
            }
            Ok(windows)
        };
        let all = |paths: &[PathBuf]| paths.iter().map(read).collect::<anyhow::Result<Vec<_>>>();
        let windows = [all(sides[0])?, all(sides[1])?];
        let diffs = metrics::diff::diff(&windows[0], &windows[1], &metrics, &chosen);
        if diffs.iter().all(|diff| diff.measured != [true; 2]) {
            return Err(bad_input(
                "none of these metrics has its events on both sides. Try: pmuscope metrics --list, \
                 and record both sides with the same --metrics",
            ));
        }
        let files = sides.map(names_of);
        let view = MetricsDiffView {
            diffs: &diffs,
            by: self.windows.by(),
            windows: [&windows[0], &windows[1]],
            files: [&files[0], &files[1]],
            rows: form.rows(self.limit, DEFAULT_ROWS),
        };
        let whole = windows.iter().flatten().all(windows::is_whole);
        let exit = if whole { Exit::Done } else { Exit::Incomplete };
        form.show(&view, &exit)?;
        Ok(exit)
    }
}

/// Whether a form shows call stacks.
fn has_stacks(format: Format) -> bool {
    matches!(format, Format::Html | Format::Svg | Format::Folded)
}

/// Writes the comparison in its form; folded stacks are of its main event.
fn show(view: &DiffView<'_>, form: &Form, exit: &Exit) -> anyhow::Result<()> {
    match (form.format, view.main_event()) {
        (Format::Svg, _) => form.print(&view.picture().unwrap_or_default()),
        (Format::Folded, Some(event)) => {
            // Lines have no room for it.
            for kept in view.recordings.into_iter().flatten().filter_map(kept_text) {
                say!("note: {kept}");
            }
            let [before, after] =
                view.recordings.map(|side| sources(side, (&event.name, event.occurrence)));
            form.output.write(form.format.kind(), |out| {
                folded::write_sides([&before, &after], folded::Options::default(), out)
            })
        }
        _ => form.show(view, exit),
    }
}

/// What is said of a recording that ends too early.
const NOT_WHOLE: &str = "it was not closed or is damaged; this is what could be read";

fn names_of(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let form = args.form()?;
    let [before, after] = args.sides()?;
    if let Some(names) = &args.metrics {
        return args.metrics(names, &form);
    }
    if args.sharing {
        return args.sharing(&form);
    }
    let is_empty = Cell::new(false);
    let read = |paths: &[PathBuf]| {
        let one = |path: &PathBuf| -> anyhow::Result<Profile> {
            let recording = args.load.symbols.open(path)?;
            let mut symbolizer = args.load.symbols.symbolizer(!args.load.no_inline, &recording)?;
            let intervals = Intervals::Largest(INTERVALS);
            let options = Options { intervals, ..Options::default() };
            let chains = has_stacks(form.format);
            let apart = GroupBy { chains, ..GroupBy::default() };
            let wanted = LoadRequest { apart, options, stacks: chains, progress: true };
            let profile = args.load.load(&recording, &mut symbolizer, wanted)?;
            is_empty.set(empty::explain(&profile, &recording)? || is_empty.get());
            Ok(profile)
        };
        let named = |path| one(path).with_context(|| format!("cannot compare {}", path.display()));
        paths.iter().map(named).collect::<anyhow::Result<Vec<Profile>>>()
    };
    let profiles = [read(before)?, read(after)?];
    let events = diff(&profiles[0], &profiles[1], args.sort);
    let (files_before, files_after) = (names_of(before), names_of(after));
    let one_sided = one_sided(&profiles, &events.iter().map(|event| &*event.name).collect());
    if events.is_empty() {
        return Err(bad_input(format!(
            "the two sides have no event in common: {}. Try: record both with the same -e",
            one_sided.join(", ")
        )));
    }
    let view = DiffView {
        events: &events,
        files: [&files_before, &files_after],
        recordings: [&profiles[0], &profiles[1]],
        one_sided: &one_sided,
        rows: form.rows(args.limit, DEFAULT_ROWS),
    };
    let whole = profiles.iter().flatten().all(is_whole);
    let exit = if whole && !is_empty.get() { Exit::Done } else { Exit::Incomplete };
    show(&view, &form, &exit)?;
    Ok(exit)
}

/// Events that were not compared.
fn one_sided(sides: &[Vec<Profile>; 2], compared: &BTreeSet<&str>) -> Vec<String> {
    let all: BTreeSet<&str> = sides
        .iter()
        .flatten()
        .flat_map(|profile| &profile.events)
        .map(|event| &*event.name)
        .collect();
    all.difference(compared).map(|&name| name.to_owned()).collect()
}
