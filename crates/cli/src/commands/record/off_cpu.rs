//! `--off-cpu`: the events that show where threads wait, as far as the user may record them.

use pmuscope_console::exit::bad_input;
use pmuscope_events::{CallGraph, Catalog, Event, Group, MachineCatalog};
use pmuscope_machine::{Machine, Target};
use pmuscope_recorder::{CallGraph as Chosen, off_cpu};

use super::events::forbids_kernel;

/// What tells waits.
pub(super) struct Waits {
    /// Switches of what is recorded.
    pub(super) switches: Group,
    /// Wakings, of the whole machine.
    pub(super) wakings: Option<Event>,
    /// Sentences for the user about what is missing.
    pub(super) missing: Vec<String>,
}

/// The events for a target; `per_thread` where rings are not of CPUs.
pub(super) fn events(
    target: &Target,
    call_graph: CallGraphOf,
    per_thread: bool,
    machine: &Machine,
) -> anyhow::Result<Waits> {
    let catalog = MachineCatalog::new(machine).map_err(bad_input)?;
    if let Some(level) = forbids_kernel(machine, target) {
        let switches = off_cpu::switches_without_stacks(&catalog).map_err(bad_input)?;
        let missing = format!(
            "recording waits without stacks and wakers, since perf_event_paranoid is {level} and pmuscope has no \
             CAP_PERFMON. Try: sudo; for stacks only, sudo sysctl kernel.perf_event_paranoid=1"
        );
        return Ok(Waits { switches, wakings: None, missing: vec![missing] });
    }
    let switches = off_cpu::switches(&catalog, call_graph.of_waits()).map_err(bad_input)?;
    let wakings = match per_thread {
        true => Err("--per-thread has no ring buffers per CPU. Try: without it".to_owned()),
        false => waking(&catalog, machine),
    };
    let missing = wakings.as_ref().err();
    let missing = missing.map(|why| format!("wakers are not recorded: {why}"));
    Ok(Waits { switches, missing: missing.into_iter().collect(), wakings: wakings.ok() })
}

/// How call chains of waits are taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallGraphOf(pub(super) Chosen);

impl CallGraphOf {
    /// Waits without stacks tell little: by frame pointers where nothing else is asked for. The CPU's branch
    /// records are those of the scheduler by then.
    fn of_waits(self) -> Option<CallGraph> {
        matches!(self.0, Chosen::None | Chosen::Lbr).then_some(CallGraph::FramePointer)
    }
}

/// Fields of tracepoints are for those who may see everything (`perf_trace_event_perm` in
/// kernel/trace/trace_event_perf.c).
fn waking(catalog: &dyn Catalog, machine: &Machine) -> Result<Event, String> {
    let level = machine.limits().perf_event_paranoid.unwrap_or(2);
    if level > -1 && !machine.rights().can_watch_all() {
        return Err(format!(
            "perf_event_paranoid is {level} and pmuscope has no CAP_PERFMON. Try: sudo, or \
             sudo sysctl kernel.perf_event_paranoid=-1"
        ));
    }
    off_cpu::wakeups(catalog).map_err(|error| error.to_string())
}
