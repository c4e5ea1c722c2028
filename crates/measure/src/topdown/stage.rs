//! Which runs count the events of a level.

use pmuscope_abi::Attr;
use pmuscope_counters::{Fit, Kernel, open_refusal, try_group};
use pmuscope_events::topdown::Fitted;
use pmuscope_events::{Event, Group};

use pmuscope_machine::Target;

use crate::sweep::{Schedule, UncountedEvent, schedule};

/// Runs that count all events of level 1.
#[must_use]
pub fn level_1(
    kernel: &dyn Kernel,
    target: &Target,
    fitted: &Fitted,
    references: &[Event],
) -> Schedule {
    let categories = fitted.method.level_1().map(|category| &category.name[..]);
    stage(kernel, target, (fitted, references), categories, &[])
}

/// Runs that count what is below these categories of level 1; `counted` are events that other runs count.
#[must_use]
pub fn level_2(
    kernel: &dyn Kernel,
    target: &Target,
    (fitted, references): (&Fitted, &[Event]),
    below: &[String],
    counted: &[String],
) -> Schedule {
    let parts = below.iter().flat_map(|parent| fitted.method.parts(parent));
    let categories: Vec<&str> = parts.map(|category| &category.name[..]).collect();
    stage(kernel, target, (fitted, references), categories.into_iter(), counted)
}

fn stage<'a>(
    kernel: &dyn Kernel,
    target: &Target,
    (fitted, references): (&Fitted, &[Event]),
    categories: impl Iterator<Item = &'a str>,
    counted: &[String],
) -> Schedule {
    let is_reference = |name: &str| references.iter().any(|reference| reference.name == name);
    let mut names: Vec<String> = Vec::new();
    for name in categories.flat_map(|category| fitted.events_of(category)) {
        if !names.contains(&name) && !counted.contains(&name) && !is_reference(&name) {
            names.push(name);
        }
    }
    let (together, alone): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| fitted.method.together.contains(name));
    let event = |name: &String| fitted.events.get(name);
    let alone: Vec<Event> = alone.iter().filter_map(event).cloned().collect();
    let mut planned = match alone.is_empty() {
        true => Schedule { references: names_of(references), ..Schedule::default() },
        false => schedule(kernel, target, &alone, references),
    };
    if let Some(leader) = fitted.method.together.first().filter(|_| !together.is_empty()) {
        let others = together.iter().filter(|name| *name != leader);
        let members: Vec<Event> =
            std::iter::once(leader).chain(others).filter_map(event).cloned().collect();
        match one_group(kernel, members, references) {
            Ok(group) => {
                planned.runs.insert(0, vec![group]);
                planned.least += 1;
            }
            Err(refused) => planned.refused.extend(refused),
        }
    }
    planned
}

/// The leader, its members, and as many references as are counted with them at the same time.
fn one_group(
    kernel: &dyn Kernel,
    members: Vec<Event>,
    references: &[Event],
) -> Result<Group, Vec<UncountedEvent>> {
    let mut why = String::new();
    // Without cycles counts of different runs cannot be set side by side.
    for with in (1..=references.len()).rev() {
        let events: Vec<Event> = members.iter().chain(&references[..with]).cloned().collect();
        let attrs: Vec<Attr> = events.iter().map(|event| event.attr.clone()).collect();
        why = match try_group(kernel, &attrs, None) {
            Fit::AtOnce => {
                let (name, leader_sampling, weak) = (None, false, false);
                return Ok(Group { name, events, leader_sampling, weak, braces: true });
            }
            Fit::NotAtOnce => "they cannot be counted at the same time here".to_owned(),
            Fit::Refused(error) => open_refusal(&error),
        };
    }
    let refused = |event: Event| UncountedEvent { event: event.name, why: why.clone() };
    Err(members.into_iter().map(refused).collect())
}

fn names_of(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.name.clone()).collect()
}
