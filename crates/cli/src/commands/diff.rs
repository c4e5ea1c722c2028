//! `pmuscope diff`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use pmuscope_profile::diff::{Order, diff};
use pmuscope_profile::{Apart, Intervals, Options, Profile};
use pmuscope_report::{DIFF_SCHEMA, DiffReport, DiffView, diff_text};

use super::empty;
use super::load::{LoadArgs, Wanted, is_whole};
use super::report::Limit;
use crate::commands::answer::Begun;
use crate::exit::{Exit, failure};
use crate::terminal;

/// Rows of a table where no limit is given.
const DEFAULT_ROWS: usize = 25;
/// The largest rows of a recording that get an interval of their own: all that can matter.
const INTERVALS: usize = 2000;

/// Flags of `pmuscope diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope diff before.data after.data
  pmuscope diff a1.data a2.data a3.data -- b1.data b2.data b3.data
  pmuscope diff --sort total before.data after.data      seconds first, not shares

With several recordings a side, intervals hold what varies from run to run.")]
pub(crate) struct Args {
    /// Recordings before, or just the two to compare
    #[arg(required = true, value_name = "BEFORE")]
    before: Vec<PathBuf>,
    /// Recordings after
    #[arg(last = true, value_name = "AFTER")]
    after: Vec<PathBuf>,
    /// Which change comes first: of the share, or of the total (seconds, units of the event)
    #[arg(long, value_name = "BY", default_value = "share")]
    sort: Sort,
    /// Most rows per event, or "all" [default: 25; with --json all]
    #[arg(long, value_name = "N")]
    limit: Option<Limit>,
    #[command(flatten)]
    load: LoadArgs,
    /// Print everything as one JSON object (schema pmuscope/diff/1)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Sort {
    Share,
    Total,
}

impl From<Sort> for Order {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Share => Self::Share,
            Sort::Total => Self::Total,
        }
    }
}

impl Args {
    /// The two sides.
    fn sides(&self) -> anyhow::Result<[&[PathBuf]; 2]> {
        match (&self.before[..], &self.after[..]) {
            ([before, after], []) => {
                Ok([std::slice::from_ref(before), std::slice::from_ref(after)])
            }
            (_, []) => Err(failure(
                Exit::BadInput,
                format!(
                    "diff compares two sides, and {} recordings are not two. Try: pmuscope diff \
                     BEFORE AFTER, or pmuscope diff BEFORE... -- AFTER...",
                    self.before.len()
                ),
            )),
            (before, after) => Ok([before, after]),
        }
    }
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let begun = Begun::now();
    let [before, after] = args.sides()?;
    let read = |paths: &[PathBuf]| {
        let one = |path: &PathBuf| {
            let mut symbolizer = args.load.symbols.symbolizer(!args.load.no_inline, path)?;
            let intervals = Intervals::Largest(INTERVALS);
            let options = Options { intervals, ..Options::default() };
            let wanted = Wanted { apart: Apart::default(), options, stacks: false };
            let read = args.load.load(path, &mut symbolizer, wanted);
            read.with_context(|| format!("cannot compare {}", path.display()))
        };
        paths.iter().map(one).collect::<anyhow::Result<Vec<Profile>>>()
    };
    let profiles = [read(before)?, read(after)?];
    let mut is_empty = false;
    for (path, profile) in before.iter().chain(after).zip(profiles.iter().flatten()) {
        is_empty |= empty::tell(profile, path)?;
    }
    let events = diff(&profiles[0], &profiles[1], args.sort.into());
    let names = |paths: &[PathBuf]| {
        paths.iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let (files_before, files_after) = (names(before), names(after));
    let one_sided = one_sided(&profiles, &events.iter().map(|event| &*event.name).collect());
    if events.is_empty() {
        return Err(failure(
            Exit::BadInput,
            format!(
                "the two sides have no event in common: {}. Record both with the same -e",
                one_sided.join(", ")
            ),
        ));
    }
    let view = DiffView {
        events: &events,
        files: [&files_before, &files_after],
        recordings: [&profiles[0], &profiles[1]],
        one_sided: &one_sided,
        rows: Limit::rows(args.limit, (!args.json).then_some(DEFAULT_ROWS)),
    };
    let whole = profiles.iter().flatten().all(is_whole);
    let exit = if whole && !is_empty { Exit::Done } else { Exit::Incomplete };
    let text = if args.json {
        begun.json(DIFF_SCHEMA, None, &exit, DiffReport::new(&view))?
    } else {
        diff_text(&view, &terminal::style())
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
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
