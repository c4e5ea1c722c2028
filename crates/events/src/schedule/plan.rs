//! Groups of all units to runs.

use std::collections::BTreeMap;

use super::fill::Filled;
use super::group::assign;
use super::pack::pack;
use super::shape::{Constraint, Counter, Request, Shape, counter};

/// An event and the counter that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Index into the events, or into the references.
    pub index: usize,
    /// Its counter. Which one the kernel takes in the end is up to it.
    pub counter: Counter,
}

/// What one unit counts in one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedGroup {
    /// Index of the unit among the shapes.
    pub unit: usize,
    /// References of this unit, in their order. One is missing where these events leave no room for it.
    pub references: Vec<Slot>,
    /// Events, in their order; none where the unit is done and only its references go on.
    pub events: Vec<Slot>,
}

/// What is counted in one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// At most one for each unit, in the order of the units.
    pub groups: Vec<PlannedGroup>,
}

/// Why an event is in no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedBecause {
    /// The unit has none of the counters that the event can use.
    #[error("it counts only on {wanted}, but {unit} has {present}")]
    NoCounter {
        /// Counters it can use.
        wanted: String,
        /// The unit.
        unit: String,
        /// What it has.
        present: String,
    },
    /// Its counters are always in use.
    #[error(
        "other users hold counters of {unit} permanently (the NMI watchdog?) and leave none that \
         it can use"
    )]
    Taken {
        /// The unit.
        unit: String,
    },
    /// There is no unit of this index.
    #[error("no such PMU")]
    NoUnit,
    /// A trial on the machine failed; why.
    #[error("{0}")]
    Trial(String),
}

/// An event that is in no run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Index into the events.
    pub index: usize,
    /// Why.
    pub why: RefusedBecause,
}

/// Which events are counted when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventPlan {
    /// In this order events of the beginning of the list come first. Empty if nothing can be counted.
    pub runs: Vec<Run>,
    /// Events that cannot be counted, in their order.
    pub refused: Vec<Refused>,
    /// No plan has fewer runs than this.
    pub least: usize,
}

/// Spreads `events` over as few runs as possible. `references` are counted in every run, and stand in
/// every group of their unit as far as its events leave room (an earlier one rather than a later one).
///
/// An event that is among the references as well is better left out of the events. The same input
/// gives the same plan.
#[must_use]
pub fn plan(shapes: &[Shape], references: &[Request], events: &[Request]) -> EventPlan {
    let mut plan = EventPlan::default();
    let mut units: Vec<Vec<PlannedGroup>> = Vec::new();
    for (unit, shape) in shapes.iter().enumerate() {
        let (groups, least) = of_unit((unit, shape), references, events, &mut plan.refused);
        plan.least = plan.least.max(least);
        units.push(groups);
    }
    let nowhere = (0..events.len()).filter(|&index| events[index].unit >= shapes.len());
    plan.refused.extend(nowhere.map(|index| Refused { index, why: RefusedBecause::NoUnit }));
    plan.refused.sort_by_key(|refused| refused.index);
    plan.runs = runs(shapes, references, units);
    plan
}

/// Groups of each unit to runs: the first ones together, and so on. References are counted in all.
pub(super) fn runs(
    shapes: &[Shape],
    references: &[Request],
    mut units: Vec<Vec<PlannedGroup>>,
) -> Vec<Run> {
    let number = units.iter().map(Vec::len).max().unwrap_or(0);
    for (unit, groups) in units.iter_mut().enumerate() {
        if let Some(only) = only_references((unit, &shapes[unit]), references) {
            groups.resize(number, only);
        }
    }
    let mut runs = vec![Run::default(); number];
    for groups in units {
        for (run, group) in runs.iter_mut().zip(groups) {
            run.groups.push(group);
        }
    }
    runs
}

/// A group without events; `None` if the unit has no references.
fn only_references((unit, shape): (usize, &Shape), references: &[Request]) -> Option<PlannedGroup> {
    let here = of(unit, references);
    let kept = room_for(shape, &here, None);
    let slots = assigned(shape, &kept, None)?;
    (!slots.is_empty()).then_some(PlannedGroup { unit, references: slots, events: Vec::new() })
}

/// A request with its index.
type Indexed<'r> = (usize, &'r Constraint);

/// Requests of one unit.
fn of(unit: usize, requests: &[Request]) -> Vec<Indexed<'_>> {
    let numbered = requests.iter().enumerate();
    numbered.filter(|(_, one)| one.unit == unit).map(|(i, one)| (i, &one.constraint)).collect()
}

