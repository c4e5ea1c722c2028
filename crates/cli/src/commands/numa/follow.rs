//! `pmuscope numa show` of processes: looks at them again and again.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input, beside, not_possible};
use pmuscope_console::invocation::command_line;
use pmuscope_console::output::Form;
use pmuscope_counters::spawn::HeldChild;
use pmuscope_machine::{Machine, NumaCounters};
use pmuscope_measure::Plan;
use pmuscope_numa::observe::PAGES;
use pmuscope_numa::timeline::{Follower, Observation};
use pmuscope_report::Followed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{family, refused};
use crate::commands::duration;
use crate::commands::program;
use crate::commands::target::{COMMAND, PROCESSES, TargetArgs};
use crate::signals;

/// Seconds that processes which run already are followed, by default.
const SECONDS: f64 = 5.0;

/// Which processes, and how.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Processes")]
pub(super) struct FollowArgs {
    #[command(flatten)]
    target: TargetArgs<{ PROCESSES | COMMAND }>,
    /// Ignore children
    #[arg(short = 'i', long)]
    no_inherit: bool,
    /// Stop after DURATION [default: 5s; a program at its end]
    #[arg(long, value_name = "DURATION", value_parser = duration::positive_seconds, help_heading = "Observation")]
    seconds: Option<f64>,
    /// Take a snapshot every DURATION (a plain number: ms)
    #[arg(
        short = 'I',
        long,
        value_name = "DURATION", value_parser = duration::milliseconds_in(10, u64::MAX),
        default_value = "500ms", help_heading = "Observation")]
    interval: u64,
    /// Query N pages per snapshot, over all processes
    #[arg(
        long,
        value_name = "N",
        default_value_t = PAGES,
        value_parser = clap::value_parser!(u64).range(64..), help_heading = "Observation")]
    pages: u64,
    /// Program to run and observe
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl FollowArgs {
    /// Whether there is anything to follow.
    pub(super) fn is_asked(&self) -> anyhow::Result<bool> {
        Ok(self.target.asked("numa show", &self.command)?.is_some())
    }

    /// A flag that says nothing without a process.
    pub(super) fn needs_process(&self) -> Option<&'static str> {
        let asked = [(self.seconds.is_some(), "--seconds"), (self.no_inherit, "--no-inherit")];
        asked.into_iter().find_map(|(is_asked, flag)| is_asked.then_some(flag))
    }
}

/// Follows what was asked for, and tells.
pub(super) fn run(machine: &Machine, args: &FollowArgs, form: &Form) -> anyhow::Result<Exit> {
    form.check()?;
    let result = follow(machine, args).and_then(|seen| show(machine, args, form, &seen));
    beside(&args.command, result)
}

/// What was seen, and how it ended.
struct FollowOutcome {
    nodes: Vec<u32>,
    observations: Vec<Observation>,
    refused: BTreeMap<u32, String>,
    counters: Option<NumaCounters>,
    exit: Exit,
}

fn follow(machine: &Machine, args: &FollowArgs) -> anyhow::Result<FollowOutcome> {
    let topology = machine.topology().map_err(|error| refused(&error))?;
    let stop = signals::stop_pipe().context("cannot listen for signals")?;
    let mut child = program::start(&args.command)?;
    let pids = child.as_ref().map_or_else(|| args.target.pid.clone(), |child| vec![child.pid()]);
    let seconds = args.seconds.or((child.is_none()).then_some(SECONDS));
    let family = family(machine, &pids, !args.no_inherit)?;
    let mut follower = Follower::new(machine, &topology, family, (args.pages, Plan::random_seed()));
    let before = machine.numa_counters().ok();
    let fds = Ends { stop: stop.as_fd(), child: child.as_ref().map(HeldChild::pidfd) };
    let (observations, interrupted) = watch(&mut follower, args, seconds, &fds)?;
    let counters = before.zip(machine.numa_counters().ok()).map(|(old, new)| new.since(&old));
    let mut exit = Exit::Done;
    if let Some(child) = &mut child {
        let out_of_time = child.try_wait().context("cannot wait for the command")?.is_none();
        let status = program::end(child, interrupted || out_of_time)?;
        exit = Exit::Target(status.shell());
    }
    let refused = follower.refused().clone();
    if !refused.is_empty() {
        exit = exit.with_missing();
    }
    Ok(FollowOutcome { nodes: follower.nodes().to_vec(), observations, refused, counters, exit })
}

