//! The events that show where threads wait.
//!
//! Each switch is a sample of `context-switches`, taken by the task that leaves its CPU, with its stack; the same event
//! writes records of leaving, with the mark of tasks that could have gone on, and of coming back. Who woke is in samples of
//! `sched:sched_waking`, which are taken by the waker: so they are recorded on the whole machine, whatever the target is.

use pmuscope_abi::AttrFlags;
use pmuscope_events::{CallGraph, Catalog, Event, EventError, Group, Sampling, parse};

/// Switches of the target, for [`RecordOptions::groups`](crate::RecordOptions::groups); with call chains as `call_graph`
/// says, else as the recording's options do.
///
/// # Errors
/// The event is not known here.
pub fn switches(catalog: &dyn Catalog, call_graph: Option<CallGraph>) -> Result<Group, EventError> {
    of_switches("context-switches", catalog, call_graph)
}

/// The same without stacks, where the kernel may not be sampled.
///
/// # Errors
/// The event is not known here.
pub fn switches_without_stacks(catalog: &dyn Catalog) -> Result<Group, EventError> {
    of_switches("dummy:u", catalog, Some(CallGraph::None))
}

fn of_switches(
    name: &str,
    catalog: &dyn Catalog,
    call_graph: Option<CallGraph>,
) -> Result<Group, EventError> {
    let mut groups = each_time(name, catalog)?;
    for event in groups.iter_mut().flat_map(|group| &mut group.events) {
        event.attr.flags |= AttrFlags::CONTEXT_SWITCH;
        event.call_graph = call_graph;
    }
    // The name is that of one event.
    Ok(groups.swap_remove(0))
}

/// Wakeups on the whole machine, for [`RecordOptions::of_all`](crate::RecordOptions::of_all).
///
/// # Errors
/// The tracepoint is not known here, such as without tracefs.
pub fn wakeups(catalog: &dyn Catalog) -> Result<Event, EventError> {
    let mut wakeup = each_time("sched:sched_waking", catalog)?.swap_remove(0).events.swap_remove(0);
    wakeup.call_graph = Some(CallGraph::FramePointer);
    Ok(wakeup)
}

/// The event of a name, sampled each time.
fn each_time(name: &str, catalog: &dyn Catalog) -> Result<Vec<Group>, EventError> {
    let mut groups = parse(name, catalog)?;
    for event in groups.iter_mut().flat_map(|group| &mut group.events) {
        event.sampling = Some(Sampling::Period(1));
    }
    Ok(groups)
}
