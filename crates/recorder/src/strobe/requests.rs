//! The events of a strobed recording.
//!
//! ```text
//!   dummy:u                    mappings and tasks, all the time
//!   group 0   A B … counters   on: its A leads, is pinned, and samples, as the edges behind it do
//!   group 1   A B … counters   off until its turn
//! ```

use pmuscope_abi::{Attr, AttrFlags, ReadFormat, SampleType, event_type, software};
use pmuscope_counters::EventRequest;
use pmuscope_events::Event;
use pmuscope_perfdata::strobe::StrobeGroup;

/// Name of the member that tells whether a window was interrupted by a context switch.
const CONTEXT_SWITCHES: &str = "context-switches";

/// Events that do not say which modes they count are counted in user mode, as the windows are.
const USER_ONLY: AttrFlags = AttrFlags::EXCLUDE_KERNEL.union(AttrFlags::EXCLUDE_HV);

/// An event that samples at the edges of windows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge<'a> {
    pub(crate) event: &'a Event,
    pub(crate) period: u64,
}

/// Adds the groups to `requests`, which has the sideband, and says which request is what. `shared` has
/// what all events of the recording have in common.
pub(crate) fn add_groups(
    requests: &mut Vec<EventRequest>,
    shared: &Attr,
    edge: &Edge<'_>,
    edges: usize,
    groups: &[Vec<Event>],
) -> Vec<StrobeGroup> {
    groups
        .iter()
        .map(|counters| {
            let first = requests.len();
            requests.extend(group(shared, edge, edges, counters, first));
            let number = |position: usize| (first + position) as u32;
            let last = requests.len() - 1;
            StrobeGroup {
                events: (first..requests.len()).map(|event| event as u32).collect(),
                edges: (0..edges).map(number).collect(),
                context_switches: Some(last as u32),
                cpus: edge.event.cpus.as_ref().map(ToString::to_string).unwrap_or_default(),
            }
        })
        .collect()
}

/// One group, led by request number `first`.
fn group<'a>(
    shared: &'a Attr,
    edge: &'a Edge<'a>,
    edges: usize,
    counters: &'a [Event],
    first: usize,
) -> impl Iterator<Item = EventRequest> + 'a {
    let event = edge.event;
    let edges = (0..edges).map(move |number| EventRequest {
        name: event.name.clone(),
        attr: edge_attr(shared, edge, number == 0),
        leader: (number > 0).then_some(first),
        cpus: event.cpus.clone(),
        any_task: false,
        max_precise: false,
    });
    let member = move |name: &str, attr: Attr| EventRequest {
        name: name.to_owned(),
        attr,
        leader: Some(first),
        cpus: event.cpus.clone(),
        any_task: false,
        max_precise: false,
    };
    let counters = counters.iter().map(move |one| member(&one.name, counter_attr(shared, one)));
    edges.chain(counters).chain(std::iter::once_with(move || {
        let switches = Attr {
            event_type: event_type::SOFTWARE,
            config: software::CONTEXT_SWITCHES,
            ..count_only(shared)
        };
        member(CONTEXT_SWITCHES, switches)
    }))
}

/// An event that samples; the first one leads.
fn edge_attr(shared: &Attr, edge: &Edge<'_>, leads: bool) -> Attr {
    let mut flags = shared.flags | edge.event.attr.flags | USER_ONLY | AttrFlags::DISABLED;
    flags.set(AttrFlags::PINNED, leads);
    Attr {
        sample: edge.period,
        sample_type: shared.sample_type | SampleType::READ,
        read_format: ReadFormat::GROUP | ReadFormat::ID,
        flags,
        clockid: shared.clockid,
        ..edge.event.attr.clone()
    }
}

/// An event that only counts.
fn counter_attr(shared: &Attr, event: &Event) -> Attr {
    let plain = count_only(shared);
    let modes = AttrFlags::EXCLUDE_USER | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    let own = event.attr.flags;
    let software = event.attr.event_type == event_type::SOFTWARE;
    let default = if own.intersects(modes) || software { AttrFlags::empty() } else { USER_ONLY };
    Attr {
        flags: plain.flags | own | default,
        sample_type: plain.sample_type,
        read_format: plain.read_format,
        clockid: plain.clockid,
        ..event.attr.clone()
    }
}

/// Counts where its leader does.
fn count_only(shared: &Attr) -> Attr {
    Attr {
        read_format: ReadFormat::GROUP | ReadFormat::ID,
        sample_type: shared.sample_type | SampleType::READ,
        flags: shared.flags & (AttrFlags::USE_CLOCKID | AttrFlags::SAMPLE_ID_ALL),
        clockid: shared.clockid,
        ..Attr::default()
    }
}
