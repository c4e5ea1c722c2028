//! One interval, as text or as JSON.

use pmuscope_console::exit::Exit;
use pmuscope_console::output::Form;
use pmuscope_console::say;
use pmuscope_machine::Machine;
use pmuscope_recorder::Following;
use pmuscope_report::{RowLimits, TopReport, TopView};

use super::{Args, Asked};
use crate::signals::Stop;

/// Rows of a table where no limit is given.
const DEFAULT_ROWS: usize = 40;

pub(super) fn run(
    args: &Args,
    asked: &Asked,
    following: &Following<'_>,
    machine: &Machine,
) -> anyhow::Result<Exit> {
    let topology = machine.topology()?;
    let stop = Stop::new()?;
    let mut ticker = super::ticker(args, following)?;
    let tick = ticker.next(asked.delay, || stop.asked())?;
    if tick.last {
        let seconds = tick.profile.duration_s.unwrap_or(0.0);
        say!("note: the interval ended after {seconds:.2} s of {} s", args.delay);
    }
    let node_of = |cpu| topology.node_of(cpu);
    let view = TopView { profile: &tick.profile, node_of: &node_of };
    let form = Form { invocation: asked.begun, ..args.output.form()? };
    let rows = form.rows(args.limit, DEFAULT_ROWS);
    let limits = RowLimits { rows, ..RowLimits::ALL };
    let exit = if tick.profile.lost.count > 0 { Exit::Incomplete } else { Exit::Done };
    form.show(&TopReport { view, by: args.by, limits }, &exit)?;
    Ok(exit)
}
