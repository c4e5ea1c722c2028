//! `pmuscope watch plan`: asked by itself, and before each watch.

use pmuscope_console::exit::{Exit, bad_input, not_possible};
use pmuscope_counters::Host;
use pmuscope_machine::{Machine, Target};
use pmuscope_report::{WATCH_PLAN_SCHEMA, watch_plan_text};
use pmuscope_watch::plan::{Plan, WatchpointRequest, plan};
use pmuscope_watch::resolve::Watchpoint;
use pmuscope_watch::target::Target as WatchTarget;

use super::flags::PlanArgs;

pub(super) fn run(args: &PlanArgs) -> anyhow::Result<Exit> {
    let form = args.output.form()?;
    let target = args.of.target("watch plan TARGET", &[])?;
    let machine = Machine::host();
    let targets: Result<Vec<_>, _> =
        args.target.iter().map(|text| WatchTarget::parse(text)).collect();
    let targets = targets.map_err(bad_input)?;
    let watchpoints = super::resolve(&machine, target.pids(), &targets)?;
    let plan = ask(&machine, &target, &watchpoints)?;
    let exit = if plan.fits { Exit::Done } else { Exit::Incomplete };
    form.either((WATCH_PLAN_SCHEMA, None), &exit, &plan, |style| watch_plan_text(&plan, style))?;
    Ok(exit)
}

/// Whether watchpoints fit in all threads of processes, or on all CPUs.
pub(super) fn ask(
    machine: &Machine,
    target: &Target,
    watchpoints: &[Watchpoint],
) -> anyhow::Result<Plan> {
    let wanted: Vec<WatchpointRequest> = watchpoints.iter().map(wanted).collect();
    plan(&Host, machine, &wanted, target).map_err(not_possible)
}

fn wanted(watchpoint: &Watchpoint) -> WatchpointRequest {
    WatchpointRequest {
        name: watchpoint.name.clone(),
        kind: watchpoint.kind,
        slots: watchpoint.pieces.len() as u32,
    }
}
