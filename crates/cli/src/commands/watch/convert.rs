//! From flags as typed to options of crates.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_machine::{FileKind, Machine};
use pmuscope_recorder::{
    Affinity, CallGraph, Extras, Readers, RecordOptions, RingChoice, Sampling, Target as Recorded,
};
use pmuscope_report::watch_plan_refusal;
use pmuscope_watch::condition::Condition;
use pmuscope_watch::prepare;
use pmuscope_watch::resolve::Watchpoint;
use pmuscope_watch::session::WatchOptions;
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use super::arguments::Wanted;
use super::flags::Args;
use super::plan;
use crate::exit::{Exit, failure};
use crate::replace::replace;

/// `CLOCK_MONOTONIC`: the clock that programs of the kernel read.
const CLOCK: i32 = 1;

/// What was typed, checked as far as that goes without a target.
pub(super) struct Asked {
    pub(super) targets: Vec<Wanted>,
    when: Option<Condition>,
    most_slowdown: Option<f64>,
}

pub(super) fn asked(args: &Args) -> anyhow::Result<Asked> {
    let bad = |message: String| failure(Exit::BadInput, message);
    if args.pid.is_empty() && !args.all_cpus && args.command.is_empty() {
        return Err(bad(
            "whose accesses? Try: pmuscope watch -p PID TARGET, pmuscope watch TARGET -- \
                        COMMAND, or pmuscope watch -a 'kernel!NAME'"
                .into(),
        ));
    }
    let targets = args.target.iter().map(|text| Wanted::parse(text));
    let targets: Result<Vec<Wanted>, _> = targets.collect();
    let targets = targets.map_err(|error| bad(error.to_string()))?;
    let when = args.when.as_deref().map(Condition::parse).transpose();
    let when = when.map_err(|error| bad(error.to_string()))?;
    let most_slowdown = slowdown(&args.max_slowdown).map_err(bad)?;
    Ok(Asked { targets, when, most_slowdown })
}

/// Percent as a share; `none` for no limit.
fn slowdown(text: &str) -> Result<Option<f64>, String> {
    if text == "none" {
        return Ok(None);
    }
    let percent = text.trim_end_matches('%').parse::<f64>();
    match percent {
        Ok(percent) if percent > 0.0 && percent.is_finite() => Ok(Some(percent / 100.0)),
        _ => Err(format!("--max-slowdown {text}: not a percentage above 0. Try: 5, or none")),
    }
}

/// Points and turns for what was found.
pub(super) fn options(
    machine: &Machine,
    args: &Args,
    asked: &Asked,
    pids: &[u32],
    watchpoints: &[Watchpoint],
) -> anyhow::Result<WatchOptions> {
    let not_possible = |message: String| failure(Exit::NotPossible, message);
    let plan = plan::ask(machine, pids, watchpoints)?;
    let points = prepare::points(machine, pids.first().copied(), watchpoints);
    // What is not free where fewest are takes turns; where nothing is free there is nothing to take.
    let turns = prepare::turns(&points, plan.least_free).ok_or_else(|| {
        let why = watch_plan_refusal(&plan);
        not_possible(why.unwrap_or_else(|| "no slot is free".into()))
    })?;
    let topology = machine.topology();
    let topology = topology.map_err(|error| not_possible(error.to_string()))?;
    let lines = machine.caches(&topology).into_iter().filter_map(|cache| cache.line_bytes);
    Ok(WatchOptions {
        targets: prepare::targets(watchpoints),
        points,
        turns,
        when: asked.when.clone(),
        when_changed: args.when_changed,
        count_only: args.count_only,
        depth: args.max_stack,
        most_slowdown: asked.most_slowdown,
        most_records: args.max_records,
        pids: pids.to_vec(),
        scope: command(args),
        online_cpus: topology.online.len(),
        cache_line: lines.max(),
        clockid: CLOCK,
    })
}

/// The command as a recording names it.
fn command(args: &Args) -> Option<String> {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    (!words.is_empty()).then(|| format!("command {}", words.join(" ")))
}

/// The recording that hits go into.
pub(super) fn recording(args: &Args, pids: &[u32], path: &Path) -> RecordOptions {
    let target = match pids {
        [] => Recorded::System,
        pids => Recorded::Processes(pids.to_vec()),
    };
    RecordOptions {
        target,
        inherit: true,
        groups: Vec::new(),
        of_all: Vec::new(),
        strobe: None,
        sampling: Sampling::Period(1),
        call_graph: CallGraph::None,
        extras: Extras::default(),
        clockid: CLOCK,
        ring_size: RingChoice::Auto,
        readers: Readers::Serial,
        affinity: Affinity::Sys,
        aio: None,
        compression: None,
        output: path.to_owned(),
        replace: replace(FileKind::Recording),
        max_size: None,
        overwrite: false,
        switch: None,
        max_files: None,
        control: None,
        owner: crate::commands::record::invoking_user().filter(|_| args.output.is_some()),
        delay_ms: None,
        budget: None,
        sampling_cost: false,
        per_thread: false,
        build_ids: true,
        own_command_line: crate::commands::answer::command_line(),
        command: Vec::new(),
    }
}

/// Readable when the user wants an end, or when the time is over.
pub(super) struct Timeout {
    epoll: OwnedFd,
    _timer: Option<OwnedFd>,
}

impl Timeout {
    pub(super) fn new(stop: &OwnedFd, after_ms: Option<u64>) -> anyhow::Result<Self> {
        let make = || -> rustix::io::Result<Self> {
            let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let data = epoll::EventData::new_u64(0);
            epoll::add(&both, stop, data, epoll::EventFlags::IN)?;
            let timer = after_ms.map(|ms| timer(Duration::from_millis(ms))).transpose()?;
            if let Some(timer) = &timer {
                epoll::add(&both, timer, data, epoll::EventFlags::IN)?;
            }
            Ok(Self { epoll: both, _timer: timer })
        };
        make().context("cannot wait for the end")
    }
}

impl Timeout {
    /// Whether the end has come.
    pub(super) fn is_over(&self) -> bool {
        let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
        // An error here can only be EINTR.
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for Timeout {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn timer(after: Duration) -> rustix::io::Result<OwnedFd> {
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Zero would mean never.
    let after = after.max(Duration::from_nanos(1));
    let at = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) };
    let setting = Itimerspec { it_interval: zero, it_value: at };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
    Ok(timer)
}