/// The groups of one unit, and how few there can be.
fn of_unit(
    (unit, shape): (usize, &Shape),
    references: &[Request],
    events: &[Request],
    refused: &mut Vec<Refused>,
) -> (Vec<PlannedGroup>, usize) {
    let (references, events) = (of(unit, references), of(unit, events));
    if let Some(at_most) = shape.software {
        let groups = software(unit, at_most, &references, &events);
        let least = groups.len();
        return (groups, least);
    }
    // Events that leave room for the same references can stand together.
    let mut classes: BTreeMap<Vec<usize>, Vec<Indexed<'_>>> = BTreeMap::new();
    for &(index, needs) in &events {
        if let Err(why) = possible(shape, needs) {
            refused.push(Refused { index, why });
            continue;
        }
        let kept = room_for(shape, &references, Some(needs));
        let kept = kept.into_iter().map(|(index, _)| index).collect();
        classes.entry(kept).or_default().push((index, needs));
    }
    let (mut groups, mut least) = (Vec::new(), 0);
    for (kept, members) in classes {
        let here: Vec<Indexed<'_>> =
            references.iter().filter(|(index, _)| kept.contains(index)).copied().collect();
        let packed = pack(shape, &constraints(&here), &constraints(&members));
        least += packed.least;
        groups.extend(packed.groups.into_iter().map(|group| named(unit, &here, &members, &group)));
    }
    groups.retain(|group| !group.events.is_empty());
    groups.sort_by_key(|group| group.events.first().map(|slot| slot.index));
    (groups, least)
}

fn constraints<'r>(of: &[Indexed<'r>]) -> Vec<&'r Constraint> {
    of.iter().map(|&(_, needs)| needs).collect()
}

/// Whether the event can be counted if nothing else is.
pub(super) fn possible(shape: &Shape, needs: &Constraint) -> Result<(), RefusedBecause> {
    if shape.software.is_some() {
        return Ok(());
    }
    if shape.usable(needs) == 0 {
        return Err(RefusedBecause::NoCounter {
            wanted: wanted(shape, needs),
            unit: shape.unit.clone(),
            present: present(shape),
        });
    }
    match assign(shape, &[needs]) {
        Some(_) => Ok(()),
        None => Err(RefusedBecause::Taken { unit: shape.unit.clone() }),
    }
}

/// The references that fit beside `event`, as many as there is room for, earlier ones first.
pub(super) fn room_for<'r>(
    shape: &Shape,
    references: &[Indexed<'r>],
    event: Option<&Constraint>,
) -> Vec<Indexed<'r>> {
    let mut kept: Vec<Indexed<'r>> = Vec::new();
    for &reference in references {
        kept.push(reference);
        if assigned(shape, &kept, event).is_none() {
            kept.pop();
        }
    }
    kept
}

/// Counters of `references`, if they fit beside `event`.
fn assigned(
    shape: &Shape,
    references: &[Indexed<'_>],
    event: Option<&Constraint>,
) -> Option<Vec<Slot>> {
    if shape.software.is_some() {
        return Some(references.iter().map(in_software).collect());
    }
    let members: Vec<&Constraint> =
        references.iter().map(|&(_, needs)| needs).chain(event).collect();
    let bits = assign(shape, &members)?;
    let slot = |(&(index, _), bit): (&Indexed<'_>, u32)| Slot { index, counter: counter(bit) };
    Some(references.iter().zip(bits).map(slot).collect())
}

fn in_software(&(index, _): &Indexed<'_>) -> Slot {
    Slot { index, counter: Counter::Software }
}

/// Even shares of at most `at_most` events.
fn software(
    unit: usize,
    at_most: usize,
    references: &[Indexed<'_>],
    events: &[Indexed<'_>],
) -> Vec<PlannedGroup> {
    let number = events.len().div_ceil(at_most);
    if number == 0 {
        return Vec::new();
    }
    let share = events.chunks(events.len().div_ceil(number));
    share
        .map(|part| PlannedGroup {
            unit,
            references: references.iter().map(in_software).collect(),
            events: part.iter().map(in_software).collect(),
        })
        .collect()
}

/// Indices of the whole list instead of those within a unit.
pub(super) fn named(
    unit: usize,
    references: &[Indexed<'_>],
    members: &[Indexed<'_>],
    group: &Filled,
) -> PlannedGroup {
    let slot = |index, bit| Slot { index, counter: counter(bit) };
    let of_references = references.iter().zip(&group.references);
    let of_events = group.events.iter();
    PlannedGroup {
        unit,
        references: of_references.map(|(&(index, _), &bit)| slot(index, bit)).collect(),
        events: of_events.map(|&(member, bit)| slot(members[member].0, bit)).collect(),
    }
}

fn wanted(shape: &Shape, needs: &Constraint) -> String {
    let general = needs.general_smt.filter(|_| shape.smt).unwrap_or(needs.general);
    match (general, needs.fixed) {
        (u32::MAX, _) => "general counters".to_owned(),
        (0, 0) => "no counter".to_owned(),
        (0, fixed) => format!("fixed {}", numbers(fixed)),
        (general, 0) => format!("general {}", numbers(general)),
        (general, fixed) => format!("general {} or fixed {}", numbers(general), numbers(fixed)),
    }
}

fn present(shape: &Shape) -> String {
    let smt = if shape.smt && shape.general_smt.is_some() { " with SMT on" } else { "" };
    let general = match shape.general_now() {
        0 => "no general counter".to_owned(),
        1 => "general counter 0".to_owned(),
        number => format!("general counters 0 to {}", number - 1),
    };
    match shape.fixed {
        0 => format!("{general}{smt}"),
        fixed => format!("{general}{smt} and fixed {}", numbers(fixed)),
    }
}

/// "counter 3", "counters 0, 1, 3".
fn numbers(mask: u32) -> String {
    let set: Vec<String> =
        (0..u32::BITS).filter(|bit| mask >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
    format!("counter{} {}", if set.len() == 1 { "" } else { "s" }, set.join(", "))
}
