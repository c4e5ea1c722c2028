//! Members of braces to groups that one unit can count.

use crate::error::{Fault, Reason};
use crate::event::{Event, Group, Origin};
use crate::modifiers::Modifiers;
use crate::syntax::SyntaxItem;

/// What one text between commas became.
pub(crate) struct Member {
    pub(crate) events: Vec<Event>,
    /// The same event on several units, rather than several events.
    pub(crate) on_units: bool,
    /// Its own modifiers, without those of the braces.
    pub(crate) own: Modifiers,
}

impl Member {
    /// Each event as a group of its own: the text stood outside braces.
    pub(crate) fn alone(self) -> impl Iterator<Item = Group> {
        let own = self.own;
        self.events.into_iter().map(move |mut event| {
            own.apply_to_leader(&mut event);
            Group {
                name: None,
                events: vec![event],
                leader_sampling: own.leader_sampling,
                weak: own.weak,
                braces: false,
            }
        })
    }

    /// The events that can stand in the group of `unit`.
    fn on(&self, unit: &str) -> Vec<Event> {
        let anywhere = |event: &&Event| !matches!(event.origin, Origin::Hardware | Origin::Pmu);
        self.events.iter().filter(|event| event.pmu == unit || anywhere(event)).cloned().collect()
    }
}

/// One group, or one for each unit where a member means several units: the kernel counts no group over
/// two units. A unit that lacks a member has no group.
pub(crate) fn assemble(
    members: Vec<Member>,
    item: &SyntaxItem<'_>,
    around: &Modifiers,
) -> Result<Vec<Group>, Fault> {
    let leader_sampling =
        around.leader_sampling || members.iter().any(|member| member.own.leader_sampling);
    let group = |mut events: Vec<Event>| {
        if let Some(leader) = events.first_mut() {
            around.apply_to_leader(leader);
        }
        let name = item.name.map(|name| name.text.to_owned());
        Group { name, events, leader_sampling, weak: around.weak, braces: true }
    };
    let units = units_of(&members);
    if units.is_empty() {
        return Ok(vec![group(members.into_iter().flat_map(|member| member.events).collect())]);
    }
    let groups: Vec<Group> = units
        .iter()
        .filter_map(|unit| {
            let parts: Vec<Vec<Event>> = members.iter().map(|member| member.on(unit)).collect();
            let complete = parts.iter().all(|part| !part.is_empty());
            complete.then(|| group(parts.into_iter().flatten().collect()))
        })
        .collect();
    match (groups.is_empty(), item.events.first(), item.events.last()) {
        (true, Some(first), Some(last)) => {
            let (at, end) = (first.whole.at, last.whole.at + last.whole.text.len());
            Err(Fault::new(at, end - at, Reason::NoCommonPmu { pmus: units }))
        }
        _ => Ok(groups),
    }
}

/// The units that members with copies are on, in their order.
fn units_of(members: &[Member]) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    for event in members.iter().filter(|member| member.on_units).flat_map(|member| &member.events) {
        if !units.contains(&event.pmu) {
            units.push(event.pmu.clone());
        }
    }
    units
}
