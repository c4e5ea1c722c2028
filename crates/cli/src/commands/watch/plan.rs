//! `pmuscope watch plan`: asked by itself, and before each watch.

use std::io::Write as _;

use anyhow::Context as _;
use pmuscope_counters::Host;
use pmuscope_machine::{Machine, Target};
use pmuscope_report::{WATCH_PLAN_SCHEMA, watch_plan_text};
use pmuscope_watch::plan::{Plan, WatchpointRequest, plan};
use pmuscope_watch::resolve::Watchpoint;
use pmuscope_watch::target::Target as WatchTarget;

use super::flags::PlanArgs;
use crate::commands::answer::Invocation;
use crate::exit::{Exit, failure};
use crate::terminal;

pub(super) fn run(args: &PlanArgs, begun: Invocation) -> anyhow::Result<Exit> {
    let bad = |message: String| failure(Exit::BadInput, message);
    let target = args.of.target("watch plan TARGET", &[])?;
    let machine = Machine::host();
    let targets: Result<Vec<_>, _> =
        args.target.iter().map(|text| WatchTarget::parse(text)).collect();
    let targets = targets.map_err(|error| bad(error.to_string()))?;
    let watchpoints = super::resolve(&machine, target.pids(), &targets)?;
    let plan = ask(&machine, &target, &watchpoints)?;
    let exit = if plan.fits { Exit::Done } else { Exit::Incomplete };
    let text = if args.json {
        begun.json(WATCH_PLAN_SCHEMA, None, &exit, &plan)?
    } else {
        watch_plan_text(&plan, &terminal::style())
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(exit)
}

/// Whether watchpoints fit in all threads of processes, or on all CPUs.
pub(super) fn ask(
    machine: &Machine,
    target: &Target,
    watchpoints: &[Watchpoint],
) -> anyhow::Result<Plan> {
    let not_possible = |message: String| failure(Exit::NotPossible, message);
    let wanted: Vec<WatchpointRequest> = watchpoints.iter().map(wanted).collect();
    plan(&Host, machine, &wanted, target).map_err(|error| not_possible(error.to_string()))
}

fn wanted(watchpoint: &Watchpoint) -> WatchpointRequest {
    WatchpointRequest {
        name: watchpoint.name.clone(),
        kind: watchpoint.kind,
        slots: watchpoint.pieces.len() as u32,
    }
}
