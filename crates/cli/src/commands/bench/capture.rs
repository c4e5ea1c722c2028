//! `pmuscope bench capture`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context as _;
use pmuscope_bench::Repetition;
use pmuscope_bench::capture::{CaptureBench, Options, Workload, arms};
use pmuscope_console::exit::{Exit, failure};
use pmuscope_machine::Facts;
use pmuscope_measure::{Extract, metric};
use pmuscope_report::BenchKind;

use super::runs::RunOutputArgs;
use super::{BenchJob, Here, not_measured, this_program};
use crate::commands::duration;

/// Flags of `pmuscope bench capture`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench capture                                  all arms, on the built-in stencil
  pmuscope bench capture --quick --arms DEFAULT,PERF-*    a quick estimate
  pmuscope bench capture -r 15 --seconds 10s,1m --json=c.json
  pmuscope bench capture --time-from 'seconds\\s+=\\s+([0-9.]+)' -- ./bt.B.x

Arms are named by who reads the ring buffers (SERIAL: one thread; AIO1: one thread, asynchronous
writes; READERS-x: one thread per x) and where (SYS: the scheduler decides; NODE: on the buffer's
NUMA node; CPU: on its CPU). DEFAULT is pmuscope record without flags, PERF-x is perf record.")]
pub(crate) struct Args {
    /// Take HZ samples per second and CPU
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 25_000)]
    freq: u64,
    /// Sample EVENT [default: cycles; without a PMU cpu-clock]
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// Run each arm N times; a CI needs 6
    #[arg(short, long, value_name = "N", default_value_t = 6)]
    repeat: usize,
    /// Give a quick estimate: one second per arm, all CPUs
    #[arg(long)]
    quick: bool,
    /// Run only these arms and BASE [default: all distinct here]
    ///
    /// Such as DEFAULT or 'PERF-*'.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    arms: Vec<String>,
    /// Set threads of the stencil [default: CPUs and half of them]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    threads: Vec<usize>,
    /// Set the stencil's uninstrumented run time [default: 5s]
    ///
    /// Durations such as 10,1m; plain numbers are seconds. With two, the overhead per additional
    /// sample is reported too.
    #[arg(long, value_name = "LIST", value_parser = duration::seconds, value_delimiter = ',')]
    seconds: Vec<f64>,
    /// Give each thread's block N cells per edge
    #[arg(long, value_name = "N", default_value_t = 1024)]
    size: usize,
    /// Take the workload's own time, in seconds, from its output
    ///
    /// The first group of the last match.
    #[arg(long, value_name = "REGEX")]
    time_from: Option<String>,
    /// Add a metric from the workload's output; repeatable
    #[arg(long, value_name = "NAME=REGEX")]
    metric_from: Vec<String>,
    /// Seed the random order of runs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Keep temporary recordings in DIR; use a disk
    ///
    /// Each is deleted once it was read [default: the folder for temporary files].
    #[arg(long, value_name = "DIR")]
    tmp: Option<PathBuf>,
    #[command(flatten)]
    output: RunOutputArgs,
    /// Record this program instead of the stencil
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Args, here: &Here) -> anyhow::Result<Exit> {
    let benchmark = CaptureBench(args.options(&here.facts)?);
    let rounds = Repetition::new(args.repeat, args.seed);
    BenchJob::new(benchmark, rounds, BenchKind::Capture, &args.output)?
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
