//! `pmuscope bench functions`.

use std::path::PathBuf;
use std::time::Duration;

use pmuscope_bench::functions::{FunctionsBench, Options, arms};
use pmuscope_bench::{BenchError, Repetition};
use pmuscope_machine::Facts;
use pmuscope_measure::Labels;
use pmuscope_report::BenchKind;

use super::runs::RunOutputArgs;
use super::{BenchJob, Here, not_measured, this_program};
use crate::exit::{Exit, failure};

/// Flags of `pmuscope bench functions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench functions --quick                        a look
  pmuscope bench functions --json=f.json                  with intervals from 6 rounds
  pmuscope bench functions --windows 300 --arms 'STROBE-*,PERF-LONG' -r 1
  pmuscope lab run --arch aarch64 --icount 1 -- bench functions --quick

Arms: PLAIN-LONG is pmuscope record with a sample every --period cycles, each with the counts since
the one before; PLAIN-1000 and PLAIN-300 the same every 1000 and 300 cycles; STROBE-W windows of W
cycles, one in each --period; PERF-x the same by perf record. Each function alone is the truth.")]
pub(crate) struct Args {
    /// Repetition: how often each arm runs; with 6 their spread makes the intervals
    #[arg(short, long, value_name = "N", default_value_t = 6)]
    repeat: usize,
    /// A look only: one round, and half a second for each function alone
    #[arg(long)]
    quick: bool,
    /// Arms to run besides BASE, such as PLAIN-LONG or 'STROBE-*' [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    arms: Vec<String>,
    /// Lengths of the windows of STROBE, in cycles
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "300,1000,3000")]
    windows: Vec<u64>,
    /// Cycles from sample to sample of the LONG arms, and from window to window
    #[arg(long, value_name = "P", default_value_t = 1_000_000)]
    period: u64,
    /// Seconds of each run of the mix [default: 10, with --quick 2]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Seconds of each function alone [default: 2, with --quick 0.5]
    #[arg(long, value_name = "S")]
    alone: Option<f64>,
    /// Stop a run, or its analysis, that takes longer than so many seconds
    #[arg(long, value_name = "S", default_value_t = 120.0)]
    patience: f64,
    /// MiB of memory that pointer_chase goes through
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    memory: usize,
    /// Make calls so many times as long as usual
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    length: f64,
    /// Seed of the random order of runs, and of calls
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Folder for recordings, which go once they are read; should be on a disk [default: that of
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    tmp: Option<PathBuf>,
    #[command(flatten)]
    output: RunOutputArgs,
}

pub(super) fn run(args: &Args, here: &Here) -> anyhow::Result<Exit> {
    let options = args.options(&here.facts)?;
    if here.facts.units.core().next().is_none() {
        let why = "this machine shows no counters of its CPU".to_owned();
        return Err(not_measured(BenchError::NoTruth { why }));
    }
    let asked: Vec<Labels> = options.arms.iter().map(arms::FunctionsArm::labels).collect();
    let rounds = Repetition::new(if args.quick { 1 } else { args.repeat }, args.seed);
    let benchmark = FunctionsBench::from(options);
    BenchJob::new(benchmark, rounds, BenchKind::Functions, &args.output).run_to(here, |file| {
        let ran = |arm: &Labels| file.runs.iter().any(|run| run.labels == *arm);
        Ok(args.arms.is_empty() || asked.iter().all(ran))
    })
}

impl Args {
    fn options(&self, facts: &Facts) -> anyhow::Result<Options> {
        let bad = |text: String| failure(Exit::BadInput, text);
        if self.repeat == 0 {
            return Err(bad("-r 0: at least one round is needed".to_owned()));
        }
        if let Some(window) = self.windows.iter().find(|w| **w == 0 || **w >= self.period) {
            return Err(bad(format!(
                "--windows {window}: windows are shorter than the {} cycles from one to the next \
                 (--period)",
                self.period
            )));
        }
        let length = |flag: &str, given: Option<f64>, usual: f64, quick: f64| {
            let seconds = given.unwrap_or(if self.quick { quick } else { usual });
            Duration::try_from_secs_f64(seconds)
                .ok()
                .filter(|duration| !duration.is_zero())
                .ok_or_else(|| bad(format!("{flag} {seconds}: use a number above 0, such as 2")))
        };
        let all = arms::all(self.period, &self.windows);
        Ok(Options {
            arms: arms::choose(&self.arms, &all).map_err(not_measured)?,
            period: self.period,
            seconds: length("--seconds", self.seconds, 10.0, 2.0)?.as_secs_f64(),
            alone: length("--alone", self.alone, 2.0, 0.5)?.as_secs_f64(),
            patience: length("--patience", Some(self.patience), 0.0, 0.0)?,
            memory_mib: self.memory,
            length: self.length,
            tmp: self.tmp.clone().unwrap_or_else(std::env::temp_dir),
            program: this_program()?,
            perf: facts.perf.clone(),
        })
    }
}
