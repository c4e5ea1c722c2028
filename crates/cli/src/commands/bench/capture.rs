//! `pmuscope bench capture`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context as _;
use pmuscope_bench::Repetition;
use pmuscope_bench::capture::{CaptureBench, Options, Workload, arms};
use pmuscope_machine::Facts;
use pmuscope_measure::{Extract, metric};
use pmuscope_report::BenchKind;

use super::runs::RunOutputArgs;
use super::{BenchJob, Here, not_measured, this_program};
use crate::exit::{Exit, failure};

/// Flags of `pmuscope bench capture`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench capture                                   all arms around our stencil
  pmuscope bench capture --quick --arms DEFAULT,PERF-*     a look
  pmuscope bench capture -r 15 --seconds 10,60 --json=c.json
  pmuscope bench capture --time-from 'seconds\\s+=\\s+([0-9.]+)' -- ./bt.B.x

Arms: the name says who reads the rings (SERIAL: one thread, AIO1: the same with
asynchronous writes, READERS-x: one per x) and where (SYS: wherever the scheduler puts it,
NODE: on the ring's node, CPU: on the ring's CPU). DEFAULT is pmuscope record without flags,
PERF-x is perf record.")]
pub(crate) struct Args {
    /// Samples per second and CPU
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 25_000)]
    freq: u64,
    /// Event [default: cycles where the CPU counts them, else cpu-clock]
    #[arg(short, long)]
    event: Option<String>,
    /// Repetition: how often each arm runs; an interval needs 6
    #[arg(short, long, value_name = "N", default_value_t = 6)]
    repeat: usize,
    /// A look only: one second each, all CPUs
    #[arg(long)]
    quick: bool,
    /// Arms to run besides BASE, such as DEFAULT or 'PERF-*' [default: all that differ here]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    arms: Vec<String>,
    /// Threads of the stencil [default: as many as CPUs, and half as many]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    threads: Vec<usize>,
    /// Seconds that the stencil takes alone; with two, the cost per further sample [default: 5]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    seconds: Vec<f64>,
    /// Cells along the edge of each thread's block of the stencil
    #[arg(long, value_name = "M", default_value_t = 1024)]
    size: usize,
    /// The workload's own time, in seconds: the first group of the last match in its output
    #[arg(long, value_name = "REGEX")]
    time_from: Option<String>,
    /// A further figure from the workload's output; may be given several times
    #[arg(long, value_name = "NAME=REGEX")]
    metric_from: Vec<String>,
    /// Seed of the random order of runs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Folder for recordings, which go once they are counted; should be on a disk [default: that of
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    tmp: Option<PathBuf>,
    #[command(flatten)]
    output: RunOutputArgs,
    /// The program to record in place of our stencil
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Args, here: &Here) -> anyhow::Result<Exit> {
    let benchmark = CaptureBench(args.options(&here.facts)?);
    let rounds = Repetition::new(args.repeat, args.seed);
    BenchJob::new(benchmark, rounds, BenchKind::Capture, &args.output)
        .run_to(here, |file| Ok(args.arms.is_empty() || file.notices.is_empty()))
}

impl Args {
    fn options(&self, facts: &Facts) -> anyhow::Result<Options> {
        if let Some(most) = facts.limits.perf_event_max_sample_rate.filter(|m| *m < self.freq) {
            let text = format!(
                "-F {}: the kernel allows {most} samples per second. Try: sudo sysctl \
                 kernel.perf_event_max_sample_rate={}, or -F {most}",
                self.freq, self.freq
            );
            return Err(failure(Exit::NotPossible, text));
        }
        if self.repeat == 0 {
            return Err(failure(Exit::BadInput, "-r 0: at least one round is needed"));
        }
        if self.seconds.iter().any(|s| !s.is_finite() || *s <= 0.0) {
            return Err(failure(Exit::BadInput, "--seconds: use numbers above 0, such as 10,60"));
        }
        let has_cycles = facts.units.core().next().is_some();
        let by_default = if has_cycles { "cycles" } else { "cpu-clock" };
        Ok(Options {
            workload: self.workload(facts),
            extracts: self.extracts()?,
            rate: self.freq,
            event: self.event.clone().unwrap_or_else(|| by_default.to_owned()),
            arms: arms::choose(&self.arms, &facts.topology).map_err(not_measured)?,
            tmp: self.tmp.clone().unwrap_or_else(std::env::temp_dir),
            program: this_program()?,
            perf: facts.perf.clone(),
        })
    }

    fn workload(&self, facts: &Facts) -> Workload {
        if !self.command.is_empty() {
            return Workload::Command(self.command.clone());
        }
        let cpus = facts.topology.online.len();
        let or = |list: &[usize], other: Vec<usize>| {
            if list.is_empty() { other } else { list.to_vec() }
        };
        let both = if self.quick || cpus < 2 { vec![cpus] } else { vec![cpus, cpus / 2] };
        let length = if self.quick { 1.0 } else { 5.0 };
        Workload::Stencil {
            threads: or(&self.threads, both),
            seconds: if self.seconds.is_empty() { vec![length] } else { self.seconds.clone() },
            size: self.size,
        }
    }

    fn extracts(&self) -> anyhow::Result<Vec<Extract>> {
        let time = self
            .time_from
            .iter()
            .map(|pattern| Extract::new(metric::TIME, "s", pattern).context("--time-from"));
        let others =
            self.metric_from.iter().map(|text| Extract::named(text).context("--metric-from"));
        time.chain(others).collect()
    }
}
