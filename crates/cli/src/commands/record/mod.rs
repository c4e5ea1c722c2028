//! `pmuscope record`.

mod alloc;
mod call_graph;
mod control;
pub(super) mod convert;
pub(super) mod events;
mod flags;
mod off_cpu;
pub(in crate::commands) mod print;
pub(super) mod size;
pub(in crate::commands) mod strobe;

use pmuscope_console::say;
use std::os::fd::AsFd as _;

use pmuscope_counters::{CountersError, Host};
use pmuscope_machine::{FileKind, Machine};
use pmuscope_recorder::{RecorderError, Signals};
use pmuscope_report::escape_lines;

use super::program::{self, not_started};
use crate::{replace, signals};
use pmuscope_console::exit::{Exit, failure};

pub(crate) use convert::invoking_user;
pub(crate) use flags::Args;

pub(crate) fn run(mut args: Args) -> anyhow::Result<Exit> {
    let machine = Machine::host();
    call_graph::of_g(&mut args);
    let has_command = !args.command.is_empty();
    let asks_for_chains = args.call_chains;
    let plan = convert::convert(args, &machine)?;
    if !plan.dry_run {
        // Before what is said of events: with these errors nothing is recorded.
        replace::check(&plan.options.output, FileKind::Recording)?;
        program::find(&plan.options.command).map_err(|error| {
            match plan.options.command.first() {
                Some(word) if asks_for_chains => call_graph::mistaken(word).unwrap_or(error),
                _ => error,
            }
        })?;
    }
    // A target that is gone fails below: nothing is said of events before.
    let is_there = |pid: &u32| machine.threads(*pid).is_ok();
    if !plan.quiet && plan.options.target.pids().iter().all(is_there) {
        events::say_notices(&plan.notices);
    }
    if plan.show_attributes || plan.dry_run {
        let preview = pmuscope_recorder::preview(&plan.options, &machine)
            .map_err(|error| refused(&error, has_command))?;
        let text = print::preview(&preview, &plan.population, plan.as_cpu);
        say!("{}", escape_lines(&text).trim_end());
        for file in plan.allocations.iter().flat_map(|allocations| &allocations.files) {
            say!("allocator: {}", escape_lines(&file.to_string_lossy()));
        }
    }
    if plan.dry_run {
        return Ok(Exit::Done);
    }
    let stop = signals::stop_pipe()?;
    let switch = signals::switch_pipe()?;
    let signals = Signals { stop: stop.as_fd(), switch: Some(switch.as_fd()) };
    let summary = pmuscope_recorder::record(&plan.options, &Host, &machine, signals)
        .map_err(|error| refused(&error, has_command))?;
    if !plan.quiet {
        say!("{}", escape_lines(&print::summary(&summary, &plan.options)).trim_end());
    }
    let exit = Exit::of(summary.status.map(|status| status.shell()), !summary.missing.is_empty());
    // How the command ended is what the status says, if the recording can be seen.
    plan.shown.show(&plan.options.output)?;
    Ok(exit)
}

/// As env(1) has it where the command cannot be started. What is wrong with arguments or the machine is found
/// before that, and has the same status with and without a command.
pub(super) fn refused(error: &RecorderError, has_command: bool) -> anyhow::Error {
    let exit = match error {
        RecorderError::Counters(error @ CountersError::Spawn { .. }) => return not_started(error),
        error if error.is_machine() => Exit::NotPossible,
        _ if has_command && !error.is_input() => Exit::Target(125),
        _ => Exit::BadInput,
    };
    failure(exit, error.to_string())
}
