//! `pmuscope bench slots`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_bench::Repetition;
use pmuscope_bench::slots::{ACCOUNTS, Options, SlotsBench};
use pmuscope_counters::Host;
use pmuscope_report::{BenchKind, slots_page, slots_svg};
use pmuscope_watch::kernel::{Compared, KernelCheck, KernelError, compare};
use pmuscope_watch::slots::{Layout, Slots};

use super::runs::RunOutputArgs;
use super::{BenchJob, Here};
use crate::commands::output::{Form, Format};
use crate::exit::{Exit, failure};
use crate::version::COMMIT;

/// Flags of `pmuscope bench slots`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench slots                              growth with CPUs and tasks, four ways to keep account
  pmuscope bench slots --accounts constant --threads 1,2,4 -r 10 --json=slots.json
  pmuscope bench slots -o growth.svg                as a picture too
  sudo pmuscope bench slots --against-kernel 10000  whether this kernel answers as the rules do

Nothing is opened but with --against-kernel; docs/slots.md has the rules.")]
pub(crate) struct Args {
    /// Ways to keep account: naive, cached, constant, none
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "naive,cached,constant,none",
        value_parser = ACCOUNTS
    )]
    accounts: Vec<String>,
    /// Numbers of CPUs
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,16,256,4096")]
    cpus: Vec<u32>,
    /// Numbers of tasks
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,512")]
    tasks: Vec<u64>,
    /// Numbers of threads at once
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    threads: Vec<usize>,
    /// Milliseconds of each run
    #[arg(long, value_name = "N", default_value_t = 20)]
    ms: u64,
    /// How often each runs
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    repeat: usize,
    /// Seed of the random order of runs, and of owners
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Open and close so many real breakpoints at random, and compare each of the kernel's answers with
    /// that of the rules
    #[arg(long, value_name = "OPERATIONS", conflicts_with_all = ["accounts", "cpus", "tasks", "threads", "ms", "repeat", "json"])]
    against_kernel: Option<u64>,
    /// Draw the growth into FILE, as its name says: .svg, or .html with the tables
    #[arg(short = 'o', long, value_name = "FILE", conflicts_with = "against_kernel")]
    output: Option<PathBuf>,
    #[command(flatten)]
    results: RunOutputArgs,
}

pub(super) fn run(args: &Args, here: &Here) -> anyhow::Result<Exit> {
    let rounds = Repetition::new(args.repeat, args.seed);
    if let Some(operations) = args.against_kernel {
        return against_kernel(here, operations, rounds.seed);
    }
    let drawn = args.output.as_deref().map(drawing).transpose()?;
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
    BenchJob::new(benchmark, rounds, BenchKind::Slots, &args.results).run_to(here, |file| {
        if let Some(form) = drawn {
            form.print(&match form.format {
                Format::Html => slots_page(file, COMMIT),
                _ => slots_svg(file),
            })?;
        }
        Ok(true)
    })
}

/// What the name of the file asks for.
fn drawing(path: &Path) -> anyhow::Result<Form> {
    let offered = [Format::Svg, Format::Html];
    Ok(Form::new(Format::choose(None, Some(path), &offered, "-o growth.svg")?, Some(path)))
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
         {opened} breakpoints opened, {closed} closed, {refused} refused for want of a slot\n\
         {disagreed} answers of the kernel are not those of the rules\n"
    );
    disagreements.iter().for_each(|what| out += &format!("  {what}\n"));
    io::stdout().write_all(out.as_bytes()).context("cannot write to standard output")?;
    Ok(if *disagreed == 0 { Exit::Done } else { Exit::Incomplete })
}
