//! `pmuscope bench region`.

use pmuscope_bench::Repetition;
use pmuscope_bench::region::RegionBench;
use pmuscope_console::exit::{Exit, failure};
use pmuscope_events::Event;
use pmuscope_machine::Machine;
use pmuscope_report::BenchKind;

use super::runs::RunOutputArgs;
use super::{BenchJob, Here, not_measured};
use crate::commands::counting::Asked;
use crate::commands::event_lists::{EventListArgs, catalog};

/// What is counted where nothing is said: a PMU's counters can be read in user space.
const HARDWARE: &str = "instructions:u,cycles:u";
/// Without a PMU.
const SOFTWARE: &str = "task-clock,page-faults";

/// Flags of `pmuscope bench region`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench region                          cycles and instructions; without a PMU the task clock
  pmuscope bench region -e page-faults -r 20 --json=region.json

The API measured is for programs that count parts of themselves: docs/region.md.")]
pub(crate) struct Args {
    /// Count these events together
    ///
    /// [default: instructions:u,cycles:u; without a PMU task-clock,page-faults]
    #[arg(short, long, value_name = "EVENT")]
    event: Vec<String>,
    /// Enter the region N times per run
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    entries: u64,
    /// Run each measurement N times
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    repeat: usize,
    /// Seed the random order of runs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    output: RunOutputArgs,
}

pub(super) fn run(args: &Args, here: &Here) -> anyhow::Result<Exit> {
    if args.repeat == 0 || args.entries == 0 {
        return Err(failure(Exit::BadInput, "-r and --entries from 1"));
    }
    let (events, notices) = events(args, &here.machine)?;
    let benchmark = RegionBench::new(&events, args.entries).map_err(not_measured)?;
    let rounds = Repetition::new(args.repeat, args.seed);
    let job = BenchJob::new(benchmark, rounds, BenchKind::Region, &args.output)?;
    BenchJob { notices, ..job }.run(here)
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
