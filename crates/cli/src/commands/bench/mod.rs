//! `pmuscope bench`: one file per benchmark, which turns its flags into what runs; the rest is the same for all.

mod breakpoint;
mod capture;
mod functions;
mod memory;
mod numa;
mod region;
mod ring;
pub(super) mod runs;
mod slots;

use std::io::ErrorKind;
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use clap::Subcommand;
use pmuscope_bench::{BenchError, Benchmark, Repetition};
use pmuscope_machine::{Facts, Machine};
use pmuscope_measure::RunFile;
use pmuscope_measure::counting::Signal;
use pmuscope_report::BenchKind;

use self::runs::{PreflightCpus, RunOutput, begin, tell_concerns};
use crate::commands::counting::{CountingProgress, refused};
use crate::commands::doctor;
use crate::signals::stop_pipe;
use pmuscope_console::exit::{Exit, failure};
use pmuscope_console::output::{Formats, OutputArgs};

/// Flags of `pmuscope bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    benchmark: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Measure recording overhead, ours and perf's
    Capture(capture::Args),
    /// Measure the cost per packet of a shared-memory ring
    Ring(ring::Args),
    /// Measure the cost of counting a region of code
    Region(region::Args),
    /// Measure bookkeeping of breakpoint slots
    Slots(slots::Args),
    /// Measure the cost of breakpoints on this kernel
    Breakpoint(breakpoint::Args),
    /// Measure memory bandwidth and latency, node to node
    Memory(memory::Args),
    /// Measure NUMA placement: convergence, speed, page faults
    Numa(Box<numa::Args>),
    /// Measure the accuracy of per-function metrics
    Functions(functions::Args),
}

/// This machine.
struct Here {
    machine: Machine,
    facts: Facts,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let here = Here { machine: Machine::host(), facts: doctor::facts()? };
    match args.benchmark {
        BenchCommand::Capture(args) => capture::run(&args, &here),
        BenchCommand::Ring(args) => ring::run(&args, &here),
        BenchCommand::Region(args) => region::run(&args, &here),
        BenchCommand::Slots(args) => slots::run(&args, &here),
        BenchCommand::Breakpoint(args) => breakpoint::run(&args, &here),
        BenchCommand::Memory(args) => memory::run(&args, &here),
        BenchCommand::Numa(args) => numa::run(&args, &here),
        BenchCommand::Functions(args) => functions::run(&args, &here),
    }
}

/// A benchmark as its flags ask for it.
struct BenchJob<B> {
    benchmark: B,
    rounds: Repetition,
    kind: BenchKind,
    output: RunOutput,
    /// What to know of the results.
    notices: Vec<String>,
}

impl<B: Benchmark> BenchJob<B> {
    /// # Errors
    /// If the flags name no form of a result.
    fn new<F: Formats>(
        benchmark: B,
        rounds: Repetition,
        kind: BenchKind,
        output: &OutputArgs<F>,
    ) -> anyhow::Result<Self> {
        let output = RunOutput::of(output)?;
        Ok(Self { benchmark, rounds, kind, output, notices: Vec::new() })
    }

    /// Makes all runs, keeps them, and shows what they came to.
    fn run(self, here: &Here) -> anyhow::Result<Exit> {
        self.run_to(here, |_| Ok(true))
    }

    /// As [`BenchJob::run`]; `at_end` does what else is asked for with the results, and says whether all is there.
    fn run_to(
        mut self,
        here: &Here,
        at_end: impl FnOnce(&RunFile) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Exit> {
        self.output.check()?;
        let mut file = begin(&here.machine, &here.facts, PreflightCpus::Allowed)?;
        file.notices.extend(self.notices);
        tell_concerns(&file);
        let stop = stop_pipe().context("cannot listen for signals")?;
        let mut watch = CountingProgress::new(self.output.path());
        let (rounds, stop) = (&self.rounds, Signal(stop.as_fd()));
        let whole = pmuscope_bench::run(&mut self.benchmark, rounds, &mut file, stop, &mut watch)
            .map_err(not_measured)?;
        if file.runs.is_empty() {
            let why = match whole {
                true => file.notices.join(". "),
                false => "interrupted before the first run was over".to_owned(),
            };
            return Err(failure(Exit::Incomplete, why));
        }
        let complete = at_end(&file)?;
        self.output.finish(file, !whole, complete, |file, style| self.kind.text(file, style))
    }
}

/// As env(1) has it where the user's program cannot be run.
#[allow(clippy::needless_pass_by_value)] // as map_err hands it over
fn not_measured(error: BenchError) -> anyhow::Error {
    let exit = match &error {
        BenchError::Measure(error) => return refused(error, false),
        BenchError::Start { source, .. } if source.kind() == ErrorKind::NotFound => {
            Exit::Target(127)
        }
        BenchError::Start { .. } => Exit::Target(126),
        error if error.is_of_request() => Exit::BadInput,
        _ => Exit::NotPossible,
    };
    failure(exit, error.to_string())
}

/// This program, which benchmarks run as others.
fn this_program() -> anyhow::Result<std::path::PathBuf> {
    std::env::current_exe().context("cannot find the path of this program")
}
