//! `pmuscope bench slots`.

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_bench::Repetition;
use pmuscope_bench::slots::{ACCOUNTS, Options, SlotsBench};
use pmuscope_console::exit::{Exit, failure};
use pmuscope_console::output::{Output, OutputArgs};
use pmuscope_counters::Host;
use pmuscope_machine::FileKind;
use pmuscope_report::{BenchKind, slots_page, slots_svg};
use pmuscope_watch::kernel::{Compared, KernelCheck, KernelError, compare};
use pmuscope_watch::slots::{Layout, Slots};

use super::runs::RunOutput;
use super::{BenchJob, Here};
use crate::commands::duration;
use crate::version::COMMIT;

pmuscope_console::forms!(SlotsFormats: Text Json Csv Tsv Html Svg, "pmuscope/runs/1");

/// Flags of `pmuscope bench slots`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench slots                              growth with CPUs and tasks, by four methods
  pmuscope bench slots --accounts constant --threads 1,2,4 -r 10 --json=slots.json
  pmuscope bench slots -o growth.svg                plot the growth
  sudo pmuscope bench slots --against-kernel 10000  check the kernel's answers against the rules

Opens no breakpoint, except with --against-kernel; docs/slots.md has the rules.")]
pub(crate) struct Args {
    /// Compare these bookkeeping methods
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "naive,cached,constant,none",
        value_parser = ACCOUNTS
    )]
    accounts: Vec<String>,
    /// Set numbers of CPUs
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,16,256,4096")]
    cpus: Vec<u32>,
    /// Set numbers of tasks
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,512")]
    tasks: Vec<u64>,
    /// Set numbers of concurrent threads
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    threads: Vec<usize>,
    /// Run each measurement for DURATION (a plain number: ms)
    #[arg(long = "run-time", alias = "ms", value_name = "DURATION", value_parser = duration::milliseconds, default_value = "20ms")]
    ms: u64,
    /// Run each measurement N times
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    repeat: usize,
    /// Seed the random order of runs and owners
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Check the kernel's answers for N real breakpoints
    ///
    /// Opens and closes breakpoints at random, and compares each of the kernel's answers with that
    /// of the rules (root).
    #[arg(long, value_name = "N", conflicts_with_all = ["accounts", "cpus", "tasks", "threads", "ms", "repeat", "json", "csv", "html", "output"])]
    against_kernel: Option<u64>,
    #[command(flatten)]
    output: OutputArgs<SlotsFormats>,
}

pub(super) fn run(args: &Args, here: &Here) -> anyhow::Result<Exit> {
    let rounds = Repetition::new(args.repeat, args.seed);
    if let Some(operations) = args.against_kernel {
        return against_kernel(here, operations, rounds.seed);
    }
    let mut job_output = RunOutput::of(&args.output)?;
    // The page of this benchmark has the growth as a picture.
    let page = job_output.results.html.take();
    let picture = job_output.results.svg.take();
    Output::to(page.as_deref()).check(FileKind::Page)?;
    Output::to(picture.as_deref()).check(FileKind::Picture)?;
    let is_zero = args.cpus.contains(&0) || args.tasks.contains(&0) || args.threads.contains(&0);
    if args.repeat == 0 || is_zero {
        return Err(failure(Exit::BadInput, "-r, --cpus, --tasks and --threads from 1"));
    }
    let benchmark = SlotsBench::from(Options {
        accounts: args.accounts.clone(),
        cpus: args.cpus.clone(),
        tasks: args.tasks.clone(),
        threads: args.threads.clone(),
        time: Duration::from_millis(args.ms),
    });
    let job = BenchJob::new(benchmark, rounds, BenchKind::Slots, &args.output)?;
    BenchJob { output: job_output, ..job }.run_to(here, |file| {
        if let Some(path) = &page {
            Output::to(Some(path)).print(FileKind::Page, &slots_page(file, COMMIT))?;
        }
        if let Some(path) = &picture {
            Output::to(Some(path)).print(FileKind::Picture, &slots_svg(file))?;
        }
        Ok(true)
    })
}

/// Threads that real breakpoints are for.
const TASKS: usize = 4;

fn against_kernel(here: &Here, operations: u64, seed: u64) -> anyhow::Result<Exit> {
    let cannot = |error: KernelError| failure(Exit::NotPossible, error.to_string());
    let topology = &here.facts.topology;
    let possible_cpus = topology.possible.iter().max().map_or(1, |highest| highest + 1);
    let slots = pmuscope_watch::kernel::slots(&Host).map_err(cannot)?;
    let online: Vec<u32> = topology.online.iter().collect();
    let layout = Layout { possible_cpus, slots };
    let cpus = online.len();
    let how = KernelCheck { layout, online, operations, tasks: TASKS, seed };
    let compared = compare(&Host, &how).map_err(cannot)?;
    let Compared { opened, closed, refused, disagreements, disagreed } = &compared;
    let of_cpu = match slots {
        Slots::Mixed(slots) => format!("{slots} slots for any kind"),
        Slots::Separate { data, instruction } => {
            format!("{data} slots for data and {instruction} for instructions")
        }
    };
    let mut out = format!(
        "{of_cpu} on each of {possible_cpus} possible CPUs, {cpus} online; {TASKS} tasks; seed {seed}\n\
         {opened} breakpoints opened, {closed} closed, {refused} refused, as no slot was free\n\
         {disagreed} answers of the kernel differ from the rules\n"
    );
    disagreements.iter().for_each(|what| out += &format!("  {what}\n"));
    io::stdout().write_all(out.as_bytes()).context("cannot write to standard output")?;
    Ok(if *disagreed == 0 { Exit::Done } else { Exit::Incomplete })
}
