//! All groups of a unit at once: some events have their group, the others go wherever a counter is
//! free. This is bipartite matching of events to the counters of all groups, and so exact.

use std::collections::VecDeque;

use super::shape::{Constraint, GENERAL, Shape};

/// Bits of the counters of a group.
const SLOTS: usize = 64;

/// What stands where: for each group the members (index into the events) with their counters, and the
/// counters of its references.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) references: Vec<u32>,
    pub(super) events: Vec<(usize, u32)>,
}

/// An event, reference or event of others, while its counter is looked for.
struct FillItem {
    /// Its group; `None`: any.
    group: Option<usize>,
    usable: u64,
    alone: bool,
    what: FillChoice,
}

enum FillChoice {
    OfOthers,
    Reference(usize),
    Event(usize),
}

/// Finds a counter for everything: what others count and all `references` in each group, `placed[g]` in
/// group g, `free` in any group. Extra registers are not looked at. `None` if there is no way.
pub(super) fn fill(
    shape: &Shape,
    references: &[&Constraint],
    events: &[&Constraint],
    placed: &[Vec<usize>],
    free: &[usize],
) -> Option<Vec<Filled>> {
    let all_alone = references.iter().any(|needs| needs.alone);
    let holds_alone = |group: &Vec<usize>| group.iter().any(|&event| events[event].alone);
    let alone: Vec<bool> = placed.iter().map(|group| all_alone || holds_alone(group)).collect();
    let item = |group, needs: &Constraint, what| FillItem {
        group,
        usable: shape.usable(needs),
        alone: needs.alone,
        what,
    };
    let mut items = Vec::new();
    for (group, members) in placed.iter().enumerate() {
        items.extend(shape.taken.iter().map(|one| item(Some(group), one, FillChoice::OfOthers)));
        let numbered = references.iter().enumerate();
        items.extend(numbered.map(|(i, one)| item(Some(group), one, FillChoice::Reference(i))));
        items.extend(members.iter().map(|&i| item(Some(group), events[i], FillChoice::Event(i))));
    }
    items.extend(free.iter().map(|&i| item(None, events[i], FillChoice::Event(i))));
    let mut matching = Matching {
        alone,
        occupied: vec![0; placed.len()],
        owners: vec![None; placed.len() * SLOTS],
        slots: vec![None; items.len()],
        items: &items,
    };
    (0..items.len()).all(|item| matching.place(item)).then(|| matching.result(references.len()))
}

struct Matching<'i> {
    items: &'i [FillItem],
    /// Groups that hold an event that is taken alone.
    alone: Vec<bool>,
    /// Counters of each group that someone has.
    occupied: Vec<u64>,
    /// Item at each counter of each group.
    owners: Vec<Option<usize>>,
    /// Counter of each item, the other way round.
    slots: Vec<Option<usize>>,
}

impl Matching<'_> {
    /// Finds a place for `item`; others move on where they can. The shortest way is taken, and of free
    /// counters the one in the first group.
    fn place(&mut self, item: usize) -> bool {
        if let Some(slot) = self.free_slot(item) {
            self.take(slot, item);
            return true;
        }
        let mut seen = vec![0_u64; self.alone.len()];
        let mut came_from: Vec<(usize, usize)> = Vec::new();
        let mut waiting = VecDeque::from([item]);
        while let Some(next) = waiting.pop_front() {
            for group in self.groups(next) {
                let mut left = self.usable(next, group) & !seen[group];
                seen[group] |= left;
                while left != 0 {
                    let bit = highest(left);
                    left &= !(1 << bit);
                    let slot = group * SLOTS + bit;
                    came_from.push((slot, next));
                    match self.owners[slot] {
                        Some(owner) => waiting.push_back(owner),
                        None => {
                            self.shift(slot, &came_from);
                            return true;
                        }
                    }
                }
            }
        }
        false
    }

    /// Groups that `item` may stand in.
    fn groups(&self, item: usize) -> std::ops::Range<usize> {
        match self.items[item].group {
            Some(group) => group..group + 1,
            None => 0..self.alone.len(),
        }
    }

    /// A counter for which nobody has to move.
    fn free_slot(&self, item: usize) -> Option<usize> {
        self.groups(item).find_map(|group| {
            let free = self.usable(item, group) & !self.occupied[group];
            (free != 0).then(|| group * SLOTS + highest(free))
        })
    }

    /// Puts `item` there; says where it was.
    fn take(&mut self, slot: usize, item: usize) -> Option<usize> {
        self.occupied[slot / SLOTS] |= 1 << (slot % SLOTS);
        self.owners[slot] = Some(item);
        self.slots[item].replace(slot)
    }

    fn usable(&self, item: usize, group: usize) -> u64 {
        let item = &self.items[item];
        item.usable & if self.alone[group] && !item.alone { !GENERAL } else { u64::MAX }
    }

    /// Moves everyone on the way to the free counter `slot`.
    fn shift(&mut self, mut slot: usize, came_from: &[(usize, usize)]) {
        for &(place, item) in came_from.iter().rev() {
            if place != slot {
                continue;
            }
            match self.take(slot, item) {
                Some(before) => slot = before,
                None => return,
            }
        }
    }

    fn result(self, references: usize) -> Vec<Filled> {
        let empty = Filled { references: vec![0; references], events: Vec::new() };
        let mut groups = vec![empty; self.alone.len()];
        for (item, slot) in self.items.iter().zip(self.slots) {
            let Some(slot) = slot else { continue };
            let (group, bit) = (&mut groups[slot / SLOTS], (slot % SLOTS) as u32);
            match item.what {
                FillChoice::OfOthers => {}
                FillChoice::Reference(index) => group.references[index] = bit,
                FillChoice::Event(index) => group.events.push((index, bit)),
            }
        }
        for group in &mut groups {
            group.events.sort_unstable();
        }
        groups
    }
}

/// Of the counters in `set` (not empty) the fixed ones first: general ones are wanted by more.
fn highest(set: u64) -> usize {
    63 - set.leading_zeros() as usize
}
