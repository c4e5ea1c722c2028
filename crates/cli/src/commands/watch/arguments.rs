//! Targets to addresses, those behind arguments of calls as well: for them a call is waited for first.

use pmuscope_console::exit::{Exit, bad_input, failure, not_possible};
use pmuscope_counters::Host;
use pmuscope_machine::Machine;
use pmuscope_recorder::Deadline;
use pmuscope_watch::argument::{ArgumentTarget, Call, next_call};
use pmuscope_watch::resolve::Watchpoint;
use pmuscope_watch::slots::Kind;
use pmuscope_watch::target::{Target, TargetError};

use super::{Started, refused, resolve};

/// What one target says.
#[derive(Debug, Clone)]
pub(super) enum TargetRequest {
    /// Names or an address.
    Named(Target),
    /// An argument of a call.
    Behind(ArgumentTarget),
}

impl TargetRequest {
    pub(super) fn parse(text: &str) -> Result<Self, TargetError> {
        match ArgumentTarget::parse(text) {
            Some(behind) => behind.map(Self::Behind),
            None => Target::parse(text).map(Self::Named),
        }
    }
}

/// Addresses of all targets. A command goes on from its entry if a call of its is waited for.
pub(super) fn watchpoints(
    machine: &Machine,
    pids: &[u32],
    wanted: &[TargetRequest],
    mut started: Option<&mut Started>,
    deadline: &Deadline,
) -> anyhow::Result<Vec<Watchpoint>> {
    let mut targets = Vec::with_capacity(wanted.len());
    let mut calls = Vec::with_capacity(wanted.len());
    for one in wanted {
        match one {
            TargetRequest::Named(target) => {
                targets.push(target.clone());
                calls.push(None);
            }
            TargetRequest::Behind(behind) => {
                let call = wait(machine, pids, behind, started.as_deref_mut(), deadline)?;
                targets.push(behind.at(call).map_err(bad_input)?);
                calls.push(Some((behind, call)));
            }
        }
    }
    let mut found = resolve(machine, pids, &targets)?;
    for (watchpoint, call) in found.iter_mut().zip(calls) {
        if let Some((behind, call)) = call {
            watchpoint.name.clone_from(&behind.text);
            watchpoint.notes.push(format!(
                "argument {} of {} was {:#x} in thread {}; what it points to is watched from then on, \
                 even if freed",
                behind.argument, behind.call.name, call.value, call.tid
            ));
        }
    }
    Ok(found)
}

fn wait(
    machine: &Machine,
    pids: &[u32],
    behind: &ArgumentTarget,
    started: Option<&mut Started>,
    deadline: &Deadline,
) -> anyhow::Result<Call> {
    if pids.is_empty() {
        return Err(bad_input(format!(
            "{}: needs a process, whose calls have arguments. Try: -p PID",
            behind.text
        )));
    }
    let place = resolve(machine, pids, std::slice::from_ref(&behind.call))?;
    let place = place.first().filter(|place| place.kind == Kind::Instruction);
    let place = place.ok_or_else(|| {
        bad_input(format!(
            "{}: {} is neither a function nor a line of one",
            behind.text, behind.call.name
        ))
    })?;
    let mut let_go = Ok(());
    let mut started = started;
    let go = started.as_deref_mut().and_then(Started::go);
    let begin = || let_go = go.map_or(Ok(()), |go| go());
    let mut ended = || match started.as_deref_mut() {
        Some(started) => started.has_ended(),
        None => pids.iter().all(|&pid| machine.threads(pid).is_err()),
    };
    let over = || deadline.is_over() || ended();
    let found = next_call(&Host, machine, pids, place, behind.argument, begin, over);
    let_go.map_err(not_possible)?;
    found.map_err(|error| refused(&error))?.ok_or_else(|| {
        let message = format!("{}: {} was not called", behind.text, behind.call.name);
        failure(Exit::Incomplete, message)
    })
}
