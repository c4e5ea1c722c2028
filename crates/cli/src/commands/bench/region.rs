//! `pmuscope bench region`.

use std::os::fd::AsFd as _;

use anyhow::Context as _;
use pmuscope_bench::region::{self, Options, RegionBenchError};
use pmuscope_events::Event;
use pmuscope_machine::Machine;
use pmuscope_measure::Plan;
use pmuscope_measure::counting::Signal;
use pmuscope_report::region_text;

use super::runs::{PreflightCpus, RunOutputArgs, begin, tell_concerns};
use crate::commands::counting::{Asked, CountingProgress, refused};
use crate::commands::doctor;
use crate::commands::event_lists::{EventListArgs, catalog};
use crate::exit::{Exit, failure};
use crate::signals::stop_pipe;

/// What is counted where nothing is said: a PMU's counters can be read in user space.
const HARDWARE: &str = "instructions:u,cycles:u";
/// Without a PMU.
const SOFTWARE: &str = "task-clock,page-faults";

/// Flags of `pmuscope bench region`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench region                          with cycles and instructions, or the task clock without a PMU
  pmuscope bench region -e page-faults -r 20 --json=region.json

The API that it measures is for programs that count parts of themselves: docs/region.md.")]
pub(crate) struct Args {
    /// Events to count, all at the same time [default: instructions:u,cycles:u; task-clock,page-faults
    /// without a PMU]
    #[arg(short, long, value_name = "EVENT,…")]
    event: Vec<String>,
    /// Entries of each run
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    entries: u64,
    /// How often each runs
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    repeat: usize,
    /// Seed of the random order of runs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    output: RunOutputArgs,
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let machine = Machine::host();
    if args.repeat == 0 || args.entries == 0 {
        return Err(failure(Exit::BadInput, "-r and --entries from 1"));
    }
    let (events, notices) = events(&args, &machine)?;
    let options = Options {
        events,
        entries: args.entries,
        rounds: args.repeat,
        seed: args.seed.unwrap_or_else(Plan::random_seed),
    };
    let mut file = begin(&machine, &doctor::facts()?, PreflightCpus::Allowed)?;
    tell_concerns(&file);
    file.notices.extend(notices);
    let stop = stop_pipe().context("cannot listen for signals")?;
    let stop = || Signal(stop.as_fd()).is_given();
    let mut watch = CountingProgress::new(args.output.path());
    let whole =
        region::region(&options, &mut file, &stop, &mut watch).map_err(|error| match error {
            RegionBenchError::Measure(error) => refused(&error, false),
            RegionBenchError::Region(error) => failure(Exit::NotPossible, error.to_string()),
        })?;
    args.output.finish(file, !whole, true, region_text)
}

/// Those asked for, all of them; or hardware events where there are any, and why there are none.
fn events(args: &Args, machine: &Machine) -> anyhow::Result<(Vec<Event>, Vec<String>)> {
    let catalog = catalog(machine, &EventListArgs::default())?;
    let mut asked = Asked::default();
    let mut notices = Vec::new();
    if args.event.is_empty() {
        match pmuscope_region::is_available() {
            Ok(()) => asked.add(HARDWARE, &catalog)?,
            Err(why) => {
                notices.push(format!("No hardware counters: {why}"));
                asked.add(SOFTWARE, &catalog)?;
            }
        }
    }
    args.event.iter().try_for_each(|text| asked.add(text, &catalog))?;
    if let Some((event, why)) = asked.absent.first() {
        return Err(failure(Exit::NotPossible, format!("cannot count {event}: {why}")));
    }
    Ok((asked.groups.into_iter().flat_map(|group| group.events).collect(), notices))
}
