//! `pmuscope compare`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use pmuscope_measure::compare::compare;
use pmuscope_measure::load;
use pmuscope_report::compare_text;

use crate::commands::answer::Begun;
use crate::exit::Exit;
use crate::terminal;

const SCHEMA: &str = "pmuscope/compare/1";

/// Flags of `pmuscope compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench capture --json before.json
  pmuscope bench capture --json after.json
  pmuscope compare before.json after.json")]
pub(crate) struct Args {
    /// Run files; ratios are to the first
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print everything as one JSON object (schema pmuscope/compare/1)
    #[arg(long)]
    json: bool,
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let begun = Begun::now();
    let files = args
        .files
        .iter()
        .map(|path| Ok((path.to_string_lossy().into_owned(), load(path)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let comparison = compare(&files);
    let text = if args.json {
        begun.json(SCHEMA, None, &Exit::Done, comparison)?
    } else {
        compare_text(&comparison, &terminal::style())
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(Exit::Done)
}
