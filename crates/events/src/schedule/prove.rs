//! The proof by trial: what the kernel leaves off its counters is counted in other groups.

use super::group::assign;
use super::plan::Slot;
use super::plan::{EventPlan, PlannedGroup, Refused, RefusedBecause, possible, room_for, runs};
use super::shape::{Constraint, Request, Shape, counter};

/// What a group did when it was opened for a moment on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// It was counted all the time that it was enabled.
    Counted,
    /// It opened, or was too large to; it was not counted all the time.
    NotAtOnce,
    /// An event of it cannot be opened; the reason, with what to type.
    Refused(String),
}

/// Tries each group of `plan` with `attempt`, and spreads the events of groups that are not counted
/// over further ones, each of which was tried. An event that is not counted even without other events
/// (with no reference beside it, if need be) is refused.
///
/// `attempt` is called once for each group of a good plan.
pub fn prove(
    shapes: &[Shape],
    references: &[Request],
    events: &[Request],
    plan: EventPlan,
    mut attempt: impl FnMut(&PlannedGroup) -> Trial,
) -> EventPlan {
    let mut proof =
        Proof { shapes, references, events, attempt: &mut attempt, refused: plan.refused };
    let mut units: Vec<Vec<PlannedGroup>> = vec![Vec::new(); shapes.len()];
    let mut left: Vec<Vec<usize>> = vec![Vec::new(); shapes.len()];
    for group in plan.runs.into_iter().flat_map(|run| run.groups) {
        let unit = group.unit;
        if group.events.is_empty() {
            continue;
        }
        match (proof.attempt)(&group) {
            Trial::Counted => units[unit].push(group),
            _ => left[unit].extend(group.events.iter().map(|slot| slot.index)),
        }
    }
    for (unit, left) in left.into_iter().enumerate() {
        let found = proof.spread(unit, &left);
        units[unit].extend(found);
    }
    proof.refused.sort_by_key(|refused| refused.index);
    EventPlan { runs: runs(shapes, references, units), refused: proof.refused, least: plan.least }
}

struct Proof<'a> {
    shapes: &'a [Shape],
    references: &'a [Request],
    events: &'a [Request],
    attempt: &'a mut dyn FnMut(&PlannedGroup) -> Trial,
    refused: Vec<Refused>,
}

impl Proof<'_> {
    /// Each of `left` to the first group that is counted with it, or to one of its own.
    fn spread(&mut self, unit: usize, left: &[usize]) -> Vec<PlannedGroup> {
        let mut groups: Vec<PlannedGroup> = Vec::new();
        for &event in left {
            let alone = match self.alone(unit, event) {
                Ok(alone) => alone,
                Err(why) => {
                    self.refused.push(Refused { index: event, why });
                    continue;
                }
            };
            let joined = groups.iter_mut().find_map(|group| {
                let larger = self.larger(group, &alone)?;
                let counted = (self.attempt)(&larger) == Trial::Counted;
                counted.then(|| *group = larger)
            });
            if joined.is_none() {
                groups.push(alone);
            }
        }
        groups
    }

    /// The event in a group of its own, with as many references as are counted beside it.
    fn alone(&mut self, unit: usize, event: usize) -> Result<PlannedGroup, RefusedBecause> {
        let shape = &self.shapes[unit];
        possible(shape, &self.events[event].constraint)?;
        let needs = &self.events[event].constraint;
        let here = self.references.iter().enumerate().filter(|(_, one)| one.unit == unit);
        let here: Vec<(usize, &Constraint)> =
            here.map(|(index, one)| (index, &one.constraint)).collect();
        let mut kept: Vec<usize> =
            room_for(shape, &here, Some(needs)).into_iter().map(|(index, _)| index).collect();
        loop {
            let last = match self.group(unit, &kept, &[event]) {
                None => Trial::NotAtOnce,
                Some(group) => match (self.attempt)(&group) {
                    Trial::Counted => return Ok(group),
                    other => other,
                },
            };
            match (kept.pop(), last) {
                (Some(_), _) => {}
                (None, Trial::Refused(why)) => return Err(RefusedBecause::Trial(why)),
                (None, _) => {
                    let why = format!(
                        "{} does not count it even on its own: it opens but never gets a counter",
                        shape.unit
                    );
                    return Err(RefusedBecause::Trial(why));
                }
            }
        }
    }

    /// `group` with the event of `alone`; `None` if their constraints exclude it, or where one leaves
    /// room for references and the other does not.
    fn larger(&self, group: &PlannedGroup, alone: &PlannedGroup) -> Option<PlannedGroup> {
        let indices = |slots: &[Slot]| slots.iter().map(|slot| slot.index).collect::<Vec<_>>();
        let kept = indices(&group.references);
        if kept != indices(&alone.references) {
            return None;
        }
        let members = [indices(&group.events), indices(&alone.events)].concat();
        if self.shapes[group.unit].software.is_some_and(|at_most| members.len() > at_most) {
            return None;
        }
        self.group(group.unit, &kept, &members)
    }

    /// A group with its counters; `None` if there are none.
    fn group(&self, unit: usize, kept: &[usize], members: &[usize]) -> Option<PlannedGroup> {
        let shape = &self.shapes[unit];
        let needs: Vec<&Constraint> = kept
            .iter()
            .map(|&index| &self.references[index])
            .chain(members.iter().map(|&index| &self.events[index]))
            .map(|request| &request.constraint)
            .collect();
        let counters = match shape.software {
            Some(_) => vec![super::Counter::Software; needs.len()],
            None => assign(shape, &needs)?.into_iter().map(counter).collect(),
        };
        let mut slots = kept
            .iter()
            .chain(members)
            .zip(counters)
            .map(|(&index, counter)| Slot { index, counter });
        let references = slots.by_ref().take(kept.len()).collect();
        Some(PlannedGroup { unit, references, events: slots.collect() })
    }
}
