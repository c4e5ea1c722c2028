//! `pmuscope compare`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pmuscope_measure::compare::{Explain, Options, column_names, compare, trend};
use pmuscope_measure::{RunFile, load};

use crate::commands::output::{Form, Format, Formats, OutputArgs};
use crate::exit::{Exit, bad_input};

/// Flags of `pmuscope compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope compare before.json after.json
  pmuscope compare before.json after.json --per packet -m '^l2_|cycles'
  pmuscope compare before.json after.json --explain
  pmuscope compare before.json after.json --explain=cycles --cost hitm=150
  pmuscope compare a.json b.json c.json --base a.json --html compare.html
  pmuscope compare ab.json                            commands of stat --vs or sweep --vs
  pmuscope compare --trend results/

A figure that the runs cannot tell apart says so: \"cannot tell\" is not \"the same\".")]
pub(crate) struct Args {
    /// Run files of stat, sweep, bench or lab run: a column each, of --vs one for each command
    #[arg(required_unless_present = "trend", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Divide by this unit of work, or by none: total; several times [default: all that every file
    /// has, else total]
    #[arg(long, value_name = "UNIT")]
    per: Vec<String>,
    /// Only figures whose name matches
    #[arg(short, long, value_name = "REGEX")]
    metric: Option<String>,
    /// Compare all files with this one, a name or a number from 1 on [default: all pairs]
    #[arg(long, value_name = "COL")]
    base: Option<String>,
    /// Rank what goes with the change of METRIC, and say what it comes to [default: cycles, else time]
    #[arg(long, value_name = "METRIC", num_args = 0..=1, require_equals = true, conflicts_with = "trend")]
    explain: Option<Option<String>>,
    /// What one EVENT costs, in the unit of the figure that is explained; several times
    #[arg(long, value_name = "EVENT=N", requires = "explain", value_parser = cost)]
    cost: Vec<(String, f64)>,
    /// Run files of a folder in the order of time: where did a figure change its level?
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "base"])]
    trend: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs<CompareFormats>,
    /// Print a line per figure and file, with commas: --format csv
    #[arg(long, conflicts_with_all = ["trend", "explain", "json", "format", "tsv", "html"])]
    csv: bool,
    /// Print a line per figure and file, with tabs: --format tsv
    #[arg(long, conflicts_with_all = ["trend", "explain", "json", "format", "html"])]
    tsv: bool,
    /// Write a page with plots to FILE: -o FILE.html
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "format", "output"])]
    html: Option<PathBuf>,
}

#[derive(Debug, Clone)]
struct CompareFormats;

impl Formats for CompareFormats {
    const ALL: &[Format] = &[Format::Text, Format::Json, Format::Csv, Format::Tsv, Format::Html];
    const OUTPUT: &str =
        "Write to FILE, in the format that its name ends in: .html .txt .json .csv .tsv";
    const JSON: &str =
        "Print everything as one JSON object (schema pmuscope/compare/2 or pmuscope/trend/1)";
}

impl Args {
    fn form(&self) -> anyhow::Result<Form> {
        let form = match (self.csv, self.tsv, &self.html) {
            (true, ..) => Form { format: Format::Csv, ..self.output.form()? },
            (_, true, _) => Form { format: Format::Tsv, ..self.output.form()? },
            (.., Some(file)) => Form::new(Format::Html, Some(file)),
            _ => self.output.form()?,
        };
        if form.format.separator().is_some() && self.explain.is_some() {
            let text = "a table has no explanations. Try: --explain with text, JSON or HTML";
            return Err(bad_input(text));
        }
        Ok(form)
    }
}

fn cost(text: &str) -> Result<(String, f64), String> {
    let wrong = || format!("{text:?} is not EVENT=N. Try: --cost page-faults=2500");
    let (event, number) = text.rsplit_once('=').ok_or_else(wrong)?;
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    if event.is_empty() || !number.is_finite() || number < 0.0 {
        return Err(wrong());
    }
    Ok((event.to_owned(), number))
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let form = args.form()?;
    no_figure_among_files(&args)?;
    let mut options = Options { per: args.per.clone(), ..Options::default() };
    if let Some(pattern) = &args.metric {
        options.only(pattern)?;
    }
    if let Some(folder) = &args.trend {
        let trend = trend(&of_folder(folder)?, &options)?;
        form.show(&trend, &Exit::Done)?;
        return Ok(Exit::Done);
    }
    let files = args
        .files
        .iter()
        .map(|path| Ok((path.to_string_lossy().into_owned(), load(path)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let names = column_names(&files);
    options.base = args.base.as_deref().map(|base| column(base, &names)).transpose()?;
    options.explain = explanation(&args, names.len(), &mut options.per)?;
    let comparison = compare(&files, &options)?;
    form.show(&comparison, &Exit::Done)?;
    Ok(Exit::Done)
}

/// A figure after `--explain` without `=` is taken for a file: said before any is read.
fn no_figure_among_files(args: &Args) -> anyhow::Result<()> {
    let takes_figure = args.explain.as_ref().is_some_and(Option::is_none);
    let Some(first) = args.files.first().filter(|first| takes_figure && !first.exists()) else {
        return Ok(());
    };
    let name = first.display();
    let text = format!("there is no file {name}. If it is a figure, try: --explain={name}");
    Err(bad_input(text))
}

/// What to explain; `cycles/packet` asks for that unit of work, too.
fn explanation(
    args: &Args,
    columns: usize,
    per: &mut Vec<String>,
) -> anyhow::Result<Option<Explain>> {
    let Some(metric) = &args.explain else { return Ok(None) };
    if columns < 2 {
        let message = "--explain needs two files. Try: pmuscope compare A.json B.json --explain";
        return Err(bad_input(message));
    }
    let mut metric = metric.clone();
    if let Some((name, unit)) = metric.as_deref().and_then(|m| m.rsplit_once('/')) {
        if !per.iter().any(|known| known == unit) {
            per.push(unit.to_owned());
        }
        metric = Some(name.to_owned());
    }
    Ok(Some(Explain { metric, costs: args.cost.clone() }))
}

/// A column by its name or number.
fn column(base: &str, names: &[String]) -> anyhow::Result<usize> {
    let is_called = |name: &&String| {
        name.as_str() == base || Path::new(name).file_name().is_some_and(|name| name == base)
    };
    let by_name = names.iter().position(|name| is_called(&name));
    let by_number = || base.parse::<usize>().ok()?.checked_sub(1).filter(|&at| at < names.len());
    by_name.or_else(by_number).ok_or_else(|| {
        let message = format!(
            "--base {base}: no file is called so, and there are {}. Try: --base 1",
            names.len()
        );
        bad_input(message)
    })
}

/// Run files of a folder; what is JSON of another kind is an error, other files are not looked at.
fn of_folder(folder: &Path) -> anyhow::Result<Vec<(String, RunFile)>> {
    let cannot = || format!("cannot read {}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        let message = format!(
            "{} has no run files (*.json). Try: pmuscope stat --json={}/1.json -- CMD",
            folder.display(),
            folder.display()
        );
        return Err(bad_input(message));
    }
    paths.into_iter().map(|path| Ok((path.to_string_lossy().into_owned(), load(&path)?))).collect()
}
