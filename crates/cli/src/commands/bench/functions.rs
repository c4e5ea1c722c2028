//! `pmuscope bench functions`.

use std::path::PathBuf;
use std::time::Duration;

use pmuscope_bench::functions::{FunctionsBench, Options, arms};
use pmuscope_bench::{BenchError, Repetition};
use pmuscope_console::exit::{Exit, failure};
use pmuscope_machine::Facts;
use pmuscope_measure::Labels;
use pmuscope_report::BenchKind;

use super::runs::RunOutputArgs;
use super::{BenchJob, Here, not_measured, this_program};
use crate::commands::duration;

/// Flags of `pmuscope bench functions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench functions --quick                        a quick estimate
  pmuscope bench functions --json=f.json                  with CIs from six rounds
  pmuscope bench functions --windows 300 --arms 'STROBE-*,PERF-LONG' -r 1
  pmuscope lab run --arch aarch64 --icount 1 -- bench functions --quick

Arms: PLAIN-LONG is pmuscope record with a sample every --period cycles, each with the counts since the
previous one; PLAIN-1000 and PLAIN-300 the same every 1000 and 300 cycles; STROBE-W windows of W cycles,
one per --period; PERF-x the same with perf record. The reference is each function run alone.")]
pub(crate) struct Args {
    /// Run each arm N times; a CI needs 6
    #[arg(short, long, value_name = "N", default_value_t = 6)]
    repeat: usize,
    /// Give a quick estimate: one round, short runs
    #[arg(long)]
    quick: bool,
    /// Run only these arms and BASE [default: all]
    ///
    /// Such as PLAIN-LONG or 'STROBE-*'.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    arms: Vec<String>,
    /// Set window lengths of the STROBE arms, in cycles
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "300,1000,3000")]
    windows: Vec<u64>,
    /// Sample, or open a window, every N cycles (LONG, STROBE)
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    period: u64,
    /// Run the mix for DURATION [default: 10s, with --quick 2s]
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    seconds: Option<f64>,
    /// Run each function alone for DURATION [default: 2s, with --quick 500ms]
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    alone: Option<f64>,
    /// Stop a run or its analysis after DURATION
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds, default_value = "120s")]
    patience: f64,
    /// Give pointer_chase N MiB of memory
    #[arg(long, value_name = "N", default_value_t = 64)]
    memory: usize,
    /// Scale the length of calls by FACTOR
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    length: f64,
    /// Seed the random order of runs and calls
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Keep temporary recordings in DIR; use a disk
    ///
    /// Each is deleted once it was read [default: the folder for temporary files].
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
    BenchJob::new(benchmark, rounds, BenchKind::Functions, &args.output)?.run_to(here, |file| {
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
