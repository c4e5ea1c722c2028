//! The fewest groups for the events of one unit.
//!
//! Below [`least`] groups there is no way. From there on, events that need a register or are taken
//! alone are placed by a search, the rest by matching; where that fails, one group more is tried. With
//! few such events the search is complete, up to a bounded number of steps; with many each goes to the
//! first place that will do.

use std::collections::BTreeSet;

use super::fill::{Filled, fill};
use super::group::{assign, registers_suffice};
use super::shape::{Constraint, Extra, Shape};

/// Up to so many events with registers all ways are tried, beyond only one.
const EXACT: usize = 24;
/// Steps of a search for one number of groups.
const STEPS: usize = 20_000;
/// Matchings of a search, times their size.
const WORK: usize = 2_000_000;
/// Registers whose subsets are looked at for the lower bound.
const REGISTERS: usize = 6;

/// Groups, and the number below which none can do.
pub(super) struct Packed {
    pub(super) groups: Vec<Filled>,
    pub(super) least: usize,
}

/// Packs `events`, each of which can be counted with the `references` if nothing else is.
pub(super) fn pack(shape: &Shape, references: &[&Constraint], events: &[&Constraint]) -> Packed {
    let least = least(shape, references, events);
    let mut number = least;
    loop {
        if let Some(groups) = Search::new(shape, references, events, number).run() {
            return Packed { groups, least };
        }
        // Ends: with a group for each event the first try succeeds.
        number += 1 + number / 50;
    }
}

/// Whether an event is placed by search.
fn is_hard(needs: &Constraint) -> bool {
    needs.alone || needs.extra.is_some()
}

/// No fewer groups than this can do: by counters alone, by registers alone.
fn least(shape: &Shape, references: &[&Constraint], events: &[&Constraint]) -> usize {
    let extras: Vec<&Extra> = events.iter().filter_map(|needs| needs.extra.as_ref()).collect();
    by_counters(shape, references, events).max(by_registers(&extras))
}

/// The fewest groups if registers did not matter.
fn by_counters(shape: &Shape, references: &[&Constraint], events: &[&Constraint]) -> usize {
    let (alone, others): (Vec<usize>, Vec<usize>) =
        (0..events.len()).partition(|&event| events[event].alone);
    // Which group an event that is alone has does not matter: they are all alike.
    let do_it = |number: usize| {
        let group = |g: usize| alone.get(g).copied().into_iter().collect();
        let placed: Vec<Vec<usize>> = (0..number).map(group).collect();
        fill(shape, references, events, &placed, &others).is_some()
    };
    let used = references.len() + shape.taken.len();
    let room = (shape.counters().count_ones() as usize).saturating_sub(used).max(1);
    let mut below = events.len().div_ceil(room).max(alone.len()).max(1) - 1;
    let mut enough = below + 1;
    while enough < events.len() && !do_it(enough) {
        below = enough;
        enough = (2 * enough).min(events.len());
    }
    while enough - below > 1 {
        let middle = below.midpoint(enough);
        if do_it(middle) { enough = middle } else { below = middle }
    }
    enough
}

/// For each set of registers: the values that go nowhere else, divided by its size.
fn by_registers(extras: &[&Extra]) -> usize {
    let all: BTreeSet<u32> = extras.iter().flat_map(|extra| &extra.registers).copied().collect();
    let all: Vec<u32> = all.into_iter().take(REGISTERS).collect();
    (1_u32..1 << all.len())
        .map(|set| {
            let inside = |register: &u32| {
                all.iter().position(|one| one == register).is_some_and(|bit| set >> bit & 1 == 1)
            };
            let values: BTreeSet<u64> = extras
                .iter()
                .filter(|extra| extra.registers.iter().all(inside))
                .map(|extra| extra.value)
                .collect();
            values.len().div_ceil(set.count_ones() as usize)
        })
        .max()
        .unwrap_or(1)
}

/// One number of groups.
struct Search<'a> {
    shape: &'a Shape,
    references: &'a [&'a Constraint],
    events: &'a [&'a Constraint],
    /// Events to be placed here, hardest first, and those that matching places.
    hard: Vec<usize>,
    easy: Vec<usize>,
    placed: Vec<Vec<usize>>,
    steps: usize,
    fills: usize,
}

impl<'a> Search<'a> {
    fn new(
        shape: &'a Shape,
        references: &'a [&'a Constraint],
        events: &'a [&'a Constraint],
        number: usize,
    ) -> Self {
        let (mut hard, easy): (Vec<usize>, Vec<usize>) =
            (0..events.len()).partition(|&event| is_hard(events[event]));
        // Alone first; then by fewest registers, fewest counters; the same value together.
        hard.sort_by_key(|&event| {
            let needs = events[event];
            let registers = needs.extra.as_ref().map_or(usize::MAX, |extra| extra.registers.len());
            let value = needs.extra.as_ref().map_or(0, |extra| extra.value);
            (!needs.alone, registers, shape.usable(needs).count_ones(), value)
        });
        let fills = (WORK / (number * events.len()).max(1)).clamp(20, 5000);
        let placed = vec![Vec::new(); number];
        Self { shape, references, events, hard, easy, placed, steps: STEPS, fills }
    }

    fn run(mut self) -> Option<Vec<Filled>> {
        if self.hard.len() <= EXACT { self.descend(0) } else { self.greedy() }
    }

    /// Each event to the first place that will do.
    fn greedy(&mut self) -> Option<Vec<Filled>> {
        for event in self.hard.clone() {
            let group = self.candidates(event).into_iter().find(|&g| self.fits(g, event))?;
            self.placed[group].push(event);
        }
        self.fill()
    }

    /// All ways to place the hard events from number `depth` on.
    fn descend(&mut self, depth: usize) -> Option<Vec<Filled>> {
        let Some(&event) = self.hard.get(depth) else {
            self.fills = self.fills.checked_sub(1)?;
            return self.fill();
        };
        for group in self.candidates(event) {
            self.steps = self.steps.checked_sub(1)?;
            if !self.fits(group, event) {
                continue;
            }
            self.placed[group].push(event);
            if let Some(found) = self.descend(depth + 1) {
                return Some(found);
            }
            self.placed[group].pop();
        }
        None
    }

    fn fill(&self) -> Option<Vec<Filled>> {
        fill(self.shape, self.references, self.events, &self.placed, &self.easy)
    }

    /// Groups for `event`, those that hold its value first, then those with few events. Of groups that
    /// are empty one is enough.
    fn candidates(&self, event: usize) -> Vec<usize> {
        let extra = self.events[event].extra.as_ref();
        let mut groups: Vec<(bool, usize, usize)> = Vec::new();
        for (group, members) in self.placed.iter().enumerate() {
            let same = |&member: &usize| self.events[member].extra.as_ref() == extra;
            let without = extra.is_none() || !members.iter().any(same);
            groups.push((without, members.len(), group));
            if members.is_empty() {
                break;
            }
        }
        groups.sort_unstable();
        groups.into_iter().map(|(_, _, group)| group).collect()
    }

    fn fits(&self, group: usize, event: usize) -> bool {
        let members = self.placed[group].iter().chain([&event]).map(|&member| self.events[member]);
        let extras: Vec<&Extra> =
            members.clone().filter_map(|needs| needs.extra.as_ref()).collect();
        registers_suffice(&extras)
            && assign(
                self.shape,
                &self.references.iter().copied().chain(members).collect::<Vec<_>>(),
            )
            .is_some()
    }
}
