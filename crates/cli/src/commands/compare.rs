//! `pmuscope compare`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::output::{Form, Format, OutputArgs};
use pmuscope_measure::compare::{Explain, Options, column_names, compare, trend};
use pmuscope_measure::{RunFile, load};

/// Flags of `pmuscope compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope compare before.json after.json
  pmuscope compare before.json after.json --per packet -m '^l2_|cycles'
  pmuscope compare before.json after.json --explain
  pmuscope compare before.json after.json --explain=cycles --cost hitm=150
  pmuscope compare a.json b.json c.json --base a.json -o compare.html
  pmuscope compare ab.json                            commands of stat --vs or sweep --vs
  pmuscope compare --trend results/

\"inconclusive\" means that the runs do not separate the two; it does not mean that they are equal.")]
pub(crate) struct Args {
    /// Run files to compare, one column each
    ///
    /// Run files of stat, sweep, bench or lab run; one with --vs has a column per command.
    #[arg(required_unless_present = "trend", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Divide by this unit of work, or "total"; repeatable
    ///
    /// [default: every unit that all files have, else total]
    #[arg(long, value_name = "UNIT")]
    per: Vec<String>,
    /// Show only metrics whose name matches
    #[arg(short, long, value_name = "REGEX")]
    metric: Option<String>,
    /// Compare all files with this one, by name or number
    ///
    /// [default: all pairs]
    #[arg(long, value_name = "NAME")]
    base: Option<String>,
    /// Rank what changes along with METRIC [default: cycles, else time]
    #[arg(long, value_name = "METRIC", num_args = 0..=1, require_equals = true, conflicts_with = "trend")]
    explain: Option<Option<String>>,
    /// State what one EVENT costs, for --explain; repeatable
    ///
    /// In the unit of the explained metric.
    #[arg(long, value_name = "EVENT=N", requires = "explain", value_parser = cost)]
    cost: Vec<(String, f64)>,
    /// Find when metrics changed, over a folder of run files
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "base"])]
    trend: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs<CompareFormats>,
    /// Print a line per metric and file, with tabs
    #[arg(long, hide = true, conflicts_with_all = ["trend", "explain", "json", "csv", "format", "html"])]
    tsv: bool,
}

pmuscope_console::forms!(CompareFormats: Text Json Csv Tsv Html, "pmuscope/compare/2 or trend/1");

impl Args {
    fn form(&self) -> anyhow::Result<Form> {
        let form = match self.tsv {
            true => Form { format: Format::Tsv, ..self.output.form()? },
            false => self.output.form()?,
        };
        if form.format.separator().is_some() && self.explain.is_some() {
            let text = "--explain has no CSV. Try: --explain with text, JSON or HTML";
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
    let text = format!("there is no file {name}. Try: --explain={name}, for a metric of this name");
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
