//! Targets to addresses, those behind arguments of calls as well: for them a call is waited for first.

use pmuscope_console::exit::{Exit, bad_input, failure, not_possible};
use pmuscope_counters::Host;
use pmuscope_machine::Machine;
use pmuscope_recorder::Deadline;
use pmuscope_watch::argument::{ArgumentTarget, Call, next_call};
use pmuscope_watch::resolve::{Attention, LineWord, Watchpoint, line_words, of_words};
use pmuscope_watch::slots::Kind;
use pmuscope_watch::target::{Target, TargetError};

use super::{Started, refused, resolve};

/// What one target says.
#[derive(Debug, Clone)]
pub(crate) enum TargetRequest {
    /// Names or an address.
    Named(Target),
    /// An argument of a call.
    Behind(ArgumentTarget),
}

/// What is watched of a target.
#[derive(Debug, Clone)]
pub(crate) enum WatchedPart {
    /// The object.
    Object(TargetRequest),
    /// All words of the cache lines that it is in, each for writes and for reads; the bytes of a line.
    Line(TargetRequest, u64),
    /// Words of a cache line that are known already.
    Words(Vec<LineWord>, Attention),
}

impl TargetRequest {
    pub(crate) fn parse(text: &str) -> Result<Self, TargetError> {
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
    wanted: &[WatchedPart],
    mut started: Option<&mut Started>,
    deadline: &Deadline,
) -> anyhow::Result<Vec<Watchpoint>> {
    let mut targets = Vec::with_capacity(wanted.len());
    let mut calls = Vec::with_capacity(wanted.len());
    let mut words = Vec::new();
    for one in wanted {
        match one {
            WatchedPart::Words(known, attention) => words.extend(of_words(known, *attention)),
            WatchedPart::Line(of, bytes) => {
                let (target, _) = named(machine, pids, of, started.as_deref_mut(), deadline)?;
                words.extend(line(machine, pids, &target, *bytes)?);
            }
            WatchedPart::Object(of) => {
                let (target, call) = named(machine, pids, of, started.as_deref_mut(), deadline)?;
                targets.push(target);
                calls.push(call);
            }
        }
    }
    let mut found = match targets.is_empty() {
        true => Vec::new(),
        false => resolve(machine, pids, &targets)?,
    };
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
    found.extend(words);
    Ok(found)
}

/// A target by name or address, and the call that it was an argument of.
fn named<'a>(
    machine: &Machine,
    pids: &[u32],
    wanted: &'a TargetRequest,
    started: Option<&mut Started>,
    deadline: &Deadline,
) -> anyhow::Result<(Target, Option<(&'a ArgumentTarget, Call)>)> {
    match wanted {
        TargetRequest::Named(target) => Ok((target.clone(), None)),
        TargetRequest::Behind(behind) => {
            let call = wait(machine, pids, behind, started, deadline)?;
            Ok((behind.at(call).map_err(bad_input)?, Some((behind, call))))
        }
    }
}

/// The words of the line of a target, in processes that have it at the same address.
fn line(
    machine: &Machine,
    pids: &[u32],
    target: &Target,
    bytes: u64,
) -> anyhow::Result<Vec<Watchpoint>> {
    let [first, others @ ..] = pids else {
        let name = &target.text;
        let text = format!("the cache line of {name}: needs a process. Try: -p PID, or -- CMD");
        return Err(bad_input(text));
    };
    let words = line_words(machine, *first, target, bytes).map_err(bad_input)?;
    if !others.is_empty() {
        super::resolve(machine, pids, std::slice::from_ref(target))?;
    }
    Ok(of_words(&words, Attention::Full))
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
