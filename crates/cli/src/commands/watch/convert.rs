//! From flags as typed to options of crates.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use pmuscope_console::exit::{bad_input, not_possible};
use pmuscope_console::replace::replace;
use pmuscope_machine::{FileKind, Machine, Target};
use pmuscope_recorder::{Affinity, Readers, RecordOptions, Sampling};
use pmuscope_report::watch_plan_refusal;
use pmuscope_watch::condition::Condition;
use pmuscope_watch::prepare;
use pmuscope_watch::resolve::Watchpoint;
use pmuscope_watch::session::WatchOptions;

use super::arguments::{TargetRequest, WatchedPart};
use super::flags::Args;
use super::plan;

/// `CLOCK_MONOTONIC`: the clock that programs of the kernel read.
const CLOCK: i32 = 1;

/// What to watch and how, checked as far as that goes without a target.
pub(crate) struct WatchRequest {
    pub(crate) target: Target,
    pub(crate) targets: Vec<WatchedPart>,
    /// Program to start and watch.
    pub(crate) command: Vec<OsString>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) when: Option<Condition>,
    pub(crate) when_changed: bool,
    /// Read the value at each hit.
    pub(crate) values: bool,
    pub(crate) count_only: bool,
    /// Frames of call stacks.
    pub(crate) max_stack: u16,
    /// Records per second.
    pub(crate) max_records: u64,
    pub(crate) most_slowdown: Option<f64>,
    /// Neighboring watchpoints that need debug registers at the same time.
    pub(crate) together: usize,
    /// The recording is kept, so it belongs to the user.
    pub(crate) keeps: bool,
}

pub(super) fn asked(args: &Args) -> anyhow::Result<WatchRequest> {
    let target = args.of.target("watch TARGET", &args.command)?;
    let targets =
        args.target.iter().map(|text| TargetRequest::parse(text).map(WatchedPart::Object));
    let targets: Result<Vec<WatchedPart>, _> = targets.collect();
    let targets = targets.map_err(bad_input)?;
    let when = args.when.as_deref().map(Condition::parse).transpose();
    Ok(WatchRequest {
        target,
        targets,
        command: args.command.clone(),
        timeout: args.timeout.map(Duration::from_millis),
        when: when.map_err(bad_input)?,
        when_changed: args.when_changed,
        values: true,
        count_only: args.count_only,
        max_stack: args.max_stack,
        max_records: args.max_records,
        most_slowdown: slowdown(&args.max_slowdown).map_err(bad_input)?,
        together: 1,
        keeps: !args.output.is_empty(),
    })
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
    asked: &WatchRequest,
    target: &Target,
    watchpoints: &[Watchpoint],
) -> anyhow::Result<WatchOptions> {
    let plan = plan::ask(machine, target, watchpoints)?;
    let points = prepare::points(machine, target.pids().first().copied(), watchpoints);
    // What is not free where fewest are takes turns; where nothing is free there is nothing to take.
    let turns = prepare::turns(&points, plan.least_free, asked.together).ok_or_else(|| {
        let why = watch_plan_refusal(&plan);
        not_possible(why.unwrap_or_else(|| "no slot is free".into()))
    })?;
    let topology = machine.topology();
    let topology = topology.map_err(not_possible)?;
    let lines = machine.caches(&topology).into_iter().filter_map(|cache| cache.line_bytes);
    Ok(WatchOptions {
        targets: prepare::targets(watchpoints),
        points,
        turns,
        when: asked.when.clone(),
        when_changed: asked.when_changed,
        values: asked.values,
        count_only: asked.count_only,
        depth: asked.max_stack,
        most_slowdown: asked.most_slowdown,
        most_records: asked.max_records,
        pids: target.pids().to_vec(),
        scope: command(asked),
        online_cpus: topology.online.len(),
        cache_line: lines.max(),
        clockid: CLOCK,
    })
}

/// The command as a recording names it.
fn command(asked: &WatchRequest) -> Option<String> {
    let words: Vec<_> = asked.command.iter().map(|word| word.to_string_lossy()).collect();
    (!words.is_empty()).then(|| format!("command {}", words.join(" ")))
}

/// The recording that hits go into.
pub(super) fn recording(asked: &WatchRequest, target: Target, path: &Path) -> RecordOptions {
    RecordOptions {
        sampling: Sampling::Period(1),
        readers: Readers::Serial,
        affinity: Affinity::Sys,
        replace: replace(FileKind::Recording),
        owner: crate::commands::record::invoking_user().filter(|_| asked.keeps),
        own_command_line: pmuscope_console::invocation::command_line(),
        ..RecordOptions::new(target, Vec::new(), path.to_owned())
    }
}