/// What ends the watch.
pub(super) struct Ends<'a> {
    pub(super) stop: BorrowedFd<'a>,
    pub(super) child: Option<BorrowedFd<'a>>,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    Time,
    Stop,
    Child,
}

impl Ends<'_> {
    /// Waits at most so long.
    pub(super) fn wait(&self, time: Duration) -> Woken {
        let mut fds = vec![PollFd::new(&self.stop, PollFlags::IN)];
        fds.extend(self.child.as_ref().map(|child| PollFd::new(child, PollFlags::IN)));
        let time = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        // An error can only be EINTR: then it is looked again somewhat early.
        if poll(&mut fds, Some(&time)).is_err() {
            return Woken::Time;
        }
        match &fds[..] {
            [stop, ..] if !stop.revents().is_empty() => Woken::Stop,
            [_, child] if !child.revents().is_empty() => Woken::Child,
            _ => Woken::Time,
        }
    }
}

/// Looks until nothing is left, the time is over, or it is to stop; whether the user said so.
fn watch(
    follower: &mut Follower,
    args: &FollowArgs,
    seconds: Option<f64>,
    ends: &Ends<'_>,
) -> anyhow::Result<(Vec<Observation>, bool)> {
    let interval = Duration::from_millis(args.interval);
    let begun = Instant::now();
    let end = seconds.map(|seconds| begun + Duration::from_secs_f64(seconds));
    let mut observations: Vec<Observation> = Vec::new();
    let mut next = begun;
    loop {
        match follower.observe() {
            Ok(Some(observation)) => {
                if observations.is_empty() {
                    any_named_is_seen(follower, &args.target.pid)?;
                }
                observations.push(observation);
            }
            Ok(None) if observations.is_empty() && ends.child.is_none() => {
                return Err(ended(&args.target.pid));
            }
            Ok(None) => return Ok((observations, false)),
            // What was seen before is told.
            Err(_) if !observations.is_empty() => return Ok((observations, false)),
            Err(error) => return Err(not_possible(error)),
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok((observations, false));
        }
        // Looks that take longer than the interval are not made up for.
        next = (next + interval).max(Instant::now());
        let until = end.map_or(next, |end| next.min(end));
        match ends.wait(until.saturating_duration_since(Instant::now())) {
            Woken::Time => {}
            Woken::Stop => return Ok((observations, true)),
            Woken::Child => return Ok((observations, false)),
        }
    }
}

/// Where no process that was asked for may be looked at, what they started is not the answer.
fn any_named_is_seen(follower: &Follower, pids: &[u32]) -> anyhow::Result<()> {
    let refused = follower.refused();
    let reasons: Option<Vec<&String>> = pids.iter().map(|pid| refused.get(pid)).collect();
    match reasons.as_deref() {
        Some([first, ..]) => Err(not_possible((*first).clone())),
        _ => Ok(()),
    }
}

fn ended(pids: &[u32]) -> anyhow::Error {
    let names: Vec<String> = pids.iter().map(u32::to_string).collect();
    let text = format!("process {} has ended. Try: pgrep -l NAME", names.join(", "));
    bad_input(text)
}

fn show(
    machine: &Machine,
    args: &FollowArgs,
    form: &Form,
    seen: &FollowOutcome,
) -> anyhow::Result<Exit> {
    let emulator = machine.emulated_by();
    let nodes = (&seen.nodes[..], args.interval as f64 / 1e3);
    let followed =
        Followed::new(nodes, &seen.observations, &seen.refused, seen.counters, emulator.as_deref());
    form.show(&Followed { command: command_line().join(" "), ..followed }, &seen.exit)?;
    Ok(seen.exit)
}
