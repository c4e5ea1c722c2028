//! `pmuscope numa advise`.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input, beside, failure, not_possible};
use pmuscope_console::output::OutputArgs;
use pmuscope_console::say;
use pmuscope_counters::Host;
use pmuscope_counters::spawn::HeldChild;
use pmuscope_machine::Machine;
use pmuscope_measure::Plan;
use pmuscope_numa::advise::{Gathered, Options, Verdict, commands, gather, judge};
use pmuscope_numa::observe::ObserveError;
use pmuscope_report::{AdviceReport, escape_bytes, number};

use super::busiest::CommandProcesses;
use super::refused;
use crate::commands::choice::one_of;
use crate::commands::duration;
use crate::commands::program;
use crate::commands::target::{COMMAND, PROCESSES, TargetArgs};
use crate::signals::Stop;

/// Seconds to look at a process, by default.
const SECONDS: f64 = 5.0;
/// After so long it is known which of a command's processes does the work.
const WARM_UP: Duration = Duration::from_secs(1);
/// How often a command is asked meanwhile whether it has ended.
const TICK: Duration = Duration::from_millis(20);
/// No program runs longer.
const MOST: f64 = 1e9;

pmuscope_console::forms!(AdviseFormats: Text Json Csv Tsv, "pmuscope/numa-advice/1");

/// Flags of `pmuscope numa advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope numa advise -p 4711
  pmuscope numa advise -p 4711 --seconds 30
  pmuscope numa advise -p 4711 --sharing shared    if you know that its threads share memory
  pmuscope numa advise -- ./server                 its busiest process, until it ends

Observes only; changes nothing. Exit status 1: the observations do not support any advice.")]
pub(crate) struct Args {
    #[command(flatten, next_help_heading = "Target")]
    target: TargetArgs<{ PROCESSES | COMMAND }>,
    /// Observe for DURATION [default: 5s; a program until it ends]
    #[arg(long, value_name = "DURATION", value_parser = duration::positive_seconds, help_heading = "Observation")]
    seconds: Option<f64>,
    /// State whether threads share memory [default: from sampled faults]
    #[arg(long, value_name = "HOW", value_parser = one_of(SHARING), help_heading = "Observation")]
    sharing: Option<bool>,
    #[command(flatten)]
    output: OutputArgs<AdviseFormats>,
    /// Program to run and observe
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Values of `--sharing`: whether memory is shared.
const SHARING: [(&str, &str, bool); 2] = [
    ("shared", "All threads use all memory", true),
    ("private", "Each thread uses its own memory", false),
];

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let target = args.target.target("numa advise", &args.command)?;
    let stop = Stop::new()?;
    match target.pids() {
        [] => beside(&args.command, of_command(args, &stop)),
        [pid] => advise(args, *pid, args.seconds.unwrap_or(SECONDS), &mut || stop.asked()),
        _ => {
            let text =
                format!("{target}: advice is for one process. Try: pmuscope numa advise -p PID");
            Err(bad_input(text))
        }
    }
}

/// Runs the command, and looks at the process of it that works most.
fn of_command(args: &Args, stop: &Stop) -> anyhow::Result<Exit> {
    let Some(mut child) = program::start(&args.command)? else { return Ok(Exit::Done) };
    let result = of_child(args, &mut child, stop);
    let is_over = args.seconds.is_some() || stop.asked();
    let status = program::end(&mut child, is_over)?;
    let exit = Exit::Target(status.shell());
    Ok(if result? == Exit::Done { exit } else { exit.with_missing() })
}

fn of_child(args: &Args, child: &mut HeldChild, stop: &Stop) -> anyhow::Result<Exit> {
    let early =
        || failure(Exit::Incomplete, "the command ended within a second, too soon to observe");
    let begun = Instant::now();
    while begun.elapsed() < WARM_UP {
        if child.try_wait().context("cannot wait for the command")?.is_some() {
            return Err(early());
        }
        std::thread::sleep(TICK);
    }
    let machine = Machine::host();
    let mut processes = CommandProcesses::new(&machine, child.pid()).map_err(|_| early())?;
    let (pid, count) = processes.choose().ok_or_else(early)?;
    if count > 1 {
        say!(
            "note: observing process {pid} ({}), which used the most CPU time of {}",
            escape_bytes(processes.name(pid)),
            number::counted(count, "process")
        );
    }
    let stopped = &mut || {
        processes.read_again();
        stop.asked()
    };
    let exit = advise(args, pid, args.seconds.unwrap_or(MOST), stopped)?;
    if let Some((other, times)) = processes.busier_than(pid) {
        let seconds = number::duration(times.since_choice_ns() as f64 / 1e9);
        say!(
            "warning: process {other} ({}) used {seconds} of CPU time meanwhile, far more than the observed one. Try: \
             pmuscope numa advise -p PID while it runs",
            escape_bytes(&times.name)
        );
    }
    Ok(exit)
}

fn advise(
    args: &Args,
    pid: u32,
    seconds: f64,
    stopped: &mut dyn FnMut() -> bool,
) -> anyhow::Result<Exit> {
    let form = args.output.form()?;
    let machine = Machine::host();
    let gathered = observe(&machine, args, (pid, seconds), stopped)?;
    let advice = judge(&gathered.evidence);
    let installed = |program: &str| machine.program(program).is_some();
    let commands = commands(&advice.verdict, &gathered.evidence, pid, &installed);
    // That a program has ended is what was waited for.
    let too_early = gathered.ended && args.command.is_empty();
    let exit = match (&advice.verdict, too_early) {
        (Verdict::Unknown { .. }, _) | (_, true) => Exit::Incomplete,
        _ => Exit::Done,
    };
    let emulator = machine.emulated_by();
    let report = AdviceReport::new(pid, &gathered, &advice, &commands, emulator.as_deref());
    form.show(&report, &exit)?;
    Ok(exit)
}

fn observe(
    machine: &Machine,
    args: &Args,
    (pid, seconds): (u32, f64),
    stopped: &mut dyn FnMut() -> bool,
) -> anyhow::Result<Gathered> {
    let topology = machine.topology().map_err(|error| refused(&error))?;
    let options = Options {
        pid,
        time: Duration::from_secs_f64(seconds),
        seed: Plan::random_seed(),
        shares: args.sharing,
    };
    gather(machine, &topology, &Host, &options, stopped).map_err(|error| match error {
        ObserveError::Machine(error) => refused(&error),
        error => not_possible(error),
    })
}
