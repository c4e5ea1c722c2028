//! `pmuscope numa advise`.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_counters::Host;
use pmuscope_machine::{Machine, MachineError};
use pmuscope_measure::Plan;
use pmuscope_numa::advise::{Gathered, Options, Verdict, commands, gather, judge};
use pmuscope_numa::observe::ObserveError;
use pmuscope_report::{ADVICE_SCHEMA, AdviceReport, advice_text};

use super::follow::parse_seconds;
use crate::commands::answer::Begun;
use crate::commands::doctor;
use crate::exit::{Exit, failure};
use crate::signals::Stop;
use crate::terminal;

/// Flags of `pmuscope numa advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope numa advise -p 4711
  pmuscope numa advise -p 4711 --seconds 30

It looks and changes nothing. Exit status 1: too little was seen to say anything, which is said.")]
pub(crate) struct Args {
    /// The process
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: u32,
    /// Look for so many seconds
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Print everything as one JSON object (schema pmuscope/numa-advice/1)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let begun = Begun::now();
    let machine = Machine::host();
    let gathered = look(&machine, args)?;
    let advice = judge(&gathered.evidence);
    let installed = |program: &str| machine.program(program).is_some();
    let commands = commands(&advice.verdict, &gathered.evidence, args.pid, &installed);
    let exit = match (&advice.verdict, gathered.ended) {
        (Verdict::Unknown { .. }, _) | (_, true) => Exit::Incomplete,
        _ => Exit::Done,
    };
    let surroundings = machine.surroundings(&machine.processor());
    let emulator = surroundings.emulator.as_ref().map(|sign| sign.name.as_str());
    let report = AdviceReport::new(args.pid, &gathered, &advice, &commands, emulator);
    let text = if args.json {
        begun.json(ADVICE_SCHEMA, Some(&doctor::facts()?), &exit, &report)?
    } else {
        advice_text(&report, &terminal::style())
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(exit)
}

fn look(machine: &Machine, args: &Args) -> anyhow::Result<Gathered> {
    let topology =
        machine.topology().map_err(|error| failure(Exit::NotPossible, error.to_string()))?;
    let stop = Stop::new()?;
    let options = Options {
        pid: args.pid,
        time: Duration::from_secs_f64(args.seconds),
        seed: Plan::random_seed(),
    };
    gather(machine, &topology, &Host, &options, &mut || stop.asked()).map_err(|error| match error {
        ObserveError::Machine(MachineError::Gone { pid }) => {
            failure(Exit::BadInput, format!("there is no process {pid}. Try: pgrep -l NAME"))
        }
        error => failure(Exit::NotPossible, error.to_string()),
    })
}
